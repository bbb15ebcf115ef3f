//! Signing in to servers over REST. The person's browser is wherever the caller is; the tokens stay here.

use super::Rest;
use super::asked::{self, At, Nothing, Sent};
use super::problem::ProblemDocument;
use super::servers::{self, ServerView};
use super::who::Keeper;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_engine::Act;
use toolbooth_upstream::oauth::{Authorizer, OAuthError, SignIn};
use toolbooth_upstream::{ServerState, Supervised};
use utoipa::ToSchema;

const BEGIN_EXAMPLE: &str = "send {\"redirect_uri\": \"http://127.0.0.1:8666/callback\"}";
const FINISH_EXAMPLE: &str = "send {\"redirect\": \"http://127.0.0.1:8666/callback?code=…&state=…\"}";

/// Where the page of a sign-in comes back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginBody {
    /// An http address on the machine of whoever signs in.
    #[schema(example = "http://127.0.0.1:8666/callback")]
    redirect_uri: String,
}

/// Where a person signs in.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignInView {
    /// The page to open; absent when nobody was needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// The server, when nobody was needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerView>,
}

/// What came back from the page.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishBody {
    /// The whole address that the page led to.
    redirect: String,
}

fn authorizer(server: &Supervised) -> Result<Arc<Authorizer>, ProblemDocument> {
    server.pool.authorizer().cloned().ok_or_else(|| {
        Problem {
            code: "server.no-sign-in",
            blame: Blame::Caller,
            message: format!("nobody signs in to server `{}`: its `auth` is not `oauth`", server.entry.name),
            hint: Some("write `\"auth\": \"oauth\"` into its entry".into()),
        }
        .into()
    })
}

fn failed(error: OAuthError) -> ProblemDocument {
    Problem::of(&error).into()
}

/// Writes down who signed in or out, or failed to; `code` is the fault's.
async fn audit(
    rest: &Rest,
    server: &Supervised,
    caller: &Caller,
    outcome: &str,
    code: Option<&'static str>,
) -> Result<(), ProblemDocument> {
    let server = Some(&server.entry.name);
    let act = Act { server, code, ..Act::new(AuditKind::Login, &caller.user, outcome) };
    Ok(rest.door.engine.audit_act(act).await?)
}

/// Begins a sign-in to a server; for administrators. A new one ends the one before.
#[utoipa::path(
    post,
    path = "/servers/{name}/login",
    params(("name" = String, Path, description = "The server's name.", example = "demo")),
    request_body = BeginBody,
    responses(
        (status = 200, description = "Where to go.", body = SignInView),
        (status = 400, description = "`server.no-sign-in`, `server.not-running`, `oauth.bad-redirect`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
        (status = 500, description = "`oauth.no-client` and others that the configuration can put right."),
        (status = 502, description = "What the server or its authorization server did wrong: `oauth.…`."),
    )
)]
pub async fn begin(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At(name): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<SignInView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    let authorizer = authorizer(&server)?;
    let BeginBody { redirect_uri } = asked::object(&body, BEGIN_EXAMPLE)?;
    let state = server.state();
    if !matches!(state, ServerState::NeedsAuth(_) | ServerState::Connected) {
        // Its refusal says where its authorization server is and what to ask for there.
        server.connect().await;
        servers::until(servers::MOMENT, || server.state() != state).await;
        servers::settle(&server).await;
    }
    match authorizer.begin_sign_in(&redirect_uri).await.map_err(failed)? {
        SignIn::At(url) => Ok(Json(SignInView { url: Some(url), server: None })),
        SignIn::Done => {
            audit(&rest, &server, &caller, "signed-in", None).await?;
            servers::restart(&server).await;
            let server = servers::settled_view(&rest, &caller, &name).await?;
            Ok(Json(SignInView { url: None, server: Some(server) }))
        }
    }
}

/// Finishes the sign-in under way and connects the server; for administrators.
#[utoipa::path(
    post,
    path = "/servers/{name}/login/finish",
    params(("name" = String, Path, description = "The server's name.", example = "demo")),
    request_body = FinishBody,
    responses(
        (status = 200, description = "The server as it is then.", body = ServerView),
        (status = 400, description = "`oauth.no-sign-in`, `oauth.denied`, `server.no-sign-in`, `server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
        (status = 500, description = "`oauth.login-failed`."),
        (status = 502, description = "What the authorization server did wrong: `oauth.…`."),
    )
)]
pub async fn finish(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At(name): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<ServerView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    let authorizer = authorizer(&server)?;
    let FinishBody { redirect } = asked::object(&body, FINISH_EXAMPLE)?;
    if let Err(error) = authorizer.finish_sign_in(redirect).await {
        audit(&rest, &server, &caller, "failed", Some(error.code())).await?;
        return Err(failed(error));
    }
    audit(&rest, &server, &caller, "signed-in", None).await?;
    tracing::info!(server.name = %name, by = %caller.user, "somebody signed in to server `{name}`");
    servers::restart(&server).await;
    Ok(Json(servers::settled_view(&rest, &caller, &name).await?))
}

/// Forgets the tokens of a server and connects it anew, without; for administrators.
#[utoipa::path(
    delete,
    path = "/servers/{name}/login",
    params(("name" = String, Path, description = "The server's name.", example = "demo")),
    responses(
        (status = 200, description = "The server as it is then.", body = ServerView),
        (status = 400, description = "`server.no-sign-in`, `server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn forget(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At(name): At<String>,
    _: Nothing,
) -> Result<Json<ServerView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    authorizer(&server)?.forget().await;
    audit(&rest, &server, &caller, "signed-out", None).await?;
    tracing::info!(server.name = %name, by = %caller.user, "the sign-in to server `{name}` is forgotten");
    servers::restart(&server).await;
    Ok(Json(servers::settled_view(&rest, &caller, &name).await?))
}
