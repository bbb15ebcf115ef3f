//! Reads the entry of a server and changes it over REST, for the owner of the gateway.
//!
//! Values of variables and headers are sent only if they refer to a variable of the gateway. Others may be secrets: the
//! answer has `null` for them, and `null` in a change keeps them.

use super::RestState;
use super::auth::AdminCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam};
use super::problem::ProblemDocument;
use super::server_entries::{self, ChangedServerEntry, OwnerServerRequest};
use super::server_entry_bodies::{ServerEntryEdit, WrittenServerEntry};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;

/// An example of a valid body.
const EXAMPLE: &str = "send what `GET /servers/{name}/entry` answered, with your changes";

/// Shows the entry of a server as its file has it, to change it. Only for the owner of a gateway in `local` mode, as for
/// adding a server.
#[utoipa::path(
    get,
    path = "/servers/{name}/entry",
    params(("name" = String, Path, description = "The name of the server.")),
    responses(
        (status = 200, description = "The entry. Values that may be secrets are `null`.", body = WrittenServerEntry),
        (status = 400, description = "`servers.not-changeable`: its entry is not in a file that can be changed, or not in a form that can be changed here."),
        (status = 403, description = "`auth.admin-only`, `servers.local-only` or `servers.owner-only`."),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn show(
    AdminCaller(_): AdminCaller,
    OwnerServerRequest(entries): OwnerServerRequest,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Response, ProblemDocument> {
    let entry = entries.read(&name).await?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(entry)).into_response())
}

/// Changes the entry of a server in the file that has it, and reloads the configuration. Only for the owner of a gateway
/// in `local` mode, as for adding a server.
///
/// A local server stays a local one, and a remote one a remote one. If the reload fails, the answer is its error; the
/// change stays in the file.
#[utoipa::path(
    put,
    path = "/servers/{name}",
    params(("name" = String, Path, description = "The name of the server.")),
    request_body = ServerEntryEdit,
    responses(
        (status = 200, description = "The entry is changed. The server connects again in the background.", body = ChangedServerEntry),
        (status = 400, description = "`request.bad-body`, `servers.not-changeable`, or the configuration would not be valid. Nothing was changed."),
        (status = 403, description = "`auth.admin-only`, `servers.local-only` or `servers.owner-only`."),
        (status = 404, description = "`server.unknown`."),
        (status = 409, description = "`servers.changed`: the entry or its file has changed since it was read."),
    )
)]
pub async fn replace(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    OwnerServerRequest(entries): OwnerServerRequest,
    PathParam(name): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<ChangedServerEntry>, ProblemDocument> {
    let edit: ServerEntryEdit = extract::object(&body, EXAMPLE)?;
    edit.check(EXAMPLE)?;
    let user = caller.user.clone();
    server_entries::changed(rest, user.clone(), async move { entries.replace(&user, &name, edit).await })
        .await
}
