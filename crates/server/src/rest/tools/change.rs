//! Tools that have changed, over REST: which they are, how they differ from what was accepted, accepting them.

use super::super::Rest;
use super::super::asked::{self, At, Nothing, Sent, hex};
use super::super::problem::ProblemDocument;
use super::super::who::{Keeper, Who};
use super::find;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolbooth_core::catalog::Tool;
use toolbooth_core::difference::{Difference, unified};
use toolbooth_engine::Comparison;
use utoipa::ToSchema;

/// A tool that is no longer what was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedTool {
    /// The name clients see.
    name: String,
    /// The server it is on.
    server: String,
    /// The server's own name for it.
    tool: String,
    /// The SHA-256 of the definition that was accepted.
    accepted: String,
    /// The SHA-256 of the definition now.
    now: String,
}

/// Tools that are no longer what was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedList {
    tools: Vec<ChangedTool>,
}

/// Lists the tools whose definition is another than the one that was accepted.
#[utoipa::path(
    get,
    path = "/changes",
    responses((status = 200, description = "Those that the caller may use.", body = ChangedList))
)]
pub async fn changes(State(rest): State<Rest>, Who(caller): Who, _: Nothing) -> Json<ChangedList> {
    let engine = &rest.door.engine;
    engine.gathered(&caller).await;
    let changed = engine.changed_tools(&caller).into_iter().filter_map(|tool| {
        let accepted = engine.pinned_before(&tool)?;
        Some(ChangedTool {
            name: tool.exposed.to_string(),
            server: tool.server.name.to_string(),
            tool: tool.name.to_string(),
            accepted: hex(&accepted),
            now: hex(tool.digest()),
        })
    });
    Json(ChangedList { tools: changed.collect() })
}

/// A tool beside what was accepted of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct DiffView {
    /// The name clients see.
    name: String,
    /// `new` (never used), `same` or `changed`.
    state: &'static str,
    /// What was accepted, when, and by whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<AcceptedView>,
    /// The SHA-256 of the definition now.
    now: String,
    /// Each place that is not as it was; absent where the accepted text was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<ChangedPlaceView>>,
    /// The same as text; hidden characters are spelled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// An accepted definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedView {
    /// Its SHA-256.
    digest: String,
    at_ms: i64,
    /// Who accepted it, or `first use`.
    by: String,
}

/// One place that is not as it was.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedPlaceView {
    /// A JSON pointer into the definition.
    pointer: String,
    /// What was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// What is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

fn view(tool: &Tool, compared: Comparison) -> DiffView {
    let state = match (&compared.pin, compared.is_changed()) {
        (None, _) => "new",
        (Some(_), false) => "same",
        (Some(_), true) => "changed",
    };
    let Comparison { pin, digest, differences } = compared;
    let place = |Difference { pointer, before, after }| ChangedPlaceView { pointer, before, after };
    DiffView {
        name: tool.exposed.to_string(),
        state,
        accepted: pin.map(|pin| AcceptedView { digest: hex(&pin.digest), at_ms: pin.pinned_ms, by: pin.by }),
        now: hex(&digest),
        diff: differences.as_deref().map(unified),
        changes: differences.map(|all| all.into_iter().map(place).collect()),
    }
}

/// Shows how a tool differs from what was accepted of it.
#[utoipa::path(
    get,
    path = "/tools/{name}/diff",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    responses(
        (status = 200, description = "The differences.", body = DiffView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 404, description = "`tool.unknown`."),
    )
)]
pub async fn diff(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(name): At<String>,
    _: Nothing,
) -> Result<Json<DiffView>, ProblemDocument> {
    let tool = find(&rest, &name, &caller).await?;
    Ok(Json(view(&tool, rest.door.engine.compare(&tool).await?)))
}

/// What a change is accepted by.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptBody {
    /// The SHA-256 of the definition that was looked at; another one is not accepted unseen.
    digest: Option<String>,
}

/// What a right body looks like.
const EXAMPLE: &str = "send {\"digest\": \"…\"}, as `now` of /tools/{name}/diff shows it, or nothing";

/// Accepts a tool as it is now; for administrators.
#[utoipa::path(
    post,
    path = "/tools/{name}/accept",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    request_body(content = AcceptBody, description = "What was looked at; may be left out."),
    responses(
        (status = 200, description = "What is accepted now.", body = DiffView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`tool.unknown`."),
        (status = 409, description = "`tool.changed-again`."),
    )
)]
pub async fn accept(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At(name): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<DiffView>, ProblemDocument> {
    let AcceptBody { digest } = asked::body(&body, EXAMPLE)?;
    let seen = digest.as_deref().map(read_digest).transpose()?;
    let tool = find(&rest, &name, &caller).await?;
    rest.door.engine.accept(&tool, seen, &caller).await?;
    Ok(Json(view(&tool, rest.door.engine.compare(&tool).await?)))
}

fn read_digest(text: &str) -> Result<[u8; 32], ProblemDocument> {
    let mut digest = [0; 32];
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = digest.iter_mut().zip(text.as_bytes().chunks(2));
    for (byte, pair) in pairs {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
    }
    match is_hex {
        true => Ok(digest),
        false => Err(asked::bad_body("`digest` is a SHA-256 in hexadecimal".into(), EXAMPLE).into()),
    }
}
