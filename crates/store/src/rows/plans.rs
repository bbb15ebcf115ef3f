//! Plans in the database.

use super::change::{ChangeEffect, ChangeResult};
use super::dialect::{DbConnection, DbRow};
use super::held::{find, held, hold};
use super::read::{readable, unreadable};
use crate::StoreError;
use crate::limits::{MAX_OPEN_PLANS, MAX_PLAN_STEPS};
use crate::sql::held as sql;
use sqlx::Row;
use sqlx::error::BoxDynError;
use toolbooth_core::held::HeldCall;
use toolbooth_core::plan::{Plan, PlanState, PlanStep};
use uuid::Uuid;

/// Reads a row of `plans`.
pub(crate) fn plan(row: &DbRow) -> Result<Plan, BoxDynError> {
    Ok(Plan {
        id: row.try_get::<&str, _>("id")?.parse()?,
        user: row.try_get("user_name")?,
        persona: row.try_get("persona")?,
        session: row.try_get("session")?,
        state: row.try_get::<&str, _>("state")?.parse()?,
        created_ms: row.try_get("created_ms")?,
        closed_ms: row.try_get("closed_ms")?,
    })
}

pub(crate) async fn open(connection: &mut DbConnection, new: Plan) -> Result<ChangeResult, sqlx::Error> {
    let kept = |plan| Ok(ChangeEffect { plan: Some(plan), ..ChangeEffect::default() });
    let present = sqlx::query(sql::PLAN).bind(new.id.to_string()).fetch_optional(&mut *connection).await?;
    if let Some(row) = present {
        let name = new.id.to_string();
        return Ok(match plan(&row) {
            Ok(present) if present == new => kept(present),
            _ => Err(StoreError::Taken { what: "plan", name }),
        });
    }
    let open = sqlx::query(sql::OPEN_PLANS).bind(new.user.clone()).bind(MAX_OPEN_PLANS as i64);
    let open = readable(&open.fetch_all(&mut *connection).await?, plan);
    if let Some(present) = open.iter().find(|present| present.has_scope_of(&new)) {
        return Ok(kept(present.clone()));
    }
    if open.len() >= MAX_OPEN_PLANS {
        return Ok(Err(StoreError::Full { what: "open plans" }));
    }
    let query = sqlx::query(sql::ADD_PLAN)
        .bind(new.id.to_string())
        .bind(new.user.clone())
        .bind(new.persona.clone())
        .bind(new.session.clone())
        .bind(new.state.as_str())
        .bind(new.created_ms)
        .bind(new.closed_ms);
    query.execute(connection).await?;
    Ok(kept(new))
}

pub(crate) async fn close(
    connection: &mut DbConnection,
    id: Uuid,
    at_ms: i64,
) -> Result<ChangeResult, sqlx::Error> {
    let row = sqlx::query(sql::PLAN).bind(id.to_string()).fetch_optional(&mut *connection).await?;
    let closed = match row.as_ref().map(plan) {
        None => return Ok(Ok(ChangeEffect::default())),
        Some(Err(error)) => return Ok(Err(unreadable(&error))),
        Some(Ok(plan)) => plan.close(at_ms),
    };
    sqlx::query(sql::CLOSE_PLAN).bind(id.to_string()).bind(closed.closed_ms).execute(connection).await?;
    Ok(Ok(ChangeEffect { plan: Some(closed), ..ChangeEffect::default() }))
}

pub(crate) async fn queue_step(
    connection: &mut DbConnection,
    id: Uuid,
    mut call: HeldCall,
) -> Result<ChangeResult, sqlx::Error> {
    if let Some(row) = find(connection, call.id).await? {
        return Ok(match held(&row).map(|kept| kept.plan) {
            Ok(Some(place)) if place.plan == id => {
                Ok(ChangeEffect { step: place.step, ..ChangeEffect::default() })
            }
            _ => Err(StoreError::Conflict { call_id: call.id }),
        });
    }
    let row = sqlx::query(sql::PLAN).bind(id.to_string()).fetch_optional(&mut *connection).await?;
    let step = match row.as_ref().map(|row| (plan(row), row.try_get::<i64, _>("steps"))) {
        Some((Ok(plan), Ok(steps))) if plan.state == PlanState::Open => {
            u32::try_from(steps).unwrap_or(MAX_PLAN_STEPS).saturating_add(1)
        }
        _ => return Ok(Err(StoreError::NoPlan { plan: id })),
    };
    if step > MAX_PLAN_STEPS {
        return Ok(Err(StoreError::Full { what: "steps of one plan" }));
    }
    call.plan = Some(PlanStep { plan: id, step });
    if let Err(refusal) = hold(connection, call).await? {
        return Ok(Err(refusal));
    }
    sqlx::query(sql::COUNT_STEP).bind(id.to_string()).bind(i64::from(step)).execute(connection).await?;
    Ok(Ok(ChangeEffect { step, ..ChangeEffect::default() }))
}
