//! The record of a call that its client follows as an MCP task, as it is stored.

use serde::{Deserialize, Serialize};
use toolbooth_core::json::RawJson;
use toolbooth_store::{WorkKind, WorkRow};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::INTERNAL_ERROR;
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

/// A call that its client follows as a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallTaskRecord {
    /// The id of the task, which is also the id of the call.
    pub id: Uuid,
    /// The user who made the call.
    pub user: String,
    /// The exposed name of the tool.
    pub tool: String,
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
    pub(super) fn new(id: Uuid, user: &str, tool: &str, process: Uuid, now_ms: i64) -> Self {
        Self {
            id,
            user: user.to_owned(),
            tool: tool.to_owned(),
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

    /// The row of the record.
    pub(super) fn row(&self) -> Result<WorkRow, serde_json::Error> {
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
            body: serde_json::to_string(self)?,
        })
    }

    /// The record of a row.
    pub(super) fn read(row: &WorkRow) -> Option<Self> {
        serde_json::from_str(&row.body)
            .inspect_err(|error| tracing::error!(id = %row.id, "an MCP task cannot be read: {error}"))
            .ok()
    }
}
