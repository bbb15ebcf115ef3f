//! Listening: connections in, each request to its door.

use crate::alarm::Alarm;
use crate::body::Body;
use crate::guard::TurnedAway;
use crate::hearing::Hearing;
use crate::identify::persona_of;
use crate::mcp::{self, Door};
use crate::rest::ProblemDocument;
use axum::Router;
use axum::response::IntoResponse;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_upstream::boxed;
use tower::ServiceExt;

/// How long a client may take over the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How many connections may be open at once.
const MAX_CONNECTIONS: usize = 10_000;

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
pub async fn serve(listener: TcpListener, doors: Doors, stop: CancellationToken, staff: Staff) {
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
    if let Ok(listener) = TcpListener::from_std(listener) {
        accept(listener, doors, stop, staff.drain).await;
    }
    let joined =
        tokio::task::spawn_blocking(move || helpers.into_iter().for_each(|helper| drop(helper.join())));
    let _ = joined.await;
}

async fn accept(listener: TcpListener, doors: Doors, stop: CancellationToken, drain: Duration) {
    let open = tokio_util::task::TaskTracker::new();
    let places = Arc::new(tokio::sync::Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: those in use will come back.
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (doors, stop) = (doors.clone(), stop.clone());
        open.spawn(async move {
            converse(stream, doors, stop).await;
            drop(place);
        });
    }
    open.close();
    let _ = tokio::time::timeout(drain, open.wait()).await;
}

async fn converse(stream: TcpStream, doors: Doors, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let doors = doors.clone();
        // Boxed: hyper moves what it is given five times.
        boxed(move || async move { Ok::<_, Infallible>(pin!(answer(doors, request)).await) })
    });
    // A request has a hundred headers at most. That is what hyper takes unasked; told the same number, it would fill
    // two tables of that size for every request.
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(Alarm::default())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // A token of its own: every look at a shared one would take a lock that all threads take.
    let stop = stop.child_token();
    let hearing = Hearing::default();
    tokio::select! {
        biased;
        _ = poll_fn(|cx| hearing.poll(connection.as_mut(), cx)) => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

async fn answer(doors: Doors, request: Request<Incoming>) -> Response<Body> {
    if let Err(away) = doors.door.guard.check(request.headers()) {
        return turned_away(away).map(Body::Rest);
    }
    if let Some(persona) = persona_of(request.uri().path()) {
        let persona = persona.map(str::to_owned);
        return pin!(mcp::http::serve(doors.door, request, persona.as_deref())).await;
    }
    let answered = Box::pin(doors.rest.oneshot(request.map(axum::body::Body::new))).await;
    match answered {
        Ok(response) => response.map(Body::Rest),
        Err(never) => match never {},
    }
}

fn turned_away(away: TurnedAway) -> axum::response::Response {
    let hint = "`allowed_hosts` and `allowed_origins` in the configuration name others";
    let problem = Problem {
        code: away.code,
        blame: Blame::Caller,
        message: away.reason.into(),
        hint: Some(hint.into()),
    };
    ProblemDocument(away.status, problem).into_response()
}
