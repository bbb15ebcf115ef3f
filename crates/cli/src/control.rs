//! The control socket of a running gateway, seen from a command of the same operating-system user.

use axum::body::Body;
use http::{Request, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::Path;
use tokio::net::UnixStream;
use toolbooth_server::peer::is_own_uid;

/// Opens the socket, if it is that of a gateway of this user or of root. What is sent over it may be secret, and in a
/// folder that others can write to, anybody could listen there.
async fn open(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path).await?;
    match is_own_uid(stream.peer_cred()?.uid()) {
        true => Ok(stream),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "its socket is another user's")),
    }
}

/// Sends one request over a connection of its own.
pub async fn send(path: &Path, request: Request<Body>) -> Result<Response<Body>, String> {
    let stream = open(path).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // A connection that breaks shows in the answer.
        let _ = connection.await;
    });
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    Ok(response.map(Body::new))
}
