//! One connection: its requests, one after the other, each to its door.

use crate::alarm::Alarm;
use crate::body::Body;
use crate::connections::{Busy, Place};
use crate::cors;
use crate::guard::{Embedding, TurnedAway};
use crate::hearing::Hearing;
use crate::identify::{Unidentified, persona_of};
use crate::listen::Doors;
use crate::mcp;
use crate::pace::{Pace, Paced};
use crate::peer::{PeerUser, Via};
use crate::rest::ProblemDocument;
use crate::stall::StallGuard;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_engine::Refusal;
use toolbooth_upstream::boxed;
use tower::ServiceExt;

/// How long a client may take over the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The path of file downloads by temporary URL.
const DOWNLOADS: &str = "/files/download/";

/// The peer of a connection, as far as it is known before a request.
#[derive(Debug, Clone)]
pub struct Visitor {
    via: Via,
    user: Option<PeerUser>,
    place: Option<Arc<Place>>,
}

impl Visitor {
    /// A visitor by this way; the user, where the kernel was asked; the place, where connections are counted.
    pub(crate) fn new(via: Via, user: Option<PeerUser>, place: Option<Arc<Place>>) -> Self {
        Self { via, user, place }
    }

    /// How they reached the gateway.
    pub fn via(&self) -> Via {
        self.via
    }

    /// Where they come from, for people.
    pub fn source(&self) -> String {
        match (self.via, self.user) {
            (_, Some(PeerUser::Uid(uid))) => format!("uid {uid}"),
            (Via::Network(address), _) => address.to_string(),
            (Via::Control, _) => "control socket".into(),
            (Via::Inside, _) => "inside".into(),
        }
    }

    /// Counts the connection as this caller's.
    pub fn known_as(&self, caller: &Caller) -> Result<(), Problem> {
        let Some(place) = &self.place else { return Ok(()) };
        place.known_as(&caller.user).map_err(|_| Problem {
            code: "request.too-many-connections",
            blame: Blame::Caller,
            message: "you have too many connections open".into(),
            hint: Some("close some, or use one for several requests".into()),
        })
    }

    /// Whether this is the gateway's own user, or root. Unknown for a remote peer.
    fn is_own_user(&self) -> bool {
        self.via == Via::Control || self.user.is_some_and(PeerUser::is_own)
    }
}

/// Serves the requests of one connection until it ends.
pub(crate) async fn converse<S>(stream: S, visitor: Visitor, doors: Doors, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let place = visitor.place.clone();
    let service = service_fn(move |request| {
        let (doors, visitor) = (doors.clone(), visitor.clone());
        // Boxed: hyper moves what it is given five times.
        boxed(move || async move {
            let busy = visitor.place.as_ref().map(Place::busy);
            let response = pin!(answer(doors, visitor, request)).await;
            Ok::<_, Infallible>(response.map(|body| Answered { body, _busy: busy }))
        })
    });
    // A request has a hundred headers at most. That is what hyper takes unasked; told the same number, it would fill
    // two tables of that size for every request.
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(Alarm::default())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(StallGuard::new(stream, place.clone())), service);
    tokio::pin!(connection);
    // A token of its own: every look at a shared one would take a lock that all threads take.
    let ending = place.as_ref().map_or_else(|| stop.child_token(), |place| place.ending().clone());
    let hearing = Hearing::default();
    tokio::select! {
        biased;
        _ = poll_fn(|cx| hearing.poll(connection.as_mut(), cx)) => {}
        () = ending.cancelled() => {
            if place.is_some_and(|place| place.is_evicted()) {
                return;
            }
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

async fn answer(doors: Doors, visitor: Visitor, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    // A temporary file URL needs no other credential: a server may run as another user.
    let is_download = path.starts_with(DOWNLOADS);
    if !is_download && doors.door.identity.asks_for_peer() && !visitor.is_own_user() {
        return other_user(&doors, &visitor, &request).map(Body::Rest);
    }
    let embedding = if is_download { Embedding::Allowed } else { Embedding::Refused };
    let origin = match doors.door.guard.check(request.method(), request.headers(), embedding) {
        Ok(origin) => origin.cloned(),
        Err(away) => return turned_away(&doors, &visitor, &request, away).map(Body::Rest),
    };
    // A preflight carries no credential, so it is answered before anybody is identified.
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
        let response = pin!(mcp::http::serve(doors.door, request, persona.as_deref(), &visitor)).await;
        return cors::readable_by(origin, response);
    }
    let mut request = request.map(|body| axum::body::Body::new(Paced::new(body, pace)));
    request.extensions_mut().insert(visitor);
    let answered = Box::pin(doors.rest.oneshot(request)).await;
    match answered {
        Ok(response) => cors::readable_by(origin, response.map(Body::Rest)),
        Err(never) => match never {},
    }
}

/// What was attempted, for the record. Of the path only its beginning: the rest may be a secret.
pub(crate) fn attempt(method: &Method, path: &str) -> String {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let first: String = first.chars().take(32).collect();
    format!("{method} /{first}")
}

fn turned_away(
    doors: &Doors,
    visitor: &Visitor,
    request: &Request<Incoming>,
    away: TurnedAway,
) -> axum::response::Response {
    doors.door.engine.record_refusal(Refusal {
        code: away.code,
        source: &visitor.source(),
        user: None,
        attempt: &attempt(request.method(), request.uri().path()),
    });
    let hint = "`allowed_hosts` and `allowed_origins` in the configuration name others";
    let problem = Problem {
        code: away.code,
        blame: Blame::Caller,
        message: away.reason.into(),
        hint: Some(hint.into()),
    };
    ProblemDocument(away.status, problem).into_response()
}

fn other_user(doors: &Doors, visitor: &Visitor, request: &Request<Incoming>) -> axum::response::Response {
    let refused = Unidentified::OtherUser;
    doors.door.engine.record_refusal(Refusal {
        code: refused.code(),
        source: &visitor.source(),
        user: None,
        attempt: &attempt(request.method(), request.uri().path()),
    });
    let mut response = ProblemDocument(refused.status(), Problem::of(&refused)).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// An answer on its way; its connection is busy until it is sent.
struct Answered {
    body: Body,
    _busy: Option<Busy>,
}

impl HttpBody for Answered {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
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

    #[test]
    fn the_record_shows_no_more_of_a_path_than_its_beginning() {
        let cases = [
            ("/files/download/v1.secret", "GET /files"),
            ("/mcp", "GET /mcp"),
            ("/", "GET /"),
            ("//evil", "GET /evil"),
        ];
        for (path, expected) in cases {
            assert_eq!(attempt(&Method::GET, path), expected, "{path}");
        }
    }
}
