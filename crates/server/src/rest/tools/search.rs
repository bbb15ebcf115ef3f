//! Tool search over REST.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::detail::Detail;
use super::super::extract::bad_query;
use super::super::problem::ProblemDocument;
use super::{ensure_weighed, find, view};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::Uri;
use serde::Serialize;
use toolbooth_core::fault::Problem;
use toolbooth_engine::SearchNote;
use toolbooth_search::{Hit, Pattern, Query};
use utoipa::{IntoParams, ToSchema};

/// Maximum number of parameters in a query.
const MAX_PARAMETERS: usize = 40;

/// The search query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters for the OpenAPI document; `read` parses them")]
pub struct SearchParameters {
    /// What the tool should do, in words, or its name. May be repeated: a tool that matches any of them is a hit.
    #[param(example = "send an email")]
    q: Vec<String>,
    /// If `true`, `q` is one regular expression that must match the name, description or a parameter name of the tool.
    regex: Option<bool>,
    /// Only tools of this server. May be repeated.
    #[param(example = "demo")]
    server: Option<Vec<String>>,
    /// Maximum number of hits. Values out of range are clamped (1 to 50). The default is `exposure.max_tools_per_search`.
    limit: Option<u64>,
}

/// The result of a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchView {
    /// Number of hits.
    count: usize,
    /// The hits, best first.
    hits: Vec<HitView>,
    /// Relevant servers that have a problem.
    notes: Vec<NoteView>,
}

/// A tool or skill that matches.
#[derive(Debug, Serialize, ToSchema)]
pub struct HitView {
    /// `tool` or `skill`. A skill with a plan is a tool and can be called by its name.
    kind: &'static str,
    /// The name of the tool for clients, or of a skill without a plan.
    name: String,
    /// The canonical id.
    id: String,
    /// The server of the tool.
    server: String,
    /// The URI of the instructions, for a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    /// The description of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// How well it matches, from 0 to 1; 1 for a match by name.
    score: f32,
    /// Where the words were found: `name`, `server`, `description`, `parameters`, `values`, `about`. Empty if only the
    /// meaning matches.
    matched: Vec<&'static str>,
}

/// A relevant server that has a problem.
#[derive(Debug, Serialize, ToSchema)]
pub struct NoteView {
    /// The server.
    server: String,
    /// The state: `error`, `needs_auth`, `needs_trust` or `config_error`.
    state: &'static str,
    /// The problem in a sentence.
    text: String,
}

impl From<Hit> for HitView {
    fn from(Hit { tool, score, matched }: Hit) -> Self {
        let skill = tool.skill();
        Self {
            kind: if skill.is_some() { "skill" } else { "tool" },
            name: tool.exposed.to_string(),
            id: match skill.filter(|skill| !skill.is_tool()) {
                Some(skill) => format!("skill.{}", skill.name),
                None => tool.canonical(),
            },
            uri: skill.map(|skill| skill.uri()),
            server: tool.server.name.to_string(),
            description: tool.description(),
            score: (score * 1000.0).round() / 1000.0,
            matched: matched.names().collect(),
        }
    }
}

impl From<SearchNote> for NoteView {
    fn from(SearchNote { server, state, text }: SearchNote) -> Self {
        Self { server: server.to_string(), state, text }
    }
}

/// Searches the tools that the caller may use.
///
/// Without a query, it shows the tool called `search`, if there is one.
#[utoipa::path(
    get,
    path = "/tools/search",
    params(SearchParameters),
    responses(
        (status = 200, description = "The best hits.", body = SearchView),
        (status = 400, description = "`search.blank`, `search.too-many`, `search.bad-pattern`, `search.pattern-too-large` or `request.bad-query`."),
    )
)]
pub async fn search(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    let text = uri.query().unwrap_or_default();
    // Without a query it is the path of a tool called `search`, if there is one.
    if text.is_empty()
        && let Ok(tool) = find(&rest, "search", &caller).await
    {
        ensure_weighed(std::iter::once(&tool)).await;
        return Ok(Json(view(rest.engine(), &tool, Detail::Full, &caller)).into_response());
    }
    let query = read(text, rest.engine().terms().exposure.search_limit)?;
    rest.engine().catalog().wait_for_servers(&caller).await;
    let found = rest.engine().search().find(&caller, &query).await;
    let hits: Vec<HitView> = found.hits.into_iter().map(HitView::from).collect();
    let notes = found.notes.into_iter().map(NoteView::from).collect();
    Ok(Json(SearchView { count: hits.len(), hits, notes }).into_response())
}

fn read(query: &str, default_limit: usize) -> Result<Query, Problem> {
    let (mut texts, mut servers, mut regex, mut limit) = (Vec::new(), Vec::new(), None, None);
    for (count, (key, value)) in url::form_urlencoded::parse(query.as_bytes()).enumerate() {
        if count >= MAX_PARAMETERS {
            return Err(bad_query(format!("a query may have at most {MAX_PARAMETERS} parameters")));
        }
        match &*key {
            "q" => texts.push(value.into_owned()),
            "server" => servers.push(value.into_owned()),
            "regex" => {
                let wrong = || bad_query("`regex` must be `true` or `false`".to_owned());
                regex = Some(value.parse::<bool>().map_err(|_| wrong())?);
            }
            "limit" => {
                let wrong = || bad_query("`limit` must be a number".to_owned());
                limit = Some(value.parse::<usize>().map_err(|_| wrong())?);
            }
            other => {
                let shown: String = other.chars().take(64).collect();
                return Err(bad_query(format!(
                    "unknown query parameter `{shown}`; expected `q`, `regex`, `server` or `limit`"
                )));
            }
        }
    }
    let limit = limit.unwrap_or(default_limit);
    let query = match (regex == Some(true), texts.as_slice()) {
        (false, _) | (true, []) => Query::new(texts, limit)?,
        (true, [pattern]) => Query::checked(Vec::new(), Some(Pattern::parse(pattern)?), limit)?,
        (true, _) => return Err(bad_query("with `regex`, `q` may be given only once".to_owned())),
    };
    Ok(query.on_servers(servers))
}
