//! The record of a call that its client follows as an MCP task, as it is stored.

use serde::{Deserialize, Serialize};
use toolbooth_core::exposure::meta;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_store::{WorkKind, WorkRow};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::INTERNAL_ERROR;
use toolbooth_wire::state::Sealer;
use uuid::Uuid;

/// The state of a call task, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallTaskStatus {
    /// The call runs, or waits for an approval.
    Working,
    /// The client has questions to answer.
    InputRequired,
    /// The call has a result; it may be an error of the tool.
    Completed,
    /// The call ended with a protocol error.
    Failed,
    /// The client cancelled it.
    Cancelled,
}

impl CallTaskStatus {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the task has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// How a call task ended.
#[derive(Debug, Clone)]
pub enum CallTaskEnd {
    /// With a result.
    Completed(RawJson),
    /// With a protocol error.
    Failed(RpcError),
    /// By the client's request.
    Cancelled,
}

/// Requests for the gateway that runs the call, stored by another gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredCommands {
    /// The client cancelled the task.
    pub(super) cancel: bool,
    /// Answers of the client, as JSON objects.
    pub(super) answers: Vec<String>,
}

/// One page of a user's tasks.
#[derive(Debug, Clone)]
pub struct CallTaskPage {
    /// The ids of the tasks, newest first. Results can have megabytes, so the tasks are read one by one.
    pub ids: Vec<String>,
    /// The id of the last one, if there are more.
    pub next: Option<String>,
}

/// The tool of a call that becomes a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledTool {
    /// The name, as the client called it.
    pub name: String,
    /// The canonical id, which names the same tool for all callers; `None` if it is not known.
    pub id: Option<String>,
}

/// A call that its client follows as a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallTaskRecord {
    /// The id of the task, which is also the id of the call.
    pub id: Uuid,
    /// The user who made the call.
    pub user: String,
    /// The name of the tool, as the client called it.
    pub tool: String,
    /// The canonical id of the tool, which names the same tool for all callers; `None` if it is not known.
    #[serde(default)]
    pub tool_id: Option<String>,
    /// Its state.
    pub status: CallTaskStatus,
    /// What the call does or waits for, in words.
    pub message: Option<String>,
    /// When it was created.
    pub created_ms: i64,
    /// When it was changed last.
    pub updated_ms: i64,
    /// The open questions, as a JSON object.
    requests: Option<String>,
    /// The result or the error, as JSON.
    outcome: Option<String>,
    /// The process that runs the call.
    pub(super) process: Uuid,
    /// How long that process is known to live.
    pub(super) lease_until_ms: i64,
    #[serde(default)]
    pub(super) commands: StoredCommands,
}

impl CallTaskRecord {
    /// A task that begins now.
    pub(super) fn new(id: Uuid, user: &str, tool: CalledTool, process: Uuid, now_ms: i64) -> Self {
        Self {
            id,
            user: user.to_owned(),
            tool: tool.name,
            tool_id: tool.id,
            status: CallTaskStatus::Working,
            message: None,
            created_ms: now_ms,
            updated_ms: now_ms,
            requests: None,
            outcome: None,
            process,
            lease_until_ms: now_ms,
            commands: StoredCommands::default(),
        }
    }

    /// The open questions.
    pub fn requests(&self) -> Option<RawJson> {
        self.requests.clone().and_then(|requests| RawJson::parse(requests).ok())
    }

    /// The result or the error.
    pub fn outcome(&self) -> Option<RawJson> {
        self.outcome.clone().and_then(|outcome| RawJson::parse(outcome).ok())
    }

    /// Sets the open questions.
    pub(super) fn ask(&mut self, requests: Option<RawJson>) {
        self.status = match &requests {
            Some(_) => CallTaskStatus::InputRequired,
            None => CallTaskStatus::Working,
        };
        self.requests = requests.map(|requests| requests.as_str().to_owned());
    }

    /// Ends the task.
    pub(super) fn end(&mut self, end: &CallTaskEnd) {
        (self.status, self.outcome) = match end {
            CallTaskEnd::Completed(result) => (CallTaskStatus::Completed, Some(result.as_str().to_owned())),
            CallTaskEnd::Failed(error) => (CallTaskStatus::Failed, Some(error.to_raw().as_str().to_owned())),
            CallTaskEnd::Cancelled => (CallTaskStatus::Cancelled, None),
        };
        (self.requests, self.message) = (None, None);
        self.commands = StoredCommands::default();
    }

    /// Ends a task whose gateway has ended.
    pub(super) fn lose(&mut self) {
        let text = "the gateway that made this call has ended, so the outcome of the call is unknown";
        let data = serde_json::json!({"toolbooth": {
            "code": "call.outcome-unknown",
            "hint": format!("`toolbooth audit` and GET /calls/{} show what is known of it", self.id),
        }});
        let error = RpcError::new(INTERNAL_ERROR, text).with_data(RawJson::from_value(&data));
        self.end(&CallTaskEnd::Failed(error));
    }

    /// Notes a change at this time, which is later than all earlier ones.
    pub(super) fn touch(&mut self, now_ms: i64) {
        self.updated_ms = now_ms.max(self.updated_ms.saturating_add(1));
    }

    /// The row of the record. Its body is sealed, because it has the result of the call and the answers of the client.
    pub(super) fn row(&self, sealer: &Sealer) -> Result<WorkRow, Problem> {
        let body = serde_json::to_vec(self).map_err(|error| unwritable(&error.to_string()))?;
        let body = sealer.seal(&body, &context(&self.id.to_string(), &self.user));
        Ok(WorkRow {
            kind: WorkKind::CallTask,
            id: self.id.to_string(),
            parent: None,
            user: self.user.clone(),
            name: self.tool.clone(),
            state: self.status.as_str().to_owned(),
            due_ms: None,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            body: body.ok_or_else(|| unwritable("the system has no random numbers"))?,
        })
    }

    /// The record of a row.
    pub(super) fn read(row: &WorkRow, sealer: &Sealer) -> Option<Self> {
        // A sealed body never begins with a brace.
        let record = if row.body.starts_with('{') {
            Self::read_plain(row)
        } else {
            let body = sealer.open_stored(&row.body, &context(&row.id, &row.user));
            body.and_then(|body| serde_json::from_slice(&body).ok())
        };
        if record.is_none() {
            tracing::error!(id = %row.id, "an MCP task cannot be read");
        }
        record
    }

    /// The record of a row of the previous version, which did not seal its rows. Can be removed after one release: a row
    /// is kept for a day. Like the rows of jobs and held calls, such a row is trusted, because a program that can write to the
    /// database can also write those. Commands in it are left out all the same: no process that reads sealed rows gets
    /// commands in a plain one.
    fn read_plain(row: &WorkRow) -> Option<Self> {
        let record: Self = serde_json::from_str(&row.body).ok()?;
        let is_of_row = record.id.to_string() == row.id && record.user == row.user;
        // A row for `mcp_tool_call` does not say which tool was called, so it cannot be checked who may see its result.
        let is_known_tool = record.tool != meta::CALL;
        (is_of_row && is_known_tool).then(|| Self { commands: StoredCommands::default(), ..record })
    }
}

/// Binds the sealed body of a row to the task and its user.
fn context(id: &str, user: &str) -> Vec<u8> {
    format!("call task {id} of {user}").into_bytes()
}

fn unwritable(why: &str) -> Problem {
    Problem {
        code: "job.unreadable",
        blame: Blame::Gateway,
        message: format!("a record cannot be written: {why}"),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_task_does_not_reveal_its_result() {
        let sealer = Sealer::new(&[7; 32]);
        let tool = CalledTool { name: "mail_read".into(), id: Some("mcp.mail.read".into()) };
        let mut record = CallTaskRecord::new(Uuid::now_v7(), "ann", tool, Uuid::now_v7(), 1);
        record.end(&CallTaskEnd::Completed(RawJson::trusted(r#"{"content":"s3cret"}"#)));
        let row = record.row(&sealer).expect("a row");
        assert!(!row.body.contains("s3cret") && !row.body.contains("content"));
        let read = CallTaskRecord::read(&row, &sealer).expect("the same key opens it");
        assert_eq!(read.outcome().map(|outcome| outcome.as_str().to_owned()), record.outcome);
        // A row that was changed to name another user, or one of another key, does not open.
        let forged = WorkRow { user: "eve".into(), ..row.clone() };
        assert!(CallTaskRecord::read(&forged, &sealer).is_none());
        assert!(CallTaskRecord::read(&row, &Sealer::new(&[8; 32])).is_none());
    }

    #[test]
    fn a_row_of_the_previous_version_is_read() {
        let sealer = Sealer::new(&[7; 32]);
        let plain = |tool: &str| {
            let tool = CalledTool { name: tool.into(), id: None };
            let mut record = CallTaskRecord::new(Uuid::now_v7(), "ann", tool, Uuid::now_v7(), 1);
            record.commands.cancel = true;
            let body = serde_json::to_string(&record).expect("JSON");
            WorkRow { body, ..record.row(&sealer).expect("a row") }
        };
        let row = plain("mail_read");
        let read = CallTaskRecord::read(&row, &sealer).expect("a plain row");
        assert_eq!((read.id.to_string(), read.tool.as_str()), (row.id.clone(), "mail_read"));
        assert_eq!(read.commands, StoredCommands::default());
        let sealed = read.row(&sealer).expect("a row");
        assert!(!sealed.body.starts_with('{'), "it is sealed when it is written again");
        let forged = WorkRow { user: "eve".into(), ..row };
        assert!(CallTaskRecord::read(&forged, &sealer).is_none());
        assert!(CallTaskRecord::read(&plain(meta::CALL), &sealer).is_none());
    }
}
