//! Starts `tools/call`.

use super::rounds::{ContinuableRequest, Params, RequestStart};
use super::{MethodOutcome, invalid};
use crate::mcp::FrontEndState;
use crate::mcp::client::McpClient;
use crate::mcp::client_calls::cancelled;
use crate::mcp::legacy_tasks;
use crate::mcp::trace::continued;
use http::HeaderMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{CallFault, IncomingCall};
use toolbooth_core::catalog::Lookup;
use toolbooth_core::exposure::meta;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_engine::inquiry::progress_wanted;
use toolbooth_engine::parked::OngoingCall;
use toolbooth_engine::{CallRequest, QuestionHandling};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::ProgressMode;
use toolbooth_wire::meta::{RequestMeta, TIMEOUT_MS};
use toolbooth_wire::mirror;
use toolbooth_wire::{Era, Request, RpcError};
use uuid::Uuid;

/// The method.
const METHOD: &str = "tools/call";

/// Whether a call becomes a task.
#[derive(Debug, Clone, Copy)]
enum TaskHandling {
    /// Its client has requested a task.
    Required,
    /// It becomes one if it takes long.
    Possible,
    /// Its client does not follow tasks.
    Unsupported,
}

/// Starts a tool call, or continues one with the client's answers.
pub(super) async fn call(
    front_end: &Arc<FrontEndState>,
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
            Box::pin(legacy_tasks::is_requested(front_end, client, &task, &called)).await?
        }
        None => false,
    };
    let mut readiness = None;
    if let Some(headers) = headers
        && client.era() == Era::Modern
    {
        // The check needs the tool's definition, so wait for its server. The call does not wait again.
        readiness = Some(front_end.engine.catalog().wait_for_tool(&name, &client.caller).await);
        check_mirrored(front_end, client, &name, arguments.as_ref(), headers)?;
    }
    let timeout = caller_timeout(meta.timeout_ms.as_ref())?;
    let progress = progress_wanted(meta.progress_token.as_ref());
    let mut start = ContinuableRequest {
        front_end,
        client,
        request,
        method: METHOD,
        target: name,
        arguments,
        progress_token: meta.progress_token,
        binding: None,
    }
    .bind();
    if params.request_state.is_some()
        && start.binding.is_some()
        && let Some(unknown) = hidden_tool(&start).await
    {
        return Ok(start.fail(unknown));
    }
    let round = match start.start(params).await? {
        RequestStart::New(round) => round,
        RequestStart::Continued(outcome) => return Ok(outcome),
    };
    let is_modern = client.era() == Era::Modern;
    let incoming = IncomingCall {
        caller: client.caller.clone(),
        client: client.facts.clone(),
        name: std::mem::take(&mut start.target),
        arguments: start.arguments.take(),
        meta: continued(meta.rest, headers),
    };
    let call = CallRequest {
        incoming,
        readiness,
        round,
        progress,
        questions: if is_modern { QuestionHandling::Returned } else { QuestionHandling::DuringCall },
        reading: front_end.reading,
        approval_wait: None,
        timeout,
        id: Some(Uuid::now_v7()),
    };
    let task = match (wants_task, is_modern && client.facts.has_tasks()) {
        (true, _) => TaskHandling::Required,
        (false, true) => TaskHandling::Possible,
        (false, false) => TaskHandling::Unsupported,
    };
    Ok(run(start, call, task))
}

/// The problem of a tool that the caller may not use, of a request that brings the state of an earlier round: the state
/// opens for the user, but with a persona or a credential that may not use the tool, the tool is unknown, as it is for a
/// new call. Such a request never starts a new round: a tool that is only late would be called a second time, beside the
/// call that is parked.
async fn hidden_tool(start: &ContinuableRequest<'_>) -> Option<Problem> {
    let (engine, caller) = (&start.front_end.engine, &start.client.caller);
    let name = called_name(&start.target, start.arguments.as_ref());
    let ready = engine.catalog().wait_for_tool(&name, caller).await;
    let catalog = engine.catalog().load();
    if !matches!(catalog.tool(&name, caller), Lookup::Unknown) {
        return None;
    }
    let unknown = CallFault::UnknownTool { name };
    engine.audit().record_hidden_tool(&catalog, caller, &unknown);
    Some(ready.mention_starting_servers(Problem::of(&unknown)))
}

/// Begins a call, as a task if its client requires that.
fn run(mut start: ContinuableRequest<'_>, mut call: CallRequest, task: TaskHandling) -> MethodOutcome {
    let id = *call.id.get_or_insert_with(Uuid::now_v7);
    let tool = || called_name(&call.incoming.name, call.incoming.arguments.as_ref());
    let tool = (!matches!(task, TaskHandling::Unsupported)).then(tool);
    if tool.is_some() {
        // Progress describes the state of the task.
        call.progress = ProgressMode::Wanted;
    }
    let given = call.round.input_responses.clone();
    let (link, events) = CallLink::new();
    let calls = start.front_end.engine.calls().clone();
    let now_ms = start.front_end.engine.clock().now_ms();
    let entry = start.front_end.client_calls.begin(id, &call.incoming, now_ms);
    let work = Box::pin(async move {
        let answer = pin!(calls.call(call, &link));
        tokio::select! {
            biased;
            () = entry.cancelled() => Err(cancelled(id, &calls.approvals().waiting_calls())),
            answer = answer => answer,
        }
    });
    let running = start.run(OngoingCall { work, events }).given(given);
    let offer = tool.map(|tool| (id, tool));
    MethodOutcome::Ongoing(match (task, offer) {
        (TaskHandling::Required, Some(offer)) => running.requiring_task(offer),
        (_, offer) => running.offering_task(offer),
    })
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
    front_end: &FrontEndState,
    client: &McpClient,
    name: &str,
    arguments: Option<&RawJson>,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    let catalog = front_end.engine.catalog().load();
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
