//! Signing in to servers over REST. The browser runs where the caller is; the tokens stay in the gateway.

use super::RestState;
use super::auth::AdminCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam};
use super::problem::ProblemDocument;
use super::servers::{self, ServerView};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_engine::Act;
use toolbooth_upstream::oauth::{Authorizer, OAuthError, SignInStart};
use toolbooth_upstream::{ServerState, Supervised};
use utoipa::ToSchema;

const BEGIN_EXAMPLE: &str = "send {\"redirect_uri\": \"http://127.0.0.1:8666/callback\"}";
const FINISH_EXAMPLE: &str = "send {\"redirect\": \"http://127.0.0.1:8666/callback?code=…&state=…\"}";

/// The body of a request to begin a sign-in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginBody {
    /// The redirect URI: an http URL on the machine of the person who signs in.
    #[schema(example = "http://127.0.0.1:8666/callback")]
    redirect_uri: String,
}

/// The next step of a sign-in.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignInView {
    /// The page to open; absent if the gateway's own credentials were sufficient.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// The server, if no page has to be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerView>,
}

/// The body of a request to finish a sign-in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishBody {
    /// The complete URL to which the page redirected.
    redirect: String,
}

fn authorizer(server: &Supervised) -> Result<Arc<Authorizer>, ProblemDocument> {
    server.pool.authorizer().cloned().ok_or_else(|| {
        Problem {
            code: "server.no-sign-in",
            blame: Blame::Caller,
            message: format!(
                "server `{}` does not use sign-in: its `auth` is not `oauth`",
                server.entry.name
            ),
            hint: Some("set `\"auth\": \"oauth\"` in its entry".into()),
        }
        .into()
    })
}

fn failed(error: OAuthError) -> ProblemDocument {
    Problem::of(&error).into()
}

/// Records a sign-in, a sign-out or a failure in the audit log; `code` is the fault code.
async fn audit(
    rest: &RestState,
    server: &Supervised,
    caller: &Caller,
    outcome: &str,
    code: Option<&'static str>,
) -> Result<(), ProblemDocument> {
    let server = Some(&server.entry.name);
    let act = Act { server, code, ..Act::new(AuditKind::Login, &caller.user, outcome) };
    Ok(rest.engine().audit().record_act(act).await?)
}

/// Begins a sign-in to a server and cancels an earlier one. Administrators only.
#[utoipa::path(
    post,
    path = "/servers/{name}/login",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    request_body = BeginBody,
    responses(
        (status = 200, description = "The page to open.", body = SignInView),
        (status = 400, description = "`server.no-sign-in`, `server.not-running`, or `oauth.bad-redirect`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
        (status = 500, description = "`oauth.no-client` and other errors that can be fixed in the configuration."),
        (status = 502, description = "An error of the server or its authorization server: `oauth.…`."),
    )
)]
pub async fn begin(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<SignInView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    let authorizer = authorizer(&server)?;
    let BeginBody { redirect_uri } = extract::object(&body, BEGIN_EXAMPLE)?;
    let state = server.state();
    if !matches!(state, ServerState::NeedsAuth(_) | ServerState::Connected) {
        // Its 401 response names its authorization server and the scopes to ask for.
        server.connect().await;
        servers::until(servers::MOMENT, || server.state() != state).await;
        servers::settle(&server).await;
    }
    match authorizer.begin_sign_in(&redirect_uri).await.map_err(failed)? {
        SignInStart::At(url) => Ok(Json(SignInView { url: Some(url), server: None })),
        SignInStart::Done => {
            audit(&rest, &server, &caller, "signed-in", None).await?;
            servers::restart(&server).await;
            let server = servers::settled_view(&rest, &caller, &name).await?;
            Ok(Json(SignInView { url: None, server: Some(server) }))
        }
    }
}

/// Finishes the current sign-in and connects the server. Administrators only.
#[utoipa::path(
    post,
    path = "/servers/{name}/login/finish",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    request_body = FinishBody,
    responses(
        (status = 200, description = "The server after the sign-in.", body = ServerView),
        (status = 400, description = "`oauth.no-sign-in`, `oauth.denied`, `server.no-sign-in`, or `server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
        (status = 500, description = "`oauth.login-failed`."),
        (status = 502, description = "An error of the authorization server: `oauth.…`."),
    )
)]
pub async fn finish(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<ServerView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    let authorizer = authorizer(&server)?;
    let FinishBody { redirect } = extract::object(&body, FINISH_EXAMPLE)?;
    if let Err(error) = authorizer.finish_sign_in(redirect).await {
        audit(&rest, &server, &caller, "failed", Some(error.code())).await?;
        return Err(failed(error));
    }
    audit(&rest, &server, &caller, "signed-in", None).await?;
    tracing::info!(server.name = %name, by = %caller.user, "signed in to server `{name}`");
    servers::restart(&server).await;
    Ok(Json(servers::settled_view(&rest, &caller, &name).await?))
}

/// Deletes the tokens of a server and connects it again without them. Administrators only.
#[utoipa::path(
    delete,
    path = "/servers/{name}/login",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    responses(
        (status = 200, description = "The server after the sign-out.", body = ServerView),
        (status = 400, description = "`server.no-sign-in` or `server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn forget(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<ServerView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    authorizer(&server)?.forget().await;
    audit(&rest, &server, &caller, "signed-out", None).await?;
    tracing::info!(server.name = %name, by = %caller.user, "signed out of server `{name}`");
    servers::restart(&server).await;
    Ok(Json(servers::settled_view(&rest, &caller, &name).await?))
}
