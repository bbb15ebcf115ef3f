//! Files in the database.

use super::change::{ChangeEffect, ChangeResult};
use super::dialect::{Db, DbConnection, DbRow};
use super::read::unreadable;
use crate::StoreError;
use crate::files::{FileFilter, FileQuota};
use crate::limits::MAX_FILES_PAGE;
use crate::sql::files as sql;
use sqlx::error::BoxDynError;
use sqlx::{QueryBuilder, Row};
use toolbooth_core::file::{FileName, FileOrigin, FileRow};
use uuid::Uuid;

/// Reads a row of `files`.
pub(crate) fn file(row: &DbRow) -> Result<FileRow, BoxDynError> {
    let origin = match row.try_get::<&str, _>("origin")? {
        "upload" => FileOrigin::Upload,
        _ => FileOrigin::Artifact {
            call: row.try_get::<&str, _>("call_id")?.parse()?,
            server: row.try_get::<&str, _>("server")?.parse()?,
            tool: row.try_get("tool")?,
        },
    };
    let name = FileName::made_safe(row.try_get("name")?).ok_or("a file without a name")?;
    Ok(FileRow {
        id: row.try_get::<&str, _>("id")?.parse()?,
        user: row.try_get("user_name")?,
        session: row.try_get("session")?,
        name,
        version: row.try_get::<i64, _>("version")?.try_into()?,
        mime: row.try_get("mime")?,
        size_bytes: row.try_get::<i64, _>("size_bytes")?.try_into()?,
        sha256: row.try_get::<&[u8], _>("sha256")?.try_into()?,
        origin,
        description: row.try_get("description")?,
        viewer: row.try_get("viewer")?,
        created_ms: row.try_get("created_ms")?,
    })
}

pub(crate) fn id(row: &DbRow) -> Result<Uuid, BoxDynError> {
    Ok(row.try_get::<&str, _>("id")?.parse()?)
}

pub(crate) fn list(filter: FileFilter) -> QueryBuilder<Db> {
    let mut query = QueryBuilder::new(sql::FILES);
    query.push(" AND user_name = ").push_bind(filter.user);
    if let Some(session) = filter.session {
        query.push(" AND (session IS NULL OR session = ").push_bind(session).push(")");
    }
    if let Some(name) = filter.name {
        query.push(" AND name = ").push_bind(name);
    }
    if let Some(before) = filter.before {
        query.push(" AND seq < (SELECT seq FROM files WHERE id = ").push_bind(before.to_string()).push(")");
    }
    let limit = filter.limit.unwrap_or(MAX_FILES_PAGE).min(MAX_FILES_PAGE);
    query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(limit));
    query
}

pub(crate) fn known(ids: &[Uuid]) -> QueryBuilder<Db> {
    let mut query = QueryBuilder::new(sql::KNOWN_FILES);
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(id.to_string());
    }
    // PostgreSQL does not accept an empty list.
    query.push(if ids.is_empty() { "NULL)" } else { ")" });
    query
}

/// The number of files of a user, and their total size in bytes.
pub(crate) fn usage(row: &DbRow) -> Result<(u64, u64), BoxDynError> {
    Ok((row.try_get::<i64, _>("files")?.try_into()?, row.try_get::<i64, _>("bytes")?.try_into()?))
}

pub(crate) async fn add(
    connection: &mut DbConnection,
    mut new: FileRow,
    quota: FileQuota,
) -> Result<ChangeResult, sqlx::Error> {
    let kept = |file| Ok(ChangeEffect { file: Some(file), ..ChangeEffect::default() });
    let present = sqlx::query(sql::FILE).bind(new.id.to_string()).fetch_optional(&mut *connection).await?;
    if let Some(row) = present {
        return Ok(match file(&row) {
            Ok(present) if present == (FileRow { version: present.version, ..new.clone() }) => kept(present),
            _ => Err(StoreError::Taken { what: "file", name: new.id.to_string() }),
        });
    }
    let used = sqlx::query(sql::USER_FILES).bind(new.user.clone()).fetch_one(&mut *connection).await?;
    let (files, bytes) = usage(&used).unwrap_or((u64::MAX, u64::MAX));
    if let Err(full) = quota.check(files, bytes, new.size_bytes) {
        return Ok(Err(full));
    }
    let last = sqlx::query_scalar::<_, Option<i64>>(sql::LAST_VERSION)
        .bind(new.user.clone())
        .bind(new.name.to_string())
        .bind(new.session.clone());
    let last = last.fetch_one(&mut *connection).await?.unwrap_or(0);
    new.version = u32::try_from(last).unwrap_or(u32::MAX).saturating_add(1);
    let (call, server, tool) = match new.origin.clone() {
        FileOrigin::Upload => (None, None, None),
        FileOrigin::Artifact { call, server, tool } => {
            (Some(call.to_string()), Some(String::from(server)), Some(tool))
        }
    };
    let query = sqlx::query(sql::ADD_FILE)
        .bind(new.id.to_string())
        .bind(new.user.clone())
        .bind(new.session.clone())
        .bind(new.name.to_string())
        .bind(i64::from(new.version))
        .bind(new.mime.clone())
        .bind(i64::try_from(new.size_bytes).unwrap_or(i64::MAX))
        .bind(new.sha256.to_vec())
        .bind(new.origin.as_str())
        .bind(call)
        .bind(server)
        .bind(tool)
        .bind(new.viewer.clone())
        .bind(new.created_ms)
        .bind(new.description.clone());
    query.execute(connection).await?;
    Ok(kept(new))
}

pub(crate) async fn remove(connection: &mut DbConnection, id: Uuid) -> Result<ChangeResult, sqlx::Error> {
    let row = sqlx::query(sql::FILE).bind(id.to_string()).fetch_optional(&mut *connection).await?;
    let removed = match row.as_ref().map(file) {
        None => return Ok(Ok(ChangeEffect::default())),
        Some(Err(error)) => return Ok(Err(unreadable(&error))),
        Some(Ok(file)) => file,
    };
    sqlx::query(sql::REMOVE_FILE).bind(id.to_string()).execute(connection).await?;
    Ok(Ok(ChangeEffect { file: Some(removed), ..ChangeEffect::default() }))
}
