//! Implements the methods of the protocol, for both eras and all transports.

mod handshake;
mod inquiries;
mod rounds;
mod tool_call;

pub use handshake::initialized;

use super::FrontEndState;
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
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    request: &Request,
    meta: RequestMeta,
    headers: Option<&HeaderMap>,
) -> Result<MethodOutcome, RpcError> {
    let modern = client.era() == Era::Modern;
    match request.method.as_str() {
        "tools/call" => pin!(call(front_end, client, request, meta, headers)).await,
        "tools/list" => list(front_end, client, request, ListKind::Tools).await,
        "prompts/list" => list(front_end, client, request, ListKind::Prompts).await,
        "resources/list" => list(front_end, client, request, ListKind::Resources).await,
        "resources/templates/list" => list(front_end, client, request, ListKind::Templates).await,
        "prompts/get" => inquire(front_end, client, request, meta, "prompts/get", headers).await,
        "resources/read" => inquire(front_end, client, request, meta, "resources/read", headers).await,
        "completion/complete" => {
            inquire(front_end, client, request, meta, "completion/complete", headers).await
        }
        "server/discover" if modern => Ok(MethodOutcome::Ready(ImmediateReply::Result(discovered(
            front_end,
            &client.caller,
            &client.facts,
        )))),
        "tasks/get" | "tasks/update" | "tasks/cancel" if modern => {
            let result = Box::pin(tasks::serve(front_end, client, request)).await?;
            Ok(MethodOutcome::Ready(ImmediateReply::Result(result)))
        }
        "tasks/get" | "tasks/list" | "tasks/cancel" if legacy_tasks::are_offered(client) => {
            let result = Box::pin(legacy_tasks::serve(front_end, client, request)).await?;
            Ok(MethodOutcome::Ready(ImmediateReply::Result(result)))
        }
        legacy_tasks::RESULT if legacy_tasks::are_offered(client) => {
            let ongoing = Box::pin(legacy_tasks::follow(front_end, client, request)).await?;
            let id = request.id.clone();
            let running =
                RunningRequest::new(front_end.clone(), client.clone(), id, legacy_tasks::RESULT, ongoing);
            Ok(MethodOutcome::Ongoing(running))
        }
        "subscriptions/listen" if modern => {
            ChangeFilter::read(request.params.as_ref()).map(MethodOutcome::Listen)
        }
        "ping" if !modern => Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object()))),
        "logging/setLevel" if !modern => set_level(front_end, client, request).await,
        "resources/subscribe" if !modern => Box::pin(subscribe(front_end, client, request)).await,
        "resources/unsubscribe" if !modern => unsubscribe(front_end, client, request).await,
        method => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))),
    }
}

async fn list(
    front_end: &FrontEndState,
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
    front_end.engine.catalog().wait_for_servers(&client.caller).await;
    let list = front_end.engine.exposure().listed(kind, &client.caller, &client.facts, client.era());
    if kind == ListKind::Tools {
        front_end.engine.exposure().stats().listed(&client.caller, &client.facts, &list);
    }
    Ok(MethodOutcome::Ready(ImmediateReply::List(list)))
}

async fn set_level(
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    request: &Request,
) -> Result<MethodOutcome, RpcError> {
    let level = request.params.as_ref().and_then(|params| params.member("level"));
    let level = level.as_ref().and_then(RawJson::string).filter(|level| LOG_LEVELS.contains(&&**level));
    let (Some(level), Some(session)) = (level, &client.session) else {
        return Err(invalid(format!("`level` must be one of {}", LOG_LEVELS.join(", "))));
    };
    session.set_log_level(level.into_owned());
    front_end.store_change(session).await;
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
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    request: &Request,
) -> Result<MethodOutcome, RpcError> {
    use toolbooth_engine::SubscribeError;
    let uri = uri_of(request)?;
    let Some(session) = &client.session else { return Err(invalid("subscriptions need a session")) };
    if !session.subscribe(&uri) {
        return Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object())));
    }
    let subscribing = front_end.engine.subscriptions().subscribe(&client.caller, &client.facts, &uri);
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
    front_end.store_change(session).await;
    Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object())))
}

async fn unsubscribe(
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    request: &Request,
) -> Result<MethodOutcome, RpcError> {
    let uri = uri_of(request)?;
    if let Some(session) = &client.session
        && session.unsubscribe(&uri)
    {
        front_end.engine.subscriptions().unsubscribe(&client.caller, &uri);
        front_end.store_change(session).await;
    }
    Ok(MethodOutcome::Ready(ImmediateReply::Result(RawJson::empty_object())))
}
