//! The experimental tasks of revision 2025-11-25: a client asks for a task with its call, and gets the result and the
//! questions of the call in the answer to `tasks/result`. The tasks are the same as those of the extension (`tasks`).

use super::FrontEndState;
use super::client::McpClient;
use super::tasks::{self, POLL_INTERVAL_MS, REFUSAL, failed, invalid, unknown, written_time};
use super::translate;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use toolbooth_core::catalog::Lookup;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson, with_members};
use toolbooth_engine::call_tasks::{CallTaskRecord, CallTaskStatus};
use toolbooth_engine::parked::OngoingCall;
use toolbooth_engine::{Answer, ResultFacts};
use toolbooth_upstream::CallLink;
use toolbooth_wire::codes::{INTERNAL_ERROR, REFUSED};
use toolbooth_wire::meta::RELATED_TASK;
use toolbooth_wire::{Era, Request, Revision, RpcError};
use uuid::Uuid;

/// The method that waits for the end of a task.
pub(super) const RESULT: &str = "tasks/result";
/// The maximum length of an error in the state of a task, in characters.
const MAX_ERROR: usize = 500;
/// How long `tasks/cancel` waits for another gateway that runs the call.
const CANCEL_WITHIN: Duration = Duration::from_secs(10);

/// Whether the client's revision has these tasks.
pub(super) fn are_offered(client: &McpClient) -> bool {
    client.revision == Revision::V2025_11_25
}

/// Whether a call becomes a task at once, because the client asked for it with this `task`. Other revisions ignore it. A call
/// of an unknown tool is answered at once, because its task would be unknown too.
pub(super) async fn is_requested(
    front_end: &FrontEndState,
    client: &McpClient,
    task: &RawJson,
    called: &str,
) -> Result<bool, RpcError> {
    if !are_offered(client) {
        return Ok(false);
    }
    let ttl = task.member("ttl").filter(|ttl| ttl.as_str() != "null");
    if !task.is_object() || ttl.is_some_and(|ttl| ttl.read::<f64>().is_err()) {
        return Err(invalid("`task` must be an object, and its `ttl` a number of milliseconds"));
    }
    front_end.engine.catalog().wait_for_tool(called, &client.caller).await;
    Ok(!matches!(front_end.engine.catalog().load().tool(called, &client.caller), Lookup::Unknown))
}

/// Serves `tasks/get`, `tasks/list` and `tasks/cancel`.
pub(super) async fn serve(
    front_end: &FrontEndState,
    client: &McpClient,
    request: &Request,
) -> Result<RawJson, RpcError> {
    if request.method == "tasks/list" {
        return list(front_end, client, request).await;
    }
    let record = tasks::find(front_end, &client.caller, request).await?;
    if request.method == "tasks/get" {
        return Ok(described(front_end, &record));
    }
    if record.status.is_final() {
        return Err(invalid(&format!("the task has already ended: it is {}", status_of(&record))));
    }
    Ok(described(front_end, &cancelled(front_end, client, record).await?))
}

/// The caller's tasks, newest first.
async fn list(front_end: &FrontEndState, client: &McpClient, request: &Request) -> Result<RawJson, RpcError> {
    let unissued = || invalid("`cursor` was not issued by this gateway, or its task is no longer kept");
    let cursor = request.params.as_ref().and_then(|params| params.member("cursor"));
    let cursor = cursor.filter(|cursor| cursor.as_str() != "null");
    let after = match &cursor {
        Some(cursor) => Some(cursor.string().ok_or_else(unissued)?),
        None => None,
    };
    let page = front_end.engine.call_tasks().page(&client.caller, after.as_deref()).await;
    let page = page.map_err(failed)?.ok_or_else(unissued)?;
    let mut listed = Vec::with_capacity(page.ids.len());
    for id in &page.ids {
        let found = front_end.engine.call_tasks().find(&client.caller, id).await.map_err(failed)?;
        let visible = found.filter(|record| tasks::is_visible(front_end, &client.caller, record));
        listed.extend(visible.map(|record| described(front_end, &record)));
    }
    let mut writer = ObjectWriter::default();
    writer.list("tasks", &listed);
    if let Some(next) = page.next {
        writer.text("nextCursor", &next);
    }
    Ok(writer.finish())
}

/// Cancels a task, and waits for its end.
async fn cancelled(
    front_end: &FrontEndState,
    client: &McpClient,
    record: CallTaskRecord,
) -> Result<CallTaskRecord, RpcError> {
    tasks::cancel(front_end, &client.caller, &record).await?;
    let until = Instant::now() + CANCEL_WITHIN;
    let mut current = record;
    while !current.status.is_final() {
        let changed = front_end.engine.call_tasks().next_change(&client.caller, &current);
        match timeout_at(until, changed).await {
            Ok(changed) => current = changed.map_err(failed)?.ok_or_else(unknown)?,
            // The gateway that runs the call reads the cancellation later.
            Err(_) => break,
        }
    }
    Ok(current)
}

/// Begins `tasks/result`: asks the client the questions of the task, and answers with the result when the task has ended.
pub(super) async fn follow(
    front_end: &Arc<FrontEndState>,
    client: &McpClient,
    request: &Request,
) -> Result<OngoingCall, RpcError> {
    let record = tasks::find(front_end, &client.caller, request).await?;
    let (link, events) = CallLink::new();
    let work = Box::pin(follow_to_end(front_end.clone(), client.clone(), record, link));
    Ok(OngoingCall { work, events })
}

async fn follow_to_end(
    front_end: Arc<FrontEndState>,
    client: McpClient,
    mut record: CallTaskRecord,
    link: CallLink,
) -> Result<Answer, Problem> {
    let call_tasks = front_end.engine.call_tasks();
    let id = record.id.to_string();
    let mut asked: HashSet<String> = HashSet::new();
    let mut answers = FuturesUnordered::new();
    while !record.status.is_final() {
        let open = open_questions(&record, &client);
        // A server may ask a question with the same key again.
        asked.retain(|key| open.iter().any(|question| question.key == *key));
        for TaskQuestion { key, method, params } in open {
            if asked.insert(key.clone()) {
                let question = link.question(&method, Some(params));
                answers.push(async move { (key, question.answer().await) });
            }
        }
        let next = tokio::select! {
            Some((key, outcome)) = answers.next() => {
                if let Some(response) = response_to(outcome) {
                    let mut responses = ObjectWriter::default();
                    responses.raw(&key, &response);
                    call_tasks.answer(&client.caller, &id, responses.finish()).await?;
                }
                call_tasks.find(&client.caller, &id).await?
            }
            changed = call_tasks.next_change(&client.caller, &record) => changed?,
        };
        match next {
            Some(next) => record = next,
            None => return Ok(Answer::Error(unknown())),
        }
    }
    // The rights may have changed while the client waited.
    match tasks::may_follow(&front_end, &client.caller, &record).await {
        true => Ok(answer_of(&record, &client)),
        false => Ok(Answer::Error(unknown())),
    }
}

/// An open question of a task, as the client is asked it.
struct TaskQuestion {
    key: String,
    method: String,
    params: RawJson,
}

/// The open questions of a task that the client can answer.
fn open_questions(record: &CallTaskRecord, client: &McpClient) -> Vec<TaskQuestion> {
    let members = record.requests().and_then(|requests| requests.members().ok()).unwrap_or_default();
    let questions = members.into_iter().filter_map(|member| {
        let method = member.value.member("method")?;
        let method = method.string()?.into_owned();
        let params = member.value.member("params").filter(RawJson::is_object);
        let params = params.unwrap_or_else(RawJson::empty_object);
        let can = client.facts.can_answer(&method, Some(&params));
        can.then(|| TaskQuestion { key: member.key, method, params: related(&params, record.id) })
    });
    questions.collect()
}

/// The answer to a question as the task takes it; `None` if the client went away, or was asked too much.
fn response_to(outcome: Result<RawJson, RpcError>) -> Option<RawJson> {
    match outcome {
        Ok(answer) => Some(answer),
        Err(error) if matches!(error.code, INTERNAL_ERROR | REFUSED) => None,
        Err(error) => {
            let mut refusal = ObjectWriter::default();
            refusal.raw(REFUSAL, &error.to_raw());
            Some(refusal.finish())
        }
    }
}

/// The answer of a call whose task has ended.
fn answer_of(record: &CallTaskRecord, client: &McpClient) -> Answer {
    let lost = |why: &str| Answer::Error(RpcError::new(INTERNAL_ERROR, why));
    match (record.status, record.outcome()) {
        (CallTaskStatus::Completed, Some(result)) => {
            let result = match result.has("resultType") {
                true => {
                    let facts = ResultFacts { has_extras: true, odd_structure: true, ..Default::default() };
                    translate::result(&result, Era::Modern, facts, client, "tools/call")
                }
                false => result,
            };
            Answer::Result {
                result: related(&result, record.id),
                era: Era::Legacy,
                facts: ResultFacts::default(),
                warnings: Vec::new(),
            }
        }
        (CallTaskStatus::Failed, Some(error)) => match RpcError::from_raw(&error) {
            Some(error) => Answer::Error(error),
            None => lost("the error of the task cannot be read"),
        },
        (CallTaskStatus::Cancelled, _) => lost("the task was cancelled"),
        _ => lost("the task has no result"),
    }
}

/// A message or result whose `_meta` names its task.
fn related(object: &RawJson, task: Uuid) -> RawJson {
    let mut named = ObjectWriter::default();
    named.text("taskId", &task.to_string());
    let meta = object.member("_meta").filter(RawJson::is_object).unwrap_or_else(RawJson::empty_object);
    let meta = with_members(&meta, &[(RELATED_TASK, named.finish())]);
    let with = meta.and_then(|meta| with_members(object, &[("_meta", meta)]));
    with.unwrap_or_else(|_| object.clone())
}

/// The result of a call that runs as a task.
pub(super) fn created(front_end: &FrontEndState, record: &CallTaskRecord) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(256);
    writer.raw("task", &described(front_end, record));
    writer.finish()
}

/// A task in the words of the revision.
fn described(front_end: &FrontEndState, record: &CallTaskRecord) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(256);
    writer.text("taskId", &record.id.to_string()).text("status", status_of(record));
    // Some SDKs do not ask for the result of a task that has failed.
    if let Some(message) = record.message.clone().or_else(|| error_of(record)) {
        writer.text("statusMessage", &message);
    }
    writer
        .text("createdAt", &written_time(record.created_ms))
        .text("lastUpdatedAt", &written_time(record.updated_ms))
        .number("ttl", front_end.engine.call_tasks().lifetime_ms())
        .number("pollInterval", POLL_INTERVAL_MS);
    writer.finish()
}

/// The state of a task. In this revision, a call whose tool reports an error has failed.
fn status_of(record: &CallTaskRecord) -> &'static str {
    match record.status {
        CallTaskStatus::Completed if record.outcome().is_some_and(|result| is_error(&result)) => {
            CallTaskStatus::Failed.as_str()
        }
        status => status.as_str(),
    }
}

fn is_error(result: &RawJson) -> bool {
    result.member("isError").is_some_and(|flag| flag.as_str() == "true")
}

/// The error of a task that has failed, in words.
fn error_of(record: &CallTaskRecord) -> Option<String> {
    let outcome = record.outcome()?;
    let text = match record.status {
        CallTaskStatus::Failed => outcome.member("message")?,
        CallTaskStatus::Completed if is_error(&outcome) => {
            outcome.member("content")?.elements().ok()?.first()?.member("text")?
        }
        _ => return None,
    };
    Some(text.string()?.chars().take(MAX_ERROR).collect())
}
