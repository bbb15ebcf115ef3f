//! The tasks extension: requests about calls that modern clients follow as tasks. `legacy_tasks` has the requests of
//! revision 2025-11-25, for the same tasks.

use super::FrontEndState;
use super::client::McpClient;
use super::translate;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, Lookup};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_engine::ResultFacts;
use toolbooth_engine::approvals::Cancellation;
use toolbooth_engine::call_tasks::{CallTaskRecord, CallTaskStatus, CalledTool};
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY};
use toolbooth_wire::{Era, Request, RpcError};

/// How long clients should wait before they ask for the state of a task again.
pub(super) const POLL_INTERVAL_MS: u64 = 500;

/// The member of an answer to a question of a task that has the error with which the client refused it.
pub(super) const REFUSAL: &str = "toolbooth/refusal";

/// Serves a request about a task.
pub(super) async fn serve(
    front_end: &FrontEndState,
    client: &McpClient,
    request: &Request,
) -> Result<RawJson, RpcError> {
    if !client.facts.has_tasks() {
        let needed = &br#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#[..];
        let why = format!("`{}` needs the extension `io.modelcontextprotocol/tasks`", request.method);
        return Err(RpcError::new(MISSING_CAPABILITY, why).with_data(RawJson::trusted(needed)));
    }
    let record = find(front_end, &client.caller, request).await?;
    match request.method.as_str() {
        "tasks/get" => Ok(detailed(front_end, client, &record)),
        "tasks/update" => {
            let responses = request.params.as_ref().and_then(|params| params.member("inputResponses"));
            let responses = responses
                .filter(RawJson::is_object)
                .ok_or_else(|| invalid("`inputResponses` must be an object"))?;
            let answered =
                front_end.engine.call_tasks().answer(&client.caller, &record.id.to_string(), responses).await;
            answered.map_err(failed)?.ok_or_else(unknown)?;
            Ok(acknowledged())
        }
        _ => {
            if !record.status.is_final() {
                cancel(front_end, &client.caller, &record).await?;
            }
            Ok(acknowledged())
        }
    }
}

/// The task that a request names, if the caller may follow it.
pub(super) async fn find(
    front_end: &FrontEndState,
    caller: &Caller,
    request: &Request,
) -> Result<CallTaskRecord, RpcError> {
    let id = request.params.as_ref().and_then(|params| params.member("taskId"));
    let id = id.as_ref().and_then(RawJson::string).ok_or_else(|| invalid("`taskId` must be a string"))?;
    let found = front_end.engine.call_tasks().find(caller, &id).await;
    let record = found.map_err(failed)?.ok_or_else(unknown)?;
    match may_follow(front_end, caller, &record).await {
        true => Ok(record),
        false => Err(unknown()),
    }
}

/// Cancels a task that has not ended.
pub(super) async fn cancel(
    front_end: &FrontEndState,
    caller: &Caller,
    record: &CallTaskRecord,
) -> Result<(), RpcError> {
    let cancelled = front_end.engine.call_tasks().cancel(caller, &record.id.to_string()).await;
    cancelled.map_err(failed)?.ok_or_else(unknown)?;
    // Another gateway that runs the call reads the cancellation later, but its held call ends now.
    let withdrawn = front_end.engine.approvals().withdraw(cancellation(record));
    withdrawn.await.map_err(failed)?;
    Ok(())
}

pub(super) fn invalid(why: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("Invalid params: {why}"))
}

/// The error for a task that does not exist or that the caller may not follow.
pub(super) fn unknown() -> RpcError {
    invalid("there is no such task; tasks are kept for a day")
}

/// The cancellation of the call of a task, by its user.
pub(super) fn cancellation(record: &CallTaskRecord) -> Cancellation {
    Cancellation { call: record.id, by: record.user.clone(), reason: "the task was cancelled".into() }
}

/// The tool of a call that becomes a task.
pub(super) fn called_tool(front_end: &FrontEndState, caller: &Caller, name: String) -> CalledTool {
    let catalog = front_end.engine.catalog().load();
    let id = match catalog.tool(&name, caller) {
        Lookup::Found(tool) => Some(tool.canonical()).filter(|id| sees_tool(&catalog, caller, id)),
        Lookup::Ambiguous(_) | Lookup::Unknown => None,
    };
    CalledTool { name, id }
}

/// Whether a caller may follow a task of their user. Its result is as secret as the tool: a persona, a compliance level or
/// a credential that may not use the tool now does not know the task either.
pub(super) async fn may_follow(front_end: &FrontEndState, caller: &Caller, record: &CallTaskRecord) -> bool {
    if is_visible(front_end, caller, record) {
        return true;
    }
    // Its server may be starting.
    let tool = record.tool_id.as_deref().unwrap_or(&record.tool);
    front_end.engine.catalog().wait_for_tool(tool, caller).await;
    is_visible(front_end, caller, record)
}

/// Whether a caller may use the tool of a task at the moment.
pub(super) fn is_visible(front_end: &FrontEndState, caller: &Caller, record: &CallTaskRecord) -> bool {
    let catalog = front_end.engine.catalog().load();
    match &record.tool_id {
        Some(id) => sees_tool(&catalog, caller, id),
        None => !matches!(catalog.tool(&record.tool, caller), Lookup::Unknown),
    }
}

/// Whether a caller may use the tool with this canonical id. Another tool may have the same text as its name.
fn sees_tool(catalog: &Catalog, caller: &Caller, id: &str) -> bool {
    match catalog.tool(id, caller) {
        Lookup::Found(tool) => tool.canonical() == id,
        Lookup::Ambiguous(tools) => tools.iter().any(|tool| tool.canonical() == id),
        Lookup::Unknown => false,
    }
}

/// The result of a call that has become a task.
pub(super) fn created(front_end: &FrontEndState, record: &CallTaskRecord) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(256);
    writer.text("resultType", "task");
    write_task(&mut writer, front_end, record);
    writer.finish()
}

/// A task with its questions, result or error.
fn detailed(front_end: &FrontEndState, client: &McpClient, record: &CallTaskRecord) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("resultType", "complete");
    write_task(&mut writer, front_end, record);
    let (member, value) = match record.status {
        CallTaskStatus::InputRequired => ("inputRequests", record.requests()),
        CallTaskStatus::Completed => ("result", record.outcome().map(|result| modern_result(result, client))),
        CallTaskStatus::Failed => ("error", record.outcome()),
        CallTaskStatus::Working | CallTaskStatus::Cancelled => return writer.finish(),
    };
    if let Some(value) = value {
        writer.raw(member, &value);
    }
    writer.finish()
}

/// The result of a task for a modern client. A task that a legacy client began has a legacy result.
fn modern_result(result: RawJson, client: &McpClient) -> RawJson {
    match result.has("resultType") {
        true => result,
        false => translate::result(&result, Era::Legacy, ResultFacts::default(), client, "tools/call"),
    }
}

/// A time as the protocol writes it.
pub(super) fn written_time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default().to_string()
}

fn write_task(writer: &mut ObjectWriter, front_end: &FrontEndState, record: &CallTaskRecord) {
    writer.text("taskId", &record.id.to_string()).text("status", record.status.as_str());
    if let Some(message) = &record.message {
        writer.text("statusMessage", message);
    }
    writer
        .text("createdAt", &written_time(record.created_ms))
        .text("lastUpdatedAt", &written_time(record.updated_ms))
        .number("ttlMs", front_end.engine.call_tasks().lifetime_ms())
        .number("pollIntervalMs", POLL_INTERVAL_MS);
}

fn acknowledged() -> RawJson {
    RawJson::trusted(&br#"{"resultType":"complete"}"#[..])
}

pub(super) fn failed(problem: Problem) -> RpcError {
    let data = serde_json::json!({"toolbooth": {"code": problem.code, "hint": problem.hint}});
    RpcError::new(INTERNAL_ERROR, problem.message).with_data(RawJson::from_value(&data))
}
