//! A task as its runner sees it: it publishes the state of the call, and receives the commands of the client.

use super::record::{CallTaskEnd, CallTaskRecord, StoredCommands};
use super::{CallTasks, LEASE_MS, MAX_TRIES};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_store::{MAX_WORK_BYTES, WorkChange, WorkUpdate};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::INTERNAL_ERROR;

/// How often a gateway on a shared store renews its lease and reads the commands that others left.
const HEARTBEAT: Duration = Duration::from_secs(4);
/// How often, and for how long, the end of a task is written again if the store fails.
const SAVE_AGAIN: Duration = Duration::from_secs(1);
const MAX_SAVES: u32 = 120;
/// The maximum length of the words on the state, in characters.
const MAX_MESSAGE: usize = 500;

/// A command of the client.
#[derive(Debug)]
pub enum TaskCommand {
    /// Answers to questions, by key.
    Answers(RawJson),
    /// End the call.
    Cancel,
}

/// A task whose call runs in this process. Dropping it without [`Self::end`] leaves the task with an unknown outcome.
#[derive(Debug)]
pub struct RunningCallTask {
    tasks: Arc<CallTasks>,
    record: CallTaskRecord,
    /// When the row was changed last, by which its next change is recognized.
    stored_ms: i64,
    commands: mpsc::Receiver<(TaskCommand, oneshot::Sender<()>)>,
    /// Commands that another gateway left.
    left: VecDeque<TaskCommand>,
    next_beat: Instant,
}

impl RunningCallTask {
    pub(super) fn new(
        tasks: Arc<CallTasks>,
        record: CallTaskRecord,
        commands: mpsc::Receiver<(TaskCommand, oneshot::Sender<()>)>,
    ) -> Self {
        let (stored_ms, next_beat) = (record.updated_ms, Instant::now() + HEARTBEAT);
        Self { tasks, record, stored_ms, commands, left: VecDeque::new(), next_beat }
    }

    /// The task as it is.
    pub fn record(&self) -> &CallTaskRecord {
        &self.record
    }

    /// The next command, and a channel on which to confirm that it was carried out. Cancel-safe.
    pub async fn next_command(&mut self) -> (TaskCommand, Option<oneshot::Sender<()>>) {
        loop {
            if let Some(command) = self.left.pop_front() {
                return (command, None);
            }
            let is_shared = self.tasks.store.is_shared();
            tokio::select! {
                biased;
                Some((command, done)) = self.commands.recv() => return (command, Some(done)),
                () = sleep_until(self.next_beat), if is_shared => {
                    self.next_beat = Instant::now() + HEARTBEAT;
                    if let Err(problem) = self.save().await {
                        tracing::warn!(task = %self.record.id, "an MCP task could not be renewed: {}", problem.message);
                    }
                }
            }
        }
    }

    /// Publishes the open questions; `None` if there are none.
    pub async fn ask(&mut self, requests: Option<RawJson>) {
        self.record.ask(requests);
        // Requests to this gateway read it from memory; the row is for other gateways.
        if let Err(problem) = self.save().await {
            tracing::warn!(task = %self.record.id, "an MCP task could not be stored: {}", problem.message);
        }
    }

    /// Publishes what the call does, in words.
    pub fn describe(&mut self, message: &str) {
        self.record.message = Some(message.chars().take(MAX_MESSAGE).collect());
        self.record.touch(self.tasks.clock.now_ms());
        self.publish(&self.record);
    }

    /// Ends the task. The end is stored before the task is forgotten here.
    pub async fn end(mut self, end: CallTaskEnd) {
        self.record.end(&end);
        if self.is_too_long().await {
            let text = "the result of the call is too long to be kept for a task";
            self.record.end(&CallTaskEnd::Failed(RpcError::new(INTERNAL_ERROR, text)));
        }
        for _ in 0..MAX_SAVES {
            match self.save().await {
                Ok(()) => return,
                Err(problem) => {
                    tracing::error!(task = %self.record.id, "the end of an MCP task could not be stored: {}", problem.message);
                }
            }
            sleep(SAVE_AGAIN).await;
        }
    }

    /// Whether the store does not accept the record.
    async fn is_too_long(&self) -> bool {
        let Ok(sealer) = self.tasks.sealer().await else { return false };
        self.record.row(&sealer).is_ok_and(|row| row.body.len() > MAX_WORK_BYTES)
    }

    /// Writes the record, and takes the commands that another gateway left in the row.
    async fn save(&mut self) -> Result<(), Problem> {
        let sealer = self.tasks.sealer().await?;
        for _ in 0..MAX_TRIES {
            let expected_ms = self.stored_ms;
            let now_ms = self.tasks.clock.now_ms();
            let mut next = self.record.clone();
            next.touch(now_ms);
            next.lease_until_ms = now_ms.saturating_add(LEASE_MS);
            self.publish(&next);
            let row = next.row(&sealer)?;
            let change = WorkChange::Replace { expected_ms, row };
            let update = self.tasks.store.change_work(vec![change], None).await;
            match update.map_err(|error| Problem::of(&error))? {
                WorkUpdate::Won => {
                    self.stored_ms = next.updated_ms;
                    self.record = next;
                    return Ok(());
                }
                WorkUpdate::Lost(Some(row)) => {
                    self.stored_ms = row.updated_ms;
                    self.record.updated_ms = self.record.updated_ms.max(row.updated_ms);
                    if let Some(theirs) = CallTaskRecord::read(&row, &sealer) {
                        self.take(theirs.commands);
                    }
                }
                // It was deleted because of its age.
                WorkUpdate::Lost(None) => return Ok(()),
            }
        }
        Ok(())
    }

    fn take(&mut self, commands: StoredCommands) {
        let answers = commands.answers.into_iter().filter_map(|text| RawJson::parse(text).ok());
        self.left.extend(answers.map(TaskCommand::Answers));
        if commands.cancel && self.record.status.is_final() {
            // The client cancelled the task before its end was stored.
            self.record.end(&CallTaskEnd::Cancelled);
        } else if commands.cancel {
            self.left.push_back(TaskCommand::Cancel);
        }
    }

    /// Shows the record to requests of the client.
    fn publish(&self, record: &CallTaskRecord) {
        if let Some(live) = self.tasks.running().get_mut(&record.id) {
            live.record = record.clone();
            live.changes.send_replace(());
        }
    }
}

impl Drop for RunningCallTask {
    fn drop(&mut self) {
        self.tasks.running().remove(&self.record.id);
        self.tasks.ended.notify_waiters();
    }
}
