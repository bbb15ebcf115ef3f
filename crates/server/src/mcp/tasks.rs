//! The tasks extension: requests about calls that clients follow as tasks.

use super::Door;
use super::client::McpClient;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_engine::call_tasks::{CallTaskRecord, CallTaskStatus};
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
    match request.method.as_str() {
        "tasks/get" => {
            let record = tasks.find(caller, &id).await.map_err(failed)?.ok_or_else(unknown)?;
            Ok(detailed(door, &record))
        }
        "tasks/update" => {
            let responses = request.params.as_ref().and_then(|params| params.member("inputResponses"));
            let responses = responses
                .filter(RawJson::is_object)
                .ok_or_else(|| invalid("`inputResponses` must be an object"))?;
            tasks.answer(caller, &id, responses).await.map_err(failed)?.ok_or_else(unknown)?;
            Ok(acknowledged())
        }
        _ => {
            tasks.cancel(caller, &id).await.map_err(failed)?.ok_or_else(unknown)?;
            Ok(acknowledged())
        }
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
