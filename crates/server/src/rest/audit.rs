//! The audit log over REST: its rows, and a check of its hash chain.

use super::RestState;
use super::auth::{AdminCaller, RestCaller};
use super::extract::{NoQuery, QueryParams, hex};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::audit::AuditRow;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Lookup;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_engine::{AuditFilter, AuditLog, Engine, MAX_AUDIT_PAGE};
use utoipa::{IntoParams, ToSchema};

/// Filters for the audit log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only rows of this user.
    user: Option<String>,
    /// Only rows of this server.
    server: Option<String>,
    /// Only rows of this tool, by any of its names.
    tool: Option<String>,
    /// Only rows of this kind.
    #[param(example = "call")]
    kind: Option<String>,
    /// Only rows after this sequence number.
    after: Option<u64>,
    /// Only rows before this sequence number: the `next_before` of the previous page.
    before: Option<u64>,
    /// Maximum number of rows. Values out of range are clamped.
    limit: Option<u32>,
}

/// A row of the audit log.
// The order is that of the published schema; a test compares the names with `AuditEntry::fields`.
#[derive(Debug, Serialize, ToSchema)]
pub struct RowView {
    seq: u64,
    at_ms: i64,
    #[schema(value_type = String)]
    kind: Arc<str>,
    #[schema(value_type = String)]
    user: Arc<str>,
    #[schema(value_type = String)]
    outcome: Arc<str>,
    /// The person who decided, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    by: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    server: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    tool: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    persona: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    client: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    code: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    arguments_preview: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    detail: Option<RawJson>,
    /// The hash of this row, which covers the previous one.
    hash: String,
}

fn view(row: AuditRow) -> RowView {
    let AuditRow { seq, position: _, hash, entry } = row;
    RowView {
        seq,
        at_ms: entry.at_ms,
        kind: entry.kind,
        user: entry.user,
        outcome: entry.outcome,
        by: entry.by,
        server: entry.server,
        tool: entry.tool,
        call_id: entry.call_id.map(|id| id.to_string()),
        persona: entry.persona,
        client: entry.client,
        code: entry.code,
        duration_ms: entry.duration_ms,
        arguments_preview: entry.arguments_preview,
        arguments_sha256: entry.arguments_sha256.map(|hash| hex(&hash)),
        detail: entry.detail,
        hash: hex(&hash),
    }
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditPage {
    rows: Vec<RowView>,
    /// The value of `before` for the next page, if there is one.
    next_before: Option<u64>,
}

/// Rows have the server's own name of a tool; people use the exposed name.
fn own_names(
    engine: &Engine,
    caller: &Caller,
    server: Option<String>,
    tool: Option<String>,
) -> (Option<String>, Option<String>) {
    if let (None, Some(name)) = (&server, &tool)
        && let Lookup::Found(found) = engine.catalog().load().tool(name, caller)
    {
        return (Some(found.server.name.to_string()), Some(found.name.to_string()));
    }
    (server, tool)
}

/// Lists the audit log, newest first: the caller's own rows, or all rows for an administrator.
#[utoipa::path(
    get,
    path = "/audit",
    params(AuditQuery),
    responses((status = 200, description = "A page of rows.", body = AuditPage))
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(query): QueryParams<AuditQuery>,
) -> Result<Json<AuditPage>, ProblemDocument> {
    let AuditQuery { user, server, tool, kind, after, before, limit } = query;
    let limit = limit.unwrap_or(100).clamp(1, MAX_AUDIT_PAGE);
    let filter = AuditFilter {
        user,
        server,
        tool,
        kind,
        after_seq: after,
        before_seq: before,
        limit: Some(limit),
        ..AuditFilter::default()
    };
    let (rows, next_before) = page(rest.engine(), &caller, filter).await?;
    Ok(Json(AuditPage { rows: rows.into_iter().map(view).collect(), next_before }))
}

/// A page of rows, and the value of `before` for the next page, if there is one.
pub(super) async fn page(
    engine: &Engine,
    caller: &Caller,
    mut filter: AuditFilter,
) -> Result<(Vec<AuditRow>, Option<u64>), Problem> {
    (filter.server, filter.tool) = own_names(engine, caller, filter.server, filter.tool);
    let limit = filter.limit.and_then(|limit| usize::try_from(limit).ok());
    let rows = engine.audit().rows(caller, filter).await?;
    let is_full = limit.is_some_and(|limit| rows.len() >= limit);
    let next_before = rows.last().map(|row| row.seq).filter(|seq| is_full && *seq > 1);
    Ok((rows, next_before))
}

/// The first row whose hash does not match.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BadRow)]
pub struct BadAuditRow {
    seq: u64,
    why: String,
}

/// The latest row.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeadRow {
    seq: u64,
    hash: String,
}

/// The result of checking the hash chain.
#[derive(Debug, Serialize, ToSchema)]
pub struct Verified {
    ok: bool,
    /// Number of rows that were checked.
    rows: u64,
    /// The last row that was deleted because of its age.
    purged_to: u64,
    first_bad: Option<BadAuditRow>,
    head: HeadRow,
}

/// Checks the hash chain of the audit log. Administrators only.
#[utoipa::path(
    post,
    path = "/audit/verify",
    responses(
        (status = 200, description = "The result of the check.", body = Verified),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn verify(
    State(audit): State<Arc<AuditLog>>,
    AdminCaller(caller): AdminCaller,
    _: NoQuery,
) -> Result<Json<Verified>, ProblemDocument> {
    let report = audit.verify(&caller).await?;
    let first_bad = report.first_bad.map(|bad| BadAuditRow { seq: bad.seq, why: bad.why.to_string() });
    Ok(Json(Verified {
        ok: first_bad.is_none(),
        rows: report.rows,
        purged_to: report.purged_to,
        first_bad,
        head: HeadRow { seq: report.head.seq, hash: hex(&report.head.hash) },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use toolbooth_core::audit::AuditEntry;
    use uuid::Uuid;

    #[test]
    fn a_row_shows_every_field_of_its_entry() {
        let some = |text: &str| Some(Arc::from(text));
        // Without `..`: so that a new field cannot be forgotten here.
        let entry = AuditEntry {
            at_ms: 1,
            kind: "call".into(),
            call_id: Some(Uuid::from_u128(7)),
            user: "ann".into(),
            by: some("cy"),
            persona: some("dev"),
            client: some("client"),
            server: some("mail"),
            tool: some("send"),
            outcome: "done".into(),
            code: some("call.timeout"),
            duration_ms: Some(5),
            arguments_preview: some("{}"),
            arguments_sha256: Some([3; 32]),
            detail: Some(RawJson::empty_object()),
        };
        let mut expected = BTreeSet::from(["seq", "hash"]);
        entry.fields(|name, _| {
            expected.insert(name);
        });
        let row = AuditRow { seq: 9, position: 189, hash: [1; 32], entry };
        let shown = serde_json::to_value(view(row)).expect("JSON");
        let Value::Object(members) = &shown else { panic!("not an object: {shown}") };
        let found: BTreeSet<&str> = members.keys().map(String::as_str).collect();
        assert_eq!(found, expected);
    }
}
