//! Accepts connections, counts them, and serves each one on its own task.

use crate::connections::{Connections, PeerSource};
use crate::control;
use crate::front_ends::FrontEnds;
use crate::http_connection::serve_connection;
use crate::peer::{Ingress, PeerUser};
use crate::peer_info::PeerInfo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_util::sync::CancellationToken;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_engine::Engine;

/// How often unidentified connections are checked for their timeout.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Errors of opening the listening socket.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process uses the port.
    #[error("{address} is already in use")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The operating system refused.
    #[error("cannot listen on {address}: {reason}")]
    Refused {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
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
                "`toolbooth status` shows whether it is your gateway; the setting `listen` chooses another port, or \
                 --listen for one run"
                    .into(),
            ),
            Self::Refused { .. } => {
                Some("choose another address with the setting `listen`, or with --listen for one run".into())
            }
        }
    }
}

/// Binds the listening socket.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => ListenError::InUse { address },
        _ => ListenError::Refused { address, reason: error.to_string() },
    })
}

/// Number of worker threads, and how long they drain on shutdown.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    /// Threads in addition to the calling one, each with its own runtime. A request, its connection and the
    /// connection to its server stay on one thread, so a call wakes no other thread.
    pub workers: usize,
    /// How long running requests may take after the gateway is asked to stop.
    pub drain: Duration,
}

/// Serves connections until `stop` is cancelled, then waits for running requests to finish.
pub async fn serve(
    listener: TcpListener,
    control: Option<UnixListener>,
    front_ends: FrontEnds,
    stop: CancellationToken,
    options: ServeOptions,
) {
    let Ok(listener) = listener.into_std() else { return };
    let mut workers = Vec::new();
    for number in 0..options.workers {
        let Ok(listener) = listener.try_clone() else { break };
        let (front_ends, stop) = (front_ends.clone(), stop.clone());
        let work = move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                if let Ok(listener) = TcpListener::from_std(listener) {
                    accept(listener, front_ends, stop, options.drain).await;
                }
            });
        };
        workers.extend(std::thread::Builder::new().name(format!("worker-{number}")).spawn(work));
    }
    tokio::spawn(sweep(front_ends.connections.clone(), stop.clone()));
    tokio::spawn(answer_waiting(front_ends.state.engine.clone(), stop.clone()));
    let controlled = async {
        if let Some(control) = control {
            control::accept(control, front_ends.clone(), stop.clone(), options.drain).await;
        }
    };
    let accepted = async {
        if let Ok(listener) = TcpListener::from_std(listener) {
            accept(listener, front_ends.clone(), stop.clone(), options.drain).await;
        }
    };
    tokio::join!(controlled, accepted);
    let joined =
        tokio::task::spawn_blocking(move || workers.into_iter().for_each(|worker| drop(worker.join())));
    let _ = joined.await;
}

/// Answers the requests that only wait for a person when the gateway is to stop: their calls stay held, and they do not
/// delay its end.
async fn answer_waiting(engine: Arc<Engine>, stop: CancellationToken) {
    stop.cancelled().await;
    engine.approvals().stop_waiting();
}

/// Closes unidentified connections that are past their timeout.
async fn sweep(connections: Arc<Connections>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => connections.sweep(),
        }
    }
}

async fn accept(listener: TcpListener, front_ends: FrontEnds, stop: CancellationToken, drain: Duration) {
    let open = tokio_util::task::TaskTracker::new();
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely out of file descriptors. Wait for some to be released.
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Some(info) = admit(&stream, peer, &front_ends, &stop) else { continue };
        let (front_ends, stop) = (front_ends.clone(), stop.clone());
        open.spawn(async move {
            let _ = stream.set_nodelay(true);
            serve_connection(stream, info, front_ends, stop).await;
        });
        // Let the new request start before the next accepted connection can evict this one.
        tokio::task::yield_now().await;
    }
    // Clients are refused at once, instead of waiting for the end.
    drop(listener);
    open.close();
    let ended = async {
        open.wait().await;
        front_ends.state.engine.call_tasks().wait_for_running().await;
    };
    let _ = tokio::time::timeout(drain, ended).await;
}

/// Describes the peer of a new connection; `None` if the connection limit is reached.
fn admit(
    stream: &TcpStream,
    peer: SocketAddr,
    front_ends: &FrontEnds,
    stop: &CancellationToken,
) -> Option<PeerInfo> {
    let address = peer.ip().to_canonical();
    // Looked up once, in every mode: the owner of a socket does not change while it is open, but the mode may.
    let user = address.is_loopback().then(|| PeerUser::of(stream));
    let source = match user {
        Some(PeerUser::Uid(uid)) => PeerSource::User(uid),
        Some(PeerUser::Unknown) | None => PeerSource::Address(address),
    };
    let slot = front_ends.connections.admit(source, stop)?;
    Some(PeerInfo::new(Ingress::Network(address), user, Some(slot)))
}
