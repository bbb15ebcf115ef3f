//! The socket that `toolbooth stdio` joins.

use crate::presence::Presence;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use toolbooth_server::mcp::Door;

/// Opens the socket that `toolbooth stdio` joins, and says where the gateway is.
pub fn open(
    presence: &Presence,
    data_dir: &Path,
    door: &Arc<Door>,
    stop: &CancellationToken,
    linger: Option<u64>,
) -> bool {
    let _ = std::fs::create_dir_all(data_dir);
    let _ = std::fs::remove_file(&presence.socket);
    let listener = match UnixListener::bind(&presence.socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!("the local socket could not be opened, so `toolbooth stdio` cannot join: {error}");
            return false;
        }
    };
    let _ = std::fs::set_permissions(&presence.socket, std::fs::Permissions::from_mode(0o600));
    tokio::spawn(accept_lines(listener, door.clone(), stop.clone(), linger));
    if let Err(error) = presence.announce(data_dir) {
        tracing::warn!("the gateway's address could not be noted in {}: {error}", data_dir.display());
    }
    true
}

async fn accept_lines(listener: UnixListener, door: Arc<Door>, stop: CancellationToken, linger: Option<u64>) {
    let open = Arc::new(AtomicUsize::new(0));
    let linger = linger.map(Duration::from_secs);
    loop {
        let patience = linger.filter(|_| open.load(Ordering::Relaxed) == 0).unwrap_or(Duration::from_secs(1));
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = tokio::time::timeout(patience, listener.accept()) => accepted,
        };
        match accepted {
            Ok(Ok((stream, _))) => {
                open.fetch_add(1, Ordering::Relaxed);
                let (door, open) = (door.clone(), open.clone());
                tokio::spawn(async move {
                    let (read, write) = stream.into_split();
                    toolbooth_server::mcp::lines::serve(door, read, write).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(_) if linger.is_some() && open.load(Ordering::Relaxed) == 0 => {
                stop.cancel();
                return;
            }
            Err(_) => {}
        }
    }
}
