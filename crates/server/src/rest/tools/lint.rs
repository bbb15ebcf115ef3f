//! The lint over REST: how well tools tell what they are for, and what is odd about them.

use super::super::Rest;
use super::super::problem::ProblemDocument;
use super::super::who::Who;
use super::query::{Narrowing, ToolParameters};
use super::{found, views};
use axum::Json;
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use toolbooth_core::caller::Admin;
use toolbooth_core::catalog::{Quarantined, Tool};
use toolbooth_core::lint::{
    Code, Finding, Score, Severity, Siblings, Subject, examine, identity_finding, unsupplied_identity,
};
use toolbooth_core::registry::Cursor;
use toolbooth_engine::Audience;
use utoipa::ToSchema;

/// A page of scores.
#[derive(Debug, Serialize, ToSchema)]
pub struct LintPage {
    /// The catalog's revision.
    revision: u64,
    /// The pass mark.
    #[schema(maximum = 100)]
    min_score: u8,
    tools: Vec<LintView>,
    /// What to give as `cursor` for the next page.
    next_cursor: Option<String>,
}

/// How one tool did.
#[derive(Debug, Serialize, ToSchema)]
pub struct LintView {
    /// The name clients see.
    name: String,
    /// The server it is on.
    server: String,
    /// The server's own name for it.
    tool: String,
    /// From 0 to 100.
    #[schema(maximum = 100)]
    score: u8,
    /// Whether it passes. A tool without a description never does.
    passes: bool,
    /// Whether it is in quarantine; only those who look after the gateway see such a tool.
    quarantined: bool,
    findings: Vec<FindingView>,
}

/// Something about a definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct FindingView {
    /// What, as a word.
    #[schema(example = "undescribed-argument")]
    code: &'static str,
    /// `error`, `warning` or `note`.
    severity: &'static str,
    /// Where: a JSON pointer into the definition.
    #[schema(example = "/inputSchema/properties/path")]
    pointer: String,
    /// What it did to the score.
    points: i8,
    message: String,
    hint: &'static str,
}

fn finding(finding: Finding) -> FindingView {
    let Finding { code, severity, pointer, points, message, hint } = finding;
    FindingView { code: code.as_str(), severity: severity.as_str(), pointer, points, message, hint }
}

/// A tool in quarantine. What is hidden in its own name is not in the name that it would be offered under.
fn kept_apart(apart: &Quarantined, mut view: LintView) -> LintView {
    let code = Code::HiddenCharacters.as_str();
    if !view.findings.iter().any(|finding| finding.code == code) {
        view.findings.push(FindingView {
            code,
            severity: Severity::Error.as_str(),
            pointer: apart.why.pointer.clone(),
            points: 0,
            message: apart.why.to_string(),
            hint: "take them out; until then the tool is quarantined",
        });
    }
    LintView { quarantined: true, passes: false, ..view }
}

/// Scores the tools that the caller may use.
///
/// Takes the parameters of `/tools`. Those who look after the gateway are also shown what is in quarantine, on the
/// first page.
#[utoipa::path(
    get,
    path = "/lint",
    params(ToolParameters),
    responses((status = 200, description = "A page of scores.", body = LintPage))
)]
pub async fn lint(
    State(rest): State<Rest>,
    Who(caller): Who,
    uri: Uri,
) -> Result<Json<LintPage>, ProblemDocument> {
    let narrowing = Narrowing::read(uri.query().unwrap_or_default())?;
    let callers = views(&rest, &caller, &narrowing.personas)?;
    let engine = &rest.door.engine;
    engine.gathered(&caller).await;
    let catalog = engine.catalog_now();
    let (min_score, audience) = (engine.terms().min_quality, engine.terms().audience);
    // Siblings are those that the caller may see: the name of another would tell that it is there.
    let mut siblings = Siblings::default();
    for tool in catalog.roll(&callers) {
        siblings.note(tool.server.name.as_str(), &tool.name, &tool.description().unwrap_or_default());
    }
    let view = |tool: &Tool| {
        let subject = Subject::of(tool);
        let mut score: Score = examine(&subject).beside(&subject, &siblings);
        if audience == Audience::Many {
            score.findings.extend(unsupplied_identity(tool).into_iter().map(identity_finding));
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
    let page = found(&rest, &catalog, &callers, &narrowing);
    let mut tools: Vec<LintView> = Vec::with_capacity(page.tools.len());
    if caller.admin == Admin::Yes && narrowing.query.after.is_none() {
        let servers = &narrowing.query.servers;
        let is_wanted = |apart: &Quarantined| {
            servers.is_empty() || servers.iter().any(|name| name == apart.tool.server.name.as_str())
        };
        let apart = engine.quarantined();
        tools.extend(
            apart.iter().filter(|apart| is_wanted(apart)).map(|apart| kept_apart(apart, view(&apart.tool))),
        );
    }
    tools.extend(page.tools.iter().map(|tool| view(tool)));
    let next_cursor = page.next.as_ref().map(Cursor::write);
    Ok(Json(LintPage { revision: catalog.revision, min_score, tools, next_cursor }))
}
