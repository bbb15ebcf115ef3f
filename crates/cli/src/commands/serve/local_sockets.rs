//! The local sockets: one for `toolbooth stdio`, and the control socket for commands.

use crate::gateway_record::GatewayRecord;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolbooth_server::mcp::FrontEndState;

/// Opens a socket that only the gateway's user may connect to.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Opens the control socket, if the record names one.
pub fn open_control(record: &mut GatewayRecord, data_dir: &Path) -> Option<UnixListener> {
    let _ = std::fs::create_dir_all(data_dir);
    match bind(record.control.as_ref()?) {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!("the control socket cannot be opened, so commands need a token: {error}");
            record.control = None;
            None
        }
    }
}

/// Opens the socket for `toolbooth stdio`, and announces the gateway in its data directory.
pub fn open(
    record: &GatewayRecord,
    data_dir: &Path,
    front_end: &Arc<FrontEndState>,
    stop: &CancellationToken,
    linger: Option<Duration>,
) -> bool {
    let _ = std::fs::create_dir_all(data_dir);
    let listener = match bind(&record.socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!("the local socket cannot be opened, so `toolbooth stdio` cannot connect: {error}");
            return false;
        }
    };
    tokio::spawn(accept_lines(listener, front_end.clone(), stop.clone(), linger));
    if let Err(error) = record.announce(data_dir) {
        tracing::warn!("the gateway's URL cannot be written to {}: {error}", data_dir.display());
    }
    true
}

/// Serves the clients of the socket. With a `linger`, the gateway stops after that time without clients.
async fn accept_lines(
    listener: UnixListener,
    front_end: Arc<FrontEndState>,
    stop: CancellationToken,
    linger: Option<Duration>,
) {
    let open = Arc::new(watch::Sender::new(0_usize));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            () = without_clients(&open, linger) => return stop.cancel(),
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !toolbooth_server::control::admits(&stream, front_end.engine.audit()) {
            continue;
        }
        open.send_modify(|open| *open += 1);
        let (front_end, open) = (front_end.clone(), open.clone());
        tokio::spawn(async move {
            let (read, write) = stream.into_split();
            toolbooth_server::mcp::lines::serve(front_end, read, write).await;
            open.send_modify(|open| *open -= 1);
        });
    }
}

/// Completes when there has been no client for the whole of `linger`. The caller starts it again after each accepted
/// client.
async fn without_clients(open: &watch::Sender<usize>, linger: Option<Duration>) {
    let Some(linger) = linger else { return std::future::pending().await };
    let _ = open.subscribe().wait_for(|open| *open == 0).await;
    tokio::time::sleep(linger).await;
}
