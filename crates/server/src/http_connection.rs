//! Serves one HTTP/1 connection: routes each of its requests to MCP or REST.

use crate::access_log::PendingRecord;
use crate::body::ResponseBody;
use crate::connections::{BusyGuard, ConnectionSlot};
use crate::cors;
use crate::front_ends::FrontEnds;
use crate::guard::{Embedding, GuardRejection};
use crate::identify::{Unidentified, persona_of};
use crate::mcp;
use crate::pace::{Pace, Paced};
use crate::peer_info::{PeerInfo, attempt};
use crate::rest::ProblemDocument;
use crate::stall::StallGuard;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_engine::RefusedAttempt;
use tower::ServiceExt;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The path of file downloads by temporary URL.
const DOWNLOADS: &str = "/files/download/";

/// Serves the requests of one connection until it ends.
pub(crate) async fn serve_connection<S>(
    stream: S,
    peer: PeerInfo,
    front_ends: FrontEnds,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let slot = peer.slot().cloned();
    let service = service_fn(move |request| {
        let (front_ends, peer) = (front_ends.clone(), peer.clone());
        // Boxed: it is large, and hyper moves it several times.
        Box::pin(async move {
            let busy = peer.slot().map(ConnectionSlot::busy);
            let (mut record, peer) = match front_ends.access_log.clone() {
                Some(log) => {
                    let at_ms = front_ends.state.engine.clock().wall_ms();
                    let (record, peer) = PendingRecord::begin(log, at_ms, &request, peer);
                    (Some(record), peer)
                }
                None => (None, peer),
            };
            let mut response = pin!(answer(front_ends, peer, request)).await;
            if let Some(record) = &mut record {
                record.answered(&mut response);
            }
            Ok::<_, Infallible>(response.map(|body| TrackedBody { body, _busy: busy, record }))
        })
    });
    let connection =
        http_builder().serve_connection(TokioIo::new(StallGuard::new(stream, slot.clone())), service);
    tokio::pin!(connection);
    // A child token: polling a shared one takes a lock that all threads contend for.
    let end_token = slot.as_ref().map_or_else(|| stop.child_token(), |slot| slot.end_token().clone());
    tokio::select! {
        biased;
        _ = connection.as_mut() => {}
        () = end_token.cancelled() => {
            if slot.is_some_and(|slot| slot.is_evicted()) {
                return;
            }
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// The HTTP/1 settings of all connections.
fn http_builder() -> http1::Builder {
    // hyper's default limit is 100 headers. Setting the same number explicitly would make hyper allocate two tables
    // of that size for every request.
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder
}

async fn answer(front_ends: FrontEnds, peer: PeerInfo, request: Request<Incoming>) -> Response<ResponseBody> {
    let path = request.uri().path();
    // A temporary file URL needs no other credential: a server may run as another user.
    let is_download = path.starts_with(DOWNLOADS);
    if !is_download && front_ends.state.authenticator.checks_peer_user() && !peer.is_own_user() {
        return other_user(&front_ends, &peer, &request).map(ResponseBody::Rest);
    }
    let embedding = if is_download { Embedding::Allowed } else { Embedding::Refused };
    let origin = match front_ends.state.guard.check(request.method(), request.headers(), embedding) {
        Ok(origin) => origin.cloned(),
        Err(rejected) => return rejection(&front_ends, &peer, &request, rejected).map(ResponseBody::Rest),
    };
    // A preflight carries no credential, so it is answered before the caller is identified.
    if let Some(origin) = &origin
        && let Some(response) = cors::preflight(request.method(), request.headers(), origin)
    {
        return response;
    }
    let pace = match (request.method(), path) {
        (&Method::POST, "/files") => Pace::Upload,
        _ => Pace::Message,
    };
    if let Some(persona) = persona_of(path) {
        let persona = persona.map(str::to_owned);
        let request = request.map(|body| Paced::new(body, pace));
        let response = pin!(mcp::http::serve(front_ends.state, request, persona.as_deref(), &peer)).await;
        return cors::readable_by(origin, response);
    }
    let mut request = request.map(|body| axum::body::Body::new(Paced::new(body, pace)));
    request.extensions_mut().insert(peer);
    let answered = Box::pin(front_ends.rest.oneshot(request)).await;
    match answered {
        Ok(response) => cors::readable_by(origin, response.map(ResponseBody::Rest)),
        Err(never) => match never {},
    }
}

fn rejection(
    front_ends: &FrontEnds,
    peer: &PeerInfo,
    request: &Request<Incoming>,
    rejected: GuardRejection,
) -> axum::response::Response {
    front_ends.state.engine.audit().record_refusal(RefusedAttempt {
        code: rejected.code,
        source: &peer.source(),
        user: None,
        attempt: &attempt(request.method(), request.uri().path()),
    });
    let hint = "add it to `allowed_hosts` or `allowed_origins` in the configuration";
    let problem = Problem {
        code: rejected.code,
        blame: Blame::Caller,
        message: rejected.reason.into(),
        hint: Some(hint.into()),
    };
    ProblemDocument(rejected.status, problem).into_response()
}

fn other_user(
    front_ends: &FrontEnds,
    peer: &PeerInfo,
    request: &Request<Incoming>,
) -> axum::response::Response {
    let refused = Unidentified::OtherUser;
    front_ends.state.engine.audit().record_refusal(RefusedAttempt {
        code: refused.code(),
        source: &peer.source(),
        user: None,
        attempt: &attempt(request.method(), request.uri().path()),
    });
    let mut response = ProblemDocument(refused.status(), Problem::of(&refused)).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A response body that keeps its connection busy until it is sent, and then adds the request to the access log.
struct TrackedBody {
    body: ResponseBody,
    _busy: Option<BusyGuard>,
    record: Option<Box<PendingRecord>>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some(record)) = (&polled, &mut self.record) {
            record.count(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_finish_a_request_head_is_disconnected() {
        for start_of_head in ["", "GET / HTTP/1.1\r\nhost: "] {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(ResponseBody::empty())));
            theirs.write_all(start_of_head.as_bytes()).await.expect("it is being read");
            let start = Instant::now();
            let ended = http_builder().serve_connection(TokioIo::new(ours), service).await;
            assert!(ended.is_err_and(|error| error.is_timeout()), "{start_of_head:?}");
            assert_eq!(start.elapsed(), HEAD_TIMEOUT, "{start_of_head:?}");
        }
    }
}
