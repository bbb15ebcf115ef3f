//! The client side of a running gateway's control socket, for commands of the same operating-system user.

use axum::body::Body;
use http::{Request, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::Path;
use tokio::net::UnixStream;
use toolbooth_server::peer::is_own_uid;

/// Connects to the socket, if its peer runs as this user or as root. Requests may contain secrets, and in a folder
/// that others can write to, another user could listen on the socket.
async fn open(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path).await?;
    match is_own_uid(stream.peer_cred()?.uid()) {
        true => Ok(stream),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "its socket belongs to another user")),
    }
}

/// Sends one request over a new connection.
pub async fn send(path: &Path, request: Request<Body>) -> Result<Response<Body>, String> {
    let stream = open(path).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // A broken connection fails the request as well.
        let _ = connection.await;
    });
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    Ok(response.map(Body::new))
}
