//! The record of calls over REST. A record is the audit row of its call.

use super::super::RestState;
use super::super::audit;
use super::super::auth::RestCaller;
use super::super::extract::{self, NoQuery, PathParam, QueryParams, hex};
use super::super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::audit::AuditRow;
use toolbooth_core::call::{StageTime, read_stage_times};
use toolbooth_core::caller::Caller;
use toolbooth_core::dead_letter::Attempt;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_engine::AuditFilter;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// The kind of audit rows that record calls.
const CALL: &str = "call";
/// The page size, and its maximum.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;
/// The beginning of the names of tools that run skills.
const SKILL_TOOL: &str = "skill_";

/// Filters for the record of calls.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CallsQuery {
    /// Only calls of this user. Others than administrators see only their own calls.
    user: Option<String>,
    /// Only calls of this server.
    server: Option<String>,
    /// Only calls of this tool, by any of its names.
    tool: Option<String>,
    /// Only calls with this outcome.
    #[param(inline)]
    outcome: Option<OutcomeWord>,
    /// Only calls of this client: its `clientInfo.name`. Calls over REST have no client.
    client: Option<String>,
    /// Only calls in this session.
    session: Option<String>,
    /// Only calls that ended at this time or later, in milliseconds since 1970.
    since: Option<i64>,
    /// Only calls that ended before this time, in milliseconds since 1970.
    until: Option<i64>,
    /// Only calls of tools whose server and name, joined by `_`, contain this text.
    q: Option<String>,
    /// Only calls before this one: the `next_before` of the previous page.
    before: Option<u64>,
    /// Maximum number of calls. Values out of range are clamped.
    limit: Option<u32>,
}

/// An outcome in the record of calls.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    Done,
    ToolError,
    Failed,
    Timeout,
    Cancelled,
    Held,
    Unknown,
}

impl OutcomeWord {
    /// The word in audit rows.
    fn as_str(self) -> &'static str {
        let kind = match self {
            Self::Done => OutcomeKind::Done,
            Self::ToolError => OutcomeKind::ToolError,
            Self::Failed => OutcomeKind::Failed,
            Self::Timeout => OutcomeKind::Timeout,
            Self::Cancelled => OutcomeKind::Cancelled,
            Self::Unknown => OutcomeKind::Unknown,
            // The call continues under another row.
            Self::Held => return "held",
        };
        kind.as_str()
    }
}

/// One attempt to serve a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallAttemptView {
    /// The provider it was sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    duration_ms: u64,
    /// `done`, or how it failed.
    outcome: String,
    /// The code of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// One stage of a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallStageView {
    /// The stage: `resolve`, `authorise`, `draft`, `judge`, `ask` (waits for a person), `seal`, `route`, `dispatch`, `shape`
    /// or `record`. A call enters a stage again after an approval.
    name: String,
    /// When it began, in microseconds after the call began.
    start_us: u64,
    duration_us: u64,
}

/// The record of a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallRecordView {
    /// The id of the call.
    id: String,
    /// When it began, in milliseconds since 1970.
    at_ms: i64,
    duration_ms: u64,
    /// The stages that it passed, in their order. Not in lists, and absent if its tool is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<CallStageView>,
    /// The time before it was sent, for example while a person was asked. Absent if it was not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
    #[schema(value_type = String)]
    user: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    persona: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The name that the client gave itself. Absent for calls over REST.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    client: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    server: Option<Arc<str>>,
    /// The server's own name of the tool, or the requested name of an unknown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    tool: Option<Arc<str>>,
    /// The name that clients use for the tool; absent if the tool is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// `done`, `tool_error`, `failed`, `timeout`, `cancelled`, `held` or `unknown`.
    #[schema(value_type = String)]
    outcome: Arc<str>,
    /// The present state of the held call, if the outcome is `held`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_state: Option<&'static str>,
    /// The present state of the run, if the call ran a skill whose steps waited for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_state: Option<&'static str>,
    /// The code of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    code: Option<Arc<str>>,
    /// The provider that served the call, if the tool has providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// The attempts in order. Empty if the call was not sent.
    attempts: Vec<CallAttemptView>,
    /// The beginning of the arguments, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    arguments_preview: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<String>,
    /// The size of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<u64>,
    /// The result, for the user of the call, as long as it is in the memory of this gateway (`results.recent_bytes`; up to
    /// 64 KiB each). Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<RawJson>,
    /// The files that the call returned.
    #[schema(value_type = Vec<Object>)]
    artifacts: Vec<RawJson>,
    /// The number of further files that the record does not list.
    #[serde(skip_serializing_if = "Option::is_none")]
    artifacts_left_out: Option<u64>,
    /// How the result is to be displayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    display: Option<RawJson>,
    /// The held call: `GET /approvals/{id}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
    /// The dead letter: `GET /dead-letters/{id}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter: Option<String>,
    /// The failed call that this one replays.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_of: Option<String>,
    /// Who requested the replay; absent for an automatic one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    replayed_by: Option<Arc<str>>,
    /// The id of the call's trace, if calls are traced (`telemetry.otlp_url`).
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    /// The number of the audit row.
    audit_seq: u64,
}

/// A page of the record of calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallsPage {
    calls: Vec<CallRecordView>,
    /// The value of `before` for the next page, if there is one.
    next_before: Option<u64>,
}

/// Lists finished calls, newest first: the caller's own, or those of all users for an administrator.
///
/// Calls are recorded in the audit log, so `audit.calls` and the retention of the log apply to them.
#[utoipa::path(
    get,
    path = "/calls",
    params(CallsQuery),
    responses(
        (status = 200, description = "A page of calls.", body = CallsPage),
        (status = 400, description = "`request.bad-query`."),
    )
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(query): QueryParams<CallsQuery>,
) -> Result<Json<CallsPage>, ProblemDocument> {
    let CallsQuery { user, server, tool, outcome, client, session, since, until, q, before, limit } = query;
    let limit = limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let filter = AuditFilter {
        user,
        server,
        tool,
        outcome: outcome.map(|outcome| outcome.as_str().to_owned()),
        client,
        session,
        text: q,
        since_ms: since,
        until_ms: until,
        kind: Some(CALL.into()),
        before_seq: before,
        limit: Some(limit),
        ..AuditFilter::default()
    };
    let (rows, next_before) = audit::page(rest.engine(), &caller, filter).await?;
    let mut calls: Vec<CallRecordView> = rows.into_iter().map(view).collect();
    for call in &mut calls {
        call.stages.clear();
        complete(&rest, &caller, call).await?;
    }
    Ok(Json(CallsPage { calls, next_before }))
}

/// Shows the record of a call.
#[utoipa::path(
    get,
    path = "/calls/{id}",
    params(("id" = String, Path, description = "The id of the call.")),
    responses(
        (status = 200, description = "The record.", body = CallRecordView),
        (status = 404, description = "`call.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<CallRecordView>, ProblemDocument> {
    let call = extract::id(&id, "call.unknown", "record of a call")?;
    let filter = AuditFilter {
        kind: Some(CALL.into()),
        call_id: Some(call),
        limit: Some(1),
        ..AuditFilter::default()
    };
    let row = rest.engine().audit().rows(&caller, filter).await?.pop();
    let row = row.ok_or_else(|| Problem {
        code: "call.unknown",
        blame: Blame::Caller,
        message: format!("there is no record of a call `{call}`"),
        hint: Some("`toolbooth calls list` shows your calls; a running call has no record yet".into()),
    })?;
    let mut record = view(row);
    complete(&rest, &caller, &mut record).await?;
    if record.user == caller.user {
        record.result = rest.engine().calls().recent_results().of(call, &caller.user);
    }
    Ok(Json(record))
}

/// Adds what has become of a call since its row was written, and the name that clients use now.
async fn complete(rest: &RestState, caller: &Caller, call: &mut CallRecordView) -> Result<(), Problem> {
    let engine = rest.engine();
    if let (Some(server), Some(tool)) = (&call.server, &call.tool) {
        call.name = engine.catalog().client_name_of(server, tool);
    }
    if &*call.outcome == "held"
        && let Some(held) = call.held.as_deref().and_then(|held| held.parse::<Uuid>().ok())
    {
        // Held calls are deleted some time after they have ended.
        call.held_state = engine.approvals().get(caller, held).await.ok().map(|held| held.state.as_str());
    }
    let is_skill = call.tool.as_deref().is_some_and(|tool| tool.starts_with(SKILL_TOOL));
    if is_skill && let Ok(run) = call.id.parse::<Uuid>() {
        call.run_state = engine.jobs().run_title(run).await?.map(|title| title.state.as_str());
    }
    Ok(())
}

/// The held call that the record of a call names, if the caller may see the record.
pub(super) async fn held_of(rest: &RestState, caller: &Caller, call: Uuid) -> Result<Option<Uuid>, Problem> {
    let filter = AuditFilter {
        kind: Some(CALL.into()),
        call_id: Some(call),
        limit: Some(1),
        ..AuditFilter::default()
    };
    let row = rest.engine().audit().rows(caller, filter).await?.pop();
    let held = row.and_then(|row| row.entry.detail).and_then(|detail| detail.member("held"));
    Ok(held.and_then(|held| held.string().and_then(|text| text.parse().ok())))
}

fn view(row: AuditRow) -> CallRecordView {
    let AuditRow { seq, entry, .. } = row;
    let detail = entry.detail.unwrap_or_else(RawJson::empty_object);
    let text = |key: &str| detail.member(key).and_then(|value| value.string().map(|text| text.into_owned()));
    let number = |key: &str| detail.member(key).and_then(|value| value.read::<u64>().ok());
    let failed: Vec<Attempt> =
        detail.member("failed_attempts").and_then(|list| list.read().ok()).unwrap_or_default();
    let (waited_ms, provider) = (number("waited_ms"), text("provider"));
    let replay_of = text("first_call");
    let duration_ms = entry.duration_ms.unwrap_or(0);
    let mut attempts: Vec<CallAttemptView> = failed.iter().map(failed_attempt).collect();
    let was_answered = matches!(&*entry.outcome, "done" | "tool_error" | "cancelled");
    if let Some(waited_ms) = waited_ms
        && (was_answered || attempts.is_empty())
    {
        let before = failed.iter().map(|attempt| attempt.duration_ms).sum::<u64>().saturating_add(waited_ms);
        let server = entry.server.as_ref().map(|server| format!("mcp:{server}"));
        attempts.push(CallAttemptView {
            provider: provider.clone().or(server),
            duration_ms: duration_ms.saturating_sub(before),
            outcome: entry.outcome.to_string(),
            code: entry.code.as_deref().map(str::to_owned),
        });
    }
    CallRecordView {
        id: entry.call_id.map(|id| id.to_string()).unwrap_or_default(),
        at_ms: entry.at_ms.saturating_sub(i64::try_from(duration_ms).unwrap_or(0)),
        duration_ms,
        stages: detail.member("stages").map(|stored| stages(&stored)).unwrap_or_default(),
        waited_ms,
        user: entry.user,
        persona: entry.persona,
        session: text("session"),
        client: entry.client,
        server: entry.server,
        tool: entry.tool,
        name: None,
        outcome: entry.outcome,
        held_state: None,
        run_state: None,
        code: entry.code,
        provider,
        attempts,
        arguments_preview: entry.arguments_preview,
        arguments_sha256: entry.arguments_sha256.map(|hash| hex(&hash)),
        result_bytes: number("result_bytes"),
        result: None,
        artifacts: detail.member("artifacts").and_then(|list| list.elements().ok()).unwrap_or_default(),
        artifacts_left_out: number("artifacts_left_out"),
        display: detail.member("display"),
        held: text("held"),
        dead_letter: text("dead_letter"),
        replayed_by: entry.by.filter(|_| replay_of.is_some()),
        replay_of,
        trace: text("trace"),
        audit_seq: seq,
    }
}

fn stages(stored: &RawJson) -> Vec<CallStageView> {
    let stages = read_stage_times(stored).into_iter();
    stages
        .map(|StageTime { name, start_us, duration_us }| CallStageView { name, start_us, duration_us })
        .collect()
}

fn failed_attempt(attempt: &Attempt) -> CallAttemptView {
    CallAttemptView {
        provider: Some(attempt.provider.clone()),
        duration_ms: attempt.duration_ms,
        outcome: if attempt.code == "call.timeout" { "timeout" } else { "failed" }.to_owned(),
        code: Some(attempt.code.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use toolbooth_core::audit::AuditEntry;

    fn shown(outcome: &str, detail: &Value) -> Value {
        let entry = AuditEntry {
            call_id: Some(Uuid::from_u128(7)),
            server: Some("web".into()),
            tool: Some("find".into()),
            duration_ms: Some(100),
            detail: Some(RawJson::from_value(detail)),
            ..AuditEntry::new(1_000, "call", "ann", outcome)
        };
        serde_json::to_value(view(AuditRow { seq: 9, position: 1, hash: [0; 32], entry })).expect("JSON")
    }

    #[test]
    fn a_record_shows_every_attempt() {
        let failed = json!([{"at_ms": 910, "provider": "mcp:a", "code": "call.timeout", "duration_ms": 30}]);
        let served = json!({"waited_ms": 10, "provider": "mcp:b", "failed_attempts": failed});
        let cases = [
            ("done", json!({"waited_ms": 0}), json!([["mcp:web", 100, "done"]])),
            ("done", served, json!([["mcp:a", 30, "timeout"], ["mcp:b", 60, "done"]])),
            ("failed", json!({"waited_ms": 0, "failed_attempts": failed}), json!([["mcp:a", 30, "timeout"]])),
            // It was refused or held before it was sent.
            ("failed", json!({}), json!([])),
            ("held", json!({"held": "1"}), json!([])),
        ];
        for (outcome, detail, expected) in cases {
            let shown = shown(outcome, &detail);
            let attempts = shown["attempts"].as_array().expect("a list").iter();
            let attempts: Vec<Value> =
                attempts.map(|one| json!([one["provider"], one["duration_ms"], one["outcome"]])).collect();
            assert_eq!(json!(attempts), expected, "{outcome} {detail}");
            assert_eq!((&shown["at_ms"], &shown["audit_seq"]), (&json!(900), &json!(9)));
        }
    }

    #[test]
    fn every_outcome_of_a_call_can_be_searched_for() {
        let kinds = OutcomeKind::ALL.into_iter().map(OutcomeKind::as_str);
        for word in kinds.chain(["held"]) {
            let read: OutcomeWord = serde_json::from_value(json!(word)).expect(word);
            assert_eq!(read.as_str(), word);
        }
    }

    #[test]
    fn a_record_of_an_earlier_version_is_shown_too() {
        let shown = shown("done", &json!({"session": "work"}));
        assert_eq!((&shown["session"], &shown["artifacts"]), (&json!("work"), &json!([])));
    }
}
