//! Consents, pins and releases in the database.

use super::change::{ChangeEffect, ChangeResult};
use super::dialect::{DbConnection, DbRow};
use super::read::unreadable;
use crate::StoreError;
use crate::limits::{MAX_CONSENTS_OF_USER, MAX_PINS, MAX_RELEASES};
use crate::sql::consents as sql;
use sqlx::Row;
use sqlx::error::BoxDynError;
use toolbooth_core::consent::{Consent, Pin, Release};
use uuid::Uuid;

/// Reads a row of `consents`.
pub(crate) fn consent(row: &DbRow) -> Result<Consent, BoxDynError> {
    Ok(Consent {
        id: row.try_get::<&str, _>("id")?.parse()?,
        user: row.try_get("user_name")?,
        server: row.try_get::<&str, _>("server")?.parse()?,
        tool: row.try_get("tool")?,
        digest: row.try_get::<&[u8], _>("digest")?.try_into()?,
        session: row.try_get("session")?,
        granted_by: row.try_get("granted_by")?,
        created_ms: row.try_get("created_ms")?,
        expires_ms: row.try_get("expires_ms")?,
    })
}

/// Reads a row of `pins`.
pub(crate) fn pin(row: &DbRow) -> Result<Pin, BoxDynError> {
    Ok(Pin {
        server: row.try_get::<&str, _>("server")?.parse()?,
        tool: row.try_get("tool")?,
        digest: row.try_get::<&[u8], _>("digest")?.try_into()?,
        pinned_ms: row.try_get("pinned_ms")?,
        by: row.try_get("pinned_by")?,
        definition: row.try_get("definition")?,
    })
}

/// Reads a row of `releases`.
pub(crate) fn release(row: &DbRow) -> Result<Release, BoxDynError> {
    Ok(Release {
        server: row.try_get::<&str, _>("server")?.parse()?,
        tool: row.try_get("tool")?,
        digest: row.try_get::<&[u8], _>("digest")?.try_into()?,
        released_ms: row.try_get("released_ms")?,
        by: row.try_get("released_by")?,
    })
}

pub(crate) async fn grant(connection: &mut DbConnection, new: Consent) -> Result<ChangeResult, sqlx::Error> {
    let present = sqlx::query(sql::CONSENT).bind(new.id.to_string()).fetch_optional(&mut *connection).await?;
    if let Some(row) = present {
        let name = new.id.to_string();
        return Ok(match consent(&row) {
            Ok(present) if present == new => Ok(ChangeEffect::default()),
            _ => Err(StoreError::Taken { what: "consent", name }),
        });
    }
    let replace = sqlx::query(sql::REPLACE_CONSENT)
        .bind(new.user.clone())
        .bind(new.server.to_string())
        .bind(new.tool.clone())
        .bind(new.session.clone());
    let replaced = replace.execute(&mut *connection).await?.rows_affected();
    let count: i64 =
        sqlx::query_scalar(sql::USER_CONSENTS).bind(new.user.clone()).fetch_one(&mut *connection).await?;
    // A consent that replaces another does not raise the count, so a replacement is never refused.
    if replaced == 0 && count >= MAX_CONSENTS_OF_USER as i64 {
        return Ok(Err(StoreError::Full { what: "consents" }));
    }
    let query = sqlx::query(sql::ADD_CONSENT)
        .bind(new.id.to_string())
        .bind(new.user)
        .bind(String::from(new.server))
        .bind(new.tool)
        .bind(new.digest.to_vec())
        .bind(new.session)
        .bind(new.granted_by)
        .bind(new.created_ms)
        .bind(new.expires_ms);
    query.execute(connection).await?;
    Ok(Ok(ChangeEffect::default()))
}

pub(crate) async fn revoke(connection: &mut DbConnection, id: Uuid) -> Result<ChangeResult, sqlx::Error> {
    let row = sqlx::query(sql::CONSENT).bind(id.to_string()).fetch_optional(&mut *connection).await?;
    let revoked = match row.as_ref().map(consent) {
        None => return Ok(Ok(ChangeEffect::default())),
        Some(Err(error)) => return Ok(Err(unreadable(&error))),
        Some(Ok(consent)) => consent,
    };
    sqlx::query(sql::REVOKE_CONSENT).bind(id.to_string()).execute(connection).await?;
    Ok(Ok(ChangeEffect { consent: Some(revoked), ..ChangeEffect::default() }))
}

pub(crate) async fn save_pins(
    connection: &mut DbConnection,
    pins: Vec<Pin>,
) -> Result<ChangeResult, sqlx::Error> {
    let count: i64 = sqlx::query_scalar(sql::PIN_COUNT).fetch_one(&mut *connection).await?;
    if count + pins.len() as i64 > MAX_PINS as i64 {
        return Ok(Err(StoreError::Full { what: "pins" }));
    }
    for pin in pins {
        let query = sqlx::query(sql::SAVE_PIN)
            .bind(String::from(pin.server))
            .bind(pin.tool)
            .bind(pin.digest.to_vec())
            .bind(pin.pinned_ms)
            .bind(pin.by)
            .bind(pin.definition);
        query.execute(&mut *connection).await?;
    }
    Ok(Ok(ChangeEffect::default()))
}

pub(crate) async fn save_release(
    connection: &mut DbConnection,
    release: Release,
) -> Result<ChangeResult, sqlx::Error> {
    let others: i64 = sqlx::query_scalar(sql::RELEASE_COUNT)
        .bind(release.server.to_string())
        .bind(release.tool.clone())
        .fetch_one(&mut *connection)
        .await?;
    if others >= MAX_RELEASES as i64 {
        return Ok(Err(StoreError::Full { what: "releases" }));
    }
    let query = sqlx::query(sql::SAVE_RELEASE)
        .bind(String::from(release.server))
        .bind(release.tool)
        .bind(release.digest.to_vec())
        .bind(release.released_ms)
        .bind(release.by);
    query.execute(connection).await?;
    Ok(Ok(ChangeEffect::default()))
}
