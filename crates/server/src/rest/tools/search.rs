//! Search over REST.

use super::super::Rest;
use super::super::asked::bad_query;
use super::super::problem::ProblemDocument;
use super::super::who::Who;
use axum::Json;
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use toolbooth_core::fault::Problem;
use toolbooth_core::search::{Hit, Pattern, Query};
use toolbooth_engine::Note;
use utoipa::{IntoParams, ToSchema};

/// The most parameters of a query.
const MAX_PARAMETERS: usize = 40;

/// What is searched for.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters, for the document; `read` reads them")]
pub struct SearchParameters {
    /// What the tool should do, in words, or its name; may be given several times: a tool that fits any of them is
    /// a hit.
    #[param(example = "send an email")]
    q: Vec<String>,
    /// `true`: what is searched for is one regular expression, which the tool's name, description or parameters' names
    /// must match.
    regex: Option<bool>,
    /// At most this many; brought into range (1 to 50).
    limit: Option<u64>,
}

/// What a search found.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchView {
    /// How many tools are here.
    count: usize,
    /// The tools that fit best, best first.
    hits: Vec<HitView>,
    /// Servers that matter to the search and are not well.
    notes: Vec<NoteView>,
}

/// A tool that fits.
#[derive(Debug, Serialize, ToSchema)]
pub struct HitView {
    /// The name clients see.
    name: String,
    /// Its canonical id.
    id: String,
    /// The server it is on.
    server: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// How well it fits, from 0 to 1; 1 for a tool that was asked for by name.
    score: f32,
    /// Where the words were found: `name`, `server`, `description`, `parameters`, `values`, `about`. Empty where only
    /// the meaning is alike.
    matched: Vec<&'static str>,
}

/// A server that matters to a search and is not well.
#[derive(Debug, Serialize, ToSchema)]
pub struct NoteView {
    /// The server.
    server: String,
    /// Where it stands: `error`, `needs_auth`, `needs_trust` or `config_error`.
    state: &'static str,
    /// The same in a sentence.
    text: String,
}

impl From<Hit> for HitView {
    fn from(Hit { tool, score, matched }: Hit) -> Self {
        Self {
            name: tool.exposed.to_string(),
            id: tool.canonical(),
            server: tool.server.name.to_string(),
            description: tool.description(),
            score: (score * 1000.0).round() / 1000.0,
            matched: matched.names().collect(),
        }
    }
}

impl From<Note> for NoteView {
    fn from(Note { server, state, text }: Note) -> Self {
        Self { server: server.to_string(), state, text }
    }
}

/// Searches the tools that the caller may use.
#[utoipa::path(
    get,
    path = "/tools/search",
    params(SearchParameters),
    responses(
        (status = 200, description = "The tools that fit best.", body = SearchView),
        (status = 400, description = "`search.blank`, `search.too-many`, `search.bad-pattern`, `search.pattern-too-large` or `request.bad-query`."),
    )
)]
pub async fn search(
    State(rest): State<Rest>,
    Who(caller): Who,
    uri: Uri,
) -> Result<Json<SearchView>, ProblemDocument> {
    let query = read(uri.query().unwrap_or_default())?;
    rest.door.engine.gathered(&caller).await;
    let found = rest.door.engine.search(&caller, &query).await;
    let hits: Vec<HitView> = found.hits.into_iter().map(HitView::from).collect();
    let notes = found.notes.into_iter().map(NoteView::from).collect();
    Ok(Json(SearchView { count: hits.len(), hits, notes }))
}

fn read(query: &str) -> Result<Query, Problem> {
    let (mut texts, mut regex, mut limit) = (Vec::new(), None, None);
    for (count, (key, value)) in url::form_urlencoded::parse(query.as_bytes()).enumerate() {
        if count >= MAX_PARAMETERS {
            return Err(bad_query(format!("a query has at most {MAX_PARAMETERS} parameters")));
        }
        match &*key {
            "q" => texts.push(value.into_owned()),
            "regex" => {
                let wrong = || bad_query("`regex` is `true` or `false`".to_owned());
                regex = Some(value.parse::<bool>().map_err(|_| wrong())?);
            }
            "limit" => {
                let wrong = || bad_query("`limit` is a number".to_owned());
                limit = Some(value.parse::<usize>().map_err(|_| wrong())?);
            }
            other => {
                let shown: String = other.chars().take(64).collect();
                return Err(bad_query(format!(
                    "there is no parameter `{shown}` here; there are `q`, `regex` and `limit`"
                )));
            }
        }
    }
    let limit = limit.unwrap_or(Query::USUAL_HITS);
    if regex != Some(true) {
        return Ok(Query::new(texts, limit)?);
    }
    match texts.as_slice() {
        [] => Ok(Query::new(texts, limit)?),
        [pattern] => Ok(Query::checked(Vec::new(), Some(Pattern::parse(pattern)?), limit)?),
        _ => Err(bad_query("with `regex`, `q` stands once".to_owned())),
    }
}
