//! The local sockets: one that `toolbooth stdio` joins, and the control socket that commands use.

use crate::presence::Presence;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolbooth_server::mcp::Door;

/// Opens a socket for the gateway's own user alone.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Opens the control socket, if the presence names one.
pub fn open_control(presence: &mut Presence, data_dir: &Path) -> Option<UnixListener> {
    let _ = std::fs::create_dir_all(data_dir);
    match bind(presence.control.as_ref()?) {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!("the control socket could not be opened, so commands need a token: {error}");
            presence.control = None;
            None
        }
    }
}

/// Opens the socket that `toolbooth stdio` joins, and says where the gateway is.
pub fn open(
    presence: &Presence,
    data_dir: &Path,
    door: &Arc<Door>,
    stop: &CancellationToken,
    linger: Option<Duration>,
) -> bool {
    let _ = std::fs::create_dir_all(data_dir);
    let listener = match bind(&presence.socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!("the local socket could not be opened, so `toolbooth stdio` cannot join: {error}");
            return false;
        }
    };
    tokio::spawn(accept_lines(listener, door.clone(), stop.clone(), linger));
    if let Err(error) = presence.announce(data_dir) {
        tracing::warn!("the gateway's address could not be noted in {}: {error}", data_dir.display());
    }
    true
}

/// Serves whoever joins. With a `linger`, the gateway ends when nobody has been there for so long.
async fn accept_lines(
    listener: UnixListener,
    door: Arc<Door>,
    stop: CancellationToken,
    linger: Option<Duration>,
) {
    let open = Arc::new(watch::Sender::new(0_usize));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            () = deserted(&open, linger) => return stop.cancel(),
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !toolbooth_server::control::admits(&stream, &door.engine) {
            continue;
        }
        open.send_modify(|open| *open += 1);
        let (door, open) = (door.clone(), open.clone());
        tokio::spawn(async move {
            let (read, write) = stream.into_split();
            toolbooth_server::mcp::lines::serve(door, read, write).await;
            open.send_modify(|open| *open -= 1);
        });
    }
}

/// Comes to an end when the last client has left and none has come for the whole of `linger`; whoever comes
/// meanwhile is accepted beside this, and it is begun anew.
async fn deserted(open: &watch::Sender<usize>, linger: Option<Duration>) {
    let Some(linger) = linger else { return std::future::pending().await };
    let _ = open.subscribe().wait_for(|open| *open == 0).await;
    tokio::time::sleep(linger).await;
}
