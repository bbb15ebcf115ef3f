//! Listening: connections in, each with a place among all that are open.

use crate::connections::{Connections, Source};
use crate::control;
use crate::converse::{Visitor, converse};
use crate::mcp::Door;
use crate::peer::{PeerUser, Via};
use axum::Router;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_util::sync::CancellationToken;
use toolbooth_core::fault::{Blame, Fault};

/// How often connections of strangers are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The doors could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else has the port.
    #[error("{address} is already in use")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The system said no.
    #[error("cannot listen on {address}: {reason}")]
    Refused {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
}

impl Fault for ListenError {
    fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "listen.in-use",
            Self::Refused { .. } => "listen.refused",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { .. } => Some(
                "another gateway may be running (`toolbooth servers`); or choose another port with --listen"
                    .into(),
            ),
            Self::Refused { .. } => Some("choose another address with --listen".into()),
        }
    }
}

/// The doors of one gateway.
#[derive(Debug, Clone)]
pub struct Doors {
    /// MCP.
    pub door: Arc<Door>,
    /// Everything else.
    pub rest: Router,
    /// Who is connected, over all threads.
    pub connections: Arc<Connections>,
}

/// Takes an address.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => ListenError::InUse { address },
        _ => ListenError::Refused { address, reason: error.to_string() },
    })
}

/// How the doors are manned.
#[derive(Debug, Clone, Copy)]
pub struct Staff {
    /// Threads beside the calling one, each with a runtime of its own. A request, its connection and the
    /// connection to its server stay on one thread: nobody is woken across threads for a call.
    pub helpers: usize,
    /// How long requests under way may take when the gateway stops.
    pub drain: Duration,
}

/// Serves connections until told to stop; then lets those under way finish.
pub async fn serve(
    listener: TcpListener,
    control: Option<UnixListener>,
    doors: Doors,
    stop: CancellationToken,
    staff: Staff,
) {
    let Ok(listener) = listener.into_std() else { return };
    let mut helpers = Vec::new();
    for number in 0..staff.helpers {
        let Ok(listener) = listener.try_clone() else { break };
        let (doors, stop) = (doors.clone(), stop.clone());
        let work = move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                if let Ok(listener) = TcpListener::from_std(listener) {
                    accept(listener, doors, stop, staff.drain).await;
                }
            });
        };
        helpers.extend(std::thread::Builder::new().name(format!("door-{number}")).spawn(work));
    }
    tokio::spawn(sweep(doors.connections.clone(), stop.clone()));
    let controlled = async {
        if let Some(control) = control {
            control::accept(control, doors.clone(), stop.clone(), staff.drain).await;
        }
    };
    let accepted = async {
        if let Ok(listener) = TcpListener::from_std(listener) {
            accept(listener, doors.clone(), stop.clone(), staff.drain).await;
        }
    };
    tokio::join!(controlled, accepted);
    let joined =
        tokio::task::spawn_blocking(move || helpers.into_iter().for_each(|helper| drop(helper.join())));
    let _ = joined.await;
}

/// Closes connections of strangers whose time is over.
async fn sweep(connections: Arc<Connections>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => connections.sweep(),
        }
    }
}

async fn accept(listener: TcpListener, doors: Doors, stop: CancellationToken, drain: Duration) {
    let open = tokio_util::task::TaskTracker::new();
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: those in use will come back.
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Some(visitor) = received(&stream, peer, &doors, &stop) else { continue };
        let (doors, stop) = (doors.clone(), stop.clone());
        open.spawn(async move {
            let _ = stream.set_nodelay(true);
            converse(stream, visitor, doors, stop).await;
        });
        // A request that has arrived is begun before the next connection may take its place.
        tokio::task::yield_now().await;
    }
    open.close();
    let _ = tokio::time::timeout(drain, open.wait()).await;
}

/// Who is at the other end of a new connection; `None` if the connection limit is reached.
fn received(
    stream: &TcpStream,
    peer: SocketAddr,
    doors: &Doors,
    stop: &CancellationToken,
) -> Option<Visitor> {
    let address = peer.ip().to_canonical();
    // Asked once, in every mode: the owner of a socket does not change while it is open, but the mode may.
    let user = address.is_loopback().then(|| PeerUser::of(stream));
    let source = match user {
        Some(PeerUser::Uid(uid)) => Source::User(uid),
        Some(PeerUser::Unknown) | None => Source::Address(address),
    };
    let place = doors.connections.admit(source, stop)?;
    Some(Visitor::new(Via::Network(address), user, Some(place)))
}
