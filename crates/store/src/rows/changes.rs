//! Writes changes to the database.

use super::audit::AuditAppender;
use super::change::{ChangeEffect, ChangeResult, PURGE_CHUNK, StoreChange, SweepScope};
use super::dialect::{Db, DbConnection, interrupted};
use super::{
    consents, console_sessions, discoveries, exposed_names, files, health, held, jobs, letters, marks, plans,
    read, shared_records, sign_ins, tokens, transfer,
};
use crate::limits::MAX_OPEN_INTENTS;
use crate::records::{CallOutcome, Intent, OutcomeWrite, outcome_write};
use crate::{StoreError, sql};
use sqlx::QueryBuilder;
use toolbooth_core::audit::AuditEntry;

/// Writes one change, and appends its audit entries to `notes`.
pub(crate) async fn write(
    connection: &mut DbConnection,
    appender: &mut AuditAppender,
    change: StoreChange,
    notes: &mut Vec<AuditEntry>,
) -> Result<ChangeResult, sqlx::Error> {
    let query = match change {
        StoreChange::Nothing => return Ok(Ok(ChangeEffect::default())),
        StoreChange::Audit(entries) => {
            notes.extend(entries);
            return Ok(Ok(ChangeEffect::default()));
        }
        StoreChange::Note(entry) => {
            notes.push(*entry);
            return Ok(Ok(ChangeEffect::default()));
        }
        StoreChange::PurgeAudit { retention, now_ms } => {
            return appender.purge(connection, retention, now_ms).await;
        }
        StoreChange::SaveDiscovery(record) => return discoveries::save(connection, record).await,
        StoreChange::ForgetDiscovery(server) => return discoveries::forget(connection, server).await,
        StoreChange::ClaimNames { claims, at_ms } => {
            return exposed_names::claim(connection, claims, at_ms).await;
        }
        StoreChange::ReleaseNames(server) => {
            sqlx::query(sql::exposed_names::RELEASE_NAMES).bind(String::from(server))
        }
        StoreChange::Intent(intent) => return write_intent(connection, intent).await,
        StoreChange::Outcome { outcome, audit } => {
            let written = write_outcome(connection, outcome).await?;
            // The call has ended, even if the journal refuses its outcome. An outcome that is stored already has its row.
            let is_stored = matches!(written, Ok(OutcomeWrite::Repeat));
            notes.extend(audit.filter(|_| !is_stored).map(|entry| *entry));
            return Ok(written.map(|_| ChangeEffect::default()));
        }
        StoreChange::AddPage { table, page } => return transfer::add_page(connection, table, page).await,
        StoreChange::EndCopy => return transfer::end_copy(connection).await,
        StoreChange::SetMark { name, value } => {
            transfer::set_mark(connection, name, value).await?;
            return Ok(Ok(ChangeEffect::default()));
        }
        StoreChange::ForgetIntent { call, audit } => {
            notes.extend(audit.map(|entry| *entry));
            sqlx::query(sql::FORGET_INTENT).bind(call.to_string())
        }
        StoreChange::CloseInterrupted { scope, at_ms } => {
            return close_interrupted(connection, scope, at_ms, notes).await;
        }
        StoreChange::RaiseClock(at_ms) => {
            marks::raise_clock(connection, at_ms).await?;
            return Ok(Ok(ChangeEffect::default()));
        }
        StoreChange::AddToken(token) => return tokens::add(connection, token).await,
        StoreChange::RevokeToken { id, at_ms } => return tokens::revoke(connection, id, at_ms).await,
        StoreChange::Hold(call) => return held::hold(connection, *call).await,
        StoreChange::Step { id, step, audit } => {
            return held::step(connection, id, step, audit.map(|entry| *entry), notes).await;
        }
        StoreChange::Sweep { sweep, at_ms } => return held::sweep(connection, sweep, at_ms, notes).await,
        StoreChange::SaveHealth(rows) => return health::save(connection, rows).await,
        StoreChange::SaveSignIn(sign_in) => return sign_ins::save(connection, sign_in).await,
        StoreChange::AddConsoleSession(session) => return console_sessions::add(connection, *session).await,
        StoreChange::ExtendConsoleSession { digest, until_ms } => {
            sqlx::query(sql::console_sessions::EXTEND_SESSION).bind(digest.to_vec()).bind(until_ms)
        }
        StoreChange::ReplaceConsoleCredential { digest, credential } => {
            sqlx::query(sql::console_sessions::REPLACE_CREDENTIAL).bind(digest.to_vec()).bind(credential)
        }
        StoreChange::EndConsoleSession(digest) => {
            sqlx::query(sql::console_sessions::END_SESSION).bind(digest.to_vec())
        }
        StoreChange::SaveShared(record) => return shared_records::save(connection, *record).await,
        StoreChange::ExtendShared { kind, names, expires_ms } => {
            return shared_records::extend(connection, kind, names, expires_ms).await;
        }
        StoreChange::TakeLease { name, holder, now_ms, until_ms } => {
            sqlx::query(sql::shared_records::TAKE_LEASE).bind(name).bind(holder).bind(now_ms).bind(until_ms)
        }
        StoreChange::EndLease { name, holder } => {
            sqlx::query(sql::shared_records::END_LEASE).bind(name).bind(holder)
        }
        StoreChange::SendMail { to, body, at_ms } => {
            sqlx::query(sql::shared_records::SEND_MAIL).bind(to).bind(body).bind(at_ms)
        }
        StoreChange::AddLetter(letter) => return letters::add(connection, *letter).await,
        StoreChange::MoveLetter { id, step, at_ms, audit } => {
            let audit = audit.map(|entry| *entry);
            return letters::step(connection, id, *step, at_ms, audit, notes).await;
        }
        StoreChange::InterruptLetters { scope, at_ms, next_retry_ms } => {
            return letters::interrupt(connection, scope, at_ms, next_retry_ms, notes).await;
        }
        StoreChange::Work { changes, audit } => {
            return jobs::change(connection, changes, audit.map(|entry| *entry), notes).await;
        }
        StoreChange::OpenPlan(plan) => return plans::open(connection, plan).await,
        StoreChange::ClosePlan { id, at_ms } => return plans::close(connection, id, at_ms).await,
        StoreChange::QueueStep { plan, call } => return plans::queue_step(connection, plan, *call).await,
        StoreChange::GrantConsent(consent) => return consents::grant(connection, consent).await,
        StoreChange::RevokeConsent(id) => return consents::revoke(connection, id).await,
        StoreChange::SavePins(pins) => return consents::save_pins(connection, pins).await,
        StoreChange::SaveRelease(release) => return consents::save_release(connection, release).await,
        StoreChange::AddFile { file, quota } => return files::add(connection, *file, quota).await,
        StoreChange::RemoveFile(id) => return files::remove(connection, id).await,
        StoreChange::Secret { name, value } => sqlx::query(sql::ADD_SECRET).bind(name).bind(value),
        StoreChange::OpenGrant { call, until_ms } => {
            sqlx::query(sql::files::OPEN_GRANT).bind(call.to_string()).bind(until_ms)
        }
        StoreChange::EndGrant { call, until_ms } => {
            sqlx::query(sql::files::END_GRANT).bind(call.to_string()).bind(until_ms)
        }
        StoreChange::EndGrants { scope, until_ms } => {
            let mut query = QueryBuilder::<Db>::new(sql::files::END_GRANTS);
            query.push_bind(until_ms).push(" WHERE until_ms > ").push_bind(until_ms).push(interrupted(scope));
            let rows = query.build().execute(connection).await?.rows_affected();
            return Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }));
        }
        StoreChange::ForgetPins(server) => sqlx::query(sql::consents::FORGET_PINS).bind(String::from(server)),
        StoreChange::Nonce { nonce, expires_at_ms } => {
            sqlx::query(sql::USE_NONCE).bind(nonce).bind(expires_at_ms)
        }
        StoreChange::Purge { statement, bound } => {
            sqlx::query(statement).bind(bound).bind(PURGE_CHUNK as i64)
        }
    };
    let rows = query.execute(connection).await?.rows_affected();
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

pub(crate) async fn write_intent(
    connection: &mut DbConnection,
    intent: Intent,
) -> Result<ChangeResult, sqlx::Error> {
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
        return Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }));
    }
    let call_id = intent.call_id;
    let present = sqlx::query(sql::CALL).bind(call_id.to_string()).fetch_one(connection).await?;
    Ok(match read::call(&present) {
        Ok(row) if row.intent == intent => Ok(ChangeEffect::default()),
        _ => Err(StoreError::Conflict { call_id }),
    })
}

async fn write_outcome(
    connection: &mut DbConnection,
    outcome: CallOutcome,
) -> Result<Result<OutcomeWrite, StoreError>, sqlx::Error> {
    let call_id = outcome.call_id;
    let query = sqlx::query(sql::WRITE_OUTCOME)
        .bind(call_id.to_string())
        .bind(outcome.kind.as_str())
        .bind(outcome.at_ms)
        .bind(outcome.error_code.clone())
        .bind(outcome.duration_ms as i64);
    if query.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(Ok(OutcomeWrite::Write));
    }
    let present = sqlx::query(sql::CALL).bind(call_id.to_string()).fetch_optional(connection).await?;
    Ok(match present.as_ref().map(read::call) {
        None => Err(StoreError::NoIntent { call_id }),
        Some(Ok(row)) => match outcome_write(row.outcome.as_ref(), &outcome) {
            kept @ (OutcomeWrite::Repeat | OutcomeWrite::Keep) => Ok(kept),
            _ => Err(StoreError::Conflict { call_id }),
        },
        Some(Err(_)) => Err(StoreError::Conflict { call_id }),
    })
}

/// Closes at most `MAX_OPEN_INTENTS` calls, each with its audit entry.
async fn close_interrupted(
    connection: &mut DbConnection,
    scope: SweepScope,
    at_ms: i64,
    notes: &mut Vec<AuditEntry>,
) -> Result<ChangeResult, sqlx::Error> {
    let limit = i64::from(MAX_OPEN_INTENTS);
    let mut open = QueryBuilder::<Db>::new(sql::INTERRUPTED_CALLS);
    open.push(interrupted(scope)).push(" ORDER BY seq LIMIT ").push_bind(limit);
    let open = open.build().fetch_all(&mut *connection).await?;
    notes.extend(read::readable(&open, read::call).iter().map(|row| row.intent.interrupted_entry(at_ms)));
    let mut close = QueryBuilder::<Db>::new(sql::CLOSE_INTERRUPTED);
    close.push_bind(at_ms).push(" WHERE seq IN (SELECT seq FROM calls WHERE outcome IS NULL");
    close.push(interrupted(scope)).push(" ORDER BY seq LIMIT ").push_bind(limit).push(")");
    let closed = close.build().execute(connection).await?;
    Ok(Ok(ChangeEffect { rows: closed.rows_affected(), ..ChangeEffect::default() }))
}
