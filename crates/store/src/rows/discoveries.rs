//! Discoveries in the database.
//!
//! The discovery of a server with thousands of tools has many megabytes. SQLite needs four times the size of a value in
//! memory to write it, so a discovery is written and read in pieces.

use super::change::{ChangeEffect, ChangeResult};
use super::dialect::{DbConnection, DbRow, SNAPSHOT};
use crate::records::DiscoveryRecord;
use crate::sql::discoveries as sql;
use bytes::Bytes;
use futures_util::TryStreamExt;
use sqlx::error::BoxDynError;
use sqlx::{Connection, Row};
use toolbooth_core::names::ServerName;

/// The most bytes of a discovery that are written or read at once.
const PIECE: usize = 64 << 10;

pub(crate) async fn save(
    connection: &mut DbConnection,
    record: DiscoveryRecord,
) -> Result<ChangeResult, sqlx::Error> {
    let DiscoveryRecord { server, entry_hash, era, saved_at_ms, payload } = record;
    let server = String::from(server);
    let (first, rest) = payload.split_at(payload.len().min(PIECE));
    let query = sqlx::query(sql::SAVE).bind(server.clone()).bind(entry_hash).bind(era).bind(saved_at_ms);
    let rows = query.bind(first.to_vec()).execute(&mut *connection).await?.rows_affected();
    sqlx::query(sql::FORGET_PIECES).bind(server.clone()).execute(&mut *connection).await?;
    for (number, piece) in (1_i64..).zip(rest.chunks(PIECE)) {
        let query = sqlx::query(sql::SAVE_PIECE).bind(server.clone()).bind(number).bind(piece.to_vec());
        query.execute(&mut *connection).await?;
    }
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

pub(crate) async fn forget(
    connection: &mut DbConnection,
    server: ServerName,
) -> Result<ChangeResult, sqlx::Error> {
    let server = String::from(server);
    let rows = sqlx::query(sql::FORGET).bind(server.clone()).execute(&mut *connection).await?.rows_affected();
    sqlx::query(sql::FORGET_PIECES).bind(server).execute(connection).await?;
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

/// Returns all discoveries; skips and logs one that cannot be read.
pub(crate) async fn all(connection: &mut DbConnection) -> Result<Vec<DiscoveryRecord>, sqlx::Error> {
    // A transaction, so that a discovery that is replaced meanwhile is not read half old and half new.
    let mut reading = connection.begin_with(SNAPSHOT).await?;
    let found = sqlx::query(sql::ALL).fetch_all(&mut *reading).await?;
    let mut records = Vec::with_capacity(found.len());
    for (mut record, rest) in super::read::readable(&found, beginning) {
        if rest > 0 {
            let mut payload = Vec::with_capacity(record.payload.len() + rest);
            payload.extend_from_slice(&record.payload);
            let server = record.server.to_string();
            let mut pieces = sqlx::query(sql::PIECES).bind(server).fetch(&mut *reading);
            while let Some(piece) = pieces.try_next().await? {
                payload.extend_from_slice(piece.try_get("payload")?);
            }
            record.payload = Bytes::from(payload);
        }
        records.push(record);
    }
    reading.rollback().await?;
    Ok(records)
}

/// Reads a row of `discoveries`, and the number of bytes that follow in pieces.
fn beginning(row: &DbRow) -> Result<(DiscoveryRecord, usize), BoxDynError> {
    let record = DiscoveryRecord {
        server: row.try_get::<&str, _>("server")?.parse()?,
        entry_hash: row.try_get("entry_hash")?,
        era: row.try_get("era")?,
        saved_at_ms: row.try_get("saved_at_ms")?,
        payload: row.try_get::<Vec<u8>, _>("payload")?.into(),
    };
    let rest = row.try_get::<Option<i64>, _>("rest")?.unwrap_or_default();
    Ok((record, usize::try_from(rest)?))
}
