//! Tokens over REST, for those who look after the gateway.

use super::Rest;
use super::asked::{self, At, Nothing, Sent};
use super::problem::ProblemDocument;
use super::who::Keeper;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::token::TokenRecord;
use toolbooth_engine::NewToken;
use toolbooth_engine::clock::now_ms;
use utoipa::ToSchema;

/// What a right body looks like.
const EXAMPLE: &str = "send {\"user\": \"ann\", \"groups\": [\"staff\"], \"expires_seconds\": 86400}";

/// The body of a request for a token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBody {
    /// Whose token it is.
    user: String,
    /// The groups that whoever shows it is in, besides `users`.
    #[serde(default)]
    groups: Vec<String>,
    /// The persona that it is bound to.
    persona: Option<String>,
    /// What it is for.
    note: Option<String>,
    /// How long it holds; without it, until it is taken back.
    expires_seconds: Option<u64>,
}

/// A token as REST shows it: everything but what would let somebody use it.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenView {
    id: String,
    user: String,
    groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    created_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_ms: Option<i64>,
    /// `valid`, `expired` or `revoked`.
    standing: &'static str,
}

/// Several tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenList {
    tokens: Vec<TokenView>,
}

/// A token that was just made.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewTokenView {
    #[serde(flatten)]
    about: TokenView,
    /// What to show the gateway. It is told this once.
    token: String,
}

fn view(record: TokenRecord) -> TokenView {
    let standing = record.standing(now_ms()).as_str();
    let TokenRecord { id, hash: _, user, groups, persona, note, created_ms, expires_ms, revoked_ms } = record;
    TokenView { id, user, groups, persona, note, created_ms, expires_ms, revoked_ms, standing }
}

/// Lists tokens, for administrators.
#[utoipa::path(
    get,
    path = "/tokens",
    responses((status = 200, description = "All there are.", body = TokenList), (status = 403, description = "`auth.admin-only`."))
)]
pub async fn list(
    State(rest): State<Rest>,
    _: Keeper,
    _: Nothing,
) -> Result<Json<TokenList>, ProblemDocument> {
    let tokens = rest.door.engine.tokens().await?.into_iter().map(view).collect();
    Ok(Json(TokenList { tokens }))
}

/// Makes a token and shows it, this once; for administrators.
#[utoipa::path(
    post,
    path = "/tokens",
    request_body = TokenBody,
    responses(
        (status = 201, description = "The token.", body = NewTokenView),
        (status = 400, description = "`token.bad`."),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn create(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    _: Nothing,
    Sent(body): Sent,
) -> Result<(StatusCode, Json<NewTokenView>), ProblemDocument> {
    let body: TokenBody = asked::object(&body, EXAMPLE)?;
    let TokenBody { user, groups, persona, note, expires_seconds } = body;
    if let Some(name) = persona.as_deref().filter(|name| !rest.door.identity.knows_persona(name)) {
        return Err(Problem {
            code: "token.bad",
            blame: Blame::Caller,
            message: format!("there is no persona `{name}`, so a token for it would open nothing"),
            hint: Some("personas stand under `personas` in the configuration".into()),
        }
        .into());
    }
    let lasts = expires_seconds.map(Duration::from_secs);
    let made = rest.door.engine.make_token(NewToken { user, groups, persona, note, lasts }, &caller).await?;
    tracing::info!(token.id = %made.record.id, token.user = %made.record.user, by = %caller.user, "a token was made");
    Ok((StatusCode::CREATED, Json(NewTokenView { about: view(made.record), token: made.bearer })))
}

/// Takes a token back, at once; for administrators.
#[utoipa::path(
    delete,
    path = "/tokens/{id}",
    params(("id" = String, Path, description = "The token's id, as lists show it.")),
    responses(
        (status = 200, description = "What was taken back.", body = TokenView),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`token.unknown`."),
    )
)]
pub async fn revoke(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At(id): At<String>,
    _: Nothing,
) -> Result<Json<TokenView>, ProblemDocument> {
    let Some(record) = rest.door.engine.revoke_token(&id, &caller).await? else {
        return Err(Problem {
            code: "token.unknown",
            blame: Blame::Caller,
            message: format!("there is no token `{id}`"),
            hint: Some("`toolbooth tokens list` shows them".into()),
        }
        .into());
    };
    rest.door.identity.take_back(&record.user);
    tracing::info!(token.id = %record.id, token.user = %record.user, by = %caller.user, "a token was taken back");
    Ok(Json(view(record)))
}
