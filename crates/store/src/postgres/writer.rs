//! The writer of one gateway: commits queued changes in groups, and answers each caller after the commit.
//!
//! Gateways take turns: a group whose changes could conflict with those of another gateway locks the end of the audit
//! first, and any other group with audit rows locks it last. So changes are written as in SQLite, one group at a time. A
//! commit renews the lease of this gateway and has a number, by which a commit is found whose answer was lost.

use super::database::{Database, is_transient, is_unanswered};
use super::late::LateRecords;
use super::rows::audit::{AuditAppender, chain_head};
use super::rows::change::{ChangeEffect, ChangeResult, StoreChange};
use super::rows::changes::write;
use super::topics::{ChangedTopics, needs_turn, topic_of};
use crate::StoreError;
use sqlx::{Connection, PgConnection};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// The capacity of the queue; further callers wait for space.
const QUEUE: usize = 4_096;
/// The most changes in one commit.
const GROUP: usize = 500;
/// How often the lease is renewed if nothing is written. It lasts for 10 s.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long a gateway that ends tries to write what it could not write before.
const LAST_WRITE: Duration = Duration::from_secs(5);
/// The pauses before a group is written again, after a lost connection or a conflict with another transaction.
const PAUSES: [Duration; 6] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_millis(1_500),
    Duration::from_millis(2_500),
];

const RENEW: &str = "\
    INSERT INTO replicas (id, lease_until, commit_number) \
    VALUES (set_config('toolbooth.replica', $1, true), now() + interval '10 seconds', $2) \
    ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, commit_number = excluded.commit_number";
const LOCK_END: &str = "SELECT seq, position, hash FROM audit_ends WHERE name = 'head' FOR UPDATE";
// The lock waits for a commit that the database has not finished.
const LAST_COMMIT: &str = "SELECT commit_number FROM replicas WHERE id = $1 FOR UPDATE";
// Ended gateways are kept for a day, for inspection.
const LEAVE: &str = "DELETE FROM replicas WHERE id = $1 OR lease_until < now() - interval '1 day'";

enum GroupJob {
    Write { change: StoreChange, answer: oneshot::Sender<ChangeResult> },
    Close { done: oneshot::Sender<()> },
}

/// The handle of the writer task.
#[derive(Debug)]
pub(super) struct GroupWriter {
    queue: mpsc::Sender<GroupJob>,
}

impl GroupWriter {
    pub(super) fn start(database: Database, connection: PgConnection, replica: String) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let task = GroupWriterTask {
            database,
            replica,
            ready: Some(connection),
            appender: AuditAppender::default(),
            commits: 0,
            late: LateRecords::default(),
        };
        tokio::spawn(task.work(jobs));
        Self { queue }
    }

    /// Queues a change and returns once it is committed; waits while the queue is full.
    pub(super) async fn write(&self, change: StoreChange) -> ChangeResult {
        let (answer, verdict) = oneshot::channel();
        self.queue.send(GroupJob::Write { change, answer }).await.map_err(|_| StoreError::Closed)?;
        verdict.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Whether the writer is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Commits queued changes, gives back the lease, and closes the connection.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(GroupJob::Close { done }).await.is_ok() {
            let _ = closed.await;
        }
    }
}

struct GroupWriterTask {
    database: Database,
    replica: String,
    // `None` after a failure, until the next group opens a new connection.
    ready: Option<PgConnection>,
    appender: AuditAppender,
    // The number of the last commit.
    commits: i64,
    late: LateRecords,
}

/// The result of one attempt to write a group.
enum GroupAttempt {
    Committed(Vec<ChangeResult>),
    Failed(sqlx::Error),
    /// The answer to the commit was lost.
    Unanswered(Vec<ChangeResult>, sqlx::Error),
}

impl GroupWriterTask {
    async fn work(mut self, mut jobs: mpsc::Receiver<GroupJob>) {
        let mut gathered = Vec::with_capacity(GROUP);
        let mut closers = Vec::new();
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                count = jobs.recv_many(&mut gathered, GROUP) => if count == 0 { break },
                _ = heartbeat.tick() => {
                    self.renew().await;
                    self.write_late().await;
                    continue;
                }
            }
            let (mut changes, mut answers) = (Vec::new(), Vec::new());
            for job in gathered.drain(..) {
                match job {
                    GroupJob::Write { change, answer } => {
                        changes.push(change);
                        answers.push(answer);
                    }
                    // Queued changes are still written; new ones are refused.
                    GroupJob::Close { done } => {
                        jobs.close();
                        closers.push(done);
                    }
                }
            }
            let verdicts = self.commit(&changes, &PAUSES).await;
            for (answer, verdict) in answers.into_iter().zip(verdicts) {
                // A caller that stopped waiting has dropped the answer, not the change.
                let _ = answer.send(verdict);
            }
            self.write_late().await;
        }
        self.leave().await;
        for done in closers {
            let _ = done.send(());
        }
    }

    /// Renews the lease.
    async fn renew(&mut self) {
        self.commits += 1;
        if let GroupAttempt::Failed(error) | GroupAttempt::Unanswered(_, error) = self.attempt(&[]).await {
            self.ready = None;
            tracing::warn!(%error, "the lease of this gateway could not be renewed");
        }
    }

    /// Writes some of the records that could not be written before, if the database answers.
    async fn write_late(&mut self) {
        if self.ready.is_none() {
            return;
        }
        let records = self.late.take(GROUP);
        if !records.is_empty() {
            self.commit(&records, &[]).await;
        }
    }

    /// Writes all changes of a group. If one of them is refused by the database, each is written alone, so that the
    /// others do not fail with it.
    async fn commit(&mut self, changes: &[StoreChange], pauses: &[Duration]) -> Vec<ChangeResult> {
        if changes.iter().all(|change| matches!(change, StoreChange::Nothing)) {
            return changes.iter().map(|_| Ok(ChangeEffect::default())).collect();
        }
        match self.commit_together(changes, pauses).await {
            Ok(verdicts) => verdicts,
            Err(error) if changes.len() == 1 || is_transient(&error) => {
                let fault = self.database.fault(&error);
                changes.iter().map(|_| Err(fault.clone())).collect()
            }
            Err(_) => {
                let mut verdicts = Vec::with_capacity(changes.len());
                for change in changes {
                    let alone = self.commit_together(std::slice::from_ref(change), pauses).await;
                    verdicts.push(match alone.map(|mut verdicts| verdicts.pop()) {
                        Ok(verdict) => verdict.unwrap_or_else(|| Ok(ChangeEffect::default())),
                        Err(error) => Err(self.database.fault(&error)),
                    });
                }
                verdicts
            }
        }
    }

    /// Writes all changes or none, again after each of these pauses if the failure may pass. What has happened is recorded
    /// later if it cannot be recorded now.
    async fn commit_together(
        &mut self,
        changes: &[StoreChange],
        pauses: &[Duration],
    ) -> Result<Vec<ChangeResult>, sqlx::Error> {
        self.commits += 1;
        let mut pauses = pauses.iter().copied();
        let mut unanswered = None;
        loop {
            let attempted = match unanswered.take() {
                None => self.attempt(changes).await,
                Some(verdicts) => match self.is_committed().await {
                    Ok(true) => return Ok(verdicts),
                    Ok(false) => self.attempt(changes).await,
                    Err(error) => GroupAttempt::Unanswered(verdicts, error),
                },
            };
            let error = match attempted {
                GroupAttempt::Committed(verdicts) => return Ok(verdicts),
                GroupAttempt::Failed(error) => error,
                GroupAttempt::Unanswered(verdicts, error) => {
                    unanswered = Some(verdicts);
                    error
                }
            };
            // After a failed statement a transaction may still be open. A new connection has none.
            self.ready = None;
            self.appender = AuditAppender::default();
            if !is_transient(&error) && unanswered.is_none() {
                return Err(error);
            }
            let Some(pause) = pauses.next() else {
                match unanswered {
                    Some(_) => self.late.keep_in_doubt(changes, self.commits),
                    None => self.late.keep(changes),
                }
                return Err(error);
            };
            sleep(pause).await;
        }
    }

    async fn attempt(&mut self, changes: &[StoreChange]) -> GroupAttempt {
        let mut connection = match self.ready.take() {
            Some(connection) => connection,
            None => match self.connect().await {
                Ok(connection) => connection,
                Err(error) => return GroupAttempt::Failed(error),
            },
        };
        let mut group = match connection.begin().await {
            Ok(group) => group,
            Err(error) => return GroupAttempt::Failed(error),
        };
        let verdicts = match self.write_group(&mut group, changes).await {
            Ok(verdicts) => verdicts,
            Err(error) => return GroupAttempt::Failed(error),
        };
        match group.commit().await {
            Ok(()) => {
                self.ready = Some(connection);
                GroupAttempt::Committed(verdicts)
            }
            Err(error) if is_unanswered(&error) => GroupAttempt::Unanswered(verdicts, error),
            Err(error) => GroupAttempt::Failed(error),
        }
    }

    async fn write_group(
        &mut self,
        group: &mut PgConnection,
        changes: &[StoreChange],
    ) -> Result<Vec<ChangeResult>, sqlx::Error> {
        let renew = sqlx::query(RENEW).bind(self.replica.clone()).bind(self.commits);
        renew.execute(&mut *group).await?;
        let has_turn = changes.iter().any(needs_turn);
        if has_turn {
            self.lock_end(group).await?;
        }
        let mut verdicts = Vec::with_capacity(changes.len());
        let mut topics = ChangedTopics::default();
        let mut notes = Vec::new();
        for change in changes {
            let verdict = write(group, &mut self.appender, change.clone(), &mut notes).await?;
            if let Ok(effect) = &verdict
                && let Some(topic) = topic_of(change, effect)
            {
                topics.add(topic, change, effect);
            }
            verdicts.push(verdict);
        }
        if !notes.is_empty() {
            if !has_turn {
                self.lock_end(group).await?;
            }
            self.appender.add(group, &notes).await?;
        }
        topics.publish(group, &self.replica).await?;
        Ok(verdicts)
    }

    /// Locks the end of the audit until the commit, and reads it: another gateway may have added rows.
    async fn lock_end(&mut self, group: &mut PgConnection) -> Result<(), sqlx::Error> {
        let found = sqlx::query(LOCK_END).fetch_optional(group).await?;
        let found = found.as_ref().and_then(chain_head);
        // On first use the appender also compares the end with the last row.
        self.appender.head = self.appender.head.and(found);
        Ok(())
    }

    /// Opens a connection. Before the next commit it finds out whether the last one happened, if records depend on it.
    async fn connect(&mut self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.database.connect_writer().await?;
        if self.late.is_in_doubt() {
            let last = last_commit(&mut connection, &self.replica).await?;
            self.late.decide(last);
        }
        Ok(connection)
    }

    /// Whether the last commit happened.
    async fn is_committed(&mut self) -> Result<bool, sqlx::Error> {
        let mut connection = self.database.connect_writer().await?;
        let last = last_commit(&mut connection, &self.replica).await?;
        self.ready = Some(connection);
        Ok(last == Some(self.commits))
    }

    /// Writes all records that could not be written before, if the database answers.
    async fn write_all_late(&mut self) {
        if self.late.is_in_doubt() {
            // A new connection finds out whether the last commit happened.
            self.renew().await;
        }
        let records = self.late.take(usize::MAX);
        if !records.is_empty() {
            self.commit(&records, &PAUSES).await;
        }
    }

    async fn leave(mut self) {
        if timeout(LAST_WRITE, self.write_all_late()).await.is_err() || !self.late.is_empty() {
            tracing::error!("ends of calls could not be recorded before this gateway ended");
        }
        let Some(mut connection) = self.ready.take() else { return };
        if let Err(error) = sqlx::query(LEAVE).bind(self.replica).execute(&mut connection).await {
            tracing::warn!(%error, "the lease of this gateway could not be given back");
        }
        let _ = connection.close().await;
    }
}

/// The number of the last commit of a gateway.
async fn last_commit(connection: &mut PgConnection, replica: &str) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(LAST_COMMIT).bind(replica.to_owned()).fetch_optional(connection).await
}
