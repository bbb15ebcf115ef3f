//! The audit in the database: rows are added in batches, and read in pages.

use super::change::{ChangeEffect, ChangeResult};
use super::dialect::{self, Db, DbArguments, DbConnection, DbRow};
use crate::audit::{AuditFilter, CLOCK_DISORDER_MS, CallCount, CountedRows};
use crate::limits::{AuditRetention, MAX_AUDIT_PAGE};
use crate::sql::audit as sql;
use sqlx::error::BoxDynError;
use sqlx::{Arguments, Connection, QueryBuilder, Row};
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, AuditReport, AuditRow, ChainHead, Verifier};
use toolbooth_core::json::RawJson;
use tracing::error;
use uuid::Uuid;

/// The batch sizes. Each statement is a round trip to the connection's thread, so large batches save time; each
/// statement is prepared once, so there are only a few sizes.
pub(crate) const SIZES: [usize; 4] = [250, 50, 10, 1];
const PAGE: i64 = 500;

/// Appends rows to the audit. Only the writer does this, so it can cache the end of the chain.
#[derive(Debug, Default)]
pub(crate) struct AuditAppender {
    // Read on first use, so that a damaged audit only fails changes that need the audit.
    pub(crate) head: Option<ChainHead>,
    // The end of the partitions, as far as it is known.
    room: Option<u64>,
    scratch: Vec<u8>,
}

impl AuditAppender {
    /// Returns the end of the audit. If the last row and the stored head differ, the higher one is used: the missing
    /// rows then remain a gap that `verify` reports.
    async fn head(&mut self, connection: &mut DbConnection) -> Result<ChainHead, sqlx::Error> {
        if let Some(head) = self.head {
            return Ok(head);
        }
        let recorded = end(connection, "head").await?.unwrap_or(ChainHead::START);
        let last = sqlx::query(sql::AUDIT_LAST).fetch_optional(&mut *connection).await?;
        let last = last.as_ref().and_then(chain_head).unwrap_or(ChainHead::START);
        // After all rows were purged, only the stored head remains.
        if last.seq != recorded.seq && last != ChainHead::START {
            error!(
                audit.rows_end = last.seq,
                audit.head = recorded.seq,
                "the audit's last row does not match its stored end; run `toolbooth audit verify`"
            );
        }
        Ok(*self.head.insert(if last.seq > recorded.seq { last } else { recorded }))
    }

    /// Adds entries in order.
    pub(crate) async fn add(
        &mut self,
        connection: &mut DbConnection,
        entries: &[AuditEntry],
    ) -> Result<(), sqlx::Error> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut head = self.head(connection).await?;
        dialect::make_room(connection, &mut self.room, head.seq.saturating_add(entries.len() as u64)).await?;
        let mut rest = entries;
        for (place, size) in SIZES.into_iter().enumerate() {
            while rest.len() >= size {
                let (rows, others) = rest.split_at(size);
                let mut values = DbArguments::default();
                values.reserve(size * sql::AUDIT_WIDTH + 4, 0);
                for entry in rows {
                    head = head.add(entry, &mut self.scratch);
                    bind(&mut values, &head, entry).map_err(sqlx::Error::Encode)?;
                }
                dialect::add_audit(connection, place, values, &head).await?;
                rest = others;
            }
        }
        self.head = Some(head);
        Ok(())
    }

    /// Deletes a chunk of old rows from the beginning, and stores where the chain now begins.
    pub(crate) async fn purge(
        &mut self,
        connection: &mut DbConnection,
        retention: AuditRetention,
        now_ms: i64,
    ) -> Result<ChangeResult, sqlx::Error> {
        let oldest = sqlx::query(sql::OLDEST_AUDIT)
            .bind(super::change::PURGE_CHUNK as i64)
            .fetch_all(&mut *connection)
            .await?;
        let head = self.head(connection).await?;
        let (mut rows, mut base) = (0, None);
        let first = oldest.first().and_then(chain_head);
        if first.is_some_and(|first| !dialect::purges_rows(&first, &head)) {
            return Ok(Ok(ChangeEffect::default()));
        }
        for row in &oldest {
            // A row that cannot be read is kept for inspection, and so are all rows after it.
            let Some(place) = chain_head(row) else { break };
            if !retention.is_over(row.try_get("at_ms")?, place.position, head.position, now_ms) {
                break;
            }
            rows += 1;
            base = Some(place);
        }
        if let Some(base) = base {
            sqlx::query(sql::PURGE_AUDIT).bind(base.seq as i64).execute(&mut *connection).await?;
            let mut values = DbArguments::default();
            bind_end(&mut values, "base", &base).map_err(sqlx::Error::Encode)?;
            sqlx::query_with(sql::SET_AUDIT_END, values).execute(connection).await?;
        }
        Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
    }
}

fn bind(values: &mut DbArguments, place: &ChainHead, entry: &AuditEntry) -> Result<(), BoxDynError> {
    let bytes = |bytes: &[u8]| bytes.to_vec();
    // Shared texts are bound as they are, without a copy.
    values.add(place.seq as i64)?;
    values.add(entry.at_ms)?;
    values.add(Arc::clone(&entry.kind))?;
    values.add(entry.call_id.map(|id| bytes(id.as_bytes())))?;
    values.add(Arc::clone(&entry.user))?;
    values.add(entry.by.clone())?;
    values.add(entry.persona.clone())?;
    values.add(entry.client.clone())?;
    values.add(entry.server.clone())?;
    values.add(entry.tool.clone())?;
    values.add(Arc::clone(&entry.outcome))?;
    values.add(entry.code.clone())?;
    values.add(entry.duration_ms.map(|duration_ms| duration_ms as i64))?;
    values.add(entry.arguments_sha256.map(|sha256| bytes(&sha256)))?;
    values.add(place.position as i64)?;
    values.add(bytes(&place.hash))?;
    values.add(entry.arguments_preview.clone())?;
    values.add(entry.detail.as_ref().map(|detail| detail.as_str().to_owned()))
}

/// Reads a row of `audit`.
pub(crate) fn row(row: &DbRow) -> Result<AuditRow, BoxDynError> {
    let text = |column: usize| row.try_get::<&str, _>(column).map(Arc::from);
    let optional = |column: usize| row.try_get::<Option<&str>, _>(column).map(|text| text.map(Arc::from));
    let detail = match row.try_get::<Option<String>, _>(17)? {
        None => None,
        Some(text) => {
            let length = text.len();
            let detail = RawJson::parse(text)?;
            if detail.as_bytes().len() != length {
                return Err("the detail has surrounding spaces, which the gateway never writes".into());
            }
            Some(detail)
        }
    };
    let entry = AuditEntry {
        at_ms: row.try_get(1)?,
        kind: text(2)?,
        call_id: row.try_get::<Option<&[u8]>, _>(3)?.map(Uuid::from_slice).transpose()?,
        user: text(4)?,
        by: optional(5)?,
        persona: optional(6)?,
        client: optional(7)?,
        server: optional(8)?,
        tool: optional(9)?,
        outcome: text(10)?,
        code: optional(11)?,
        duration_ms: row.try_get::<Option<i64>, _>(12)?.map(u64::try_from).transpose()?,
        arguments_preview: optional(16)?,
        arguments_sha256: row.try_get::<Option<&[u8]>, _>(13)?.map(TryInto::try_into).transpose()?,
        detail,
    };
    Ok(AuditRow {
        seq: row.try_get::<i64, _>(0)?.try_into()?,
        position: row.try_get::<i64, _>(14)?.try_into()?,
        hash: row.try_get::<&[u8], _>(15)?.try_into()?,
        entry,
    })
}

/// The query for a page of rows.
pub(crate) fn list(filter: AuditFilter) -> QueryBuilder<Db> {
    let mut query = QueryBuilder::new(sql::AUDIT_ROWS);
    let (session, text) = (filter.session_prefix(), filter.lower_text());
    let of_user = if filter.call_id.is_some() { dialect::USER_OF_CALL } else { " AND user_name = " };
    let texts = [
        (of_user, filter.user),
        (" AND server = ", filter.server),
        (" AND tool = ", filter.tool),
        (" AND kind = ", filter.kind),
        (" AND outcome = ", filter.outcome),
        (" AND client = ", filter.client),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            query.push(condition).push_bind(text);
        }
    }
    if let Some(session) = session {
        query.push(" AND substr(detail, 1, ").push_bind(text_length(&session));
        query.push(") = ").push_bind(session);
    }
    if let Some(text) = text {
        query.push(dialect::NAME_CONTAINS).push_bind(text).push(") > 0");
    }
    // The plus sign keeps the index on the time out of the outer query, whose order is that of the numbers.
    if let Some(since_ms) = filter.since_ms {
        query.push(sql::AUDIT_SINCE).push_bind(since_ms.saturating_sub(CLOCK_DISORDER_MS));
        query.push(sql::AUDIT_SINCE_END).push(" AND +at_ms >= ").push_bind(since_ms);
    }
    if let Some(until_ms) = filter.until_ms {
        let after_ms = until_ms.saturating_add(CLOCK_DISORDER_MS);
        query.push(sql::AUDIT_UNTIL).push_bind(after_ms);
        // Not a row of a time when the system clock was far ahead: later rows have earlier times.
        query.push(" AND at_ms < ").push_bind(after_ms.saturating_add(24 * CLOCK_DISORDER_MS));
        query.push(sql::AUDIT_UNTIL_END).push(" AND +at_ms < ").push_bind(until_ms);
    }
    if let Some(id) = filter.call_id {
        query.push(" AND call_id = ").push_bind(id.as_bytes().to_vec());
    }
    for (condition, seq) in [(" AND seq > ", filter.after_seq), (" AND seq < ", filter.before_seq)] {
        if let Some(seq) = seq {
            query.push(condition).push_bind(i64::try_from(seq).unwrap_or(i64::MAX));
        }
    }
    let limit = filter.limit.unwrap_or(MAX_AUDIT_PAGE).min(MAX_AUDIT_PAGE);
    query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(limit));
    query
}

/// The number of characters, which `substr` counts.
fn text_length(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(i32::MAX)
}

/// Reads a group of counted calls.
pub(crate) fn counted(row: &DbRow) -> Result<CountedRows, BoxDynError> {
    let number = |column: usize| row.try_get::<i64, _>(column);
    Ok(CountedRows {
        count: CallCount {
            step: number(0)?.try_into()?,
            outcome: row.try_get(1)?,
            calls: number(2)?.try_into()?,
        },
        read: number(3)?.try_into()?,
        oldest_ms: number(4)?,
    })
}

/// The sums of the sizes of results.
#[derive(Debug, Default)]
pub(crate) struct MeasuredRows {
    pub(crate) results: u64,
    pub(crate) bytes: u64,
    /// The number of rows that were read, of all users.
    pub(crate) read: u64,
    /// The time of the oldest of them.
    pub(crate) oldest_ms: i64,
}

pub(crate) fn measured(row: &DbRow) -> Result<MeasuredRows, BoxDynError> {
    let number = |column: usize| row.try_get::<i64, _>(column);
    Ok(MeasuredRows {
        results: number(0)?.try_into()?,
        bytes: number(1)?.try_into()?,
        read: number(2)?.try_into()?,
        oldest_ms: number(3)?,
    })
}

/// Verifies every row, a page at a time, on one snapshot of the database.
pub(crate) async fn verify(connection: &mut DbConnection) -> Result<AuditReport, sqlx::Error> {
    let mut moment = connection.begin_with(dialect::AUDIT_SNAPSHOT).await?;
    let base = end(&mut moment, "base").await?;
    let head = end(&mut moment, "head").await?;
    let (Some(base), Some(head)) = (base, head) else {
        moment.rollback().await?;
        return Ok(Verifier::new(ChainHead::START).without_ends());
    };
    let mut verifier = Verifier::new(base);
    // Rows before the base should have been purged. They are checked too, since they may be forged.
    let mut after = -1;
    'pages: loop {
        let page = sqlx::query(sql::AUDIT_AFTER).bind(after).bind(PAGE).fetch_all(&mut *moment).await?;
        for found in &page {
            after = found.try_get::<i64, _>(0)?;
            let good = match row(found) {
                Ok(row) => verifier.check(&row),
                Err(_) => verifier.unreadable(after.unsigned_abs()),
            };
            if !good {
                break 'pages;
            }
        }
        if (page.len() as i64) < PAGE {
            break;
        }
    }
    moment.rollback().await?;
    Ok(verifier.finish(head))
}

async fn end(connection: &mut DbConnection, name: &'static str) -> Result<Option<ChainHead>, sqlx::Error> {
    let found = sqlx::query(sql::AUDIT_END).bind(name).fetch_optional(connection).await?;
    // An end that cannot be read counts as missing.
    Ok(found.as_ref().and_then(chain_head))
}

pub(crate) fn bind_end(values: &mut DbArguments, name: &str, place: &ChainHead) -> Result<(), BoxDynError> {
    values.add(name)?;
    values.add(place.seq as i64)?;
    values.add(place.position as i64)?;
    values.add(place.hash.to_vec())
}

pub(crate) fn chain_head(row: &DbRow) -> Option<ChainHead> {
    Some(ChainHead {
        seq: row.try_get::<i64, _>("seq").ok()?.try_into().ok()?,
        position: row.try_get::<i64, _>("position").ok()?.try_into().ok()?,
        hash: row.try_get::<&[u8], _>("hash").ok()?.try_into().ok()?,
    })
}
