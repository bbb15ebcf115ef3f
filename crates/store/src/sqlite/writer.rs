//! The one writer: gathers what is queued, commits it together, and only then answers each caller.
//!
//! A commit costs one wait for the disk, however many changes it holds; while it waits, the next
//! group gathers by itself. So nobody is delayed to make groups larger. Audit entries that nobody
//! waits for are the exception: alone, they wait a moment for company.

use super::audit::Ledger;
use super::changes::{Change, Effect, Verdict, write};
use super::file::{DatabaseFile, discard};
use super::lock::Lock;
use crate::StoreError;
use sqlx::{Connection, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use toolbooth_core::audit::AuditEntry;

/// The most rows one purging change deletes.
pub(super) const PURGE_CHUNK: u64 = 1_000;
/// The most changes that wait; the next caller waits outside.
const QUEUE: usize = 4_096;
/// The most changes in one commit.
const GROUP: usize = 2_048;
/// So many audit entries are company enough.
const COMPANY: usize = 1_000;
/// How long audit entries that nobody waits for may wait for company.
const PATIENCE: Duration = Duration::from_millis(100);
/// The most audit entries that are kept for another attempt after a commit failed.
const BACKLOG: usize = 10_000;

enum Job {
    Write { change: Change, answer: oneshot::Sender<Verdict> },
    Note(AuditEntry),
    Close { done: oneshot::Sender<()> },
}

/// The way to the writing task.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    // Somebody waits for an answer, or the queue is filling.
    hurry: Notify,
    // How many audit entries wait for another attempt.
    backlog: AtomicUsize,
}

impl Writer {
    pub(super) fn start(file: DatabaseFile, ready: Ready, lock: Lock) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let shared = Arc::<Shared>::default();
        let desk =
            Desk { file, ready: Some(ready), backlog: Vec::new(), shared: shared.clone(), _lock: lock };
        tokio::spawn(desk.work(jobs));
        Self { queue, shared }
    }

    /// Queues a change, waits while the queue is full, and answers once it is on the disk.
    pub(super) async fn write(&self, change: Change) -> Verdict {
        let (answer, verdict) = oneshot::channel();
        self.queue.send(Job::Write { change, answer }).await.map_err(|_| StoreError::Closed)?;
        self.shared.hurry.notify_one();
        verdict.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Queues an audit entry, waits while the queue is full, and does not wait for the disk.
    pub(super) async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        if self.shared.backlog.load(Ordering::Relaxed) >= BACKLOG {
            // The disk takes nothing, and memory shall not fill up: another attempt, or a refusal.
            self.write(Change::Nothing).await?;
        }
        self.queue.send(Job::Note(entry)).await.map_err(|_| StoreError::Closed)?;
        if self.queue.capacity() < QUEUE - GROUP / 2 {
            self.shared.hurry.notify_one();
        }
        Ok(())
    }

    /// Commits what is queued, closes the database and gives up the claim on it.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Job::Close { done }).await.is_ok() {
            self.shared.hurry.notify_one();
            let _ = closed.await;
        }
    }
}

/// A connection that writes, and the audit's end as it knows it.
#[derive(Debug)]
pub(super) struct Ready {
    connection: SqliteConnection,
    ledger: Ledger,
}

impl Ready {
    pub(super) async fn connect(file: &DatabaseFile) -> Result<Self, StoreError> {
        Ok(Self { connection: file.connect_writer().await?, ledger: Ledger::default() })
    }
}

struct Desk {
    file: DatabaseFile,
    // Absent after a failure, until the next group opens another.
    ready: Option<Ready>,
    // Audit entries that nobody waits for and that could not be written yet.
    backlog: Vec<AuditEntry>,
    shared: Arc<Shared>,
    // Held as long as this process may write.
    _lock: Lock,
}

impl Desk {
    async fn work(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut gathered = Vec::with_capacity(GROUP);
        let mut closers = Vec::new();
        while jobs.recv_many(&mut gathered, GROUP).await > 0 {
            self.await_company(&mut gathered, &mut jobs).await;
            let (mut changes, mut answers) = (Vec::new(), Vec::new());
            for job in gathered.drain(..) {
                match job {
                    Job::Write { change, answer } => {
                        changes.push(Entry::Change(change));
                        answers.push(answer);
                    }
                    Job::Note(entry) => changes.push(Entry::Note(entry)),
                    // What is queued already is still written; nothing more comes in.
                    Job::Close { done } => {
                        jobs.close();
                        closers.push(done);
                    }
                }
            }
            let verdicts = self.commit(changes, answers.len()).await;
            for (answer, verdict) in answers.into_iter().zip(verdicts) {
                // A caller who hung up has lost interest in the answer, not in the change.
                let _ = answer.send(verdict);
            }
        }
        self.finish().await;
        for done in closers {
            let _ = done.send(());
        }
    }

    /// Lets audit entries that nobody waits for wait until they are many, or until somebody waits.
    async fn await_company(&self, gathered: &mut Vec<Job>, jobs: &mut mpsc::Receiver<Job>) {
        let deadline = Instant::now() + PATIENCE;
        while gathered.len() < COMPANY && gathered.iter().all(|job| matches!(job, Job::Note(_))) {
            // It may be about a change that is written already; then the waiting goes on.
            let hurried = timeout_at(deadline, self.shared.hurry.notified()).await.is_ok();
            while gathered.len() < GROUP
                && let Ok(job) = jobs.try_recv()
            {
                gathered.push(job);
            }
            if !hurried {
                return;
            }
        }
    }

    async fn finish(mut self) {
        if self.save_backlog().await.is_err() {
            tracing::error!(
                entries = self.backlog.len(),
                "audit entries were lost: they could not be written"
            );
        }
        if let Some(ready) = self.ready.take() {
            discard(ready.connection).await;
        }
    }

    /// Writes all changes or none; one verdict for each.
    async fn commit(&mut self, mut entries: Vec<Entry>, changes: usize) -> Vec<Verdict> {
        // Apart from the rest, so that a damaged audit stops only those who need it.
        if let Err(fault) = self.save_backlog().await {
            for entry in &mut entries {
                match std::mem::take(entry) {
                    Entry::Note(note) => self.backlog.push(note),
                    // What was said before is not on the disk.
                    Entry::Change(Change::Nothing) => *entry = Entry::Refused(fault.clone()),
                    other => *entry = other,
                }
            }
        }
        let verdicts = self.attempt(&mut entries, changes).await;
        self.shared.backlog.store(self.backlog.len(), Ordering::Relaxed);
        verdicts
    }

    async fn attempt(&mut self, entries: &mut [Entry], changes: usize) -> Vec<Verdict> {
        let is_idle = |entry: &Entry| match entry {
            Entry::Change(change) => matches!(change, Change::Nothing),
            Entry::Note(_) => false,
            Entry::Refused(_) | Entry::Spent => true,
        };
        if entries.iter().all(is_idle) {
            return entries.iter_mut().filter_map(Entry::verdict).collect();
        }
        let fault = match self.ready().await {
            Err(fault) => fault,
            Ok(mut ready) => match write_group(&mut ready, entries, changes).await {
                Ok(verdicts) => {
                    self.ready = Some(ready);
                    return verdicts;
                }
                // After a failed statement or commit it is uncertain whether a transaction is open:
                // a fresh connection is certain to have none.
                Err(error) => {
                    discard(ready.connection).await;
                    self.file.fault(&error)
                }
            },
        };
        let notes = entries.iter_mut().filter_map(|entry| match std::mem::take(entry) {
            Entry::Note(note) => Some(note),
            _ => None,
        });
        self.backlog.extend(notes);
        (0..changes).map(|_| Err(fault.clone())).collect()
    }

    async fn save_backlog(&mut self) -> Result<(), StoreError> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let mut ready = self.ready().await?;
        match write_backlog(&mut ready, &self.backlog).await {
            Ok(()) => {
                self.ready = Some(ready);
                self.backlog.clear();
                Ok(())
            }
            Err(error) => {
                discard(ready.connection).await;
                Err(self.file.fault(&error))
            }
        }
    }

    async fn ready(&mut self) -> Result<Ready, StoreError> {
        match self.ready.take() {
            Some(ready) => Ok(ready),
            None => Ready::connect(&self.file).await,
        }
    }
}

/// One thing in a group.
#[derive(Default)]
enum Entry {
    Change(Change),
    /// An audit entry that nobody waits for.
    Note(AuditEntry),
    /// A change that cannot be made.
    Refused(StoreError),
    /// Nothing: what was here went elsewhere.
    #[default]
    Spent,
}

impl Entry {
    /// The verdict on a change that needs no writing.
    fn verdict(&mut self) -> Option<Verdict> {
        match std::mem::take(self) {
            Self::Change(_) => Some(Ok(Effect::default())),
            Self::Refused(fault) => Some(Err(fault)),
            Self::Note(_) | Self::Spent => None,
        }
    }
}

async fn write_group(
    ready: &mut Ready,
    entries: &mut [Entry],
    changes: usize,
) -> Result<Vec<Verdict>, sqlx::Error> {
    let Ready { connection, ledger } = ready;
    let mut verdicts = Vec::with_capacity(changes);
    let mut notes = Vec::new();
    let mut group = connection.begin_with("BEGIN IMMEDIATE").await?;
    for entry in entries {
        match entry {
            // Stays where it is, in case the commit fails.
            Entry::Note(note) => notes.push(note.clone()),
            Entry::Spent => {}
            Entry::Refused(fault) => verdicts.push(Err(fault.clone())),
            Entry::Change(change) => {
                let change = std::mem::replace(change, Change::Nothing);
                verdicts.push(write(&mut group, ledger, change, &mut notes).await?);
            }
        }
    }
    ledger.add(&mut group, &notes).await?;
    group.commit().await?;
    Ok(verdicts)
}

async fn write_backlog(ready: &mut Ready, entries: &[AuditEntry]) -> Result<(), sqlx::Error> {
    let mut group = ready.connection.begin_with("BEGIN IMMEDIATE").await?;
    ready.ledger.add(&mut group, entries).await?;
    group.commit().await
}
