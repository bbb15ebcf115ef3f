//! Lint over REST: the quality scores and findings of tool definitions.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::problem::ProblemDocument;
use super::query::{ToolListQuery, ToolParameters};
use super::{check_servers, matching_tools, views};
use axum::Json;
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use toolbooth_core::caller::Admin;
use toolbooth_core::catalog::{Quarantined, Tool};
use toolbooth_core::lint::{
    FindingCode, FindingSeverity, LintFinding, Score, Siblings, examine, identity_finding,
    unsupplied_identity,
};
use toolbooth_core::registry::PageCursor;
use toolbooth_engine::Tenancy;
use utoipa::ToSchema;

/// A page of scores.
#[derive(Debug, Serialize, ToSchema)]
pub struct LintPage {
    /// The revision of the catalog.
    revision: u64,
    /// The minimum score to pass.
    #[schema(maximum = 100)]
    min_score: u8,
    tools: Vec<LintView>,
    /// The value of `cursor` for the next page, if there is one.
    next_cursor: Option<String>,
}

/// The score of one tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct LintView {
    /// The name of the tool for clients.
    name: String,
    /// The server of the tool.
    server: String,
    /// The server's own name for it.
    tool: String,
    /// From 0 to 100.
    #[schema(maximum = 100)]
    score: u8,
    /// Whether it passes. A tool without a description never passes.
    passes: bool,
    /// Whether it is in quarantine. Only administrators see quarantined tools.
    quarantined: bool,
    findings: Vec<FindingView>,
}

/// A finding in a definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct FindingView {
    /// The code of the finding.
    #[schema(example = "undescribed-argument")]
    code: &'static str,
    /// `error`, `warning` or `note`.
    severity: &'static str,
    /// A JSON pointer into the definition.
    #[schema(example = "/inputSchema/properties/path")]
    pointer: String,
    /// The effect on the score.
    points: i8,
    message: String,
    hint: &'static str,
}

fn finding(finding: LintFinding) -> FindingView {
    let LintFinding { code, severity, pointer, points, message, hint } = finding;
    FindingView { code: code.as_str(), severity: severity.as_str(), pointer, points, message, hint }
}

/// The view of a quarantined tool. Adds the finding for hidden characters in its own name, which its name for clients
/// does not contain.
fn quarantined_view(apart: &Quarantined, mut view: LintView) -> LintView {
    let code = FindingCode::HiddenCharacters.as_str();
    if !view.findings.iter().any(|finding| finding.code == code) {
        view.findings.push(FindingView {
            code,
            severity: FindingSeverity::Error.as_str(),
            pointer: apart.why.pointer.clone(),
            points: 0,
            message: apart.why.to_string(),
            hint: "remove them; until then the tool is quarantined",
        });
    }
    LintView { quarantined: true, passes: false, ..view }
}

/// Scores the tools that the caller may use.
///
/// Takes the parameters of `/tools`. For administrators the first page also has the tools in quarantine.
#[utoipa::path(
    get,
    path = "/lint",
    params(ToolParameters),
    responses(
        (status = 200, description = "A page of scores.", body = LintPage),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn lint(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    uri: Uri,
) -> Result<Json<LintPage>, ProblemDocument> {
    let query = ToolListQuery::read(uri.query().unwrap_or_default())?;
    let callers = views(&rest, &caller, &query.personas)?;
    let engine = rest.engine();
    engine.catalog().wait_for_servers(&caller).await;
    let catalog = engine.catalog().snapshot();
    check_servers(&rest, &catalog, &callers, &query)?;
    let (min_score, audience) = (engine.terms().min_quality, engine.terms().tenancy);
    // Siblings are limited to visible tools: the name of a hidden one would reveal it.
    let mut siblings = Siblings::default();
    for tool in catalog.tools_by_name(&callers) {
        siblings.add(tool.server.name.as_str(), &tool.name, &tool.description().unwrap_or_default());
    }
    let view = |tool: &Tool| {
        let subject = tool.lint_subject();
        let mut score: Score = examine(&subject).beside(&subject, &siblings);
        if audience == Tenancy::Many {
            score.findings.extend(unsupplied_identity(&tool.definition).into_iter().map(identity_finding));
        }
        LintView {
            name: tool.exposed.to_string(),
            server: tool.server.name.to_string(),
            tool: tool.name.to_string(),
            score: score.points,
            passes: score.passes(min_score),
            quarantined: false,
            findings: score.findings.into_iter().map(finding).collect(),
        }
    };
    let page = matching_tools(&rest, &catalog, &callers, &query);
    let mut tools: Vec<LintView> = Vec::with_capacity(page.tools.len());
    if caller.admin == Admin::Yes && query.query.after.is_none() {
        let servers = &query.query.servers;
        let is_wanted = |apart: &Quarantined| {
            servers.is_empty() || servers.iter().any(|name| name == apart.tool.server.name.as_str())
        };
        let apart = engine.catalog().quarantined();
        tools.extend(
            apart
                .iter()
                .filter(|apart| is_wanted(apart))
                .map(|apart| quarantined_view(apart, view(&apart.tool))),
        );
    }
    tools.extend(page.tools.iter().map(|tool| view(tool)));
    let next_cursor = page.next.as_ref().map(PageCursor::write);
    Ok(Json(LintPage { revision: catalog.revision, min_score, tools, next_cursor }))
}
