//! The control socket: serves the REST routes to the gateway's own operating-system user without a credential.

use crate::front_ends::FrontEnds;
use crate::http_connection::serve_connection;
use crate::identify::Unidentified;
use crate::peer::{Ingress, is_own_uid};
use crate::peer_info::PeerInfo;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbooth_core::fault::Fault;
use toolbooth_engine::{AuditLog, RefusedAttempt};

/// Maximum number of connections to the control socket.
const MAX_CONNECTIONS: usize = 256;

/// Whether the peer of a Unix socket runs as the gateway's user or as root. The file mode of the socket checks the
/// same, but there is a moment after its creation when the mode is not set yet.
pub fn admits(stream: &UnixStream, audit: &AuditLog) -> bool {
    let uid = stream.peer_cred().map(|peer| peer.uid());
    if uid.as_ref().is_ok_and(|uid| is_own_uid(*uid)) {
        return true;
    }
    audit.record_refusal(RefusedAttempt {
        code: Unidentified::OtherUser.code(),
        source: &uid.map_or_else(|_| "unknown uid".to_owned(), |uid| format!("uid {uid}")),
        user: None,
        attempt: "local socket",
    });
    false
}

/// Serves the control socket until `stop` is cancelled, then waits for running requests to finish.
pub(crate) async fn accept(
    listener: UnixListener,
    front_ends: FrontEnds,
    stop: CancellationToken,
    drain: Duration,
) {
    let open = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("a connection to the control socket could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        if !admits(&stream, front_ends.state.engine.audit()) {
            continue;
        }
        let (front_ends, stop) = (front_ends.clone(), stop.clone());
        open.spawn(async move {
            serve_connection(stream, PeerInfo::new(Ingress::Control, None, None), front_ends, stop).await;
            drop(permit);
        });
    }
    // Commands are refused at once, instead of waiting for the end.
    drop(listener);
    open.close();
    let _ = tokio::time::timeout(drain, open.wait()).await;
}
