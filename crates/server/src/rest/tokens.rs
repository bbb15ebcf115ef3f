//! Tokens over REST, for those who look after the gateway.

use super::Rest;
use super::problem::ProblemDocument;
use super::who::Keeper;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::token::TokenRecord;
use toolbooth_engine::NewToken;

/// The body of a request for a token.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBody {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    persona: Option<String>,
    note: Option<String>,
    expires_seconds: Option<u64>,
}

/// A token as REST shows it: everything but what would let somebody use it.
#[derive(Debug, Serialize)]
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
    standing: &'static str,
}

fn view(record: TokenRecord) -> TokenView {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let standing = record.standing(i64::try_from(now).unwrap_or(i64::MAX)).as_str();
    let TokenRecord { id, hash: _, user, groups, persona, note, created_ms, expires_ms, revoked_ms } = record;
    TokenView { id, user, groups, persona, note, created_ms, expires_ms, revoked_ms, standing }
}

fn bad_body(message: String) -> Problem {
    let hint = Some("send {\"user\": \"ann\", \"groups\": [\"staff\"], \"expires_seconds\": 86400}".into());
    Problem { code: "request.bad-body", blame: Blame::Caller, message, hint }
}

/// `GET /tokens`.
pub async fn list(State(rest): State<Rest>, _: Keeper) -> Result<Json<Value>, ProblemDocument> {
    let tokens: Vec<TokenView> = rest.door.engine.tokens().await?.into_iter().map(view).collect();
    Ok(Json(json!({ "tokens": tokens })))
}

/// `POST /tokens`: makes a token and shows it, this once.
pub async fn create(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), ProblemDocument> {
    toolbooth_wire::strict::check(&body).map_err(|error| bad_body(error.message))?;
    let body: TokenBody =
        serde_json::from_slice(&body).map_err(|error| bad_body(format!("the body is wrong: {error}")))?;
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
    let made = rest.door.engine.make_token(NewToken { user, groups, persona, note, lasts }).await?;
    tracing::info!(token.id = %made.record.id, token.user = %made.record.user, by = %caller.user, "a token was made");
    let mut answer = serde_json::to_value(view(made.record)).unwrap_or_default();
    answer["token"] = made.bearer.into();
    Ok((StatusCode::CREATED, Json(answer)))
}

/// `DELETE /tokens/{id}`: takes a token back, at once.
pub async fn revoke(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    Path(id): Path<String>,
) -> Result<Json<TokenView>, ProblemDocument> {
    let Some(record) = rest.door.engine.revoke_token(&id).await? else {
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
