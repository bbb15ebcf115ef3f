//! The control socket: the same REST routes for the gateway's own operating-system user, without a credential.

use crate::converse::{Visitor, converse};
use crate::identify::Unidentified;
use crate::listen::Doors;
use crate::peer::{Via, is_own_uid};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbooth_core::fault::Fault;
use toolbooth_engine::{Engine, Refusal};

/// How many commands may be connected at once.
const MAX_CONNECTIONS: usize = 256;

/// Whether the process at the other end of a local socket is the gateway's own user's, or root's. The socket's mode
/// says the same, but not from its first moment.
pub fn admits(stream: &UnixStream, engine: &Engine) -> bool {
    let uid = stream.peer_cred().map(|peer| peer.uid());
    if uid.as_ref().is_ok_and(|uid| is_own_uid(*uid)) {
        return true;
    }
    engine.record_refusal(Refusal {
        code: Unidentified::OtherUser.code(),
        source: &uid.map_or_else(|_| "unknown uid".to_owned(), |uid| format!("uid {uid}")),
        user: None,
        attempt: "local socket",
    });
    false
}

/// Serves the control socket until told to stop; then lets requests under way finish.
pub(crate) async fn accept(listener: UnixListener, doors: Doors, stop: CancellationToken, drain: Duration) {
    let open = TaskTracker::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("a command could not be heard: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        if !admits(&stream, &doors.door.engine) {
            continue;
        }
        let (doors, stop) = (doors.clone(), stop.clone());
        open.spawn(async move {
            converse(stream, Visitor::new(Via::Control, None, None), doors, stop).await;
            drop(place);
        });
    }
    open.close();
    let _ = tokio::time::timeout(drain, open.wait()).await;
}
