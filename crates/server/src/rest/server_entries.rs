//! The entries of servers in the configuration file of the gateway's owner: adds and removes them over REST.
//! `server_entry_edits.rs` changes them.
//!
//! A new entry is a new command with the rights of the owner, so only the owner's own requests are accepted
//! (`owner_request.rs`).

use super::auth::AdminCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam, run_to_completion};
use super::owner_request;
use super::problem::ProblemDocument;
use super::server_entry_bodies::{NewServerEntry, ServerEntryEdit, WrittenServerEntry};
use super::{ReloadCause, RestState};
use async_trait::async_trait;
use axum::Json;
use axum::extract::{FromRequestParts, State};
use http::request::Parts;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use toolbooth_core::fault::{Blame, Problem};
use utoipa::ToSchema;

/// An example of a valid body.
const EXAMPLE: &str = "send {\"name\": \"files\", \"command\": [\"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/home/me/notes\"]}";

/// The configuration file of the gateway's owner. The binary provides it, because it knows the files.
#[async_trait]
pub trait ServerEntries: Send + Sync {
    /// Adds an entry. If the configuration with it is not valid, the file stays as it was. The audit has a row of it.
    async fn add(&self, by: &str, entry: NewServerEntry) -> Result<ServerEntryChange, Problem>;

    /// The entry of a server as its file has it, without values that may be secrets.
    async fn read(&self, name: &str) -> Result<WrittenServerEntry, Problem>;

    /// Changes the entry of a server in the file that has it, if it is still the one that was read. The audit has a row of it.
    async fn replace(
        &self,
        by: &str,
        name: &str,
        edit: ServerEntryEdit,
    ) -> Result<ServerEntryChange, Problem>;

    /// Removes the entry of a server from the file that has it. The audit has a row of it.
    async fn remove(&self, by: &str, name: &str) -> Result<ServerEntryChange, Problem>;
}

/// A changed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntryChange {
    /// The name of the server.
    pub name: String,
    /// The file that was changed.
    pub file: String,
    /// Remarks, for example that a variable is not set.
    pub notes: Vec<String>,
}

/// The result of adding, changing or removing a server.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedServerEntry {
    /// The name of the server.
    name: String,
    /// The file that was changed.
    file: String,
    /// Remarks, for example that a variable is not set.
    notes: Vec<String>,
    /// The changes of the reload that followed.
    #[schema(value_type = Object)]
    reloaded: Value,
}

/// Extracts that a request comes from the owner, and the files that it changes.
pub struct OwnerServerRequest(pub(super) Arc<dyn ServerEntries>);

impl FromRequestParts<RestState> for OwnerServerRequest {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, rest: &RestState) -> Result<Self, ProblemDocument> {
        let entries = rest.server_entries.clone().filter(|_| rest.is_owners_alone());
        let Some(entries) = entries else {
            owner_request::record(parts, rest, local_only().code);
            return Err(local_only().into());
        };
        owner_request::check(parts, rest, owner_only())?;
        Ok(Self(entries))
    }
}

/// Adds a server to the configuration file of the gateway's owner, and reloads the configuration. Only for the owner of a
/// gateway in `local` mode: over the control socket, or from the console in a browser that `toolbooth console` opened.
///
/// If the reload fails, the answer is its error; the entry stays in the file.
#[utoipa::path(
    post,
    path = "/servers",
    request_body = NewServerEntry,
    responses(
        (status = 200, description = "The server is in the configuration. It connects in the background.", body = ChangedServerEntry),
        (status = 400, description = "`request.bad-body`, `usage.server-name`, or the configuration would not be valid. Nothing was changed."),
        (status = 403, description = "`auth.admin-only`, `servers.local-only` or `servers.owner-only`."),
        (status = 409, description = "`servers.exists`: there is a server with this name. `servers.changed`: another program changed the file at the same time."),
    )
)]
pub async fn add(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    OwnerServerRequest(entries): OwnerServerRequest,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<ChangedServerEntry>, ProblemDocument> {
    let entry: NewServerEntry = extract::object(&body, EXAMPLE)?;
    entry.check(EXAMPLE)?;
    let user = caller.user.clone();
    changed(rest, user.clone(), async move { entries.add(&user, entry).await }).await
}

/// Removes a server from the configuration file that has its entry, and reloads the configuration. Only for the owner of a
/// gateway in `local` mode, as for adding one.
#[utoipa::path(
    delete,
    path = "/servers/{name}",
    params(("name" = String, Path, description = "The name of the server.")),
    responses(
        (status = 200, description = "The server is not in the configuration any more.", body = ChangedServerEntry),
        (status = 400, description = "`servers.not-changeable`: its entry is not in a file that can be changed."),
        (status = 403, description = "`auth.admin-only`, `servers.local-only` or `servers.owner-only`."),
        (status = 404, description = "`server.unknown`."),
        (status = 409, description = "`servers.changed`: another program changed the file at the same time."),
    )
)]
pub async fn remove(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    OwnerServerRequest(entries): OwnerServerRequest,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<ChangedServerEntry>, ProblemDocument> {
    let user = caller.user.clone();
    changed(rest, user.clone(), async move { entries.remove(&user, &name).await }).await
}

/// Makes a change and reloads the configuration, also if the client disconnects meanwhile.
pub(super) async fn changed(
    rest: RestState,
    user: Arc<str>,
    change: impl Future<Output = Result<ServerEntryChange, Problem>> + Send + 'static,
) -> Result<Json<ChangedServerEntry>, ProblemDocument> {
    let reload = rest.reload.clone();
    let done = run_to_completion(async move {
        let ServerEntryChange { name, file, notes } = change.await?;
        let reloaded = reload(ReloadCause::Asked(user)).await?;
        Ok(ChangedServerEntry { name, file, notes, reloaded })
    });
    Ok(Json(done.await?))
}

/// The error of a gateway whose servers cannot be changed over REST.
pub fn local_only() -> Problem {
    Problem {
        code: "servers.local-only",
        blame: Blame::Caller,
        message:
            "servers can be added, changed and removed over REST only in `local` mode, by the owner of the gateway"
                .into(),
        hint: Some("run `toolbooth servers add`, as the user who runs the gateway".into()),
    }
}

/// The error for a request that may not come from the owner in person.
fn owner_only() -> Problem {
    Problem {
        code: "servers.owner-only",
        blame: Blame::Caller,
        message:
            "only the owner of the gateway can add, change and remove servers, in a browser or with a command"
                .into(),
        hint: Some(
            "run `toolbooth console` and use the browser that it opens, or run `toolbooth servers add`"
                .into(),
        ),
    }
}
