//! MCP over HTTP: one endpoint for both eras.

use super::FrontEndState;
use super::change_stream::{ChangeFilter, ChangeStream, StreamCredentials};
use super::client::{McpClient, modern_facts};
use super::client_roots::RootsQuestion;
use super::immediate_reply::reply_chunks;
use super::long;
use super::methods::{self, MethodOutcome};
use super::other_gateways::undelivered;
use super::responses::{closing, events, failure, json, plain};
use super::running_request::{FinalAnswer, RequestStep, RunningRequest};
use super::session::{LegacySession, forget};
use super::session_lookup::{apply_notification, open_session, session_of};
use crate::body::{BodyReadError, ResponseBody, content_coding, read_body};
use crate::identify::{
    IdentifyRequest, RequestedResource, Unidentified, with_forwarded_headers, with_session,
};
use crate::pace::Paced;
use crate::peer_info::{PeerInfo, attempt};
use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Fault;
use toolbooth_core::json::RawJson;
use toolbooth_engine::RefusedAttempt;
use toolbooth_wire::codes::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, RpcError,
    UNSUPPORTED_VERSION,
};
use toolbooth_wire::envelope::{write_error, write_result};
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::sse::{KEEP_ALIVE, write_event};
use toolbooth_wire::{Era, Id, Message, Notification, Revision, mirror, strict};

/// A request body with deadlines.
type RequestBody = Paced<hyper::body::Incoming>;

/// The required media type of a request body.
const JSON: &str = "application/json";

/// How a request reached the endpoint.
#[derive(Debug, Clone, Copy)]
struct Arrival<'a> {
    peer: &'a PeerInfo,
    /// The persona in the path.
    persona: Option<&'a str>,
}

impl Arrival<'_> {
    /// What a stream keeps of the request that opens it.
    fn stream_credentials(self, headers: &HeaderMap) -> StreamCredentials {
        let persona = self.persona.map(Box::from);
        StreamCredentials::Request { headers: headers.clone(), persona, via: self.peer.via() }
    }
}

/// Serves one request to the endpoint.
pub async fn serve(
    front_end: Arc<FrontEndState>,
    request: Request<RequestBody>,
    persona: Option<&str>,
    peer: &PeerInfo,
) -> Response<ResponseBody> {
    let resource = RequestedResource::Mcp { persona };
    let asked = IdentifyRequest::Http { headers: request.headers(), resource, via: peer.via() };
    let identified = pin!(front_end.identify(asked)).await;
    let caller = match identified {
        Ok(caller) => caller,
        Err(unidentified) => {
            let attempt = attempt(request.method(), request.uri().path());
            front_end.note_refusal(&unidentified, &peer.source(), &attempt);
            return unauthorized(&front_end, &unidentified, &request);
        }
    };
    if let Err(problem) = peer.assign_to(&caller) {
        let data = serde_json::json!({"toolbooth": {"code": problem.code, "hint": problem.hint}});
        let error = RpcError::new(INVALID_REQUEST, problem.message).with_data(RawJson::from_value(&data));
        return closing(failure(StatusCode::SERVICE_UNAVAILABLE, None, &error));
    }
    let caller = match with_session(caller, request.headers()) {
        Ok(caller) => caller,
        Err(problem) => {
            let error = RpcError::new(INVALID_REQUEST, format!("Invalid Request: {}", problem.message));
            return failure(StatusCode::BAD_REQUEST, None, &error);
        }
    };
    let caller = with_forwarded_headers(
        front_end.engine.servers().wanted_headers().as_deref().map(Vec::as_slice),
        caller,
        request.headers(),
    );
    let arrival = Arrival { peer, persona };
    match *request.method() {
        Method::POST => pin!(post(front_end, caller, request, arrival)).await,
        Method::GET => Box::pin(get(&front_end, &caller, request.headers(), arrival)).await,
        Method::DELETE => Box::pin(delete(&front_end, &caller, request.headers())).await,
        _ => not_allowed(),
    }
}

/// The response to a request that could not be identified, with a pointer to where the client can get a token.
fn unauthorized(
    front_end: &FrontEndState,
    unidentified: &Unidentified,
    request: &Request<RequestBody>,
) -> Response<ResponseBody> {
    let code = match unidentified {
        Unidentified::Persona { .. } => INVALID_PARAMS,
        _ => INVALID_REQUEST,
    };
    let data = serde_json::json!({"toolbooth": {"code": unidentified.code(), "hint": unidentified.hint()}});
    let error = RpcError::new(code, unidentified.to_string()).with_data(RawJson::from_value(&data));
    let mut response = failure(unidentified.status(), None, &error);
    unidentified.set_response_headers(
        &front_end.authenticator.resource(),
        request.headers(),
        request.uri().path(),
        response.headers_mut(),
    );
    response
}

async fn post(
    front_end: Arc<FrontEndState>,
    caller: Arc<Caller>,
    request: Request<RequestBody>,
    arrival: Arrival<'_>,
) -> Response<ResponseBody> {
    let (head, body) = request.into_parts();
    if let Err(why) = check_content(&head.headers) {
        let error = RpcError::new(INVALID_REQUEST, why);
        return failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, &error);
    }
    let read = pin!(read_body(body, front_end.body_limit)).await;
    let text = match read {
        Ok(text) => text,
        Err(error) => return unread(error, front_end.body_limit),
    };
    if text.trim_ascii_start().first() == Some(&b'[') {
        if let Err(error) = strict::check(&text) {
            return failure(StatusCode::BAD_REQUEST, None, &error);
        }
        return Box::pin(super::batch::serve(&front_end, &caller, &head.headers, &text)).await;
    }
    let message = match Message::parse_strictly(&text) {
        Ok(message) => message,
        Err(unreadable) => {
            return failure(StatusCode::BAD_REQUEST, unreadable.id.as_ref(), &unreadable.error);
        }
    };
    match message {
        Message::Request(request) => {
            pin!(serve_request(&front_end, &caller, &head.headers, request, arrival)).await
        }
        Message::Notification(notification) => {
            pin!(serve_notification(&front_end, &caller, &head.headers, notification)).await
        }
        Message::Response(response) => match session_of(&front_end, &caller, &head.headers, None).await {
            Ok(session) => {
                let Some(id) = response.id else { return plain(StatusCode::ACCEPTED) };
                match Box::pin(front_end.deliver_answer(&session, &id, response.outcome)).await {
                    Ok(()) => plain(StatusCode::ACCEPTED),
                    Err(why) => undelivered(why),
                }
            }
            Err(response) => *response,
        },
    }
}

/// Checks that the headers announce plain JSON, and returns why not.
fn check_content(headers: &HeaderMap) -> Result<(), Cow<'static, str>> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = |kind: &str| {
        let start = kind.trim_start().as_bytes().get(..JSON.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(JSON.as_bytes()))
    };
    if !kind.is_some_and(is_json) {
        return Err("Invalid Request: Content-Type must be application/json".into());
    }
    match content_coding(headers) {
        Some(coding) => Err(format!("Invalid Request: Content-Encoding {coding} is not supported").into()),
        None => Ok(()),
    }
}

/// The answer to a request whose body could not be read.
fn unread(error: BodyReadError, body_limit: usize) -> Response<ResponseBody> {
    match error {
        BodyReadError::TooLong => {
            let why = format!("Invalid Request: the body is over {body_limit} bytes");
            failure(StatusCode::PAYLOAD_TOO_LARGE, None, &RpcError::new(INVALID_REQUEST, why))
        }
        BodyReadError::TooSlow => {
            let data = serde_json::json!({"toolbooth": {"code": "request.too-slow"}});
            let error = RpcError::new(INVALID_REQUEST, "Invalid Request: the body arrived too slowly");
            let error = error.with_data(RawJson::from_value(&data));
            closing(failure(StatusCode::REQUEST_TIMEOUT, None, &error))
        }
        BodyReadError::BrokenOff => plain(StatusCode::BAD_REQUEST),
    }
}

/// Serves a request. The way the client starts decides its era; everything else is in the body.
async fn serve_request(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    request: toolbooth_wire::Request,
    arrival: Arrival<'_>,
) -> Response<ResponseBody> {
    let peer = arrival.peer;
    let refuse = |error: RpcError| failure(status_of(&error, Era::Modern), Some(&request.id), &error);
    let meta = match RequestMeta::of(request.params.as_ref()) {
        Ok(meta) => meta,
        Err(error) => return refuse(error),
    };
    if request.method == "initialize" && !meta.is_modern() {
        return Box::pin(initialize(front_end, caller, &request)).await;
    }
    let header = headers.get(&mirror::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    let modern_header = header.is_some_and(|version| match Revision::from_name(version) {
        Some(revision) => revision.era() == Era::Modern,
        // An unknown revision from a client without a session can only be a newer one.
        None => !headers.contains_key(&mirror::SESSION_ID),
    });
    if meta.is_modern() || modern_header || request.method == "server/discover" {
        let client = match modern_client(caller, headers, &request, &meta) {
            Ok(client) => client,
            Err(error) => {
                if error.code == HEADER_MISMATCH {
                    front_end.engine.audit().record_refusal(RefusedAttempt {
                        code: "request.header-mismatch",
                        source: &peer.source(),
                        user: Some(&caller.user),
                        attempt: "POST /mcp",
                    });
                }
                return refuse(error);
            }
        };
        Box::pin(front_end.visit_folder(&client.caller, peer.via())).await;
        return pin!(begin(front_end, &client, headers, request, meta, arrival)).await;
    }
    let session = match session_of(front_end, caller, headers, Some(&request.id)).await {
        Ok(session) => session,
        Err(response) => return *response,
    };
    if let Some(question) = front_end.roots_question(&session, &request.method, headers, peer.via()).await {
        let asking = AskingRequest {
            front_end: front_end.clone(),
            session,
            caller: caller.clone(),
            headers: headers.clone(),
            peer: peer.clone(),
            persona: arrival.persona.map(str::to_owned),
        };
        return events(asking.serve(question, request, meta));
    }
    let client = McpClient::of_session(session, caller);
    pin!(begin(front_end, &client, headers, request, meta, arrival)).await
}

/// A request that is served after its client has sent its roots.
struct AskingRequest {
    front_end: Arc<FrontEndState>,
    session: Arc<LegacySession>,
    caller: Arc<Caller>,
    headers: HeaderMap,
    peer: PeerInfo,
    persona: Option<String>,
}

impl AskingRequest {
    /// The question and the answer, as events.
    fn serve(
        self,
        question: RootsQuestion,
        request: toolbooth_wire::Request,
        meta: RequestMeta,
    ) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static {
        let first = Ok(write_event(&question.message(), None));
        let answer = async move {
            let Self { front_end, session, caller, headers, peer, persona } = self;
            let arrival = Arrival { peer: &peer, persona: persona.as_deref() };
            front_end.take_roots(question).await;
            let client = McpClient::of_session(session, &caller);
            let response = Box::pin(begin(&front_end, &client, &headers, request, meta, arrival)).await;
            match response.into_body() {
                ResponseBody::Chunks(chunks) => {
                    let whole = Vec::from(chunks).concat();
                    futures_util::stream::once(std::future::ready(Ok(write_event(&whole, None)))).boxed()
                }
                ResponseBody::Stream(stream) => stream,
                ResponseBody::Rest(_) => futures_util::stream::empty().boxed(),
            }
        };
        futures_util::stream::once(std::future::ready(first))
            .chain(futures_util::stream::once(answer).flatten())
    }
}

fn modern_client(
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    request: &toolbooth_wire::Request,
    meta: &RequestMeta,
) -> Result<McpClient, RpcError> {
    // The headers must agree with the body before any of it is used.
    if let Some(version) = &meta.version {
        mirror::check(headers, version, &request.method, request.params.as_ref())?;
    }
    let revision = meta.modern_revision()?;
    Ok(McpClient { caller: caller.clone(), facts: Arc::new(modern_facts(meta)?), revision, session: None })
}

async fn begin(
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    headers: &HeaderMap,
    request: toolbooth_wire::Request,
    meta: RequestMeta,
    arrival: Arrival<'_>,
) -> Response<ResponseBody> {
    let outcome = pin!(methods::begin(front_end, client, &request, meta, Some(headers))).await;
    match outcome {
        Ok(MethodOutcome::Ready(reply)) => {
            json(StatusCode::OK, reply_chunks(&request.id, reply, client.era()))
        }
        Ok(MethodOutcome::Ongoing(running)) => {
            let response = pin!(follow(running, client.era(), front_end.keep_alive)).await;
            if let Some(session) = &client.session {
                front_end.store_loaded(session).await;
            }
            response
        }
        Ok(MethodOutcome::Listen(filter)) => {
            let credentials = arrival.stream_credentials(headers);
            let opened = Box::pin(ChangeStream::open(
                front_end,
                client,
                credentials,
                filter,
                Some(request.id.clone()),
            ))
            .await;
            match opened {
                Ok(stream) => events(changes(stream, Some(request.id), front_end.keep_alive)),
                Err(error) => failure(StatusCode::TOO_MANY_REQUESTS, Some(&request.id), &error),
            }
        }
        Err(error) => failure(status_of(&error, client.era()), Some(&request.id), &error),
    }
}

/// A JSON response if the answer is the first message, else an event stream.
async fn follow(
    mut running: Box<RunningRequest>,
    era: Era,
    keep_alive: std::time::Duration,
) -> Response<ResponseBody> {
    let step = pin!(running.next()).await;
    match step {
        RequestStep::Done(FinalAnswer::Nothing) => events(futures_util::stream::empty()),
        RequestStep::Done(FinalAnswer::Result(result)) => {
            json(StatusCode::OK, VecDeque::from([write_result(&running.id, &result)]))
        }
        RequestStep::Done(FinalAnswer::Error(error)) => {
            failure(status_of(&error, era), Some(&running.id), &error)
        }
        RequestStep::Done(FinalAnswer::Long(chunks)) => {
            json(StatusCode::OK, long::answer(&running.id, chunks))
        }
        RequestStep::Message(first) => {
            let first = futures_util::stream::once(std::future::ready(Ok(write_event(&first, None))));
            events(first.chain(steps(running, keep_alive)))
        }
    }
}

fn steps(
    running: Box<RunningRequest>,
    keep_alive: std::time::Duration,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    futures_util::stream::unfold(Some(running), move |state| async move {
        let mut running = state?;
        let step = match tokio::time::timeout(keep_alive, running.next()).await {
            Err(_) => return Some((Ok(Bytes::from_static(KEEP_ALIVE)), Some(running))),
            Ok(step) => step,
        };
        let last = match step {
            RequestStep::Message(message) => return Some((Ok(write_event(&message, None)), Some(running))),
            RequestStep::Done(FinalAnswer::Nothing) => return None,
            RequestStep::Done(FinalAnswer::Result(result)) => write_result(&running.id, &result),
            RequestStep::Done(FinalAnswer::Error(error)) => write_error(Some(&running.id), &error),
            RequestStep::Done(FinalAnswer::Long(chunks)) => long::joined(&running.id, &chunks),
        };
        Some((Ok(write_event(&last, None)), None))
    })
}

async fn initialize(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    request: &toolbooth_wire::Request,
) -> Response<ResponseBody> {
    let session = match open_session(caller, request) {
        Ok(session) => session,
        Err(error) => return failure(StatusCode::BAD_REQUEST, Some(&request.id), &error),
    };
    front_end.end_evicted(front_end.sessions.add(session.clone()));
    // Stored before the client knows it: its next request may reach another gateway.
    front_end.share_session(&session).await;
    let result = methods::initialized(front_end, caller, &session.facts(), session.revision);
    let mut response = json(StatusCode::OK, VecDeque::from([write_result(&request.id, &result)]));
    if let Ok(id) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(&mirror::SESSION_ID, id);
    }
    response
}

async fn serve_notification(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    notification: Notification,
) -> Response<ResponseBody> {
    if !headers.contains_key(&mirror::SESSION_ID) {
        // The modern era has no notifications from clients; they are accepted and ignored.
        return plain(StatusCode::ACCEPTED);
    }
    match session_of(front_end, caller, headers, None).await {
        Ok(session) => {
            if let Some(request) = apply_notification(&session, &notification) {
                Box::pin(front_end.cancel_elsewhere(&session, &request)).await;
            }
            plain(StatusCode::ACCEPTED)
        }
        Err(response) => *response,
    }
}

/// Opens the stream on which a legacy client receives change notifications.
async fn get(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    arrival: Arrival<'_>,
) -> Response<ResponseBody> {
    if !headers.contains_key(&mirror::SESSION_ID) {
        return not_allowed();
    }
    let accepts = headers.get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
    if !accepts.contains("text/event-stream") && !accepts.contains("*/*") {
        return plain(StatusCode::NOT_ACCEPTABLE);
    }
    let session = match session_of(front_end, caller, headers, None).await {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let ended = session.open_stream();
    let client = McpClient::of_session(session, caller);
    let credentials = arrival.stream_credentials(headers);
    let stream = match ChangeStream::open(front_end, &client, credentials, ChangeFilter::lists(), None).await
    {
        Ok(stream) => stream,
        Err(error) => return failure(StatusCode::TOO_MANY_REQUESTS, None, &error),
    };
    events(Box::pin(changes(stream, None, front_end.keep_alive).take_until(Box::pin(ended))))
}

async fn delete(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
) -> Response<ResponseBody> {
    if !headers.contains_key(&mirror::SESSION_ID) {
        return not_allowed();
    }
    match session_of(front_end, caller, headers, None).await {
        Ok(session) => {
            front_end.sessions.remove(&session.id);
            forget(front_end, &session);
            let front_end = front_end.clone();
            // In a task: a client that does not wait must not leave a session that another gateway would continue.
            let _ = tokio::spawn(async move { front_end.end_stored(&session).await }).await;
            plain(StatusCode::OK)
        }
        Err(response) => *response,
    }
}

fn changes(
    stream: ChangeStream,
    id: Option<Id>,
    keep_alive: std::time::Duration,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send {
    futures_util::stream::unfold(Some((stream, id)), move |state| async move {
        let (mut stream, id) = state?;
        match tokio::time::timeout(keep_alive, stream.next()).await {
            Err(_) => Some((Ok(Bytes::from_static(KEEP_ALIVE)), Some((stream, id)))),
            Ok(Some(message)) => Some((Ok(write_event(&message, None)), Some((stream, id)))),
            Ok(None) => {
                let id = id?;
                Some((Ok(write_event(&write_result(&id, &stream.final_result()), None)), None))
            }
        }
    })
}

/// The HTTP status of an error. Legacy clients get 200 and read the error from the body.
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

fn not_allowed() -> Response<ResponseBody> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
