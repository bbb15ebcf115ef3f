//! Implements the methods of the protocol, for both eras and all transports.

use super::Door;
use super::change_stream::ChangeFilter;
use super::client::McpClient;
use super::client_calls::cancelled;
use super::legacy_tasks;
use super::other_gateways::MovedCall;
use super::running_request::{RunningRequest, answered};
use super::tasks;
use super::trace::continued;
use super::translate;
use http::HeaderMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{CallFault, IncomingCall};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::{ListBytes, ListKind, Lookup};
use toolbooth_core::exposure::{Mode, meta};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::permission::{ServerVisibility, extent};
use toolbooth_engine::QuestionHandling;
use toolbooth_engine::inquiry::progress_wanted;
use toolbooth_engine::parked::{OngoingCall, ParkedCall};
use toolbooth_engine::request_state::{OpenStateError, StateBinding, StateTarget};
use toolbooth_engine::{CallRequest, Inquiry};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{LOG_LEVELS, ProgressMode, Round, our_info, our_instance};
use toolbooth_wire::codes::{INVALID_PARAMS, METHOD_NOT_FOUND};
use toolbooth_wire::meta::{INSTANCE, RequestMeta, SERVER_INFO, TIMEOUT_MS};
use toolbooth_wire::mirror;
use toolbooth_wire::{Era, Request, Revision, RpcError};
use uuid::Uuid;

/// How a method answers a request.
#[derive(Debug)]
pub enum MethodOutcome {
    /// With an immediate reply.
    Ready(ImmediateReply),
    /// After work that is running.
    Ongoing(Box<RunningRequest>),
    /// With a change stream.
    Listen(ChangeFilter),
}

/// A reply that needs no further work.
#[derive(Debug)]
pub enum ImmediateReply {
    /// A result.
    Result(RawJson),
    /// A list as cached bytes in the format of the client's era.
    List(Arc<ListBytes>),
}

/// The members of `params` that the gateway reads.
#[derive(Default)]
struct Params {
    name: Option<RawJson>,
    uri: Option<RawJson>,
    arguments: Option<RawJson>,
    input_responses: Option<RawJson>,
    request_state: Option<RawJson>,
    task: Option<RawJson>,
}

impl Params {
    fn of(raw: &RawJson) -> Self {
        let picked = raw.pick(["name", "uri", "arguments", "inputResponses", "requestState", "task"]);
        let [name, uri, arguments, input_responses, request_state, task] =
            picked.map(|part| part.map(|part| raw.share(part)));
        Self { name, uri, arguments, input_responses, request_state, task }
    }
}

fn invalid(why: impl std::fmt::Display) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("Invalid params: {why}"))
}

/// Starts a request. `meta` is its parsed `_meta`; `headers` is set for HTTP.
pub async fn begin(
    door: &Arc<Door>,
    client: &McpClient,
    request: &Request,
    meta: RequestMeta,
    headers: Option<&HeaderMap>,
) -> Result<MethodOutcome, RpcError> {
    let modern = client.era() == Era::Modern;
    match request.method.as_str() {
        "tools/call" => pin!(call(door, client, request, meta, headers)).await,
        "tools/list" => list(door, client, request, ListKind::Tools).await,
        "prompts/list" => list(door, client, request, ListKind::Prompts).await,
        "resources/list" => list(door, client, request, ListKind::Resources).await,
        "resources/templates/list" => list(door, client, request, ListKind::Templates).await,
        "prompts/get" => inquire(door, client, request, meta, "prompts/get", headers).await,
        "resources/read" => inquire(door, client, request, meta, "resources/read", headers).await,
        "completion/complete" => inquire(door, client, request, meta, "completion/complete", headers).await,
        "server/discover" if modern => {
            Ok(MethodOutcome::Ready(ImmediateReply::Result(discovered(door, &client.caller, &client.facts))))
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" if modern => {
            let result = Box::pin(tasks::serve(door, client, request)).await?;
            Ok(MethodOutcome::Ready(ImmediateReply::Result(result)))
        }
        "tasks/get" | "tasks/list" | "tasks/cancel" if legacy_tasks::are_offered(client) => {
            let result = Box::pin(legacy_tasks::serve(door, client, request)).await?;
            Ok(MethodOutcome::Ready(ImmediateReply::Result(result)))
        }
        legacy_tasks::RESULT if legacy_tasks::are_offered(client) => {
            let ongoing = Box::pin(legacy_tasks::follow(door, client, request)).await?;
            let id = request.id.clone();
            let running =
                RunningRequest::new(door.clone(), client.clone(), id, legacy_tasks::RESULT, ongoing);
            Ok(MethodOutcome::Ongoing(running))
        }
        "subscriptions/listen" if modern => {
            ChangeFilter::read(request.params.as_ref()).map(MethodOutcome::Listen)
        }
        "ping" if !modern => Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object()))),
        "logging/setLevel" if !modern => set_level(door, client, request).await,
        "resources/subscribe" if !modern => Box::pin(subscribe(door, client, request)).await,
        "resources/unsubscribe" if !modern => unsubscribe(door, client, request).await,
        method => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))),
    }
}

async fn call(
    door: &Arc<Door>,
    client: &McpClient,
    request: &Request,
    meta: RequestMeta,
    headers: Option<&HeaderMap>,
) -> Result<MethodOutcome, RpcError> {
    let Some(raw) = &request.params else { return Err(invalid("`name` is missing")) };
    let mut params = Params::of(raw);
    let name = params.name.take().ok_or_else(|| invalid("`name` is missing"))?;
    let name = name.string().ok_or_else(|| invalid("`name` must be a string"))?.into_owned();
    let arguments = params.arguments.take();
    let wants_task = match params.task.take() {
        Some(task) => {
            let called = called_name(&name, arguments.as_ref());
            Box::pin(legacy_tasks::is_requested(door, client, &task, &called)).await?
        }
        None => false,
    };
    let mut readiness = None;
    if let Some(headers) = headers
        && client.era() == Era::Modern
    {
        // The check needs the tool's definition, so wait for its server. The call does not wait again.
        readiness = Some(door.engine.catalog().wait_for_tool(&name, &client.caller).await);
        check_mirrored(door, client, &name, arguments.as_ref(), headers)?;
    }
    let timeout = caller_timeout(meta.timeout_ms.as_ref())?;
    let progress = progress_wanted(meta.progress_token.as_ref());
    let binding = bind(client, "tools/call", &name, arguments.as_ref());
    // The state of an earlier round opens for the user. With a persona or a credential that may not use the tool, the
    // tool is unknown, as it is for a new call. Such a request never starts a new round: a tool that is only late would
    // be called a second time, beside the call that is parked.
    if params.request_state.is_some() && binding.is_some() {
        let called = called_name(&name, arguments.as_ref());
        let ready = door.engine.catalog().wait_for_tool(&called, &client.caller).await;
        if !sees_tool(door, client, &called) {
            let unknown = CallFault::UnknownTool { name: called };
            door.engine.audit().record_hidden_tool(&door.engine.catalog().load(), &client.caller, &unknown);
            let refused = failed(ready.mention_starting_servers(Problem::of(&unknown)));
            return Ok(resume(door, client, request, "tools/call", meta, binding, refused));
        }
    }
    let round = match take_round(door, client, params, binding.as_ref()).await? {
        RoundStart::Resumed(parked) => {
            return Ok(resume(door, client, request, "tools/call", meta, binding, parked));
        }
        RoundStart::Moved(moved) => {
            let continuing = door.continue_elsewhere(client, moved, "tools/call", &name, arguments);
            return match Box::pin(continuing).await {
                Ok(answer) => answer.map(|result| MethodOutcome::Ready(ImmediateReply::Result(result))),
                Err(why) => {
                    let lost = failed(Problem::of(&why));
                    Ok(resume(door, client, request, "tools/call", meta, binding, lost))
                }
            };
        }
        RoundStart::New(round) => round,
    };
    // The call of a client that follows tasks may become one. Progress describes its state then.
    let can_become_task = wants_task || (client.era() == Era::Modern && client.facts.has_tasks());
    let id = Uuid::now_v7();
    let task = can_become_task.then(|| (id, called_name(&name, arguments.as_ref())));
    let progress = if task.is_some() { ProgressMode::Wanted } else { progress };
    let incoming = IncomingCall {
        caller: client.caller.clone(),
        client: client.facts.clone(),
        name,
        arguments,
        meta: continued(meta.rest, headers),
    };
    let questions =
        if client.era() == Era::Modern { QuestionHandling::Returned } else { QuestionHandling::DuringCall };
    let given = round.input_responses.clone();
    let reading = door.reading;
    let call = CallRequest {
        incoming,
        readiness,
        round,
        progress,
        questions,
        reading,
        approval_wait: None,
        timeout,
        id: Some(id),
    };
    let (link, events) = CallLink::new();
    let calls = door.engine.calls().clone();
    let entry = door.client_calls.begin(id, &call.incoming, door.engine.clock().now_ms());
    let work = Box::pin(async move {
        let answer = pin!(calls.call(call, &link));
        tokio::select! {
            biased;
            () = entry.cancelled() => Err(cancelled(id, &calls.approvals().waiting_calls())),
            answer = answer => answer,
        }
    });
    let running = RunningRequest::new(
        door.clone(),
        client.clone(),
        request.id.clone(),
        "tools/call",
        OngoingCall { work, events },
    );
    let running = running.bound(binding).reporting(meta.progress_token).given(given);
    Ok(MethodOutcome::Ongoing(match task {
        Some(task) if wants_task => running.requiring_task(task),
        task => running.offering_task(task),
    }))
}

/// Whether the caller may use the tool with this name now.
fn sees_tool(door: &Door, client: &McpClient, name: &str) -> bool {
    !matches!(door.engine.catalog().load().tool(name, &client.caller), Lookup::Unknown)
}

/// The name of the tool that a call is for: the one inside a call of `mcp_tool_call`.
fn called_name(name: &str, arguments: Option<&RawJson>) -> String {
    let inner = (name == meta::CALL).then(|| meta::inner_call(arguments)).flatten();
    inner.map_or_else(|| name.to_owned(), |(inner, _)| inner)
}

/// Reads the caller's deadline.
fn caller_timeout(timeout_ms: Option<&RawJson>) -> Result<Option<Duration>, RpcError> {
    let Some(given) = timeout_ms else { return Ok(None) };
    match given.read::<u64>() {
        Ok(milliseconds @ 1..) => Ok(Some(Duration::from_millis(milliseconds))),
        _ => {
            Err(invalid(format!("`{TIMEOUT_MS}` in `_meta` must be a whole number of milliseconds above 0")))
        }
    }
}

/// Checks that arguments which the tool wants mirrored agree with the headers.
fn check_mirrored(
    door: &Door,
    client: &McpClient,
    name: &str,
    arguments: Option<&RawJson>,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    let catalog = door.engine.catalog().load();
    let Lookup::Found(tool) = catalog.tool(name, &client.caller) else { return Ok(()) };
    if !tool.definition.as_str().contains("x-mcp-header") {
        return Ok(());
    }
    let empty = RawJson::empty_object();
    for mirrored in mirror::param_headers(&tool.input_schema()).unwrap_or_default() {
        mirrored.check(headers, arguments.unwrap_or(&empty))?;
    }
    Ok(())
}

/// The binding of request states. Only modern clients send a state back, so only they need one.
fn bind(
    client: &McpClient,
    method: &'static str,
    name: &str,
    arguments: Option<&RawJson>,
) -> Option<StateBinding> {
    (client.era() == Era::Modern).then(|| StateBinding::new(&client.caller, method, name, arguments))
}

/// Whether a request starts a round or resumes a parked call, here or at another gateway.
enum RoundStart {
    New(Round),
    Resumed(ParkedCall),
    Moved(MovedCall),
}

/// Determines whether this request continues an earlier one.
async fn take_round(
    door: &Door,
    client: &McpClient,
    params: Params,
    binding: Option<&StateBinding>,
) -> Result<RoundStart, RpcError> {
    let responses = params.input_responses;
    if responses.as_ref().is_some_and(|responses| !responses.is_object()) {
        return Err(invalid("`inputResponses` must be an object"));
    }
    let (Some(state), Some(binding)) = (params.request_state, binding) else {
        return Ok(RoundStart::New(Round { input_responses: responses, request_state: None }));
    };
    let refused = || invalid("`requestState` is not valid for this request, has expired or was used before");
    let state = state.string().ok_or_else(refused)?.into_owned();
    // Boxed, because hardly any request has a state and opening one needs a large future.
    let opened = Box::pin(door.engine.states().open(&state, binding)).await;
    let opened = opened.map_err(|why| {
        if why == OpenStateError::Foreign {
            let attempt = "a request state of another caller or request";
            door.engine.audit().record_denied(&client.caller, "request.foreign-state", attempt);
        }
        refused()
    });
    match opened? {
        StateTarget::Upstream { state } => {
            let request_state = state.and_then(|state| RawJson::parse(state).ok());
            Ok(RoundStart::New(Round { input_responses: responses, request_state }))
        }
        StateTarget::Parked(handle) => {
            let parked = door.engine.parking().take(&handle).ok_or_else(refused)?;
            Ok(RoundStart::Resumed(answered(parked, responses.as_ref())))
        }
        StateTarget::ParkedAt { handle, replica } => {
            if replica != door.engine.replica_mail().own_id() {
                return Ok(RoundStart::Moved(MovedCall { handle, replica, answers: responses }));
            }
            let parked = door.engine.parking().take(&handle).ok_or_else(refused)?;
            Ok(RoundStart::Resumed(answered(parked, responses.as_ref())))
        }
        StateTarget::Approval { handle, held, key } => {
            if let Some(parked) = door.engine.parking().take(&handle) {
                return Ok(RoundStart::Resumed(answered(parked, responses.as_ref())));
            }
            // Another gateway on the same store has asked, or this one before a restart. The decision is stored, and the
            // call is made again.
            if let Some(answer) = responses.as_ref().and_then(|responses| responses.member(&key)) {
                let deciding = door.engine.approvals().answer_elsewhere(&client.caller, held, answer);
                if let Err(problem) = Box::pin(deciding).await {
                    return Ok(RoundStart::Resumed(failed(problem)));
                }
            }
            Ok(RoundStart::New(Round::default()))
        }
    }
}

/// A call that has already failed.
fn failed(problem: Problem) -> ParkedCall {
    let ongoing = OngoingCall { work: Box::pin(async move { Err(problem) }), events: CallLink::new().1 };
    ParkedCall { ongoing, questions: Vec::new(), task: None }
}

fn resume(
    door: &Arc<Door>,
    client: &McpClient,
    request: &Request,
    method: &'static str,
    meta: RequestMeta,
    binding: Option<StateBinding>,
    parked: ParkedCall,
) -> MethodOutcome {
    let ParkedCall { ongoing, questions, task } = parked;
    let running = RunningRequest::new(door.clone(), client.clone(), request.id.clone(), method, ongoing);
    let running = running.bound(binding).reporting(meta.progress_token).asking(questions);
    MethodOutcome::Ongoing(running.offering_task(task))
}

async fn inquire(
    door: &Arc<Door>,
    client: &McpClient,
    request: &Request,
    meta: RequestMeta,
    method: &'static str,
    headers: Option<&HeaderMap>,
) -> Result<MethodOutcome, RpcError> {
    let raw = request.params.clone().unwrap_or_else(RawJson::empty_object);
    let params = Params::of(&raw);
    let target = params.name.as_ref().or(params.uri.as_ref());
    let target = target.and_then(RawJson::string).unwrap_or_default().into_owned();
    let bound_arguments = params.arguments.clone();
    let binding = bind(client, method, &target, bound_arguments.as_ref());
    let round = match take_round(door, client, params, binding.as_ref()).await? {
        RoundStart::Resumed(parked) => {
            return Ok(resume(door, client, request, method, meta, binding, parked));
        }
        RoundStart::Moved(moved) => {
            let continuing = door.continue_elsewhere(client, moved, method, &target, bound_arguments);
            return match Box::pin(continuing).await {
                Ok(answer) => answer.map(|result| MethodOutcome::Ready(ImmediateReply::Result(result))),
                Err(why) => {
                    let lost = failed(Problem::of(&why));
                    Ok(resume(door, client, request, method, meta, binding, lost))
                }
            };
        }
        RoundStart::New(round) => round,
    };
    let inquiry = Inquiry {
        caller: client.caller.clone(),
        client: client.facts.clone(),
        params: raw.clone(),
        meta: continued(meta.rest, headers),
        round,
        progress: progress_wanted(meta.progress_token.as_ref()),
        questions: if client.era() == Era::Modern {
            QuestionHandling::Returned
        } else {
            QuestionHandling::DuringCall
        },
        only: None,
    };
    let (link, events) = CallLink::new();
    let inquiries = door.engine.inquiries().clone();
    let work = Box::pin(async move {
        match method {
            "prompts/get" => inquiries.get_prompt(inquiry, &link).await,
            "resources/read" => inquiries.read_resource(inquiry, &link).await,
            _ => inquiries.complete(inquiry, &link).await,
        }
    });
    let running = RunningRequest::new(
        door.clone(),
        client.clone(),
        request.id.clone(),
        method,
        OngoingCall { work, events },
    );
    Ok(MethodOutcome::Ongoing(running.bound(binding).reporting(meta.progress_token)))
}

async fn list(
    door: &Door,
    client: &McpClient,
    request: &Request,
    kind: ListKind,
) -> Result<MethodOutcome, RpcError> {
    // Lists are not paginated, so the gateway never issues a cursor.
    if request
        .params
        .as_ref()
        .is_some_and(|params| params.member("cursor").is_some_and(|cursor| cursor.as_str() != "null"))
    {
        return Err(invalid("`cursor` was not issued by this gateway"));
    }
    door.engine.catalog().wait_for_servers(&client.caller).await;
    let list = door.engine.exposure().listed(kind, &client.caller, &client.facts, client.era());
    if kind == ListKind::Tools {
        door.engine.exposure().stats().listed(&client.caller, &client.facts, &list);
    }
    Ok(MethodOutcome::Ready(ImmediateReply::List(list)))
}

/// The capabilities that the gateway declares to its clients. Tasks are an extension for modern clients, and a
/// capability in the newest legacy revision.
fn capabilities(revision: Revision) -> RawJson {
    RawJson::trusted(match revision {
        Revision::V2026_07_28 => {
            &br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#[..]
        }
        Revision::V2025_11_25 => {
            &br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#[..]
        }
        Revision::V2025_06_18 | Revision::V2025_03_26 | Revision::V2024_11_05 => {
            &br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}"#[..]
        }
    })
}

fn discovered(door: &Door, caller: &Caller, client: &ClientFacts) -> RawJson {
    let versions: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
    let mut meta = ObjectWriter::default();
    meta.raw(SERVER_INFO, &our_info());
    meta.text(INSTANCE, our_instance());
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("resultType", "complete");
    writer.raw("supportedVersions", &RawJson::from_value(&versions));
    writer.raw("capabilities", &capabilities(Revision::V2026_07_28));
    if let Some(instructions) = instructions(door, caller, client) {
        writer.text("instructions", &instructions);
    }
    writer.raw("ttlMs", &RawJson::trusted(&b"3600000"[..]));
    writer.text("cacheScope", "private");
    writer.raw("_meta", &meta.finish());
    writer.finish()
}

/// The result to `initialize`.
pub fn initialized(door: &Door, caller: &Caller, client: &ClientFacts, revision: Revision) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("protocolVersion", revision.as_str());
    writer.raw("capabilities", &capabilities(revision));
    writer.raw("serverInfo", &our_info());
    if let Some(instructions) = instructions(door, caller, client) {
        writer.text("instructions", &instructions);
    }
    let mut meta = ObjectWriter::default();
    meta.text(INSTANCE, our_instance());
    writer.raw("_meta", &meta.finish());
    writer.finish()
}

/// Maximum length of the servers' instructions that are passed on.
const MAX_INSTRUCTIONS: usize = 4096;

fn instructions(door: &Door, caller: &Caller, client: &ClientFacts) -> Option<String> {
    let catalog = door.engine.catalog().load();
    let mut text = match door.engine.exposure().mode(caller, &client.name()).mode {
        Mode::Full => String::new(),
        Mode::Summary => {
            format!("Tools are listed in short form; `{}` shows the arguments of a tool.", meta::DESCRIBE)
        }
        Mode::Search => format!("Most tools are not listed; `{}` finds them.", meta::SEARCH),
    };
    let all =
        catalog.visible(caller).filter(|server| extent(caller, &server.entry) == ServerVisibility::Whole);
    for server in all {
        let Some(own) = server.instructions.as_deref().map(str::trim).filter(|own| !own.is_empty()) else {
            continue;
        };
        if text.len() + own.len() > MAX_INSTRUCTIONS {
            break;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&format!("{}: {own}", server.entry.name));
    }
    (!text.is_empty()).then_some(text)
}

async fn set_level(
    door: &Arc<Door>,
    client: &McpClient,
    request: &Request,
) -> Result<MethodOutcome, RpcError> {
    let level = request.params.as_ref().and_then(|params| params.member("level"));
    let level = level.as_ref().and_then(RawJson::string).filter(|level| LOG_LEVELS.contains(&&**level));
    let (Some(level), Some(session)) = (level, &client.session) else {
        return Err(invalid(format!("`level` must be one of {}", LOG_LEVELS.join(", "))));
    };
    session.set_log_level(level.into_owned());
    door.store_change(session).await;
    Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object())))
}

fn uri_of(request: &Request) -> Result<String, RpcError> {
    let uri = request.params.as_ref().and_then(|params| params.member("uri"));
    uri.as_ref()
        .and_then(RawJson::string)
        .map(|uri| uri.into_owned())
        .ok_or_else(|| invalid("`uri` must be a string"))
}

async fn subscribe(
    door: &Arc<Door>,
    client: &McpClient,
    request: &Request,
) -> Result<MethodOutcome, RpcError> {
    use toolbooth_engine::SubscribeError;
    let uri = uri_of(request)?;
    let Some(session) = &client.session else { return Err(invalid("subscriptions need a session")) };
    if !session.subscribe(&uri) {
        return Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object())));
    }
    let subscribing = door.engine.subscriptions().subscribe(&client.caller, &client.facts, &uri);
    if let Err(error) = subscribing.await {
        session.unsubscribe(&uri);
        return Err(match error {
            SubscribeError::Unknown => {
                RpcError::new(toolbooth_wire::codes::RESOURCE_NOT_FOUND, format!("Unknown resource: {uri}"))
            }
            SubscribeError::Full => invalid("too many subscriptions"),
            SubscribeError::Refused(error) => error,
            SubscribeError::Upstream(error) => {
                match translate::problem(&Problem::of(&error), "resources/subscribe") {
                    translate::ProblemAnswer::Error(error) => error,
                    translate::ProblemAnswer::Result(_) => invalid("the server could not be reached"),
                }
            }
        });
    }
    door.store_change(session).await;
    Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object())))
}

async fn unsubscribe(
    door: &Arc<Door>,
    client: &McpClient,
    request: &Request,
) -> Result<MethodOutcome, RpcError> {
    let uri = uri_of(request)?;
    if let Some(session) = &client.session
        && session.unsubscribe(&uri)
    {
        door.engine.subscriptions().unsubscribe(&client.caller, &uri);
        door.store_change(session).await;
    }
    Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object())))
}
