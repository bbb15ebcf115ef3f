//! Dead letters over REST: listing, replaying and dropping calls that failed for good.

use super::auth::RestCaller;
use super::extract::{self, NoQuery, PathParam, QueryParams, run_to_completion};
use super::item_request::ItemRequest;
use super::problem::{ProblemDocument, server_error};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::dead_letter::{Attempt, DeadLetter, LetterState};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_engine::{Answer, DeadLetters, LetterFilter, MAX_LETTERS_PAGE, ReplayAnyway};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

const REPLAY: &str = "send {\"anyway\": true}, or an empty body";

/// A dead letter. Secrets in the arguments are masked; the stored copy is never shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetterView {
    id: String,
    state: &'static str,
    /// The name of the tool for clients.
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
    /// The beginning of the arguments, with secrets masked.
    arguments: String,
    error: ErrorView,
    /// The attempts, oldest first.
    #[schema(value_type = Vec<Object>)]
    attempts: Vec<Attempt>,
    created_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_retry_ms: Option<i64>,
    /// Who may replay it: `automatic` (also the gateway) or `by_hand`.
    replaying: &'static str,
    /// Whether the call may already have taken effect, so that a replay may repeat it.
    may_have_happened: bool,
    /// Number of replays so far.
    replays: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<i64>,
}

/// The latest error of a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorView {
    code: String,
    message: String,
}

fn view(letter: DeadLetter) -> DeadLetterView {
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

/// Filters for a list of dead letters.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterQuery {
    /// States, separated by commas: `pending`, `retrying`, `resolved`, `dropped`.
    state: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// Maximum number of entries.
    limit: Option<u32>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// A page of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetterPage {
    dead_letters: Vec<DeadLetterView>,
    /// The value of `cursor` for the next page, if there is one.
    next_cursor: Option<String>,
}

fn filter(query: DeadLetterQuery) -> Result<LetterFilter, Problem> {
    let states = LetterState::ALL.map(LetterState::as_str);
    let state = |word: &str| {
        word.parse().map_err(|_| extract::bad_query(format!("`state` must be one of {}", states.join(", "))))
    };
    let wanted = query.state.iter().flat_map(|list| list.split(','));
    let cursor = |text: &str| {
        text.parse()
            .map_err(|_| extract::bad_query("`cursor` must be the `next_cursor` of the previous page".into()))
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
    responses((status = 200, description = "A page of the dead letters that the caller may see.", body = DeadLetterPage))
)]
pub async fn list(
    State(dead_letters): State<Arc<DeadLetters>>,
    RestCaller(caller): RestCaller,
    QueryParams(query): QueryParams<DeadLetterQuery>,
) -> Result<Json<DeadLetterPage>, ProblemDocument> {
    let filter = filter(query)?;
    let limit = filter.limit.unwrap_or(MAX_LETTERS_PAGE) as usize;
    let found = dead_letters.list(&caller, filter).await?;
    let last = found.last().map(|letter| letter.id.to_string());
    let next_cursor = last.filter(|_| found.len() >= limit);
    Ok(Json(DeadLetterPage { dead_letters: found.into_iter().map(view).collect(), next_cursor }))
}

fn letter_id(text: &str) -> Result<Uuid, Problem> {
    extract::id(text, "dead-letter.unknown", "dead letter")
}

/// Shows a dead letter.
#[utoipa::path(
    get,
    path = "/dead-letters/{id}",
    params(("id" = String, Path, description = "The id of the dead letter.")),
    responses(
        (status = 200, description = "The dead letter.", body = DeadLetterView),
        (status = 404, description = "`dead-letter.unknown`."),
    )
)]
pub async fn show(
    State(dead_letters): State<Arc<DeadLetters>>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<DeadLetterView>, ProblemDocument> {
    Ok(Json(view(dead_letters.get(&caller, letter_id(&id)?).await?)))
}

/// The body of a replay.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayBody {
    /// Replay the call even if it may already have taken effect.
    #[serde(default)]
    anyway: bool,
}

/// The result of a replay.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayView {
    dead_letter: DeadLetterView,
    /// The tool's result. Only shown to the user whose call it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<RawJson>,
    /// The id of the held call, if the replay waits for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

/// Replays a call as its original caller.
#[utoipa::path(
    post,
    path = "/dead-letters/{id}/replay",
    params(("id" = String, Path, description = "The id of the dead letter.")),
    request_body(content = ReplayBody, description = "Optional."),
    responses(
        (status = 200, description = "The result of the replay.", body = ReplayView),
        (status = 403, description = "The original caller may no longer make the call."),
        (status = 404, description = "`dead-letter.unknown`."),
        (status = 409, description = "The dead letter is closed, is being replayed, or may already have taken effect."),
        (status = 502, description = "The server failed again."),
        (status = 503, description = "`call.no-healthy-provider`."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn replay(
    State(letters): State<Arc<DeadLetters>>,
    ItemRequest { caller, id, body }: ItemRequest,
) -> Result<Json<ReplayView>, ProblemDocument> {
    let id = letter_id(&id)?;
    let ReplayBody { anyway } = extract::body(&body, REPLAY)?;
    let anyway = if anyway { ReplayAnyway::Yes } else { ReplayAnyway::No };
    let by = caller.clone();
    let replayed = run_to_completion(async move { letters.replay(&by, id, anyway).await }).await?;
    let is_own = replayed.letter.user == *caller.user;
    let (result, held) = match replayed.answer {
        Answer::Result { result, .. } if is_own => (Some(toolbooth_wire::meta::strip_modern(&result)), None),
        Answer::Held { id, .. } => (None, Some(id.to_string())),
        Answer::Error(error) => return Err(server_error(&error).into()),
        _ => (None, None),
    };
    Ok(Json(ReplayView { dead_letter: view(replayed.letter), result, held }))
}

/// Drops a dead letter, so that it is not replayed.
#[utoipa::path(
    delete,
    path = "/dead-letters/{id}",
    params(("id" = String, Path, description = "The id of the dead letter.")),
    responses(
        (status = 200, description = "The dead letter.", body = DeadLetterView),
        (status = 404, description = "`dead-letter.unknown`."),
        (status = 409, description = "The dead letter is closed or is being replayed."),
    )
)]
pub async fn give_up(
    State(letters): State<Arc<DeadLetters>>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<DeadLetterView>, ProblemDocument> {
    let id = letter_id(&id)?;
    let by = caller.clone();
    Ok(Json(view(run_to_completion(async move { letters.discard(&by, id).await }).await?)))
}
