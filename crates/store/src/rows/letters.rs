//! Dead letters in the database.

use super::change::{ChangeEffect, ChangeResult, StoreChange, SweepScope};
use super::dialect::{Db, DbConnection, DbRow, SKIP_LOCKED, StoreBackend, interrupted};
use super::read::{readable, unreadable};
use crate::StoreError;
use crate::letters::{LetterFilter, LetterStore, LetterUpdate, SWEEP, apply, check_letter, check_room};
use crate::sql::letters as sql;
use async_trait::async_trait;
use sqlx::error::BoxDynError;
use sqlx::{QueryBuilder, Row};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::dead_letter::{DeadLetter, LetterStep};
use uuid::Uuid;

/// Reads a row of `dead_letters`.
fn read(row: &DbRow) -> Result<DeadLetter, BoxDynError> {
    Ok(DeadLetter {
        id: row.try_get::<&str, _>("id")?.parse()?,
        call_id: row.try_get::<&str, _>("call_id")?.parse()?,
        user: row.try_get("user_name")?,
        persona: row.try_get("persona")?,
        session: row.try_get("session")?,
        level: row.try_get("level")?,
        identified_by: super::held::identified_by(row)?,
        server: row.try_get::<&str, _>("server")?.parse()?,
        tool: row.try_get("tool")?,
        exposed: row.try_get("exposed")?,
        provider: row.try_get("provider")?,
        arguments_preview: row.try_get("arguments_preview")?,
        arguments_sha256: row.try_get::<&[u8], _>("arguments_sha256")?.try_into()?,
        sealed: row.try_get("sealed")?,
        error_code: row.try_get("error_code")?,
        error_text: row.try_get("error_text")?,
        attempts: serde_json::from_str(row.try_get("attempts")?)?,
        created_ms: row.try_get("created_ms")?,
        next_retry_ms: row.try_get("next_retry_ms")?,
        state: row.try_get::<&str, _>("state")?.parse()?,
        replaying: row.try_get::<&str, _>("replaying")?.parse()?,
        may_have_happened: row.try_get("may_have_happened")?,
        replays: row.try_get::<i64, _>("replays")?.try_into()?,
        ended_ms: row.try_get("ended_ms")?,
    })
}

fn attempts(letter: &DeadLetter) -> String {
    serde_json::to_string(&letter.attempts).unwrap_or_else(|_| "[]".into())
}

fn list(filter: LetterFilter) -> QueryBuilder<Db> {
    let page_size = filter.page_size();
    let mut query = QueryBuilder::new(sql::LETTERS);
    if let Some(user) = filter.user {
        query.push(" AND user_name = ").push_bind(user);
    }
    if !filter.states.is_empty() {
        let mut states = query.push(" AND state IN (").separated(", ");
        for state in filter.states {
            states.push_bind(state.as_str());
        }
        query.push(")");
    }
    if let Some(tool) = filter.tool {
        query.push(" AND (exposed = ").push_bind(tool.clone()).push(" OR tool = ").push_bind(tool).push(")");
    }
    if let Some(before) = filter.before {
        let before = before.to_string();
        query.push(" AND seq < (SELECT seq FROM dead_letters WHERE id = ").push_bind(before).push(")");
    }
    query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(page_size));
    query
}

/// Inserts a letter, unless it exists.
pub(crate) async fn add(
    connection: &mut DbConnection,
    letter: DeadLetter,
) -> Result<ChangeResult, sqlx::Error> {
    if let Some(row) = find(connection, letter.id).await? {
        return Ok(match read(&row) {
            Ok(kept) if kept == letter => Ok(ChangeEffect::default()),
            _ => Err(StoreError::Conflict { call_id: letter.id }),
        });
    }
    let count = sqlx::query(sql::OPEN_LETTERS).bind(letter.user.clone()).fetch_one(&mut *connection).await?;
    let (all, of_user) = (count.try_get::<i64, _>(0)? as usize, count.try_get::<i64, _>(1)? as usize);
    if let Err(full) = check_room(all, of_user) {
        return Ok(Err(full));
    }
    let attempts = attempts(&letter);
    let query = sqlx::query(sql::ADD_LETTER)
        .bind(letter.id.to_string())
        .bind(letter.call_id.to_string())
        .bind(letter.user)
        .bind(letter.persona)
        .bind(letter.session)
        .bind(letter.level)
        .bind(letter.identified_by.map(|by| by.to_string()))
        .bind(String::from(letter.server))
        .bind(letter.tool)
        .bind(letter.exposed)
        .bind(letter.provider)
        .bind(letter.arguments_preview)
        .bind(letter.arguments_sha256.to_vec())
        .bind(letter.error_code)
        .bind(letter.error_text)
        .bind(attempts)
        .bind(letter.created_ms)
        .bind(letter.next_retry_ms)
        .bind(letter.state.as_str())
        .bind(letter.replaying.as_str())
        .bind(letter.may_have_happened)
        .bind(i64::from(letter.replays))
        .bind(letter.sealed);
    query.execute(connection).await?;
    Ok(Ok(ChangeEffect::default()))
}

async fn find(connection: &mut DbConnection, id: Uuid) -> Result<Option<DbRow>, sqlx::Error> {
    sqlx::query(sql::LETTER).bind(id.to_string()).fetch_optional(connection).await
}

/// Applies a step to a letter if its state allows it, and adds the audit entry in the same transaction.
pub(crate) async fn step(
    connection: &mut DbConnection,
    id: Uuid,
    step: LetterStep,
    at_ms: i64,
    audit: Option<AuditEntry>,
    notes: &mut Vec<AuditEntry>,
) -> Result<ChangeResult, sqlx::Error> {
    let Some(row) = find(connection, id).await? else { return Ok(Ok(ChangeEffect::default())) };
    let letter = match read(&row) {
        Ok(letter) => letter,
        Err(error) => return Ok(Err(unreadable(&error))),
    };
    let letter = apply(letter, &step, at_ms);
    if let LetterUpdate::Won(moved) = &letter {
        save(connection, moved).await?;
        notes.extend(audit);
    }
    Ok(Ok(ChangeEffect { letter, ..ChangeEffect::default() }))
}

/// Makes letters pending again whose replay was interrupted.
pub(crate) async fn interrupt(
    connection: &mut DbConnection,
    scope: SweepScope,
    at_ms: i64,
    next_retry_ms: i64,
    notes: &mut Vec<AuditEntry>,
) -> Result<ChangeResult, sqlx::Error> {
    let mut query = QueryBuilder::<Db>::new(sql::RETRYING_LETTERS);
    query.push(interrupted(scope)).push(" ORDER BY seq LIMIT ").push_bind(SWEEP as i64).push(SKIP_LOCKED);
    let found = query.build().fetch_all(&mut *connection).await?;
    let mut letters = Vec::new();
    for letter in readable(&found, read) {
        let Ok(letter) = letter.step(&LetterStep::Interrupt { next_retry_ms }, at_ms) else { continue };
        save(connection, &letter).await?;
        notes.push(letter.audit_entry(at_ms, None, "interrupted"));
        letters.push(letter);
    }
    Ok(Ok(ChangeEffect { letters, ..ChangeEffect::default() }))
}

async fn save(connection: &mut DbConnection, letter: &DeadLetter) -> Result<(), sqlx::Error> {
    let query = sqlx::query(sql::CHANGE_LETTER)
        .bind(letter.id.to_string())
        .bind(letter.provider.clone())
        .bind(letter.error_code.clone())
        .bind(letter.error_text.clone())
        .bind(attempts(letter))
        .bind(letter.next_retry_ms)
        .bind(letter.state.as_str())
        .bind(letter.may_have_happened)
        .bind(i64::from(letter.replays))
        .bind(letter.ended_ms)
        .bind(letter.sealed.clone());
    query.execute(connection).await?;
    Ok(())
}

#[async_trait]
impl LetterStore for StoreBackend {
    async fn add_letter(&self, letter: DeadLetter) -> Result<(), StoreError> {
        check_letter(&letter)?;
        self.change(StoreChange::AddLetter(letter.into())).await?;
        Ok(())
    }

    async fn letter(&self, id: Uuid) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.all(sqlx::query(sql::LETTER).bind(id.to_string()), read).await?.pop())
    }

    async fn letters(&self, filter: LetterFilter) -> Result<Vec<DeadLetter>, StoreError> {
        self.all(list(filter).build(), read).await
    }

    async fn due_letters(&self, now_ms: i64, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.all(sqlx::query(sql::DUE_LETTERS).bind(now_ms).bind(i64::from(limit)), read).await
    }

    async fn next_letter_ms(&self) -> Result<Option<i64>, StoreError> {
        let found = self.all(sqlx::query(sql::NEXT_LETTER), |row| Ok(row.try_get("next_ms")?)).await?;
        Ok(found.into_iter().next().flatten())
    }

    async fn move_letter(
        &self,
        id: Uuid,
        step: LetterStep,
        at_ms: i64,
        audit: Option<AuditEntry>,
    ) -> Result<LetterUpdate, StoreError> {
        let audit = audit.map(|entry| Box::new(entry.truncated()));
        let change = StoreChange::MoveLetter { id, step: step.into(), at_ms, audit };
        Ok(self.change(change).await?.letter)
    }

    async fn interrupted_letters(
        &self,
        at_ms: i64,
        next_retry_ms: i64,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.interrupt_letters(SweepScope::Start, at_ms, next_retry_ms).await
    }
}

impl StoreBackend {
    /// Makes letters pending again whose replay was interrupted, in chunks.
    pub(crate) async fn interrupt_letters(
        &self,
        scope: SweepScope,
        at_ms: i64,
        next_retry_ms: i64,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let mut all = Vec::new();
        loop {
            let change = StoreChange::InterruptLetters { scope, at_ms, next_retry_ms };
            let some = self.change(change).await?.letters;
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some);
        }
    }
}
