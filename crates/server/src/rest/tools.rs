//! Tools over REST.

use super::Rest;
use super::asked::{Asked, At, Nothing};
use super::problem::ProblemDocument;
use super::who::{Who, through};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolbooth_core::catalog::{Lookup, Tool};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use utoipa::{IntoParams, ToSchema};

/// A tool as REST shows it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolView {
    /// The name clients see.
    pub name: String,
    /// Its canonical id.
    pub id: String,
    /// The server it is on.
    pub server: String,
    /// The server's own name for it.
    pub tool: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<RawJson>,
    /// The whole definition clients see.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub definition: Option<RawJson>,
}

enum Detail {
    Summary,
    Full,
}

fn view(tool: &Tool, detail: &Detail) -> ToolView {
    let full = matches!(detail, Detail::Full);
    ToolView {
        name: tool.exposed.to_string(),
        id: tool.canonical(),
        server: tool.server.name.to_string(),
        tool: tool.name.to_string(),
        description: tool.description(),
        parameters: full.then(|| tool.input_schema()),
        definition: full.then(|| tool.definition.clone()),
    }
}

/// What a list of tools can be narrowed by.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ToolQuery {
    server: Option<String>,
    persona: Option<String>,
    q: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
    view: Option<String>,
}

/// A page of tools.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolPage {
    revision: u64,
    tools: Vec<ToolView>,
    /// What to give as `cursor` for the next page.
    next_cursor: Option<String>,
}

/// Lists the tools that the caller may use.
#[utoipa::path(
    get,
    path = "/tools",
    params(ToolQuery),
    responses((status = 200, description = "A page of tools.", body = ToolPage))
)]
pub async fn list(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(query): Asked<ToolQuery>,
) -> Result<Json<ToolPage>, ProblemDocument> {
    let detail = match query.view.as_deref() {
        None | Some("summary") => Detail::Summary,
        Some("full") => Detail::Full,
        Some(other) => return Err(bad_query(format!("`view` is summary or full, not `{other}`")).into()),
    };
    let limit = query.limit.unwrap_or(100).clamp(1, 1000);
    let words = query.q.as_deref().map(str::to_lowercase);
    let caller = through(&rest, caller, query.persona.as_deref())?;
    rest.door.engine.gathered(&caller).await;
    let catalog = rest.door.engine.catalog();
    let mut matching = catalog
        .tools(&caller)
        .filter(|tool| query.server.as_deref().is_none_or(|server| tool.server.name.as_str() == server))
        .filter(|tool| {
            words.as_deref().is_none_or(|words| tool.definition.as_str().to_lowercase().contains(words))
        })
        .skip_while(|tool| query.cursor.as_deref().is_some_and(|cursor| *tool.exposed != *cursor));
    let tools: Vec<ToolView> = matching.by_ref().take(limit).map(|tool| view(tool, &detail)).collect();
    let next = matching.next().map(|tool| tool.exposed.to_string());
    Ok(Json(ToolPage { revision: catalog.revision, tools, next_cursor: next }))
}

fn bad_query(message: String) -> Problem {
    Problem { code: "request.bad-query", blame: Blame::Caller, message, hint: None }
}

/// Shows a tool.
#[utoipa::path(
    get,
    path = "/tools/{name}",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    responses(
        (status = 200, description = "The tool.", body = ToolView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 404, description = "`tool.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(name): At<String>,
    _: Nothing,
) -> Result<Json<ToolView>, ProblemDocument> {
    let gathered = rest.door.engine.gathered_for_tool(&name, &caller).await;
    let catalog = rest.door.engine.catalog();
    match catalog.tool(&name, &caller) {
        Lookup::Found(tool) => Ok(Json(view(tool, &Detail::Full))),
        Lookup::Unknown => {
            let unknown = Problem {
                code: "tool.unknown",
                blame: Blame::Caller,
                message: format!("there is no tool `{name}`"),
                hint: Some("`toolbooth tools list` shows the tools you may use".into()),
            };
            Err(gathered.explain(unknown).into())
        }
        Lookup::Ambiguous(tools) => {
            let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.exposed).collect();
            names.sort_unstable();
            Err(Problem {
                code: "call.ambiguous-name",
                blame: Blame::Caller,
                message: format!("`{name}` names several tools: {}", names.join(", ")),
                hint: Some("use one of the exposed names".into()),
            }
            .into())
        }
    }
}
