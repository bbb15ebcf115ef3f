//! The MCP door over HTTP: one endpoint, both eras.

use super::Door;
use super::client::{Client, legacy_facts, modern_facts};
use super::follow::{Final, Following, Step};
use super::listen::{Filter, Listening, Shown};
use super::long;
use super::methods::{self, Begun, Reply};
use super::session::Session;
use super::translate::LIST_END;
use crate::body::{Body, Ungathered, content_coding, gather};
use crate::converse::{Visitor, attempt};
use crate::identify::{Knock, Unidentified, carrying, in_conversation};
use crate::pace::Paced;
use crate::peer::Via;
use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Fault;
use toolbooth_core::json::RawJson;
use toolbooth_engine::Refusal;
use toolbooth_wire::codes::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, RpcError,
    UNSUPPORTED_VERSION,
};
use toolbooth_wire::envelope::{result_head, write_error, write_result};
use toolbooth_wire::meta::{RequestMeta, unsupported_version};
use toolbooth_wire::sse::{KEEP_ALIVE, write_event};
use toolbooth_wire::{Era, Id, Message, Notification, Revision, mirror, strict};

/// The body of a request, under deadlines.
type Incoming = Paced<hyper::body::Incoming>;

/// What a body has to be.
const JSON: &str = "application/json";

/// Serves one request to the endpoint.
pub async fn serve(
    door: Arc<Door>,
    request: Request<Incoming>,
    persona: Option<&str>,
    visitor: &Visitor,
) -> Response<Body> {
    let knock = Knock::Http { headers: request.headers(), persona, via: visitor.via() };
    let identified = pin!(door.identify(knock)).await;
    let caller = match identified {
        Ok(caller) => caller,
        Err(unidentified) => {
            let attempt = attempt(request.method(), request.uri().path());
            door.note_refusal(&unidentified, &visitor.source(), &attempt);
            return turned_away(&door, &unidentified, &request);
        }
    };
    if let Err(problem) = visitor.known_as(&caller) {
        let data = serde_json::json!({"toolbooth": {"code": problem.code, "hint": problem.hint}});
        let error = RpcError::new(INVALID_REQUEST, problem.message).with_data(RawJson::from_value(&data));
        return closing(failure(StatusCode::SERVICE_UNAVAILABLE, None, &error));
    }
    let caller = match in_conversation(caller, request.headers()) {
        Ok(caller) => caller,
        Err(problem) => {
            let error = RpcError::new(INVALID_REQUEST, format!("Invalid Request: {}", problem.message));
            return failure(StatusCode::BAD_REQUEST, None, &error);
        }
    };
    let caller =
        carrying(door.engine.wanted_headers().as_deref().map(Vec::as_slice), caller, request.headers());
    match *request.method() {
        Method::POST => pin!(post(door, caller, request, visitor)).await,
        Method::GET => Box::pin(get(&door, &caller, request.headers(), visitor.via())).await,
        Method::DELETE => delete(&door, &caller, request.headers()),
        _ => not_allowed(),
    }
}

/// Says why a request was not let in, and where a client may get what it lacks.
fn turned_away(door: &Door, unidentified: &Unidentified, request: &Request<Incoming>) -> Response<Body> {
    let code = match unidentified {
        Unidentified::Persona { .. } => INVALID_PARAMS,
        _ => INVALID_REQUEST,
    };
    let data = serde_json::json!({"toolbooth": {"code": unidentified.code(), "hint": unidentified.hint()}});
    let error = RpcError::new(code, unidentified.to_string()).with_data(RawJson::from_value(&data));
    let mut response = failure(unidentified.status(), None, &error);
    unidentified.stamp(
        &door.identity.resource(),
        request.headers(),
        request.uri().path(),
        response.headers_mut(),
    );
    response
}

async fn post(
    door: Arc<Door>,
    caller: Arc<Caller>,
    request: Request<Incoming>,
    visitor: &Visitor,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let json = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = |kind: &str| {
        let start = kind.trim_start().as_bytes().get(..JSON.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(JSON.as_bytes()))
    };
    if !json.is_some_and(is_json) {
        let error = RpcError::new(INVALID_REQUEST, "Invalid Request: Content-Type must be application/json");
        return failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, &error);
    }
    if let Some(coding) = content_coding(&head.headers) {
        let why = format!("Invalid Request: a body with Content-Encoding {coding} is not read");
        return failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, &RpcError::new(INVALID_REQUEST, why));
    }
    let gathered = pin!(gather(body, door.body_limit)).await;
    let text = match gathered {
        Ok(text) => text,
        Err(Ungathered::TooLong) => {
            let why = format!("Invalid Request: the body is over {} bytes", door.body_limit);
            return failure(StatusCode::PAYLOAD_TOO_LARGE, None, &RpcError::new(INVALID_REQUEST, why));
        }
        Err(Ungathered::TooSlow) => {
            let data = serde_json::json!({"toolbooth": {"code": "request.too-slow"}});
            let error = RpcError::new(INVALID_REQUEST, "Invalid Request: the body came too slowly");
            let error = error.with_data(RawJson::from_value(&data));
            return closing(failure(StatusCode::REQUEST_TIMEOUT, None, &error));
        }
        Err(Ungathered::BrokenOff) => return plain(StatusCode::BAD_REQUEST),
    };
    if text.trim_ascii_start().first() == Some(&b'[') {
        if let Err(error) = strict::check(&text) {
            return failure(StatusCode::BAD_REQUEST, None, &error);
        }
        return Box::pin(super::batch::serve(&door, &caller, &head.headers, &text)).await;
    }
    let message = match Message::parse_strictly(&text) {
        Ok(message) => message,
        Err(unreadable) => {
            return failure(StatusCode::BAD_REQUEST, unreadable.id.as_ref(), &unreadable.error);
        }
    };
    match message {
        Message::Request(request) => pin!(asked(&door, &caller, &head.headers, request, visitor)).await,
        Message::Notification(notification) => told(&door, &caller, &head.headers, notification),
        Message::Response(response) => match session_of(&door, &caller, &head.headers, None) {
            Ok(session) => {
                if let Some(id) = response.id {
                    session.answered(&id, response.outcome);
                }
                plain(StatusCode::ACCEPTED)
            }
            Err(response) => *response,
        },
    }
}

/// A request: the era is told by how the client opens, then everything is read from the body.
async fn asked(
    door: &Arc<Door>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    request: toolbooth_wire::Request,
    visitor: &Visitor,
) -> Response<Body> {
    let refuse = |error: RpcError| failure(status_of(&error, Era::Modern), Some(&request.id), &error);
    let meta = match RequestMeta::of(request.params.as_ref()) {
        Ok(meta) => meta,
        Err(error) => return refuse(error),
    };
    if request.method == "initialize" && !meta.is_modern() {
        return initialize(door, caller, &request);
    }
    let header = headers.get(&mirror::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    let modern_header = header.is_some_and(|version| match Revision::from_name(version) {
        Some(revision) => revision.era() == Era::Modern,
        // A revision we do not know, from a client without a session, can only be a younger one.
        None => !headers.contains_key(&mirror::SESSION_ID),
    });
    if meta.is_modern() || modern_header || request.method == "server/discover" {
        let client = match modern_client(caller, headers, &request, &meta) {
            Ok(client) => client,
            Err(error) => {
                if error.code == HEADER_MISMATCH {
                    door.engine.record_refusal(Refusal {
                        code: "request.header-mismatch",
                        source: &visitor.source(),
                        user: Some(&caller.user),
                        attempt: "POST /mcp",
                    });
                }
                return refuse(error);
            }
        };
        return pin!(begin(door, &client, headers, request, meta, visitor.via())).await;
    }
    let session = match session_of(door, caller, headers, Some(&request.id)) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let client = Client::of_session(session, caller);
    pin!(begin(door, &client, headers, request, meta, visitor.via())).await
}

fn modern_client(
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    request: &toolbooth_wire::Request,
    meta: &RequestMeta,
) -> Result<Client, RpcError> {
    // What the headers say must be what the body says, before anything else is believed.
    if let Some(version) = &meta.version {
        mirror::check(headers, version, &request.method, request.params.as_ref())?;
    }
    let revision = meta.modern_revision()?;
    Ok(Client { caller: caller.clone(), facts: Arc::new(modern_facts(meta)?), revision, session: None })
}

async fn begin(
    door: &Arc<Door>,
    client: &Client,
    headers: &HeaderMap,
    request: toolbooth_wire::Request,
    meta: RequestMeta,
    via: Via,
) -> Response<Body> {
    let begun = pin!(methods::begin(door, client, &request, meta, Some(headers))).await;
    match begun {
        Ok(Begun::Ready(reply)) => json(StatusCode::OK, reply_pieces(&request.id, reply, client.era())),
        Ok(Begun::Ongoing(following)) => pin!(follow(following, client.era(), door.keep_alive)).await,
        Ok(Begun::Listen(filter)) => {
            let shown = Shown::Headers(headers.clone(), via);
            let opened =
                Box::pin(Listening::open(door, client, shown, filter, Some(request.id.clone()))).await;
            match opened {
                Ok(listening) => events(changes(listening, Some(request.id), door.keep_alive)),
                Err(error) => failure(StatusCode::TOO_MANY_REQUESTS, Some(&request.id), &error),
            }
        }
        Err(error) => failure(status_of(&error, client.era()), Some(&request.id), &error),
    }
}

/// An answer at once, in the dress of the client's era.
pub(super) fn reply_pieces(id: &Id, reply: Reply, era: Era) -> VecDeque<Bytes> {
    match reply {
        Reply::Result(result) => VecDeque::from([write_result(id, &result)]),
        Reply::List(list) => {
            let mut pieces = VecDeque::with_capacity(list.pieces.len() + 2);
            pieces.push_back(result_head(id));
            pieces.extend(list.pieces.iter().cloned());
            pieces.push_back(match era {
                Era::Modern => Bytes::from_static(LIST_END.as_bytes()),
                Era::Legacy => Bytes::from_static(b"}"),
            });
            pieces.push_back(Bytes::from_static(b"}"));
            pieces
        }
    }
}

/// JSON when the answer comes first; a stream of events when something precedes it.
async fn follow(mut following: Box<Following>, era: Era, keep_alive: std::time::Duration) -> Response<Body> {
    let step = pin!(following.next()).await;
    match step {
        Step::Done(Final::Nothing) => events(futures_util::stream::empty()),
        Step::Done(Final::Result(result)) => {
            json(StatusCode::OK, VecDeque::from([write_result(&following.id, &result)]))
        }
        Step::Done(Final::Error(error)) => failure(status_of(&error, era), Some(&following.id), &error),
        Step::Done(Final::Long(pieces)) => json(StatusCode::OK, long::answer(&following.id, pieces)),
        Step::Message(first) => {
            let first = futures_util::stream::once(std::future::ready(Ok(write_event(&first, None))));
            events(first.chain(steps(following, keep_alive)))
        }
    }
}

fn steps(
    following: Box<Following>,
    keep_alive: std::time::Duration,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    futures_util::stream::unfold(Some(following), move |state| async move {
        let mut following = state?;
        let step = match tokio::time::timeout(keep_alive, following.next()).await {
            Err(_) => return Some((Ok(Bytes::from_static(KEEP_ALIVE)), Some(following))),
            Ok(step) => step,
        };
        let last = match step {
            Step::Message(message) => return Some((Ok(write_event(&message, None)), Some(following))),
            Step::Done(Final::Nothing) => return None,
            Step::Done(Final::Result(result)) => write_result(&following.id, &result),
            Step::Done(Final::Error(error)) => write_error(Some(&following.id), &error),
            Step::Done(Final::Long(pieces)) => long::joined(&following.id, &pieces),
        };
        Some((Ok(write_event(&last, None)), None))
    })
}

fn initialize(door: &Arc<Door>, caller: &Arc<Caller>, request: &toolbooth_wire::Request) -> Response<Body> {
    let session = match open_session(caller, request) {
        Ok(session) => session,
        Err(error) => return failure(StatusCode::BAD_REQUEST, Some(&request.id), &error),
    };
    for gone in door.sessions.add(session.clone()) {
        forget(door, &gone);
    }
    let result = methods::initialized(door, caller, &session.facts(), session.revision);
    let mut response = json(StatusCode::OK, VecDeque::from([write_result(&request.id, &result)]));
    if let Ok(id) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(&mirror::SESSION_ID, id);
    }
    response
}

/// Reads an `initialize` request into a session.
pub(super) fn open_session(
    caller: &Arc<Caller>,
    request: &toolbooth_wire::Request,
) -> Result<Arc<Session>, RpcError> {
    let invalid = |why: &str| RpcError::new(INVALID_PARAMS, format!("Invalid params: {why}"));
    let params = request.params.as_ref().ok_or_else(|| invalid("`protocolVersion` is missing"))?;
    let version = params.member("protocolVersion");
    let version =
        version.as_ref().and_then(RawJson::string).ok_or_else(|| invalid("`protocolVersion` is missing"))?;
    Session::new(caller, Revision::negotiate(&version), legacy_facts(params)?)
        .ok_or_else(|| invalid("no randomness for a session"))
}

fn told(
    door: &Arc<Door>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    notification: Notification,
) -> Response<Body> {
    if !headers.contains_key(&mirror::SESSION_ID) {
        // The modern era has no notifications toward the server; they are taken and do nothing.
        return plain(StatusCode::ACCEPTED);
    }
    match session_of(door, caller, headers, None) {
        Ok(session) => {
            heed(&session, &notification);
            plain(StatusCode::ACCEPTED)
        }
        Err(response) => *response,
    }
}

/// What a legacy client's notification does.
pub(super) fn heed(session: &Session, notification: &Notification) {
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.as_ref().and_then(|params| params.member("requestId"))
        && let Some(id) = Id::from_raw(&id)
    {
        session.cancel(&id);
    }
}

/// The session that a message names; else the answer, to the request of this id where it is one.
pub(super) fn session_of(
    door: &Door,
    caller: &Caller,
    headers: &HeaderMap,
    request: Option<&Id>,
) -> Result<Arc<Session>, Box<Response<Body>>> {
    let Some(id) = headers.get(&mirror::SESSION_ID) else {
        let error = RpcError::new(
            INVALID_REQUEST,
            "Invalid Request: no Mcp-Session-Id; start with `initialize`, or send the modern `_meta`",
        );
        return Err(Box::new(failure(StatusCode::BAD_REQUEST, request, &error)));
    };
    if let Some(version) = headers.get(&mirror::PROTOCOL_VERSION)
        && !version.to_str().is_ok_and(|version| Revision::from_name(version).is_some())
    {
        let error = unsupported_version(&String::from_utf8_lossy(version.as_bytes()));
        return Err(Box::new(failure(StatusCode::BAD_REQUEST, request, &error)));
    }
    id.to_str().ok().and_then(|id| door.sessions.get(id, caller)).ok_or_else(|| {
        let error = RpcError::new(INVALID_REQUEST, "Session not found; start with `initialize`");
        Box::new(failure(StatusCode::NOT_FOUND, request, &error))
    })
}

/// The stream on which a legacy client hears of changes.
async fn get(door: &Arc<Door>, caller: &Arc<Caller>, headers: &HeaderMap, via: Via) -> Response<Body> {
    if !headers.contains_key(&mirror::SESSION_ID) {
        return not_allowed();
    }
    let accepts = headers.get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
    if !accepts.contains("text/event-stream") && !accepts.contains("*/*") {
        return plain(StatusCode::NOT_ACCEPTABLE);
    }
    let session = match session_of(door, caller, headers, None) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let ended = session.open_stream();
    let client = Client::of_session(session, caller);
    let shown = Shown::Headers(headers.clone(), via);
    let listening = match Listening::open(door, &client, shown, Filter::lists(), None).await {
        Ok(listening) => listening,
        Err(error) => return failure(StatusCode::TOO_MANY_REQUESTS, None, &error),
    };
    events(Box::pin(changes(listening, None, door.keep_alive).take_until(Box::pin(ended))))
}

fn delete(door: &Arc<Door>, caller: &Arc<Caller>, headers: &HeaderMap) -> Response<Body> {
    if !headers.contains_key(&mirror::SESSION_ID) {
        return not_allowed();
    }
    match session_of(door, caller, headers, None) {
        Ok(session) => {
            door.sessions.remove(&session.id);
            forget(door, &session);
            plain(StatusCode::OK)
        }
        Err(response) => *response,
    }
}

/// Ends what a session had going.
pub(super) fn forget(door: &Door, session: &Session) {
    session.close();
    for uri in session.take_subscriptions() {
        door.engine.unsubscribe(&session.caller, &uri);
    }
}

fn changes(
    listening: Listening,
    id: Option<Id>,
    keep_alive: std::time::Duration,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send {
    futures_util::stream::unfold(Some((listening, id)), move |state| async move {
        let (mut listening, id) = state?;
        match tokio::time::timeout(keep_alive, listening.next()).await {
            Err(_) => Some((Ok(Bytes::from_static(KEEP_ALIVE)), Some((listening, id)))),
            Ok(Some(message)) => Some((Ok(write_event(&message, None)), Some((listening, id)))),
            Ok(None) => {
                let id = id?;
                Some((Ok(write_event(&write_result(&id, &listening.goodbye()), None)), None))
            }
        }
    })
}

/// Modern clients are told by HTTP too; legacy ones read the body.
fn status_of(error: &RpcError, era: Era) -> StatusCode {
    match (era, error.code) {
        (Era::Legacy, _) => StatusCode::OK,
        (Era::Modern, METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        (Era::Modern, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION | INVALID_PARAMS) => {
            StatusCode::BAD_REQUEST
        }
        (Era::Modern, _) => StatusCode::OK,
    }
}

fn with_type(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) fn json(status: StatusCode, pieces: VecDeque<Bytes>) -> Response<Body> {
    with_type(status, "application/json", Body::Pieces(pieces))
}

pub(super) fn failure(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<Body> {
    json(status, VecDeque::from([write_error(id, error)]))
}

fn events(stream: impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, "text/event-stream", Body::stream(stream));
    let headers = response.headers_mut();
    headers.insert("cache-control", HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The same answer, after which the connection ends.
fn closing(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn not_allowed() -> Response<Body> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
