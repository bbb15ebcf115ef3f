//! The one writer: gathers what is queued, commits it together, and only then answers each caller.
//!
//! A commit costs one wait for the disk, however many changes it holds; while it waits, the next
//! group gathers by itself. So nobody is delayed to make groups larger.

use super::file::{DatabaseFile, discard};
use super::held::Sweep;
use super::lock::Lock;
use super::{consents, held, plans, rows, tokens};
use crate::held::{Contest, Step};
use crate::records::{Closing, DiscoveryRecord, Intent, Outcome, closing};
use crate::{StoreError, sql};
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::consent::{Consent, Pin};
use toolbooth_core::held::HeldCall;
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use toolbooth_core::token::TokenRecord;
use uuid::Uuid;

/// The most rows one purging change deletes.
pub(super) const PURGE_CHUNK: u64 = 1_000;
/// The most changes that wait; the next caller waits outside.
const QUEUE: usize = 1_024;
/// The most changes in one commit.
const GROUP: usize = 512;

/// Something to write.
#[derive(Debug)]
pub(super) enum Change {
    SaveDiscovery(DiscoveryRecord),
    ForgetDiscovery(ServerName),
    Intent(Intent),
    Outcome(Outcome),
    CloseInterrupted {
        at_ms: i64,
    },
    Secret {
        name: String,
        candidate: Vec<u8>,
    },
    Nonce {
        nonce: Vec<u8>,
        expires_at_ms: i64,
    },
    AddToken(TokenRecord),
    RevokeToken {
        id: String,
        at_ms: i64,
    },
    Hold(Box<HeldCall>),
    Step {
        id: Uuid,
        step: Step,
        audit: Option<Box<AuditEntry>>,
    },
    Sweep {
        sweep: Sweep,
        at_ms: i64,
    },
    OpenPlan(Plan),
    ClosePlan {
        id: Uuid,
        at_ms: i64,
    },
    QueueStep {
        plan: Uuid,
        call: Box<HeldCall>,
    },
    GrantConsent(Consent),
    RevokeConsent(Uuid),
    SavePins(Vec<Pin>),
    ForgetPins(ServerName),
    Purge {
        statement: &'static str,
        bound: i64,
    },
    /// Answered when everything before it is committed.
    Nothing,
}

/// What a change did.
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// How many rows it touched.
    pub(super) rows: u64,
    /// The secret that stands, for `Change::Secret`.
    pub(super) secret: Vec<u8>,
    /// The token as it stands now.
    pub(super) token: Option<TokenRecord>,
    /// Who won.
    pub(super) contest: Contest,
    /// The held calls that were moved on.
    pub(super) held: Vec<HeldCall>,
    /// The plan as it stands now.
    pub(super) plan: Option<Plan>,
    /// The number of a step.
    pub(super) step: u32,
    /// The consent that was revoked.
    pub(super) consent: Option<Consent>,
}

/// A change's own result: refused by the journal's rules, though the group goes on.
pub(super) type Verdict = Result<Effect, StoreError>;

enum Job {
    Write { change: Change, answer: oneshot::Sender<Verdict> },
    Close { done: oneshot::Sender<()> },
}

/// The way to the writing task.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Job>,
}

impl Writer {
    pub(super) fn start(file: DatabaseFile, connection: SqliteConnection, lock: Lock) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let desk = Desk { file, connection: Some(connection), _lock: lock };
        tokio::spawn(desk.work(jobs));
        Self { queue }
    }

    /// Queues a change, waits while the queue is full, and answers once it is on the disk.
    pub(super) async fn write(&self, change: Change) -> Verdict {
        let (answer, verdict) = oneshot::channel();
        self.queue.send(Job::Write { change, answer }).await.map_err(|_| StoreError::Closed)?;
        verdict.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Commits what is queued, closes the database and gives up the claim on it.
    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Job::Close { done }).await.is_ok() {
            let _ = closed.await;
        }
    }
}

struct Desk {
    file: DatabaseFile,
    // Absent after a failure, until the next group opens another.
    connection: Option<SqliteConnection>,
    // Held as long as this process may write.
    _lock: Lock,
}

impl Desk {
    async fn work(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut gathered = Vec::with_capacity(GROUP);
        let mut closers = Vec::new();
        while jobs.recv_many(&mut gathered, GROUP).await > 0 {
            let (mut changes, mut answers) = (Vec::new(), Vec::new());
            for job in gathered.drain(..) {
                match job {
                    Job::Write { change, answer } => {
                        changes.push(change);
                        answers.push(answer);
                    }
                    // What is queued already is still written; nothing more comes in.
                    Job::Close { done } => {
                        jobs.close();
                        closers.push(done);
                    }
                }
            }
            let verdicts = self.commit(changes).await;
            for (answer, verdict) in answers.into_iter().zip(verdicts) {
                // A caller who hung up has lost interest in the answer, not in the change.
                let _ = answer.send(verdict);
            }
        }
        if let Some(connection) = self.connection.take() {
            discard(connection).await;
        }
        drop(self);
        for done in closers {
            let _ = done.send(());
        }
    }

    /// Writes all changes or none; one verdict for each.
    async fn commit(&mut self, changes: Vec<Change>) -> Vec<Verdict> {
        let count = changes.len();
        if changes.iter().all(|change| matches!(change, Change::Nothing)) {
            return changes.iter().map(|_| Ok(Effect::default())).collect();
        }
        let fault = match self.connection().await {
            Err(fault) => fault,
            Ok(mut connection) => match write_group(&mut connection, changes).await {
                Ok(verdicts) => {
                    self.connection = Some(connection);
                    return verdicts;
                }
                // After a failed statement or commit it is uncertain whether a transaction is open:
                // a fresh connection is certain to have none.
                Err(error) => {
                    discard(connection).await;
                    self.file.fault(&error)
                }
            },
        };
        (0..count).map(|_| Err(fault.clone())).collect()
    }

    async fn connection(&mut self) -> Result<SqliteConnection, StoreError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.file.connect_writer().await,
        }
    }
}

async fn write_group(
    connection: &mut SqliteConnection,
    changes: Vec<Change>,
) -> Result<Vec<Verdict>, sqlx::Error> {
    let mut verdicts = Vec::with_capacity(changes.len());
    let mut group = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut notes = Vec::new();
    for change in changes {
        verdicts.push(write(&mut group, change, &mut notes).await?);
    }
    group.commit().await?;
    Ok(verdicts)
}

async fn write(
    connection: &mut SqliteConnection,
    change: Change,
    notes: &mut Vec<AuditEntry>,
) -> Result<Verdict, sqlx::Error> {
    let query = match change {
        Change::Nothing => return Ok(Ok(Effect::default())),
        Change::Intent(intent) => return write_intent(connection, intent).await,
        Change::Outcome(outcome) => return write_outcome(connection, outcome).await,
        Change::Secret { name, candidate } => return add_secret(connection, name, candidate).await,
        Change::AddToken(token) => return tokens::add(connection, token).await,
        Change::RevokeToken { id, at_ms } => return tokens::revoke(connection, id, at_ms).await,
        Change::Hold(call) => return held::hold(connection, *call).await,
        Change::Step { id, step, audit } => {
            return held::step(connection, id, step, audit.map(|entry| *entry), notes).await;
        }
        Change::Sweep { sweep, at_ms } => return held::sweep(connection, sweep, at_ms, notes).await,
        Change::OpenPlan(plan) => return plans::open(connection, plan).await,
        Change::ClosePlan { id, at_ms } => return plans::close(connection, id, at_ms).await,
        Change::QueueStep { plan, call } => return plans::queue_step(connection, plan, *call).await,
        Change::GrantConsent(consent) => return consents::grant(connection, consent).await,
        Change::RevokeConsent(id) => return consents::revoke(connection, id).await,
        Change::SavePins(pins) => return consents::save_pins(connection, pins).await,
        Change::ForgetPins(server) => sqlx::query(sql::consents::FORGET_PINS).bind(String::from(server)),
        Change::SaveDiscovery(record) => sqlx::query(sql::SAVE_DISCOVERY)
            .bind(String::from(record.server))
            .bind(record.entry_hash)
            .bind(record.era)
            .bind(record.saved_at_ms)
            .bind(Vec::from(record.payload)),
        Change::ForgetDiscovery(server) => sqlx::query(sql::FORGET_DISCOVERY).bind(String::from(server)),
        Change::CloseInterrupted { at_ms } => sqlx::query(sql::CLOSE_INTERRUPTED).bind(at_ms),
        Change::Nonce { nonce, expires_at_ms } => sqlx::query(sql::USE_NONCE).bind(nonce).bind(expires_at_ms),
        Change::Purge { statement, bound } => sqlx::query(statement).bind(bound).bind(PURGE_CHUNK as i64),
    };
    let rows = query.execute(connection).await?.rows_affected();
    Ok(Ok(Effect { rows, ..Effect::default() }))
}

async fn write_intent(connection: &mut SqliteConnection, intent: Intent) -> Result<Verdict, sqlx::Error> {
    let query = sqlx::query(sql::WRITE_INTENT)
        .bind(intent.call_id.to_string())
        .bind(intent.at_ms)
        .bind(intent.user.clone())
        .bind(intent.server.to_string())
        .bind(intent.tool.clone())
        .bind(intent.arguments_sha256.to_vec())
        .bind(intent.side_effect.clone());
    let rows = query.execute(&mut *connection).await?.rows_affected();
    if rows == 1 {
        return Ok(Ok(Effect { rows, ..Effect::default() }));
    }
    let call_id = intent.call_id;
    let present = sqlx::query(sql::CALL).bind(call_id.to_string()).fetch_one(connection).await?;
    Ok(match rows::call(&present) {
        Ok(row) if row.intent == intent => Ok(Effect::default()),
        _ => Err(StoreError::Conflict { call_id }),
    })
}

async fn write_outcome(connection: &mut SqliteConnection, outcome: Outcome) -> Result<Verdict, sqlx::Error> {
    let call_id = outcome.call_id;
    let query = sqlx::query(sql::WRITE_OUTCOME)
        .bind(call_id.to_string())
        .bind(outcome.kind.as_str())
        .bind(outcome.at_ms)
        .bind(outcome.error_code.clone())
        .bind(outcome.duration_ms as i64);
    let rows = query.execute(&mut *connection).await?.rows_affected();
    if rows == 1 {
        return Ok(Ok(Effect { rows, ..Effect::default() }));
    }
    let present = sqlx::query(sql::CALL).bind(call_id.to_string()).fetch_optional(connection).await?;
    Ok(match present.as_ref().map(rows::call) {
        None => Err(StoreError::NoIntent { call_id }),
        Some(Ok(row)) if closing(row.outcome.as_ref(), &outcome) == Closing::Keep => Ok(Effect::default()),
        Some(_) => Err(StoreError::Conflict { call_id }),
    })
}

async fn add_secret(
    connection: &mut SqliteConnection,
    name: String,
    candidate: Vec<u8>,
) -> Result<Verdict, sqlx::Error> {
    let query = sqlx::query(sql::ADD_SECRET).bind(name.clone()).bind(candidate);
    let rows = query.execute(&mut *connection).await?.rows_affected();
    let secret = sqlx::query_scalar(sql::SECRET).bind(name).fetch_one(connection).await?;
    Ok(Ok(Effect { rows, secret, ..Effect::default() }))
}
