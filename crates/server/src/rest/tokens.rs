//! Tokens over REST, for administrators.

use super::RestState;
use super::auth::AdminCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::token::TokenRecord;
use toolbooth_engine::NewToken;
use utoipa::ToSchema;

/// An example of a valid body.
const EXAMPLE: &str = "send {\"user\": \"ann\", \"groups\": [\"staff\"], \"expires_seconds\": 86400}";

/// The body of a request for a new token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBody {
    /// The user of the token.
    user: String,
    /// Groups that the token gives, besides `users`.
    #[serde(default)]
    groups: Vec<String>,
    /// The persona that the token is bound to.
    persona: Option<String>,
    /// A note on the purpose of the token.
    note: Option<String>,
    /// Lifetime in seconds. Without it the token is valid until it is revoked.
    expires_seconds: Option<u64>,
}

/// A token without its secret.
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
    /// `live`, `expired` or `revoked`.
    standing: &'static str,
}

/// A list of tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenList {
    tokens: Vec<TokenView>,
}

/// A new token.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewTokenView {
    #[serde(flatten)]
    about: TokenView,
    /// The bearer token. It is shown only once.
    token: String,
}

fn view(record: TokenRecord, clock: &Clock) -> TokenView {
    let standing = record.status(clock.now_ms()).as_str();
    let TokenRecord { id, hash: _, user, groups, persona, note, created_ms, expires_ms, revoked_ms } = record;
    TokenView { id, user, groups, persona, note, created_ms, expires_ms, revoked_ms, standing }
}

/// Lists tokens. Administrators only.
#[utoipa::path(
    get,
    path = "/tokens",
    responses((status = 200, description = "All tokens.", body = TokenList), (status = 403, description = "`auth.admin-only`."))
)]
pub async fn list(
    State(rest): State<RestState>,
    _: AdminCaller,
    _: NoQuery,
) -> Result<Json<TokenList>, ProblemDocument> {
    let engine = rest.engine();
    let tokens = engine.tokens().list().await?.into_iter();
    let tokens = tokens.map(|record| view(record, engine.clock())).collect();
    Ok(Json(TokenList { tokens }))
}

/// Creates a token and shows it once. Administrators only.
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
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<NewTokenView>), ProblemDocument> {
    let body: TokenBody = extract::object(&body, EXAMPLE)?;
    let TokenBody { user, groups, persona, note, expires_seconds } = body;
    let unused = match rest.front_end.authenticator.mode_name() {
        "header" => Some(("a proxy names the users", "use the proxy, or set `auth.mode: token`")),
        "jwt" => Some((
            "the identity provider issues the tokens",
            "get a token for a service account from the provider, or set `auth.mode: token`",
        )),
        _ => None,
    };
    if let Some((reason, hint)) = unused {
        let mode = rest.front_end.authenticator.mode_name();
        return Err(Problem {
            code: "token.bad",
            blame: Blame::Caller,
            message: format!("`auth.mode` is `{mode}`: {reason}, and tokens of the gateway are not accepted"),
            hint: Some(hint.into()),
        }
        .into());
    }
    if let Some(name) = persona.as_deref().filter(|name| !rest.front_end.authenticator.knows_persona(name)) {
        return Err(Problem {
            code: "token.bad",
            blame: Blame::Caller,
            message: format!("persona `{name}` does not exist, so a token for it would have no use"),
            hint: Some("`personas` in the configuration defines them".into()),
        }
        .into());
    }
    let lasts = expires_seconds.map(Duration::from_secs);
    let made = rest
        .front_end
        .engine
        .tokens()
        .create(NewToken { user, groups, persona, note, lasts }, &caller)
        .await?;
    tracing::info!(token.id = %made.record.id, token.user = %made.record.user, by = %caller.user, "token created");
    let about = view(made.record, rest.engine().clock());
    Ok((StatusCode::CREATED, Json(NewTokenView { about, token: made.bearer })))
}

/// Revokes a token with immediate effect. Administrators only.
#[utoipa::path(
    delete,
    path = "/tokens/{id}",
    params(("id" = String, Path, description = "The id of the token, as in the list.")),
    responses(
        (status = 200, description = "The revoked token.", body = TokenView),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`token.unknown`."),
    )
)]
pub async fn revoke(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<TokenView>, ProblemDocument> {
    let Some(record) = rest.engine().tokens().revoke(&id, &caller).await? else {
        return Err(Problem {
            code: "token.unknown",
            blame: Blame::Caller,
            message: format!("there is no token `{id}`"),
            hint: Some("`toolbooth tokens list` shows them".into()),
        }
        .into());
    };
    rest.front_end.authenticator.revoke(&record.user);
    tracing::info!(token.id = %record.id, token.user = %record.user, by = %caller.user, "token revoked");
    Ok(Json(view(record, rest.engine().clock())))
}
