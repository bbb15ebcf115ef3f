//! Held calls in the database.

use super::change::{ChangeEffect, ChangeResult, Sweep};
use super::dialect::{Db, DbConnection, DbRow, SKIP_LOCKED, interrupted};
use super::read::{parse_optional, unreadable};
use crate::StoreError;
use crate::held::{HeldFilter, HeldStep, HeldUpdate, OpenCount};
use crate::limits::{MAX_HELD_PAGE, MAX_SWEEP};
use crate::sql::held as sql;
use sqlx::error::BoxDynError;
use sqlx::{QueryBuilder, Row};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::IdentifiedBy;
use toolbooth_core::held::{HeldCall, HeldFault, HeldOrigin, HeldOutcome};
use toolbooth_core::json::RawJson;
use toolbooth_core::plan::PlanStep;
use uuid::Uuid;

/// Reads a row of `held`.
pub(crate) fn held(row: &DbRow) -> Result<HeldCall, BoxDynError> {
    let plan = match row.try_get::<Option<&str>, _>("plan")? {
        Some(plan) => {
            Some(PlanStep { plan: plan.parse()?, step: row.try_get::<i64, _>("step")?.try_into()? })
        }
        None => None,
    };
    Ok(HeldCall {
        id: row.try_get::<&str, _>("id")?.parse()?,
        kind: row.try_get::<&str, _>("kind")?.parse()?,
        user: row.try_get("user_name")?,
        persona: row.try_get("persona")?,
        session: row.try_get("session")?,
        level: row.try_get("level")?,
        identified_by: identified_by(row)?,
        client: row.try_get("client")?,
        origin: origin(row)?,
        server: row.try_get::<&str, _>("server")?.parse()?,
        tool: row.try_get("tool")?,
        exposed: row.try_get("exposed")?,
        digest: row.try_get::<&[u8], _>("digest")?.try_into()?,
        arguments: RawJson::parse(row.try_get::<String, _>("arguments")?)?,
        arguments_sha256: row.try_get::<&[u8], _>("arguments_sha256")?.try_into()?,
        question: row.try_get("question")?,
        answerer: row.try_get::<&str, _>("answerer")?.parse()?,
        created_ms: row.try_get("created_ms")?,
        expires_ms: row.try_get("expires_ms")?,
        state: row.try_get::<&str, _>("state")?.parse()?,
        decided_by: row.try_get("decided_by")?,
        decided_ms: row.try_get("decided_ms")?,
        decision_note: row.try_get("decision_note")?,
        edited: json(row, "edited")?,
        remember: parse_optional(row, "remember")?,
        claimed_ms: row.try_get("claimed_ms")?,
        outcome: outcome(row)?,
        plan,
    })
}

/// How the caller was identified; `None` in rows of earlier versions.
pub(crate) fn identified_by(row: &DbRow) -> Result<Option<IdentifiedBy>, BoxDynError> {
    Ok(row.try_get::<Option<&str>, _>("identified_by")?.map(str::parse).transpose()?)
}

fn origin(row: &DbRow) -> Result<Option<HeldOrigin>, BoxDynError> {
    let Some(call) = parse_optional(row, "call_id")? else { return Ok(None) };
    Ok(Some(HeldOrigin { call, step: row.try_get("call_step")? }))
}

fn outcome(row: &DbRow) -> Result<Option<HeldOutcome>, BoxDynError> {
    let Some(kind) = parse_optional(row, "outcome")? else { return Ok(None) };
    Ok(Some(HeldOutcome {
        at_ms: row.try_get("ended_ms")?,
        kind,
        code: row.try_get("error_code")?,
        result: json(row, "result")?,
    }))
}

fn json(row: &DbRow, column: &str) -> Result<Option<RawJson>, BoxDynError> {
    let text = row.try_get::<Option<String>, _>(column)?;
    Ok(text.map(RawJson::parse).transpose()?)
}

/// The query for a page of calls.
pub(crate) fn list(filter: HeldFilter) -> QueryBuilder<Db> {
    let mut query = QueryBuilder::new(sql::HELD_CALLS);
    if let Some(user) = filter.user {
        query.push(" AND user_name = ").push_bind(user);
    }
    if let Some(kind) = filter.kind {
        query.push(" AND kind = ").push_bind(kind.as_str());
    }
    if !filter.states.is_empty() {
        let mut states = query.push(" AND state IN (").separated(", ");
        for state in filter.states {
            states.push_bind(state.as_str());
        }
        query.push(")");
    }
    if let Some(plan) = filter.plan {
        query.push(" AND plan = ").push_bind(plan.to_string());
    }
    if let Some(call) = filter.call {
        query.push(" AND arguments_sha256 = ").push_bind(call.arguments_sha256.to_vec());
        query.push(" AND server = ").push_bind(String::from(call.server));
        query.push(" AND tool = ").push_bind(call.tool);
    }
    if let Some(call) = filter.of_call {
        query.push(" AND call_id = ").push_bind(call.to_string());
    }
    if let Some(before) = filter.before {
        query.push(" AND seq < (SELECT seq FROM held WHERE id = ").push_bind(before.to_string()).push(")");
    }
    let limit = filter.limit.unwrap_or(MAX_HELD_PAGE).min(MAX_HELD_PAGE);
    query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(limit));
    query
}

pub(crate) async fn find(connection: &mut DbConnection, id: Uuid) -> Result<Option<DbRow>, sqlx::Error> {
    sqlx::query(sql::HELD).bind(id.to_string()).fetch_optional(connection).await
}

/// Inserts a call, unless it exists.
pub(crate) async fn hold(connection: &mut DbConnection, call: HeldCall) -> Result<ChangeResult, sqlx::Error> {
    if let Some(row) = find(connection, call.id).await? {
        return Ok(match held(&row) {
            Ok(kept) if kept == call => Ok(ChangeEffect::default()),
            _ => Err(StoreError::Conflict { call_id: call.id }),
        });
    }
    let count = sqlx::query(sql::OPEN_HELD).bind(call.user.clone()).fetch_one(&mut *connection).await?;
    let open = OpenCount {
        all: count.try_get::<i64, _>(0)? as usize,
        of_user: count.try_get::<i64, _>(1)? as usize,
    };
    if let Err(full) = open.check() {
        return Ok(Err(full));
    }
    let query = sqlx::query(sql::HOLD)
        .bind(call.id.to_string())
        .bind(call.kind.as_str())
        .bind(call.user)
        .bind(call.persona)
        .bind(call.session)
        .bind(call.level)
        .bind(call.identified_by.map(|by| by.to_string()))
        .bind(call.client)
        .bind(String::from(call.server))
        .bind(call.tool)
        .bind(call.exposed)
        .bind(call.digest.to_vec())
        .bind(call.arguments_sha256.to_vec())
        .bind(call.answerer.as_str())
        .bind(call.created_ms)
        .bind(call.expires_ms)
        .bind(call.state.as_str())
        .bind(call.plan.map(|place| place.plan.to_string()))
        .bind(call.plan.map(|place| i64::from(place.step)))
        .bind(call.origin.as_ref().map(|origin| origin.call.to_string()))
        .bind(call.origin.and_then(|origin| origin.step))
        .bind(call.question)
        .bind(call.arguments.as_str().to_owned());
    query.execute(connection).await?;
    Ok(Ok(ChangeEffect::default()))
}

/// Applies a step to a call if its state allows it, and adds the audit entry in the same transaction.
pub(crate) async fn step(
    connection: &mut DbConnection,
    id: Uuid,
    step: HeldStep,
    audit: Option<AuditEntry>,
    notes: &mut Vec<AuditEntry>,
) -> Result<ChangeResult, sqlx::Error> {
    let Some(row) = find(connection, id).await? else { return Ok(Ok(ChangeEffect::default())) };
    let call = match held(&row) {
        Ok(call) => call,
        Err(error) => return Ok(Err(unreadable(&error))),
    };
    let held_update = step.apply(call);
    if let HeldUpdate::Won(call) = &held_update {
        save(connection, call).await?;
        notes.extend(audit);
    }
    Ok(Ok(ChangeEffect { held_update, ..ChangeEffect::default() }))
}

pub(crate) async fn sweep(
    connection: &mut DbConnection,
    sweep: Sweep,
    at_ms: i64,
    notes: &mut Vec<AuditEntry>,
) -> Result<ChangeResult, sqlx::Error> {
    type Move = fn(&HeldCall, i64) -> Result<HeldCall, HeldFault>;
    let limit = MAX_SWEEP as i64;
    let (found, change): (_, Move) = match sweep {
        Sweep::Overdue => {
            let query = sqlx::query(sql::OVERDUE).bind(at_ms).bind(limit);
            (query.fetch_all(&mut *connection).await?, HeldCall::expire)
        }
        Sweep::Interrupted(scope) => {
            let mut query = QueryBuilder::<Db>::new(sql::RUNNING);
            query.push(interrupted(scope)).push(" ORDER BY seq LIMIT ").push_bind(limit).push(SKIP_LOCKED);
            (query.build().fetch_all(&mut *connection).await?, HeldCall::interrupt)
        }
    };
    let mut moved = Vec::new();
    for call in super::read::readable(&found, held) {
        let Ok(call) = change(&call, at_ms) else { continue };
        save(connection, &call).await?;
        notes.push(call.audit_entry(at_ms));
        moved.push(call);
    }
    Ok(Ok(ChangeEffect { held: moved, ..ChangeEffect::default() }))
}

async fn save(connection: &mut DbConnection, call: &HeldCall) -> Result<(), sqlx::Error> {
    let outcome = call.outcome.as_ref();
    let text = |json: &RawJson| json.as_str().to_owned();
    let query = sqlx::query(sql::CHANGE_HELD)
        .bind(call.id.to_string())
        .bind(call.state.as_str())
        .bind(call.decided_by.clone())
        .bind(call.decided_ms)
        .bind(call.decision_note.clone())
        .bind(call.remember.map(|remember| remember.as_str()))
        .bind(call.claimed_ms)
        .bind(outcome.map(|outcome| outcome.kind.as_str()))
        .bind(outcome.map(|outcome| outcome.at_ms))
        .bind(outcome.and_then(|outcome| outcome.code.clone()))
        .bind(call.edited.as_ref().map(text))
        .bind(outcome.and_then(|outcome| outcome.result.as_ref()).map(text));
    query.execute(connection).await?;
    Ok(())
}
