//! What each method does, whatever the era and the door.

use super::Door;
use super::client::Client;
use super::follow::Following;
use super::listen::Filter;
use super::trace::continued;
use super::translate;
use http::HeaderMap;
use std::pin::pin;
use std::sync::Arc;
use toolbooth_core::call::Incoming;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::{ListBytes, ListKind, Lookup};
use toolbooth_core::exposure::{Mode, meta};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::permission::{Extent, extent};
use toolbooth_engine::Rounds;
use toolbooth_engine::parked::{Ongoing, Parked};
use toolbooth_engine::record::progress_wanted;
use toolbooth_engine::state::{Binding, Meaning, NotOpened};
use toolbooth_engine::{CallRequest, Inquiry};
use toolbooth_upstream::connection::{LOG_LEVELS, Round, our_info, our_instance};
use toolbooth_upstream::{CallLink, boxed};
use toolbooth_wire::codes::{INVALID_PARAMS, METHOD_NOT_FOUND};
use toolbooth_wire::meta::{INSTANCE, RequestMeta, SERVER_INFO};
use toolbooth_wire::mirror;
use toolbooth_wire::{Era, Request, Revision, RpcError};

/// What a request led to.
#[derive(Debug)]
pub enum Begun {
    /// An answer at once.
    Ready(Reply),
    /// Work under way.
    Ongoing(Box<Following>),
    /// A stream of changes.
    Listen(Filter),
}

/// An answer at once.
#[derive(Debug)]
pub enum Reply {
    /// A result.
    Result(RawJson),
    /// A list as ready bytes, in this era's dress.
    List(Arc<ListBytes>),
}

/// The members of `params` that the gateway reads itself.
#[derive(Default)]
struct Params {
    name: Option<RawJson>,
    uri: Option<RawJson>,
    arguments: Option<RawJson>,
    input_responses: Option<RawJson>,
    request_state: Option<RawJson>,
}

impl Params {
    fn of(raw: &RawJson) -> Self {
        let picked = raw.pick(["name", "uri", "arguments", "inputResponses", "requestState"]);
        let [name, uri, arguments, input_responses, request_state] =
            picked.map(|part| part.map(|part| raw.share(part)));
        Self { name, uri, arguments, input_responses, request_state }
    }
}

fn invalid(why: impl std::fmt::Display) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("Invalid params: {why}"))
}

/// Starts on a request. `meta` is its `_meta`, already read; `headers` are there on HTTP.
pub async fn begin(
    door: &Arc<Door>,
    client: &Client,
    request: &Request,
    meta: RequestMeta,
    headers: Option<&HeaderMap>,
) -> Result<Begun, RpcError> {
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
            Ok(Begun::Ready(Reply::Result(discovered(door, &client.caller, &client.facts))))
        }
        "subscriptions/listen" if modern => Filter::read(request.params.as_ref()).map(Begun::Listen),
        "ping" if !modern => Ok(Begun::Ready(Reply::Result(RawJson::empty_object()))),
        "logging/setLevel" if !modern => set_level(client, request),
        "resources/subscribe" if !modern => Box::pin(subscribe(door, client, request)).await,
        "resources/unsubscribe" if !modern => unsubscribe(door, client, request),
        method => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))),
    }
}

async fn call(
    door: &Arc<Door>,
    client: &Client,
    request: &Request,
    meta: RequestMeta,
    headers: Option<&HeaderMap>,
) -> Result<Begun, RpcError> {
    let Some(raw) = &request.params else { return Err(invalid("`name` is missing")) };
    let mut params = Params::of(raw);
    let name = params.name.take().ok_or_else(|| invalid("`name` is missing"))?;
    let name = name.string().ok_or_else(|| invalid("`name` must be a string"))?.into_owned();
    let arguments = params.arguments.take();
    if let Some(headers) = headers
        && client.era() == Era::Modern
    {
        // Checked against what the tool says, so not before it is there.
        door.engine.gathered_for_tool(&name, &client.caller).await;
        check_mirrored(door, client, &name, arguments.as_ref(), headers)?;
    }
    let progress = progress_wanted(meta.progress_token.as_ref());
    let binding = bind(client, "tools/call", &name, arguments.as_ref());
    let round = match take_round(door, client, params, binding.as_ref()).await? {
        Came::Back(parked) => {
            return Ok(come_back(door, client, request, "tools/call", meta, binding, parked));
        }
        Came::New(round) => round,
    };
    let incoming = Incoming {
        caller: client.caller.clone(),
        client: client.facts.clone(),
        name,
        arguments,
        meta: continued(meta.rest, headers),
    };
    let rounds = if client.era() == Era::Modern { Rounds::Returned } else { Rounds::Driven };
    let given = round.input_responses.clone();
    let reading = door.reading;
    let call = CallRequest { incoming, round, progress, rounds, reading, patience: None };
    let (link, events) = CallLink::new();
    let engine = door.engine.clone();
    let work = boxed(move || async move { pin!(engine.call(call, &link)).await });
    let following = Following::new(
        door.clone(),
        client.clone(),
        request.id.clone(),
        "tools/call",
        Ongoing { work, events },
    );
    Ok(Begun::Ongoing(following.bound(binding).reporting(meta.progress_token).given(given)))
}

/// The arguments that a tool wants mirrored must agree with the headers.
fn check_mirrored(
    door: &Door,
    client: &Client,
    name: &str,
    arguments: Option<&RawJson>,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    let catalog = door.engine.catalog();
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

/// Only modern clients come back with a state, so only they need a binding.
fn bind(client: &Client, method: &'static str, name: &str, arguments: Option<&RawJson>) -> Option<Binding> {
    (client.era() == Era::Modern).then(|| Binding::new(&client.caller, method, name, arguments))
}

enum Came {
    New(Round),
    Back(Parked),
}

/// Whether this is a later round of an earlier request, and if so, which.
async fn take_round(
    door: &Door,
    client: &Client,
    params: Params,
    binding: Option<&Binding>,
) -> Result<Came, RpcError> {
    let responses = params.input_responses;
    if responses.as_ref().is_some_and(|responses| !responses.is_object()) {
        return Err(invalid("`inputResponses` must be an object"));
    }
    let (Some(state), Some(binding)) = (params.request_state, binding) else {
        return Ok(Came::New(Round { input_responses: responses, request_state: None }));
    };
    let refused =
        || invalid("`requestState` is not one of ours, not of this request, expired or used before");
    let state = state.string().ok_or_else(refused)?.into_owned();
    // Hardly any request has a state: what it takes to open one is not part of every request.
    let opened = Box::pin(door.engine.states().open(&state, binding)).await;
    let opened = opened.map_err(|why| {
        if why == NotOpened::Foreign {
            let attempt = "a request state that was not made for this caller and request";
            door.engine.note_trespass(&client.caller, "request.foreign-state", attempt);
        }
        refused()
    });
    match opened? {
        Meaning::Upstream { state } => {
            let request_state = state.and_then(|state| RawJson::parse(state).ok());
            Ok(Came::New(Round { input_responses: responses, request_state }))
        }
        Meaning::Parked(handle) => {
            let mut parked = door.engine.parking().take(&handle).ok_or_else(refused)?;
            let questions = std::mem::take(&mut parked.questions);
            for (key, question) in questions {
                match responses.as_ref().and_then(|responses| responses.member(&key)) {
                    Some(answer) => drop(question.reply.send(Ok(answer))),
                    // What was left out is asked again.
                    None => parked.questions.push((key, question)),
                }
            }
            Ok(Came::Back(parked))
        }
    }
}

fn come_back(
    door: &Arc<Door>,
    client: &Client,
    request: &Request,
    method: &'static str,
    meta: RequestMeta,
    binding: Option<Binding>,
    parked: Parked,
) -> Begun {
    let Parked { ongoing, questions } = parked;
    let following = Following::new(door.clone(), client.clone(), request.id.clone(), method, ongoing);
    Begun::Ongoing(following.bound(binding).reporting(meta.progress_token).asking(questions))
}

async fn inquire(
    door: &Arc<Door>,
    client: &Client,
    request: &Request,
    meta: RequestMeta,
    method: &'static str,
    headers: Option<&HeaderMap>,
) -> Result<Begun, RpcError> {
    let raw = request.params.clone().unwrap_or_else(RawJson::empty_object);
    let params = Params::of(&raw);
    let target = params.name.as_ref().or(params.uri.as_ref());
    let target = target.and_then(RawJson::string).unwrap_or_default().into_owned();
    let binding = bind(client, method, &target, params.arguments.as_ref());
    let round = match take_round(door, client, params, binding.as_ref()).await? {
        Came::Back(parked) => return Ok(come_back(door, client, request, method, meta, binding, parked)),
        Came::New(round) => round,
    };
    let inquiry = Inquiry {
        caller: client.caller.clone(),
        client: client.facts.clone(),
        params: raw.clone(),
        meta: continued(meta.rest, headers),
        round,
        progress: progress_wanted(meta.progress_token.as_ref()),
        rounds: if client.era() == Era::Modern { Rounds::Returned } else { Rounds::Driven },
    };
    let (link, events) = CallLink::new();
    let engine = door.engine.clone();
    let work = Box::pin(async move {
        match method {
            "prompts/get" => engine.get_prompt(inquiry, &link).await,
            "resources/read" => engine.read_resource(inquiry, &link).await,
            _ => engine.complete(inquiry, &link).await,
        }
    });
    let following =
        Following::new(door.clone(), client.clone(), request.id.clone(), method, Ongoing { work, events });
    Ok(Begun::Ongoing(following.bound(binding).reporting(meta.progress_token)))
}

async fn list(door: &Door, client: &Client, request: &Request, kind: ListKind) -> Result<Begun, RpcError> {
    // Lists come whole, so no cursor is ever handed out.
    if request
        .params
        .as_ref()
        .is_some_and(|params| params.member("cursor").is_some_and(|cursor| cursor.as_str() != "null"))
    {
        return Err(invalid("`cursor` was not handed out by this gateway"));
    }
    door.engine.gathered(&client.caller).await;
    let list = door.engine.listed(kind, &client.caller, &client.facts, client.era());
    if kind == ListKind::Tools {
        door.engine.shown().listed(&client.caller, &client.facts, &list);
    }
    Ok(Begun::Ready(Reply::List(list)))
}

/// What the gateway can do for its clients.
fn capabilities() -> RawJson {
    RawJson::trusted(
        &br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}"#[..],
    )
}

fn discovered(door: &Door, caller: &Caller, client: &ClientFacts) -> RawJson {
    let versions: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
    let mut meta = ObjectWriter::default();
    meta.raw(SERVER_INFO, &our_info());
    meta.text(INSTANCE, our_instance());
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("resultType", "complete");
    writer.raw("supportedVersions", &RawJson::from_value(&versions));
    writer.raw("capabilities", &capabilities());
    if let Some(instructions) = instructions(door, caller, client) {
        writer.text("instructions", &instructions);
    }
    writer.raw("ttlMs", &RawJson::trusted(&b"3600000"[..]));
    writer.text("cacheScope", "private");
    writer.raw("_meta", &meta.finish());
    writer.finish()
}

/// The answer to `initialize`.
pub fn initialized(door: &Door, caller: &Caller, client: &ClientFacts, revision: Revision) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("protocolVersion", revision.as_str());
    writer.raw("capabilities", &capabilities());
    writer.raw("serverInfo", &our_info());
    if let Some(instructions) = instructions(door, caller, client) {
        writer.text("instructions", &instructions);
    }
    let mut meta = ObjectWriter::default();
    meta.text(INSTANCE, our_instance());
    writer.raw("_meta", &meta.finish());
    writer.finish()
}

/// How much of the servers' own advice to models is passed on.
const MAX_INSTRUCTIONS: usize = 4096;

fn instructions(door: &Door, caller: &Caller, client: &ClientFacts) -> Option<String> {
    let catalog = door.engine.catalog();
    let mut text = match door.engine.exposure(caller, &client.name()).mode {
        Mode::Full => String::new(),
        Mode::Summary => format!("Tools are listed in short; `{}` gives a tool's arguments.", meta::DESCRIBE),
        Mode::Search => format!("Most tools are not listed; `{}` finds them.", meta::SEARCH),
    };
    let all = catalog.visible(caller).filter(|server| extent(caller, &server.entry) == Extent::Whole);
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

fn set_level(client: &Client, request: &Request) -> Result<Begun, RpcError> {
    let level = request.params.as_ref().and_then(|params| params.member("level"));
    let level = level.as_ref().and_then(RawJson::string).filter(|level| LOG_LEVELS.contains(&&**level));
    let (Some(level), Some(session)) = (level, &client.session) else {
        return Err(invalid(format!("`level` must be one of {}", LOG_LEVELS.join(", "))));
    };
    session.set_log_level(level.into_owned());
    Ok(Begun::Ready(Reply::Result(RawJson::empty_object())))
}

fn uri_of(request: &Request) -> Result<String, RpcError> {
    let uri = request.params.as_ref().and_then(|params| params.member("uri"));
    uri.as_ref()
        .and_then(RawJson::string)
        .map(|uri| uri.into_owned())
        .ok_or_else(|| invalid("`uri` must be a string"))
}

async fn subscribe(door: &Arc<Door>, client: &Client, request: &Request) -> Result<Begun, RpcError> {
    use toolbooth_engine::SubscribeError;
    let uri = uri_of(request)?;
    let Some(session) = &client.session else { return Err(invalid("a session is needed")) };
    if session.subscribe(&uri)
        && let Err(error) = door.engine.subscribe(&client.caller, &client.facts, &uri).await
    {
        session.unsubscribe(&uri);
        return Err(match error {
            SubscribeError::Unknown => {
                RpcError::new(toolbooth_wire::codes::RESOURCE_NOT_FOUND, format!("Unknown resource: {uri}"))
            }
            SubscribeError::Full => invalid("too many subscriptions"),
            SubscribeError::Refused(error) => error,
            SubscribeError::Upstream(error) => {
                match translate::problem(&Problem::of(&error), "resources/subscribe") {
                    translate::Told::Error(error) => error,
                    translate::Told::Result(_) => invalid("the server could not be asked"),
                }
            }
        });
    }
    Ok(Begun::Ready(Reply::Result(RawJson::empty_object())))
}

fn unsubscribe(door: &Arc<Door>, client: &Client, request: &Request) -> Result<Begun, RpcError> {
    let uri = uri_of(request)?;
    if let Some(session) = &client.session
        && session.unsubscribe(&uri)
    {
        door.engine.unsubscribe(&client.caller, &uri);
    }
    Ok(Begun::Ready(Reply::Result(RawJson::empty_object())))
}
