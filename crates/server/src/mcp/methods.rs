//! Implements the methods of the protocol, for both eras and all transports.

mod handshake;
mod inquiries;
mod rounds;
mod tool_call;

pub use handshake::initialized;

use super::Door;
use super::change_stream::ChangeFilter;
use super::client::McpClient;
use super::legacy_tasks;
use super::running_request::RunningRequest;
use super::tasks;
use super::translate;
use handshake::discovered;
use http::HeaderMap;
use inquiries::inquire;
use std::pin::pin;
use std::sync::Arc;
use tool_call::call;
use toolbooth_core::catalog::{ListBytes, ListKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_upstream::connection::LOG_LEVELS;
use toolbooth_wire::codes::{INVALID_PARAMS, METHOD_NOT_FOUND};
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Era, Request, RpcError};

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
