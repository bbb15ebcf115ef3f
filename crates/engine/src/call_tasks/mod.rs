//! Calls that their clients follow as MCP tasks: the client gets a task id instead of the result, and asks for the state
//! of the task, answers its questions or cancels it in later requests.
//!
//! The call itself runs in the ordinary pipeline. A task is a row of the store before its id is returned, and its end is
//! a row, too. If the gateway ends while the call runs, the task has failed with an unknown outcome. Gateways that share
//! a store find each other's tasks there: requests for a task that another gateway runs are left in its row, which that
//! gateway reads every few seconds.

mod record;
mod running;

pub use record::{CallTaskEnd, CallTaskPage, CallTaskRecord, CallTaskStatus, CalledTool};
pub use running::{RunningCallTask, TaskCommand};

use crate::keys::sealing_key;
use crate::shared_state::SharedState;
use record::StoredCommands;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OnceCell, mpsc, oneshot, watch};
use tokio::time::sleep;
use toolbooth_core::caller::Caller;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_store::{
    CALL_TASK_MS, RowBodies, Store, StoreError, WorkChange, WorkFilter, WorkKind, WorkRow, WorkUpdate,
};
use toolbooth_wire::state::Sealer;
use uuid::Uuid;

/// The name of the key in the store that seals tasks.
const KEY_NAME: &str = "call-task-key";
/// The most running tasks.
const MAX_RUNNING: usize = 2048;
/// The most running tasks of one user.
const MAX_RUNNING_OF_USER: usize = MAX_RUNNING / 8;
/// The most requests that wait for the runner of one task.
const MAX_COMMANDS: usize = 16;
/// How long a gateway is known to live after it has last written the row of a task.
const LEASE_MS: i64 = 20_000;
/// How often a change of a row is tried again if another gateway was faster.
const MAX_TRIES: usize = 5;
/// The number of tasks on a page of a list.
const PAGE_SIZE: usize = 20;
/// How often the row of a task that another gateway runs is read while a client waits for a change.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The tasks of all clients.
pub struct CallTasks {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    /// The id of this process, which is new at each start.
    process: Uuid,
    running: Mutex<HashMap<Uuid, LiveTask>>,
    /// Is notified when a task has ended here.
    ended: Notify,
    sealer: OnceCell<Sealer>,
}

impl std::fmt::Debug for CallTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallTasks").finish_non_exhaustive()
    }
}

/// A task whose call runs in this process.
#[derive(Debug)]
struct LiveTask {
    record: CallTaskRecord,
    commands: mpsc::Sender<(TaskCommand, oneshot::Sender<()>)>,
    /// Is notified of each change of the record, and is closed when the task has ended.
    changes: watch::Sender<()>,
}

impl CallTasks {
    pub(crate) fn new(shared: &SharedState) -> Self {
        Self {
            clock: shared.clock.clone(),
            store: shared.store.clone(),
            process: Uuid::new_v4(),
            running: Mutex::default(),
            ended: Notify::new(),
            sealer: OnceCell::new(),
        }
    }

    /// How long a task is kept after its creation.
    pub fn lifetime_ms(&self) -> u64 {
        CALL_TASK_MS.unsigned_abs()
    }

    /// Waits until no task runs in this process.
    pub async fn wait_for_running(&self) {
        loop {
            // Created first, so that a task that ends in between is not missed.
            let ended = self.ended.notified();
            if self.running().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Stores a new task for a running call. `None` if the user has too many, or if it cannot be stored: then the client
    /// waits for the call as without tasks.
    pub async fn create(
        self: &Arc<Self>,
        caller: &Caller,
        call: Uuid,
        tool: CalledTool,
    ) -> Option<RunningCallTask> {
        let now_ms = self.clock.now_ms();
        let mut record = CallTaskRecord::new(call, &caller.user, tool, self.process, now_ms);
        record.lease_until_ms = now_ms.saturating_add(LEASE_MS);
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        {
            let mut running = self.running();
            let of_user = running.values().filter(|live| live.record.user == *caller.user).count();
            if running.len() >= MAX_RUNNING || of_user >= MAX_RUNNING_OF_USER || running.contains_key(&call) {
                return None;
            }
            let changes = watch::Sender::new(());
            running.insert(call, LiveTask { record: record.clone(), commands, changes });
        }
        // Removes the entry again if the row cannot be written.
        let task = RunningCallTask::new(self.clone(), record, receiver);
        let sealer =
            self.sealer().await.inspect_err(|problem| tracing::error!("{}", problem.message)).ok()?;
        let row = task.record().row(&sealer).ok()?;
        let mut added = self.store.change_work(vec![WorkChange::Add(row.clone())], None).await;
        if matches!(added, Err(StoreError::Full { .. })) {
            self.remove_oldest(caller).await;
            added = self.store.change_work(vec![WorkChange::Add(row)], None).await;
        }
        match added {
            Ok(WorkUpdate::Won) => Some(task),
            Ok(WorkUpdate::Lost(_)) => None,
            Err(error) => {
                tracing::debug!(user = %caller.user, "a call does not become a task: {error}");
                None
            }
        }
    }

    /// Removes the oldest ended task of a user who has as many as are kept.
    async fn remove_oldest(&self, caller: &Caller) {
        let ended = [CallTaskStatus::Completed, CallTaskStatus::Failed, CallTaskStatus::Cancelled];
        let filter = WorkFilter {
            user: Some(caller.user.to_string()),
            states: ended.map(|status| status.as_str().to_owned()).into(),
            bodies: RowBodies::LeftOut,
            ..WorkFilter::of(WorkKind::CallTask)
        };
        // Newest first.
        let rows = self.store.work_rows(filter).await.unwrap_or_default();
        if let Some(WorkRow { kind, id, updated_ms, .. }) = rows.into_iter().next_back() {
            let change = WorkChange::Remove { kind, id, expected_ms: updated_ms };
            let _ = self.store.change_work(vec![change], None).await;
        }
    }

    /// The task with this id, if it is one of the caller's.
    pub async fn find(&self, caller: &Caller, id: &str) -> Result<Option<CallTaskRecord>, Problem> {
        let Ok(id) = id.parse::<Uuid>() else { return Ok(None) };
        if let Some(live) = self.running().get(&id) {
            return Ok((live.record.user == *caller.user).then(|| live.record.clone()));
        }
        let Some(record) = self.stored(caller, id).await? else { return Ok(None) };
        if record.status.is_final() || self.is_alive(&record) {
            return Ok(Some(record));
        }
        self.change_stored(caller, record, CallTaskRecord::lose).await
    }

    /// One page of the caller's tasks, newest first, after the task with the id `after`; `None` if the caller has no such
    /// task.
    pub async fn page(&self, caller: &Caller, after: Option<&str>) -> Result<Option<CallTaskPage>, Problem> {
        let before = match after {
            Some(id) => {
                let Ok(id) = id.parse::<Uuid>() else { return Ok(None) };
                if self.stored(caller, id).await?.is_none() {
                    return Ok(None);
                }
                Some(id.to_string())
            }
            None => None,
        };
        let filter = WorkFilter {
            user: Some(caller.user.to_string()),
            before,
            // One more, which shows whether there is another page.
            limit: u32::try_from(PAGE_SIZE + 1).ok(),
            bodies: RowBodies::LeftOut,
            ..WorkFilter::of(WorkKind::CallTask)
        };
        let mut rows = self.store.work_rows(filter).await.map_err(|error| Problem::of(&error))?;
        let has_more = rows.len() > PAGE_SIZE;
        rows.truncate(PAGE_SIZE);
        let next = if has_more { rows.last().map(|row| row.id.clone()) } else { None };
        Ok(Some(CallTaskPage { ids: rows.into_iter().map(|row| row.id).collect(), next }))
    }

    /// Waits until a task is no longer as it was seen, and returns it. Returns a task that has ended at once, and `None` if
    /// the caller has no such task any more. Cancel-safe.
    pub async fn next_change(
        &self,
        caller: &Caller,
        seen: &CallTaskRecord,
    ) -> Result<Option<CallTaskRecord>, Problem> {
        loop {
            // Subscribed first, so that a change in between is not missed.
            let changes = self.running().get(&seen.id).map(|live| live.changes.subscribe());
            let current = self.find(caller, &seen.id.to_string()).await?;
            let Some(current) = current else { return Ok(None) };
            if current.status.is_final() || current.updated_ms != seen.updated_ms {
                return Ok(Some(current));
            }
            match changes {
                // Fails if the task has ended here; its row has the end.
                Some(mut changes) => {
                    let _ = changes.changed().await;
                }
                None => sleep(READ_AGAIN).await,
            }
        }
    }

    /// Passes answers of the client on to the call of a task; `None` if the caller has no such task. Answers that no
    /// question waits for are ignored.
    pub async fn answer(&self, caller: &Caller, id: &str, responses: RawJson) -> Result<Option<()>, Problem> {
        let text = responses.as_str().to_owned();
        self.command(caller, id, TaskCommand::Answers(responses), |commands| {
            if commands.answers.len() < MAX_COMMANDS {
                commands.answers.push(text.clone());
            }
        })
        .await
    }

    /// Cancels the call of a task, unless it has ended; `None` if the caller has no such task.
    pub async fn cancel(&self, caller: &Caller, id: &str) -> Result<Option<()>, Problem> {
        self.command(caller, id, TaskCommand::Cancel, |commands| commands.cancel = true).await
    }

    /// Gives a command to the runner of a task, here or in another gateway.
    async fn command(
        &self,
        caller: &Caller,
        id: &str,
        command: TaskCommand,
        leave: impl Fn(&mut StoredCommands),
    ) -> Result<Option<()>, Problem> {
        let Some(record) = self.find(caller, id).await? else { return Ok(None) };
        if record.status.is_final() {
            return Ok(Some(()));
        }
        let sender = self.running().get(&record.id).map(|live| live.commands.clone());
        match sender {
            Some(sender) => {
                let (done, is_done) = oneshot::channel();
                // Both fail only if the task has just ended.
                if sender.send((command, done)).await.is_ok() {
                    let _ = is_done.await;
                }
            }
            None => {
                self.change_stored(caller, record, |record| leave(&mut record.commands)).await?;
            }
        }
        Ok(Some(()))
    }

    /// The row of a task of the caller.
    async fn stored(&self, caller: &Caller, id: Uuid) -> Result<Option<CallTaskRecord>, Problem> {
        let row = self.store.work(WorkKind::CallTask, &id.to_string()).await;
        let row = row.map_err(|error| Problem::of(&error))?;
        let row = row.filter(|row| row.user == *caller.user);
        let is_kept = |record: &CallTaskRecord| self.clock.now_ms() - record.created_ms <= CALL_TASK_MS;
        let Some(row) = row else { return Ok(None) };
        Ok(CallTaskRecord::read(&row, &self.sealer().await?).filter(is_kept))
    }

    /// Changes the row of a task that this process does not run, unless it has ended.
    async fn change_stored(
        &self,
        caller: &Caller,
        mut record: CallTaskRecord,
        change: impl Fn(&mut CallTaskRecord),
    ) -> Result<Option<CallTaskRecord>, Problem> {
        for _ in 0..MAX_TRIES {
            if record.status.is_final() {
                break;
            }
            let expected_ms = record.updated_ms;
            change(&mut record);
            record.touch(self.clock.now_ms());
            let row = record.row(&self.sealer().await?)?;
            let changed = self.store.change_work(vec![WorkChange::Replace { expected_ms, row }], None).await;
            match changed.map_err(|error| Problem::of(&error))? {
                WorkUpdate::Won => break,
                WorkUpdate::Lost(_) => match self.stored(caller, record.id).await? {
                    Some(current) => record = current,
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(record))
    }

    /// Seals the rows of tasks.
    async fn sealer(&self) -> Result<Sealer, Problem> {
        let made = self.sealer.get_or_try_init(|| async {
            sealing_key(&*self.store, KEY_NAME).await.map(|key| Sealer::new(&key))
        });
        made.await.cloned()
    }

    /// Whether the process that runs the call of a stored task may still do so.
    fn is_alive(&self, record: &CallTaskRecord) -> bool {
        // One of this process would be among the running ones.
        record.process != self.process
            && self.store.is_shared()
            && record.lease_until_ms > self.clock.now_ms()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Uuid, LiveTask>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
