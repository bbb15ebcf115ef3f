//! Keys that callers give to servers for their own calls. A key is never shown, not even to its owner.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam};
use super::problem::ProblemDocument;
use super::servers::{self, UserKeyView};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_engine::{Act, Engine};
use toolbooth_upstream::{ServerState, Supervised};
use utoipa::ToSchema;

const EXAMPLE: &str = "send {\"key\": \"…\"}";

/// The body of a request to set a key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserKeyBody {
    /// The key: ASCII characters without spaces.
    #[schema(min_length = 1, max_length = 4096, pattern = "^[!-~]+$", example = "k-1234567890")]
    key: String,
}

/// Records a change of a key in the audit log; `code` is the fault code.
async fn audit(
    engine: &Engine,
    server: &Supervised,
    caller: &Caller,
    outcome: &str,
    code: Option<&'static str>,
) -> Result<(), Problem> {
    let server = Some(&server.entry.name);
    let act = Act { server, code, ..Act::new(AuditKind::Key, &caller.user, outcome) };
    engine.audit().record_act(act).await
}

/// Shows whether the caller has given a key to a server. The key itself cannot be read.
#[utoipa::path(
    get,
    path = "/servers/{name}/key",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    responses(
        (status = 200, description = "Whether there is a key.", body = UserKeyView),
        (status = 400, description = "`server.no-user-keys` or `server.not-running`."),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<UserKeyView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    Ok(Json(rest.engine().servers().user_key(&server, &caller)?.into()))
}

/// Sets the caller's key for a server, or replaces it. The caller's calls use it at once; those of other callers do not.
#[utoipa::path(
    put,
    path = "/servers/{name}/key",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    request_body = UserKeyBody,
    responses(
        (status = 200, description = "The key is stored.", body = UserKeyView),
        (status = 400, description = "`server.bad-key`, `server.no-user-keys` or `server.not-running`."),
        (status = 404, description = "`server.unknown`."),
        (status = 500, description = "`server.key-not-stored` or `server.too-many-keys`."),
    )
)]
pub async fn set(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<UserKeyView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    let UserKeyBody { key } = extract::object(&body, EXAMPLE)?;
    let engine = rest.engine().clone();
    let work = set_and_record(engine, server.clone(), caller.clone(), key);
    extract::run_to_completion(work).await?;
    // The first key makes the gateway connect, and the caller expects to see the tools.
    let status = || server.pool.user_keys().and_then(|keys| keys.status(&caller.user));
    let is_refused = || status().is_none_or(|status| status.is_refused);
    servers::until(servers::MOMENT, || server.state() == ServerState::Connected || is_refused()).await;
    Ok(Json(status().into()))
}

async fn set_and_record(
    engine: Arc<Engine>,
    server: Arc<Supervised>,
    caller: Arc<Caller>,
    key: String,
) -> Result<(), Problem> {
    match engine.servers().set_user_key(&server, &caller, &key).await {
        Ok(()) => audit(&engine, &server, &caller, "set", None).await,
        Err(problem) => {
            audit(&engine, &server, &caller, "failed", Some(problem.code)).await?;
            Err(problem)
        }
    }
}

/// Deletes the caller's key for a server and closes the connections that use it.
#[utoipa::path(
    delete,
    path = "/servers/{name}/key",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    responses(
        (status = 200, description = "There is no key any more.", body = UserKeyView),
        (status = 400, description = "`server.no-user-keys` or `server.not-running`."),
        (status = 404, description = "`server.unknown`."),
        (status = 500, description = "`server.key-not-stored`: the key may still be there."),
    )
)]
pub async fn delete(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<UserKeyView>, ProblemDocument> {
    let server = servers::running(&rest, &caller, &name)?;
    let engine = rest.engine().clone();
    extract::run_to_completion(async move {
        if engine.servers().delete_user_key(&server, &caller).await? {
            audit(&engine, &server, &caller, "deleted", None).await?;
        }
        Ok(())
    })
    .await?;
    Ok(Json(None.into()))
}
