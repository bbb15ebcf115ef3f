//! The tasks extension: requests about calls that clients follow as tasks.

use super::Door;
use super::client::McpClient;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, Lookup};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_engine::approvals::Cancellation;
use toolbooth_engine::call_tasks::{CallTaskRecord, CallTaskStatus, CalledTool};
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY};
use toolbooth_wire::{Request, RpcError};

/// How long clients should wait before they ask for the state of a task again.
const POLL_INTERVAL_MS: u64 = 500;

/// Serves a request about a task.
pub(super) async fn serve(door: &Door, client: &McpClient, request: &Request) -> Result<RawJson, RpcError> {
    if !client.facts.has_tasks() {
        let needed = &br#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#[..];
        let why = format!("`{}` needs the extension `io.modelcontextprotocol/tasks`", request.method);
        return Err(RpcError::new(MISSING_CAPABILITY, why).with_data(RawJson::trusted(needed)));
    }
    let invalid = |why: &str| RpcError::new(INVALID_PARAMS, format!("Invalid params: {why}"));
    let (tasks, caller) = (door.engine.call_tasks(), &client.caller);
    let id = request.params.as_ref().and_then(|params| params.member("taskId"));
    let id = id.as_ref().and_then(RawJson::string).ok_or_else(|| invalid("`taskId` must be a string"))?;
    let unknown = || invalid("there is no such task; tasks are kept for a day");
    let record = tasks.find(caller, &id).await.map_err(failed)?.ok_or_else(unknown)?;
    if !may_follow(door, caller, &record).await {
        return Err(unknown());
    }
    match request.method.as_str() {
        "tasks/get" => Ok(detailed(door, &record)),
        "tasks/update" => {
            let responses = request.params.as_ref().and_then(|params| params.member("inputResponses"));
            let responses = responses
                .filter(RawJson::is_object)
                .ok_or_else(|| invalid("`inputResponses` must be an object"))?;
            tasks.answer(caller, &id, responses).await.map_err(failed)?.ok_or_else(unknown)?;
            Ok(acknowledged())
        }
        _ => {
            if !record.status.is_final() {
                tasks.cancel(caller, &id).await.map_err(failed)?.ok_or_else(unknown)?;
                // Another gateway that runs the call reads the cancellation later, but its held call ends now.
                let withdrawn = door.engine.approvals().withdraw(cancellation(&record));
                withdrawn.await.map_err(failed)?;
            }
            Ok(acknowledged())
        }
    }
}

/// The cancellation of the call of a task, by its user.
pub(super) fn cancellation(record: &CallTaskRecord) -> Cancellation {
    Cancellation { call: record.id, by: record.user.clone(), reason: "the task was cancelled".into() }
}

/// The tool of a call that becomes a task.
pub(super) fn called_tool(door: &Door, caller: &Caller, name: String) -> CalledTool {
    let catalog = door.engine.catalog().load();
    let id = match catalog.tool(&name, caller) {
        Lookup::Found(tool) => Some(tool.canonical()).filter(|id| sees_tool(&catalog, caller, id)),
        Lookup::Ambiguous(_) | Lookup::Unknown => None,
    };
    CalledTool { name, id }
}

/// Whether a caller may follow a task of their user. Its result is as secret as the tool: a persona, a compliance level or
/// a credential that may not use the tool now does not know the task either.
async fn may_follow(door: &Door, caller: &Caller, record: &CallTaskRecord) -> bool {
    let catalog = door.engine.catalog();
    let is_visible = || match &record.tool_id {
        Some(id) => sees_tool(&catalog.load(), caller, id),
        None => !matches!(catalog.load().tool(&record.tool, caller), Lookup::Unknown),
    };
    if is_visible() {
        return true;
    }
    // Its server may be starting.
    catalog.wait_for_tool(record.tool_id.as_deref().unwrap_or(&record.tool), caller).await;
    is_visible()
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
pub(super) fn created(door: &Door, record: &CallTaskRecord) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(256);
    writer.text("resultType", "task");
    write_task(&mut writer, door, record);
    writer.finish()
}

/// A task with its questions, result or error.
fn detailed(door: &Door, record: &CallTaskRecord) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("resultType", "complete");
    write_task(&mut writer, door, record);
    let (member, value) = match record.status {
        CallTaskStatus::InputRequired => ("inputRequests", record.requests()),
        CallTaskStatus::Completed => ("result", record.outcome()),
        CallTaskStatus::Failed => ("error", record.outcome()),
        CallTaskStatus::Working | CallTaskStatus::Cancelled => return writer.finish(),
    };
    if let Some(value) = value {
        writer.raw(member, &value);
    }
    writer.finish()
}

fn write_task(writer: &mut ObjectWriter, door: &Door, record: &CallTaskRecord) {
    let time = |at_ms: i64| jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default().to_string();
    writer.text("taskId", &record.id.to_string()).text("status", record.status.as_str());
    if let Some(message) = &record.message {
        writer.text("statusMessage", message);
    }
    writer
        .text("createdAt", &time(record.created_ms))
        .text("lastUpdatedAt", &time(record.updated_ms))
        .number("ttlMs", door.engine.call_tasks().lifetime_ms())
        .number("pollIntervalMs", POLL_INTERVAL_MS);
}

fn acknowledged() -> RawJson {
    RawJson::trusted(&br#"{"resultType":"complete"}"#[..])
}

fn failed(problem: Problem) -> RpcError {
    let data = serde_json::json!({"toolbooth": {"code": problem.code, "hint": problem.hint}});
    RpcError::new(INTERNAL_ERROR, problem.message).with_data(RawJson::from_value(&data))
}
