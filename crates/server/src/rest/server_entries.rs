//! The entries of servers in the configuration file of the gateway's owner: adds and removes them over REST.
//!
//! A new entry is a new command with the rights of the owner, so only the owner's own requests are accepted
//! (`owner_request.rs`).

use super::auth::AdminCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam, run_to_completion};
use super::owner_request;
use super::problem::ProblemDocument;
use super::{ReloadCause, RestState};
use async_trait::async_trait;
use axum::Json;
use axum::extract::{FromRequestParts, State};
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_core::fault::{Blame, Problem};
use utoipa::ToSchema;

/// An example of a valid body.
const EXAMPLE: &str = "send {\"name\": \"files\", \"command\": [\"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/home/me/notes\"]}";
/// The maximum number of words of a command, of variables and of headers.
const MAX_ITEMS: usize = 200;

/// The configuration file of the gateway's owner. The binary provides it, because it knows the files.
#[async_trait]
pub trait ServerEntries: Send + Sync {
    /// Adds an entry. If the configuration with it is not valid, the file stays as it was. The audit has a row of it.
    async fn add(&self, by: &str, entry: NewServerEntry) -> Result<ServerEntryChange, Problem>;

    /// Removes the entry of a server from the file that has it. The audit has a row of it.
    async fn remove(&self, by: &str, name: &str) -> Result<ServerEntryChange, Problem>;
}

/// A server to add: a local one with `command`, or a remote one with `url`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewServerEntry {
    /// The name of the server. For a remote server it is made from the URL if it is absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The program of a local server and its arguments.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// The URL of a remote server.
    #[serde(default)]
    pub url: Option<String>,
    /// The working folder of a local server.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The variables of a local server. `${NAME}` refers to a variable of the gateway.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The headers of every request to a remote server. `${NAME}` refers to a variable of the gateway.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
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

/// The result of adding or removing a server.
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

impl NewServerEntry {
    /// Checks what does not depend on the configuration.
    fn check(&self) -> Result<(), Problem> {
        let Self { name: _, command, url, cwd, env, headers } = self;
        let is_local = match (command, url) {
            (Some(command), None) if command.first().is_some_and(|program| !program.trim().is_empty()) => {
                true
            }
            (None, Some(url)) if !url.is_empty() => false,
            _ => return Err(bad("give `command` (with a program) or `url`, and not both")),
        };
        if is_local && self.name.is_none() {
            return Err(bad("a local server needs a `name`"));
        }
        if is_local && !headers.is_empty() {
            return Err(bad("`headers` are for remote servers; a local one has `env`"));
        }
        if !is_local && (cwd.is_some() || !env.is_empty()) {
            return Err(bad("`cwd` and `env` are for local servers; a remote one has `headers`"));
        }
        let texts = command.iter().flatten().chain(cwd).chain(env.keys()).chain(env.values());
        let lines = url.iter().chain(headers.keys()).chain(headers.values());
        if texts.into_iter().any(|text| text.contains('\0'))
            || lines.into_iter().any(|text| text.chars().any(char::is_control))
        {
            return Err(bad("the values must not contain control characters"));
        }
        if url.as_deref().is_some_and(has_user_info) {
            return Err(bad(
                "`url` must not contain a user name or a password; `headers` can have the credential",
            ));
        }
        let longest = [command.as_ref().map_or(0, Vec::len), env.len(), headers.len()].into_iter().max();
        match longest {
            Some(longest) if longest > MAX_ITEMS => {
                Err(bad(&format!("`command`, `env` and `headers` may have at most {MAX_ITEMS} items")))
            }
            _ => Ok(()),
        }
    }
}

fn has_user_info(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

fn bad(message: &str) -> Problem {
    extract::bad_body(message.to_owned(), EXAMPLE)
}

/// Extracts that a request comes from the owner, and the files that it changes.
pub struct OwnerServerRequest(Arc<dyn ServerEntries>);

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
    entry.check()?;
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
async fn changed(
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
            "servers can be added and removed over REST only in `local` mode, by the owner of the gateway"
                .into(),
        hint: Some("run `toolbooth servers add`, as the user who runs the gateway".into()),
    }
}

/// The error for a request that may not come from the owner in person.
fn owner_only() -> Problem {
    Problem {
        code: "servers.owner-only",
        blame: Blame::Caller,
        message: "only the owner of the gateway can add and remove servers, in a browser or with a command"
            .into(),
        hint: Some(
            "run `toolbooth console` and use the browser that it opens, or run `toolbooth servers add`"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_local_or_remote() {
        let cases = [
            (json!({ "name": "a", "command": ["x", "y"], "env": { "K": "v" }, "cwd": "/" }), true),
            (json!({ "url": "https://a.example/mcp", "headers": { "X": "y" } }), true),
            (json!({ "command": ["x"] }), false),
            (json!({ "name": "a" }), false),
            (json!({ "name": "a", "command": [] }), false),
            (json!({ "name": "a", "command": [" "] }), false),
            (json!({ "name": "a", "url": "" }), false),
            (json!({ "name": "a", "command": ["x"], "url": "https://a.example" }), false),
            (json!({ "name": "a", "command": ["x"], "headers": { "X": "y" } }), false),
            (json!({ "name": "a", "url": "https://a.example", "env": { "X": "y" } }), false),
            (json!({ "name": "a", "url": "https://a.example", "cwd": "/" }), false),
            (json!({ "name": "a", "command": vec!["x"; 201] }), false),
            (json!({ "name": "a", "command": ["x", "line\nbreak"] }), true),
            (json!({ "name": "a", "command": ["x", "\0"] }), false),
            (json!({ "name": "a", "command": ["x"], "env": { "K": "\0" } }), false),
            (json!({ "url": "https://a.example/\r\n" }), false),
            (json!({ "url": "https://ann:secret@a.example/" }), false),
            (json!({ "url": "https://a.example", "headers": { "X": "a\r\nY: b" } }), false),
        ];
        for (body, is_valid) in cases {
            let entry: NewServerEntry = serde_json::from_value(body.clone()).expect("an entry");
            assert_eq!(entry.check().is_ok(), is_valid, "{body}");
        }
    }
}
