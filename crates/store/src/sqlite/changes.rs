//! What can be written, and what writing it does.

use super::audit::Ledger;
use super::held::Sweep;
use super::writer::PURGE_CHUNK;
use super::{consents, discoveries, files, health, held, letters, marks, plans, rows, sign_ins, tokens};
use crate::files::FileQuota;
use crate::health::HealthRow;
use crate::held::{Contest, Step};
use crate::letters::LetterContest;
use crate::limits::{AuditRetention, MAX_OPEN_INTENTS};
use crate::records::{Closing, DiscoveryRecord, Intent, Outcome, closing};
use crate::sign_ins::SignIn;
use crate::{StoreError, sql};
use sqlx::SqliteConnection;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::consent::{Consent, Pin, Release};
use toolbooth_core::dead_letter::{Letter, LetterStep};
use toolbooth_core::file::FileRow;
use toolbooth_core::held::HeldCall;
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use toolbooth_core::token::TokenRecord;
use uuid::Uuid;

/// Something to write.
#[derive(Debug)]
pub(super) enum Change {
    SaveDiscovery(DiscoveryRecord),
    ForgetDiscovery(ServerName),
    Intent(Intent),
    Outcome {
        outcome: Outcome,
        audit: Option<Box<AuditEntry>>,
    },
    RaiseClock(i64),
    CloseInterrupted {
        at_ms: i64,
    },
    /// What stands for a key that is in the key file.
    Secret {
        name: String,
        marker: Vec<u8>,
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
    SaveHealth(Vec<HealthRow>),
    SaveSignIn(SignIn),
    AddLetter(Box<Letter>),
    MoveLetter {
        id: Uuid,
        step: Box<LetterStep>,
        at_ms: i64,
        audit: Option<Box<AuditEntry>>,
    },
    InterruptLetters {
        at_ms: i64,
        next_retry_ms: i64,
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
    SaveRelease(Release),
    ForgetPins(ServerName),
    AddFile {
        file: Box<FileRow>,
        quota: FileQuota,
    },
    RemoveFile(Uuid),
    OpenGrant {
        call: Uuid,
        until_ms: i64,
    },
    EndGrant {
        call: Uuid,
        until_ms: i64,
    },
    EndGrants {
        until_ms: i64,
    },
    Purge {
        statement: &'static str,
        bound: i64,
    },
    Audit(Vec<AuditEntry>),
    PurgeAudit {
        retention: AuditRetention,
        now_ms: i64,
    },
    /// Answered when everything before it is committed.
    Nothing,
}

/// What a change did.
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// How many rows it touched.
    pub(super) rows: u64,
    /// The token as it stands now.
    pub(super) token: Option<TokenRecord>,
    /// Who won.
    pub(super) contest: Contest,
    /// The held calls that were moved on.
    pub(super) held: Vec<HeldCall>,
    /// Who won a letter.
    pub(super) letter: LetterContest,
    /// The letters that were moved on.
    pub(super) letters: Vec<Letter>,
    /// The plan as it stands now.
    pub(super) plan: Option<Plan>,
    /// The number of a step.
    pub(super) step: u32,
    /// The consent that was revoked.
    pub(super) consent: Option<Consent>,
    /// The file as it stands now, or stood before it was removed.
    pub(super) file: Option<FileRow>,
}

/// A change's own result: refused by the store's rules, though the group goes on.
pub(super) type Verdict = Result<Effect, StoreError>;

/// Writes one change; what it adds to the audit goes to `notes`.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    ledger: &mut Ledger,
    change: Change,
    notes: &mut Vec<AuditEntry>,
) -> Result<Verdict, sqlx::Error> {
    let query = match change {
        Change::Nothing => return Ok(Ok(Effect::default())),
        Change::Audit(entries) => {
            notes.extend(entries);
            return Ok(Ok(Effect::default()));
        }
        Change::PurgeAudit { retention, now_ms } => return ledger.purge(connection, retention, now_ms).await,
        Change::SaveDiscovery(record) => return discoveries::save(connection, record).await,
        Change::ForgetDiscovery(server) => return discoveries::forget(connection, server).await,
        Change::Intent(intent) => return write_intent(connection, intent).await,
        Change::Outcome { outcome, audit } => {
            // The call has ended, whatever the journal makes of its outcome.
            notes.extend(audit.map(|entry| *entry));
            return write_outcome(connection, outcome).await;
        }
        Change::CloseInterrupted { at_ms } => return close_interrupted(connection, at_ms, notes).await,
        Change::RaiseClock(at_ms) => {
            marks::raise_clock(connection, at_ms).await?;
            return Ok(Ok(Effect::default()));
        }
        Change::AddToken(token) => return tokens::add(connection, token).await,
        Change::RevokeToken { id, at_ms } => return tokens::revoke(connection, id, at_ms).await,
        Change::Hold(call) => return held::hold(connection, *call).await,
        Change::Step { id, step, audit } => {
            return held::step(connection, id, step, audit.map(|entry| *entry), notes).await;
        }
        Change::Sweep { sweep, at_ms } => return held::sweep(connection, sweep, at_ms, notes).await,
        Change::SaveHealth(rows) => return health::save(connection, rows).await,
        Change::SaveSignIn(sign_in) => return sign_ins::save(connection, sign_in).await,
        Change::AddLetter(letter) => return letters::add(connection, *letter).await,
        Change::MoveLetter { id, step, at_ms, audit } => {
            let audit = audit.map(|entry| *entry);
            return letters::step(connection, id, *step, at_ms, audit, notes).await;
        }
        Change::InterruptLetters { at_ms, next_retry_ms } => {
            return letters::interrupt(connection, at_ms, next_retry_ms, notes).await;
        }
        Change::OpenPlan(plan) => return plans::open(connection, plan).await,
        Change::ClosePlan { id, at_ms } => return plans::close(connection, id, at_ms).await,
        Change::QueueStep { plan, call } => return plans::queue_step(connection, plan, *call).await,
        Change::GrantConsent(consent) => return consents::grant(connection, consent).await,
        Change::RevokeConsent(id) => return consents::revoke(connection, id).await,
        Change::SavePins(pins) => return consents::save_pins(connection, pins).await,
        Change::SaveRelease(release) => return consents::save_release(connection, release).await,
        Change::AddFile { file, quota } => return files::add(connection, *file, quota).await,
        Change::RemoveFile(id) => return files::remove(connection, id).await,
        Change::Secret { name, marker } => sqlx::query(sql::ADD_SECRET).bind(name).bind(marker),
        Change::OpenGrant { call, until_ms } => {
            sqlx::query(sql::files::OPEN_GRANT).bind(call.to_string()).bind(until_ms)
        }
        Change::EndGrant { call, until_ms } => {
            sqlx::query(sql::files::END_GRANT).bind(call.to_string()).bind(until_ms)
        }
        Change::EndGrants { until_ms } => sqlx::query(sql::files::END_GRANTS).bind(until_ms),
        Change::ForgetPins(server) => sqlx::query(sql::consents::FORGET_PINS).bind(String::from(server)),
        Change::Nonce { nonce, expires_at_ms } => sqlx::query(sql::USE_NONCE).bind(nonce).bind(expires_at_ms),
        Change::Purge { statement, bound } => sqlx::query(statement).bind(bound).bind(PURGE_CHUNK as i64),
    };
    let rows = query.execute(connection).await?.rows_affected();
    Ok(Ok(Effect { rows, ..Effect::default() }))
}

pub(super) async fn write_intent(
    connection: &mut SqliteConnection,
    intent: Intent,
) -> Result<Verdict, sqlx::Error> {
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

/// Closes at most `MAX_OPEN_INTENTS` calls, each with its audit entry.
async fn close_interrupted(
    connection: &mut SqliteConnection,
    at_ms: i64,
    notes: &mut Vec<AuditEntry>,
) -> Result<Verdict, sqlx::Error> {
    let limit = i64::from(MAX_OPEN_INTENTS);
    let open = sqlx::query(sql::OPEN_CALLS).bind(limit).fetch_all(&mut *connection).await?;
    notes.extend(rows::readable(&open, rows::call).iter().map(|row| row.intent.cut_off(at_ms)));
    let closed = sqlx::query(sql::CLOSE_INTERRUPTED).bind(at_ms).bind(limit).execute(connection).await?;
    Ok(Ok(Effect { rows: closed.rows_affected(), ..Effect::default() }))
}
