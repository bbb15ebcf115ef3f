//! The audit over REST: what happened, and whether the record of it is whole.

use super::Rest;
use super::asked::{Asked, hex};
use super::problem::ProblemDocument;
use super::who::{Keeper, Who};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, AuditRow};
use toolbooth_core::catalog::Lookup;
use toolbooth_core::json::RawJson;
use toolbooth_engine::{AuditFilter, MAX_AUDIT_PAGE};

/// What the audit can be narrowed by.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    user: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    kind: Option<String>,
    after: Option<u64>,
    before: Option<u64>,
    limit: Option<u32>,
}

/// A row as REST shows it.
#[derive(Debug, Serialize)]
pub struct RowView {
    seq: u64,
    at_ms: i64,
    kind: Arc<str>,
    user: Arc<str>,
    outcome: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_preview: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<RawJson>,
    hash: String,
}

fn view(row: AuditRow) -> RowView {
    let AuditRow { seq, position: _, hash, entry } = row;
    let AuditEntry {
        at_ms,
        kind,
        call_id,
        user,
        by,
        persona,
        client,
        server,
        tool,
        outcome,
        code,
        duration_ms,
        arguments_preview,
        arguments_sha256,
        detail,
    } = entry;
    RowView {
        seq,
        at_ms,
        kind,
        user,
        outcome,
        by,
        server,
        tool,
        call_id: call_id.map(|id| id.to_string()),
        persona,
        client,
        code,
        duration_ms,
        arguments_preview,
        arguments_sha256: arguments_sha256.map(|hash| hex(&hash)),
        detail,
        hash: hex(&hash),
    }
}

/// A page of the audit.
#[derive(Debug, Serialize)]
pub struct AuditPage {
    rows: Vec<RowView>,
    /// What to give as `before` for the next page.
    next_before: Option<u64>,
}

/// `GET /audit`: newest first; the caller's own rows, or all for an admin.
pub async fn list(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(query): Asked<AuditQuery>,
) -> Result<Json<AuditPage>, ProblemDocument> {
    let engine = &rest.door.engine;
    let AuditQuery { user, mut server, mut tool, kind, after, before, limit } = query;
    // Rows hold the server's own name of a tool; people know the exposed one.
    if let (None, Some(name)) = (&server, &tool)
        && let Lookup::Found(found) = engine.catalog().tool(name, &caller)
    {
        server = Some(found.server.name.to_string());
        tool = Some(found.name.to_string());
    }
    let limit = limit.unwrap_or(100).clamp(1, MAX_AUDIT_PAGE);
    let filter =
        AuditFilter { user, server, tool, kind, after_seq: after, before_seq: before, limit: Some(limit) };
    let rows: Vec<RowView> = engine.audit_rows(&caller, filter).await?.into_iter().map(view).collect();
    let full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let next_before = rows.last().map(|row| row.seq).filter(|seq| full && *seq > 1);
    Ok(Json(AuditPage { rows, next_before }))
}

/// `POST /audit/verify`: checks every row against the one before it.
pub async fn verify(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
) -> Result<Json<Value>, ProblemDocument> {
    let report = rest.door.engine.verify_audit(&caller).await?;
    let bad = report.first_bad.map(|bad| json!({ "seq": bad.seq, "why": bad.why.to_string() }));
    Ok(Json(json!({
        "ok": bad.is_none(),
        "rows": report.rows,
        "purged_to": report.purged_to,
        "first_bad": bad,
        "head": { "seq": report.head.seq, "hash": hex(&report.head.hash) },
    })))
}
