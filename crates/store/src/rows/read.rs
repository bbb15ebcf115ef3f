//! Reads records from rows.

use super::dialect::DbRow;
use crate::records::{CallOutcome, CallRow, Intent};
use crate::{DatabaseFailure, StoreError};
use sqlx::Row;
use sqlx::error::BoxDynError;
use std::str::FromStr;
use toolbooth_core::outcome::OutcomeKind;
use tracing::warn;
use uuid::Uuid;

/// Returns the records in `rows`; skips and logs a row that cannot be read.
pub(crate) fn readable<T>(rows: &[DbRow], read: fn(&DbRow) -> Result<T, BoxDynError>) -> Vec<T> {
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        match read(row) {
            Ok(record) => records.push(record),
            Err(error) => warn!(%error, "a row of the store cannot be read and was skipped"),
        }
    }
    records
}

/// The error for a row that is needed and cannot be read.
pub(crate) fn unreadable(error: &BoxDynError) -> StoreError {
    warn!(%error, "a row of the store cannot be read");
    StoreError::Failed { failure: DatabaseFailure::Other }
}

/// Parses the text of a nullable column.
pub(crate) fn parse_optional<T: FromStr<Err: Into<BoxDynError>>>(
    row: &DbRow,
    column: &str,
) -> Result<Option<T>, BoxDynError> {
    let word = row.try_get::<Option<&str>, _>(column)?;
    word.map(str::parse).transpose().map_err(Into::into)
}

/// Reads a row of `calls`.
pub(crate) fn call(row: &DbRow) -> Result<CallRow, BoxDynError> {
    let call_id: Uuid = row.try_get::<&str, _>("call_id")?.parse()?;
    let intent = Intent {
        call_id,
        at_ms: row.try_get("started_at_ms")?,
        user: row.try_get("user_name")?,
        server: row.try_get::<&str, _>("server")?.parse()?,
        tool: row.try_get("tool")?,
        arguments_sha256: row.try_get::<&[u8], _>("arguments_sha256")?.try_into()?,
        side_effect: row.try_get("side_effect")?,
    };
    let Some(kind) = row.try_get::<Option<&str>, _>("outcome")? else {
        return Ok(CallRow { intent, outcome: None });
    };
    let outcome = CallOutcome {
        call_id,
        at_ms: row.try_get("ended_at_ms")?,
        kind: kind.parse::<OutcomeKind>()?,
        error_code: row.try_get("error_code")?,
        duration_ms: row.try_get::<i64, _>("duration_ms")?.try_into()?,
    };
    Ok(CallRow { intent, outcome: Some(outcome) })
}
