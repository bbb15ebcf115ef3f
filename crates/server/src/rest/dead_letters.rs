//! Dead letters over REST: calls that failed for good, made again or given up.

use super::Rest;
use super::asked::{self, Asked, At, Nothing, Sent, to_the_end};
use super::problem::ProblemDocument;
use super::who::Who;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolbooth_core::dead_letter::{Attempt, Letter, LetterState};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_engine::{Answer, Insisting, LetterFilter, MAX_LETTERS_PAGE};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

const REPLAY: &str = "send {\"anyway\": true}, or nothing";

/// A dead letter as REST shows it: its arguments with secrets masked, never the kept copy.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetterView {
    id: String,
    state: &'static str,
    /// The name clients see.
    name: String,
    server: String,
    tool: String,
    provider: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    call_id: String,
    /// The beginning of the arguments, secrets masked.
    arguments: String,
    error: ErrorView,
    #[schema(value_type = Vec<Object>)]
    attempts: Vec<Attempt>,
    created_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_retry_ms: Option<i64>,
    replaying: &'static str,
    /// Whether making it again may make it happen twice.
    may_have_happened: bool,
    replays: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<i64>,
}

/// Why a call failed last.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorView {
    code: String,
    message: String,
}

fn view(letter: Letter) -> DeadLetterView {
    DeadLetterView {
        id: letter.id.to_string(),
        state: letter.state.as_str(),
        name: letter.exposed,
        server: letter.server.to_string(),
        tool: letter.tool,
        provider: letter.provider,
        user: letter.user,
        persona: letter.persona,
        session: letter.session,
        call_id: letter.call_id.to_string(),
        arguments: letter.arguments_preview,
        error: ErrorView { code: letter.error_code, message: letter.error_text },
        attempts: letter.attempts,
        created_ms: letter.created_ms,
        next_retry_ms: letter.next_retry_ms,
        replaying: letter.replaying.as_str(),
        may_have_happened: letter.may_have_happened,
        replays: letter.replays,
        ended_ms: letter.ended_ms,
    }
}

/// What a list of dead letters can be narrowed by.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterQuery {
    /// Only these, joined by commas: `pending`, `retrying`, `resolved`, `dropped`.
    state: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// How many, at most.
    limit: Option<u32>,
    /// What the page before gave.
    cursor: Option<String>,
}

/// A page of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetterPage {
    dead_letters: Vec<DeadLetterView>,
    /// What to give as `cursor` for the next page.
    next_cursor: Option<String>,
}

fn filter(query: DeadLetterQuery) -> Result<LetterFilter, Problem> {
    let states = LetterState::ALL.map(LetterState::as_str);
    let state = |word: &str| {
        word.parse().map_err(|_| asked::bad_query(format!("`state` is one of {}", states.join(", "))))
    };
    let wanted = query.state.iter().flat_map(|list| list.split(','));
    let cursor = |text: &str| {
        text.parse().map_err(|_| asked::bad_query("`cursor` is what the page before gave".into()))
    };
    Ok(LetterFilter {
        states: wanted.map(state).collect::<Result<_, _>>()?,
        tool: query.tool,
        before: query.cursor.as_deref().map(cursor).transpose()?,
        limit: Some(query.limit.unwrap_or(100).clamp(1, MAX_LETTERS_PAGE)),
        ..LetterFilter::default()
    })
}

/// Lists calls that failed for good, newest first.
#[utoipa::path(
    get,
    path = "/dead-letters",
    params(DeadLetterQuery),
    responses((status = 200, description = "A page of those the caller may see.", body = DeadLetterPage))
)]
pub async fn list(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(query): Asked<DeadLetterQuery>,
) -> Result<Json<DeadLetterPage>, ProblemDocument> {
    let filter = filter(query)?;
    let limit = filter.limit.unwrap_or(MAX_LETTERS_PAGE) as usize;
    let found = rest.door.engine.dead_letters(&caller, filter).await?;
    let last = found.last().map(|letter| letter.id.to_string());
    let next_cursor = last.filter(|_| found.len() >= limit);
    Ok(Json(DeadLetterPage { dead_letters: found.into_iter().map(view).collect(), next_cursor }))
}

fn letter_id(text: &str) -> Result<Uuid, Problem> {
    asked::id(text, "dead-letter.unknown", "dead letter")
}

/// Shows a dead letter.
#[utoipa::path(
    get,
    path = "/dead-letters/{id}",
    params(("id" = String, Path, description = "The letter's id.")),
    responses(
        (status = 200, description = "The letter.", body = DeadLetterView),
        (status = 404, description = "`dead-letter.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
) -> Result<Json<DeadLetterView>, ProblemDocument> {
    Ok(Json(view(rest.door.engine.dead_letter(&caller, letter_id(&id)?).await?)))
}

/// The body of a replay.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayBody {
    /// Make it again though it may have happened.
    #[serde(default)]
    anyway: bool,
}

/// What a replay came to.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayView {
    dead_letter: DeadLetterView,
    /// The tool's result, for whoever's call it is; an admin who asks for another's is not shown it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<RawJson>,
    /// The held call that it became, where a person must agree first.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

/// Makes the call again, as its first caller.
#[utoipa::path(
    post,
    path = "/dead-letters/{id}/replay",
    params(("id" = String, Path, description = "The letter's id.")),
    request_body(content = ReplayBody, description = "May be left out."),
    responses(
        (status = 200, description = "What it came to.", body = ReplayView),
        (status = 403, description = "Its caller may not make it any more."),
        (status = 404, description = "`dead-letter.unknown`."),
        (status = 409, description = "It is over, under way, or may have happened."),
        (status = 502, description = "The tool's server failed again."),
        (status = 503, description = "`call.no-healthy-provider`."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn replay(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<ReplayView>, ProblemDocument> {
    let id = letter_id(&id)?;
    let ReplayBody { anyway } = asked::body(&body, REPLAY)?;
    let insisting = if anyway { Insisting::Yes } else { Insisting::No };
    let (engine, by) = (rest.door.engine.clone(), caller.clone());
    let replayed = to_the_end(async move { engine.replay_letter(&by, id, insisting).await }).await?;
    let is_own = replayed.letter.user == *caller.user;
    let (result, held) = match replayed.answer {
        Answer::Result { result, .. } if is_own => (Some(toolbooth_wire::meta::strip_modern(&result)), None),
        Answer::Held { id, .. } => (None, Some(id.to_string())),
        Answer::Error(error) => {
            return Err(Problem {
                code: "call.server-error",
                blame: toolbooth_core::fault::Blame::Upstream,
                message: format!("the server answered with error {}: {}", error.code, error.message),
                hint: None,
            }
            .into());
        }
        _ => (None, None),
    };
    Ok(Json(ReplayView { dead_letter: view(replayed.letter), result, held }))
}

/// Gives a dead letter up.
#[utoipa::path(
    delete,
    path = "/dead-letters/{id}",
    params(("id" = String, Path, description = "The letter's id.")),
    responses(
        (status = 200, description = "The letter.", body = DeadLetterView),
        (status = 404, description = "`dead-letter.unknown`."),
        (status = 409, description = "It is over, or under way."),
    )
)]
pub async fn give_up(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
) -> Result<Json<DeadLetterView>, ProblemDocument> {
    let id = letter_id(&id)?;
    let (engine, by) = (rest.door.engine.clone(), caller.clone());
    Ok(Json(view(to_the_end(async move { engine.drop_letter(&by, id).await }).await?)))
}
