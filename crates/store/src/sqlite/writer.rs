//! The one writer: gathers what is queued, commits it together, and only then answers each caller.
//!
//! A commit costs one wait for the disk, however many changes it holds; while it waits, the next
//! group gathers by itself. So nobody is delayed to make groups larger. Audit entries that nobody
//! waits for are the exception: they are in the spool already, and wait there a moment for company.

use super::audit::Ledger;
use super::changes::{Change, Effect, Verdict, write, write_intent};
use super::file::{DatabaseFile, discard};
use super::keys::KeyFile;
use super::lock::Lock;
use super::marks;
use super::spool::{Leftover, Numbered, Spool};
use crate::records::Intent;
use crate::{StoreError, Trouble};
use sqlx::{Connection, SqliteConnection};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use toolbooth_core::audit::AuditEntry;
use uuid::Uuid;

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
    Close { done: oneshot::Sender<()> },
}

/// The way to the writing task.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spool: Spool,
    // The first audit entry waits in the spool.
    noted: Notify,
    // So many wait that they need no more company.
    hurry: Notify,
    // How many audit entries wait for another attempt.
    backlog: AtomicUsize,
}

impl Writer {
    pub(super) fn start(file: DatabaseFile, ready: Ready, spool: Spool, lock: Lock) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            spool,
            noted: Notify::new(),
            hurry: Notify::new(),
            backlog: AtomicUsize::new(0),
        });
        let desk =
            Desk { file, ready: Some(ready), backlog: Vec::new(), shared: shared.clone(), _lock: lock };
        tokio::spawn(desk.work(jobs));
        Self { queue, shared }
    }

    /// Queues a change, waits while the queue is full, and answers once it is on the disk.
    pub(super) async fn write(&self, change: Change) -> Verdict {
        let (answer, verdict) = oneshot::channel();
        self.queue.send(Job::Write { change, answer }).await.map_err(|_| StoreError::Closed)?;
        verdict.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Puts an audit entry into the spool, and does not wait for the disk.
    pub(super) async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        if self.shared.backlog.load(Ordering::Relaxed) >= BACKLOG {
            // The disk takes nothing, and memory shall not fill up: another attempt, or a refusal.
            self.write(Change::Nothing).await?;
        }
        if self.queue.is_closed() {
            return Err(StoreError::Closed);
        }
        let (waiting, appended) = self.shared.spool.note(entry);
        if waiting == 1 {
            self.shared.noted.notify_one();
        } else if waiting >= BACKLOG {
            // The writer does not keep up: this one waits until it has.
            self.write(Change::Nothing).await?;
        } else if waiting >= COMPANY {
            self.shared.hurry.notify_one();
        }
        if let Err(error) = appended {
            // Nothing is lost as long as the process lives, but it is not safe from a kill: so it waits for the disk.
            tracing::warn!(%error, "an audit entry could not be spooled");
            self.write(Change::Nothing).await?;
        }
        Ok(())
    }

    /// Whether nothing more is written.
    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Notes in the spool that a call is about to be sent.
    pub(super) fn begin(&self, intent: Intent) -> Result<(), StoreError> {
        self.spooled(self.shared.spool.begin(intent))
    }

    /// Notes in the spool that a call has ended.
    pub(super) fn end(&self, call: Uuid) -> Result<(), StoreError> {
        self.spooled(self.shared.spool.end(call))
    }

    fn spooled(&self, result: io::Result<()>) -> Result<(), StoreError> {
        if self.queue.is_closed() {
            return Err(StoreError::Closed);
        }
        result.map_err(|error| {
            tracing::warn!(%error, "the spool reported an error");
            StoreError::Failed { trouble: trouble(&error) }
        })
    }

    /// Commits what is queued, closes the database and gives up the claim on it.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Job::Close { done }).await.is_ok() {
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

    /// The keys of the installation, which are not in the database.
    pub(super) async fn keys(&mut self, file: &DatabaseFile) -> Result<KeyFile, StoreError> {
        KeyFile::open(file.path(), &mut self.connection, |error| file.fault(error)).await
    }

    /// Moves to the database what an earlier process left in the spool; the spool, empty.
    pub(super) async fn recover(&mut self, file: &DatabaseFile) -> Result<Spool, StoreError> {
        let broken =
            |error: &io::Error| StoreError::Open { path: file.path().to_owned(), reason: error.kind() };
        let (spool, left) = Spool::open(file.path()).map_err(|error| broken(&error))?;
        let moved = self.take_in(left).await;
        let last = moved.map_err(|error| file.fault(&error))?;
        spool.begin_after(last).map_err(|error| broken(&error))?;
        Ok(spool)
    }

    async fn take_in(&mut self, left: Leftover) -> Result<u64, sqlx::Error> {
        let Leftover { notes, open, last, gaps } = left;
        let mark = u64::try_from(marks::read(&mut self.connection, marks::SPOOL).await?).unwrap_or(0);
        let last = last.max(mark);
        let notes: Vec<Numbered> = notes.into_iter().filter(|note| note.number > mark).collect();
        if notes.is_empty() && open.is_empty() && gaps.is_empty() {
            return Ok(last);
        }
        let mut group = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        for intent in open {
            // One that is there already was moved by a start that was cut off.
            let _ = write_intent(&mut group, intent).await?;
        }
        let entries: Vec<AuditEntry> = notes.into_iter().map(|note| note.entry).chain(gaps).collect();
        self.ledger.add(&mut group, &entries).await?;
        marks::raise(&mut group, marks::SPOOL, last as i64).await?;
        group.commit().await?;
        Ok(last)
    }
}

fn trouble(error: &io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Trouble::DiskFull,
        io::ErrorKind::ReadOnlyFilesystem => Trouble::ReadOnly,
        _ => Trouble::Disk,
    }
}

struct Desk {
    file: DatabaseFile,
    // Absent after a failure, until the next group opens another.
    ready: Option<Ready>,
    // Audit entries without a waiting caller and that could not be written yet.
    backlog: Vec<Numbered>,
    shared: Arc<Shared>,
    // Held as long as this process may write.
    _lock: Lock,
}

impl Desk {
    async fn work(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut gathered = Vec::with_capacity(GROUP);
        let mut closers = Vec::new();
        while self.gather(&mut gathered, &mut jobs).await {
            let (mut entries, mut answers) = (Vec::new(), Vec::new());
            for job in gathered.drain(..) {
                match job {
                    Job::Write { change, answer } => {
                        entries.push(Entry::Change(change));
                        answers.push(answer);
                    }
                    // What is queued already is still written; nothing more comes in.
                    Job::Close { done } => {
                        jobs.close();
                        closers.push(done);
                    }
                }
            }
            entries.extend(self.shared.spool.take().into_iter().map(Entry::Note));
            let verdicts = self.commit(entries, answers.len()).await;
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

    /// Waits for something to write; `false` when nothing more will come. Audit entries without a waiting caller
    /// wait until they are many, until somebody waits for a change, or for a moment.
    async fn gather(&self, gathered: &mut Vec<Job>, jobs: &mut mpsc::Receiver<Job>) -> bool {
        tokio::select! {
            biased;
            count = jobs.recv_many(gathered, GROUP) => return count > 0,
            () = self.shared.noted.notified() => {}
        }
        tokio::select! {
            biased;
            count = jobs.recv_many(gathered, GROUP) => count > 0,
            () = self.shared.hurry.notified() => true,
            () = tokio::time::sleep(PATIENCE) => true,
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
        self.shared.spool.close();
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
                Ok((verdicts, last)) => {
                    self.ready = Some(ready);
                    self.shared.spool.committed(last);
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
    Note(Numbered),
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

/// Writes a group; the verdicts on its changes, and the last note that is in it.
async fn write_group(
    ready: &mut Ready,
    entries: &mut [Entry],
    changes: usize,
) -> Result<(Vec<Verdict>, u64), sqlx::Error> {
    let Ready { connection, ledger } = ready;
    let mut verdicts = Vec::with_capacity(changes);
    let (mut notes, mut last) = (Vec::new(), 0);
    let mut group = connection.begin_with("BEGIN IMMEDIATE").await?;
    for entry in entries {
        match entry {
            // Stays where it is, in case the commit fails.
            Entry::Note(note) => {
                last = last.max(note.number);
                notes.push(note.entry.clone());
            }
            Entry::Spent => {}
            Entry::Refused(fault) => verdicts.push(Err(fault.clone())),
            Entry::Change(change) => {
                let change = std::mem::replace(change, Change::Nothing);
                verdicts.push(write(&mut group, ledger, change, &mut notes).await?);
            }
        }
    }
    ledger.add(&mut group, &notes).await?;
    if last > 0 {
        marks::raise(&mut group, marks::SPOOL, last as i64).await?;
    }
    group.commit().await?;
    Ok((verdicts, last))
}

async fn write_backlog(ready: &mut Ready, notes: &[Numbered]) -> Result<u64, sqlx::Error> {
    let entries: Vec<AuditEntry> = notes.iter().map(|note| note.entry.clone()).collect();
    let last = notes.last().map_or(0, |note| note.number);
    let mut group = ready.connection.begin_with("BEGIN IMMEDIATE").await?;
    ready.ledger.add(&mut group, &entries).await?;
    marks::raise(&mut group, marks::SPOOL, last as i64).await?;
    group.commit().await?;
    Ok(last)
}
