//! The only writer of the database: commits queued changes in groups, and answers each caller after the commit.
//!
//! A commit waits for the disk once, however many changes it holds. Meanwhile the next group accumulates in the
//! queue, so a change is never delayed to make a group larger. Audit entries without a waiting caller are the
//! exception: they are already in the spool, and wait there for up to 100 ms to be written in a batch.

use super::file::{DatabaseFile, discard};
use super::keys::KeyFile;
use super::lock::Lock;
use super::rows::audit::AuditAppender;
use super::rows::change::{ChangeEffect, ChangeResult, StoreChange};
use super::rows::changes::{write, write_intent};
use super::rows::marks;
use super::spool::{NumberedEntry, Spool, SpoolLeftover};
use crate::records::Intent;
use crate::{DatabaseFailure, StoreError, sql};
use sqlx::{Connection, SqliteConnection};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use toolbooth_core::audit::AuditEntry;
use uuid::Uuid;

/// The capacity of the queue; further callers wait for space.
const QUEUE: usize = 4_096;
/// The most changes in one commit.
const GROUP: usize = 2_048;
/// The number of spooled audit entries that are written without further delay.
const BATCH: usize = 1_000;
/// The longest time that spooled audit entries wait for a batch.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// The mark with the number of the last spool entry that is in the audit.
const SPOOL_MARK: &str = "spool";
/// The most audit entries that are queued for a retry after a commit failed.
const BACKLOG: usize = 10_000;

enum WriterJob {
    Write { change: StoreChange, answer: oneshot::Sender<ChangeResult> },
    Close { done: oneshot::Sender<()> },
}

/// The handle of the writer task.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<WriterJob>,
    shared: Arc<WriterShared>,
}

#[derive(Debug)]
struct WriterShared {
    spool: Spool,
    // Signals the first audit entry in the spool.
    noted: Notify,
    // Signals that a full batch is in the spool.
    batch_full: Notify,
    // The number of audit entries that wait for a retry.
    backlog: AtomicUsize,
}

impl Writer {
    pub(super) fn start(file: DatabaseFile, ready: WriterConnection, spool: Spool, lock: Lock) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let shared = Arc::new(WriterShared {
            spool,
            noted: Notify::new(),
            batch_full: Notify::new(),
            backlog: AtomicUsize::new(0),
        });
        let task = WriterTask {
            file,
            ready: Some(ready),
            backlog: Vec::new(),
            late_outcomes: Vec::new(),
            shared: shared.clone(),
            _lock: lock,
        };
        tokio::spawn(task.work(jobs));
        Self { queue, shared }
    }

    /// Queues a change and returns once it is on disk; waits while the queue is full.
    pub(super) async fn write(&self, change: StoreChange) -> ChangeResult {
        let (answer, verdict) = oneshot::channel();
        self.queue.send(WriterJob::Write { change, answer }).await.map_err(|_| StoreError::Closed)?;
        verdict.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Appends an audit entry to the spool without waiting for the disk.
    pub(super) async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        if self.shared.backlog.load(Ordering::Relaxed) >= BACKLOG {
            // The database cannot be written, and the backlog must not fill the memory: retry now, or refuse.
            self.write(StoreChange::Nothing).await?;
        }
        if self.queue.is_closed() {
            return Err(StoreError::Closed);
        }
        let (waiting, appended) = self.shared.spool.note(entry);
        if waiting == 1 {
            self.shared.noted.notify_one();
        } else if waiting >= BACKLOG {
            // The writer does not keep up, so this caller waits until it has.
            self.write(StoreChange::Nothing).await?;
        } else if waiting >= BATCH {
            self.shared.batch_full.notify_one();
        }
        if let Err(error) = appended {
            // The entry is in memory only and would not survive a kill, so this caller waits for the database.
            tracing::warn!(%error, "an audit entry could not be spooled");
            self.write(StoreChange::Nothing).await?;
        }
        Ok(())
    }

    /// Whether the writer is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Records in the spool that a call is about to be sent.
    pub(super) fn begin(&self, intent: Intent) -> Result<(), StoreError> {
        self.spooled(self.shared.spool.begin(intent))
    }

    /// Records in the spool that a call has ended.
    pub(super) fn end(&self, call: Uuid) -> Result<(), StoreError> {
        self.spooled(self.shared.spool.end(call))
    }

    fn spooled(&self, result: io::Result<()>) -> Result<(), StoreError> {
        if self.queue.is_closed() {
            return Err(StoreError::Closed);
        }
        result.map_err(|error| {
            tracing::warn!(%error, "the spool reported an error");
            StoreError::Failed { failure: failure(&error) }
        })
    }

    /// Commits queued changes, closes the database and releases its lock.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(WriterJob::Close { done }).await.is_ok() {
            let _ = closed.await;
        }
    }
}

/// The write connection, and the end of the audit as of its last commit.
#[derive(Debug)]
pub(super) struct WriterConnection {
    connection: SqliteConnection,
    appender: AuditAppender,
}

impl WriterConnection {
    pub(super) async fn connect(file: &DatabaseFile) -> Result<Self, StoreError> {
        Ok(Self { connection: file.connect_writer().await?, appender: AuditAppender::default() })
    }

    /// Opens the key file, whose keys are not in the database.
    pub(super) async fn keys(&mut self, file: &DatabaseFile) -> Result<KeyFile, StoreError> {
        KeyFile::open(file.path(), &mut self.connection, |error| file.fault(error)).await
    }

    /// Moves records that an earlier process left in the spool to the database; returns the empty spool.
    pub(super) async fn recover(&mut self, file: &DatabaseFile) -> Result<Spool, StoreError> {
        let broken =
            |error: &io::Error| StoreError::Open { path: file.path().to_owned(), reason: error.kind() };
        let (spool, left) = Spool::open(file.path()).map_err(|error| broken(&error))?;
        let moved = self.import(left).await;
        let last = moved.map_err(|error| file.fault(&error))?;
        spool.begin_after(last).map_err(|error| broken(&error))?;
        Ok(spool)
    }

    async fn import(&mut self, left: SpoolLeftover) -> Result<u64, sqlx::Error> {
        let SpoolLeftover { notes, open, last, gaps } = left;
        let mark = u64::try_from(marks::read(&mut self.connection, SPOOL_MARK).await?).unwrap_or(0);
        let last = last.max(mark);
        let notes: Vec<NumberedEntry> = notes.into_iter().filter(|note| note.number > mark).collect();
        if notes.is_empty() && open.is_empty() && gaps.is_empty() {
            return Ok(last);
        }
        let mut group = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        for intent in open {
            // An intent that already exists was moved by a start that was interrupted.
            let _ = write_intent(&mut group, intent).await?;
        }
        let entries: Vec<AuditEntry> = notes.into_iter().map(|note| note.entry).chain(gaps).collect();
        self.appender.add(&mut group, &entries).await?;
        raise_spool_mark(&mut group, last).await?;
        group.commit().await?;
        Ok(last)
    }
}

fn failure(error: &io::Error) -> DatabaseFailure {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DatabaseFailure::DiskFull,
        io::ErrorKind::ReadOnlyFilesystem => DatabaseFailure::ReadOnly,
        _ => DatabaseFailure::Disk,
    }
}

struct WriterTask {
    file: DatabaseFile,
    // `None` after a failure, until the next group opens a new connection.
    ready: Option<WriterConnection>,
    // Audit entries without a waiting caller that could not be written yet.
    backlog: Vec<NumberedEntry>,
    // Outcomes of calls that could not be written, and whose callers were told so.
    late_outcomes: Vec<StoreChange>,
    shared: Arc<WriterShared>,
    // Held as long as this process may write.
    _lock: Lock,
}

impl WriterTask {
    async fn work(mut self, mut jobs: mpsc::Receiver<WriterJob>) {
        let mut gathered = Vec::with_capacity(GROUP);
        let mut closers = Vec::new();
        while self.gather(&mut gathered, &mut jobs).await {
            let (mut entries, mut answers) = (Vec::new(), Vec::new());
            for job in gathered.drain(..) {
                match job {
                    WriterJob::Write { change, answer } => {
                        entries.push(GroupItem::StoreChange(change));
                        answers.push(answer);
                    }
                    // Queued changes are still written; new ones are refused.
                    WriterJob::Close { done } => {
                        jobs.close();
                        closers.push(done);
                    }
                }
            }
            entries.extend(self.shared.spool.take().into_iter().map(GroupItem::Note));
            let verdicts = self.commit(entries, answers.len()).await;
            for (answer, verdict) in answers.into_iter().zip(verdicts) {
                // A caller that stopped waiting has dropped the answer, not the change.
                let _ = answer.send(verdict);
            }
        }
        self.finish().await;
        for done in closers {
            let _ = done.send(());
        }
    }

    /// Waits for work; returns `false` when the queue is closed. Audit entries without a waiting caller wait for a
    /// full batch, for the next queued change, or for `BATCH_DELAY`.
    async fn gather(&self, gathered: &mut Vec<WriterJob>, jobs: &mut mpsc::Receiver<WriterJob>) -> bool {
        tokio::select! {
            biased;
            count = jobs.recv_many(gathered, GROUP) => return count > 0,
            () = self.shared.noted.notified() => {}
        }
        tokio::select! {
            biased;
            count = jobs.recv_many(gathered, GROUP) => count > 0,
            () = self.shared.batch_full.notified() => true,
            () = tokio::time::sleep(BATCH_DELAY) => true,
        }
    }

    async fn finish(mut self) {
        self.backlog.extend(self.shared.spool.take());
        if self.save_backlog().await.is_err() {
            tracing::error!(
                entries = self.backlog.len(),
                "audit entries could not be written; those in the spool are added at the next start"
            );
        }
        self.save_late_outcomes().await;
        if !self.late_outcomes.is_empty() {
            tracing::error!(
                outcomes = self.late_outcomes.len(),
                "outcomes of calls could not be written; the next start records these calls as `unknown`"
            );
        }
        self.shared.spool.close();
        if let Some(ready) = self.ready.take() {
            discard(ready.connection).await;
        }
    }

    /// Writes all changes or none; returns one result for each.
    async fn commit(&mut self, mut entries: Vec<GroupItem>, changes: usize) -> Vec<ChangeResult> {
        // In a transaction of its own, so that a damaged audit only fails changes that need the audit.
        if let Err(fault) = self.save_backlog().await {
            for entry in &mut entries {
                match std::mem::take(entry) {
                    GroupItem::Note(note) => self.backlog.push(note),
                    // A flush fails, because earlier entries are not on disk.
                    GroupItem::StoreChange(StoreChange::Nothing) => {
                        *entry = GroupItem::Refused(fault.clone())
                    }
                    other => *entry = other,
                }
            }
        }
        self.save_late_outcomes().await;
        let verdicts = self.attempt(&mut entries, changes).await;
        self.shared.backlog.store(self.backlog.len(), Ordering::Relaxed);
        verdicts
    }

    async fn attempt(&mut self, entries: &mut [GroupItem], changes: usize) -> Vec<ChangeResult> {
        let is_idle = |entry: &GroupItem| match entry {
            GroupItem::StoreChange(change) => matches!(change, StoreChange::Nothing),
            GroupItem::Note(_) => false,
            GroupItem::Refused(_) | GroupItem::Spent => true,
        };
        if entries.iter().all(is_idle) {
            return entries.iter_mut().filter_map(GroupItem::verdict).collect();
        }
        let fault = match self.ready().await {
            Err(fault) => fault,
            Ok(mut ready) => match write_group(&mut ready, entries, changes).await {
                Ok((verdicts, last)) => {
                    self.ready = Some(ready);
                    self.shared.spool.committed(last);
                    return verdicts;
                }
                // After a failed statement or commit a transaction may still be open. A new connection
                // has none.
                Err(error) => {
                    discard(ready.connection).await;
                    self.file.fault(&error)
                }
            },
        };
        for entry in entries {
            match std::mem::take(entry) {
                GroupItem::Note(note) => self.backlog.push(note),
                GroupItem::StoreChange(change)
                    if change.is_of_past_event() && self.late_outcomes.len() < BACKLOG =>
                {
                    self.late_outcomes.push(change);
                }
                _ => {}
            }
        }
        (0..changes).map(|_| Err(fault.clone())).collect()
    }

    async fn save_backlog(&mut self) -> Result<(), StoreError> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let mut ready = self.ready().await?;
        match write_backlog(&mut ready, &self.backlog).await {
            Ok(last) => {
                self.ready = Some(ready);
                self.shared.spool.committed(last);
                self.backlog.clear();
                Ok(())
            }
            Err(error) => {
                discard(ready.connection).await;
                Err(self.file.fault(&error))
            }
        }
    }

    /// Writes the outcomes that could not be written before. What fails again is written later.
    async fn save_late_outcomes(&mut self) {
        if self.late_outcomes.is_empty() {
            return;
        }
        let Ok(mut ready) = self.ready().await else { return };
        let outcomes = std::mem::take(&mut self.late_outcomes);
        let count = outcomes.len();
        let mut group: Vec<GroupItem> = outcomes.into_iter().map(GroupItem::StoreChange).collect();
        match write_group(&mut ready, &mut group, count).await {
            Ok(_) => self.ready = Some(ready),
            Err(error) => {
                self.file.fault(&error);
                discard(ready.connection).await;
                self.late_outcomes = group.into_iter().filter_map(GroupItem::into_change).collect();
            }
        }
    }

    async fn ready(&mut self) -> Result<WriterConnection, StoreError> {
        match self.ready.take() {
            Some(ready) => Ok(ready),
            None => WriterConnection::connect(&self.file).await,
        }
    }
}

/// One item of a commit group.
#[derive(Default)]
enum GroupItem {
    StoreChange(StoreChange),
    /// An audit entry without a waiting caller.
    Note(NumberedEntry),
    /// A change that is refused.
    Refused(StoreError),
    /// The item was moved out.
    #[default]
    Spent,
}

impl GroupItem {
    /// The result of a change that writes nothing.
    fn verdict(&mut self) -> Option<ChangeResult> {
        match std::mem::take(self) {
            Self::StoreChange(_) => Some(Ok(ChangeEffect::default())),
            Self::Refused(fault) => Some(Err(fault)),
            Self::Note(_) | Self::Spent => None,
        }
    }

    fn into_change(self) -> Option<StoreChange> {
        match self {
            Self::StoreChange(change) => Some(change),
            _ => None,
        }
    }
}

/// Commits a group; returns the results of its changes, and the number of its last spooled entry.
async fn write_group(
    ready: &mut WriterConnection,
    entries: &mut [GroupItem],
    changes: usize,
) -> Result<(Vec<ChangeResult>, u64), sqlx::Error> {
    let WriterConnection { connection, appender } = ready;
    let mut verdicts = Vec::with_capacity(changes);
    let (mut notes, mut last) = (Vec::new(), 0);
    let mut group = connection.begin_with("BEGIN IMMEDIATE").await?;
    for entry in entries {
        match entry {
            // The item keeps the entry, in case the commit fails.
            GroupItem::Note(note) => {
                last = last.max(note.number);
                notes.push(note.entry.clone());
            }
            GroupItem::Spent => {}
            GroupItem::Refused(fault) => verdicts.push(Err(fault.clone())),
            GroupItem::StoreChange(change) => {
                // The item keeps an outcome, too.
                let change = match change.is_of_past_event() {
                    true => change.clone(),
                    false => std::mem::replace(change, StoreChange::Nothing),
                };
                verdicts.push(write(&mut group, appender, change, &mut notes).await?);
            }
        }
    }
    appender.add(&mut group, &notes).await?;
    if last > 0 {
        raise_spool_mark(&mut group, last).await?;
    }
    group.commit().await?;
    Ok((verdicts, last))
}

async fn write_backlog(ready: &mut WriterConnection, notes: &[NumberedEntry]) -> Result<u64, sqlx::Error> {
    let entries: Vec<AuditEntry> = notes.iter().map(|note| note.entry.clone()).collect();
    let last = notes.last().map_or(0, |note| note.number);
    let mut group = ready.connection.begin_with("BEGIN IMMEDIATE").await?;
    ready.appender.add(&mut group, &entries).await?;
    raise_spool_mark(&mut group, last).await?;
    group.commit().await?;
    Ok(last)
}

/// Stores the number of the last spool entry that is in the audit.
async fn raise_spool_mark(connection: &mut SqliteConnection, last: u64) -> Result<(), sqlx::Error> {
    sqlx::query(sql::RAISE_MARK).bind(SPOOL_MARK).bind(last as i64).execute(connection).await?;
    Ok(())
}
