//! Tokens in the database.

use super::change::{ChangeEffect, ChangeResult};
use super::dialect::{DbConnection, DbRow};
use super::read::unreadable;
use crate::StoreError;
use crate::limits::MAX_TOKENS;
use crate::sql::tokens as sql;
use sqlx::Row;
use sqlx::error::BoxDynError;
use toolbooth_core::json::RawJson;
use toolbooth_core::token::TokenRecord;

/// Reads a row of `tokens`.
pub(crate) fn token(row: &DbRow) -> Result<TokenRecord, BoxDynError> {
    let groups = RawJson::parse(row.try_get::<String, _>("groups")?)?;
    Ok(TokenRecord {
        id: row.try_get("id")?,
        hash: row.try_get::<&[u8], _>("hash")?.try_into()?,
        user: row.try_get("user_name")?,
        groups: groups.read()?,
        persona: row.try_get("persona")?,
        note: row.try_get("note")?,
        created_ms: row.try_get("created_ms")?,
        expires_ms: row.try_get("expires_ms")?,
        revoked_ms: row.try_get("revoked_ms")?,
    })
}

pub(crate) async fn add(
    connection: &mut DbConnection,
    record: TokenRecord,
) -> Result<ChangeResult, sqlx::Error> {
    let like = sqlx::query(sql::TOKENS_LIKE).bind(record.id.clone()).bind(record.hash.to_vec());
    if let Some(row) = like.fetch_optional(&mut *connection).await? {
        return Ok(match token(&row) {
            Ok(kept) if kept == record => Ok(ChangeEffect::default()),
            _ => Err(StoreError::Taken { what: "token", name: record.id }),
        });
    }
    let count: i64 = sqlx::query_scalar(sql::TOKEN_COUNT).fetch_one(&mut *connection).await?;
    if count >= MAX_TOKENS as i64 {
        return Ok(Err(StoreError::Full { what: "tokens" }));
    }
    let query = sqlx::query(sql::ADD_TOKEN)
        .bind(record.id)
        .bind(record.hash.to_vec())
        .bind(record.user)
        .bind(RawJson::from_value(&record.groups).as_str().to_owned())
        .bind(record.persona)
        .bind(record.note)
        .bind(record.created_ms)
        .bind(record.expires_ms)
        .bind(record.revoked_ms);
    query.execute(connection).await?;
    Ok(Ok(ChangeEffect::default()))
}

pub(crate) async fn revoke(
    connection: &mut DbConnection,
    id: String,
    at_ms: i64,
) -> Result<ChangeResult, sqlx::Error> {
    let row = sqlx::query(sql::TOKEN_BY_ID).bind(id.clone()).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(Ok(ChangeEffect::default())) };
    let revoked = match token(&row) {
        Ok(token) => token.revoke(at_ms),
        Err(error) => return Ok(Err(unreadable(&error))),
    };
    sqlx::query(sql::REVOKE_TOKEN).bind(id).bind(revoked.revoked_ms).execute(connection).await?;
    Ok(Ok(ChangeEffect { token: Some(revoked), ..ChangeEffect::default() }))
}
