//! Servers over REST.

use super::auth::{AdminCaller, RestCaller};
use super::extract::{NoQuery, PathParam};
use super::problem::{ProblemDocument, unknown_server};
use super::server_output::output_hint;
use super::{ReloadCause, RestState};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::{CatalogItem, ServerCatalog, SetAside};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::lint::unsupplied_identity;
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, on_item, on_server, on_tool};
use toolbooth_core::server::{ServerDescription, Transport};
use toolbooth_engine::ManagedServer;
use toolbooth_engine::{Act, Tenancy};
use toolbooth_upstream::{ServerState, StateReport, Supervised, UserKeyStatus};
use utoipa::ToSchema;

/// How long to wait for something that should happen at once.
pub(super) const MOMENT: Duration = Duration::from_secs(1);
/// How long a server may take to stop: closed standard input, then TERM, then KILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(7);
/// Maximum number of definitions that need attention in the view of a server.
const MAX_ASIDES: usize = 100;
/// The actions on a server. Each is recorded in the audit log.
const ACTIONS: [&str; 4] = ["connect", "disconnect", "restart", "refresh"];

/// A server.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerView {
    /// The name of the server.
    #[schema(value_type = String)]
    pub name: ServerName,
    /// The state: `connected`, `connecting`, `error` and so on.
    pub state: &'static str,
    /// The reason of an error state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The fault code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Seconds until the next connection attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_seconds: Option<u64>,
    /// The caller's own key, if users give their own to this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_key: Option<UserKeyView>,
    /// The transport: `stdio`, `http` and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// The command or URL. Secrets are shown as their `${VAR}` templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The protocol era of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<&'static str>,
    /// The negotiated protocol revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<&'static str>,
    /// Number of tools.
    pub tools: usize,
    /// Number of prompts.
    pub prompts: usize,
    /// Number of resources and resource templates.
    pub resources: usize,
    /// Number of lines on its standard output that are not protocol messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stray_lines: Option<u64>,
    /// Items that are not in the catalog, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<AsideView>,
    /// The purpose of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The purpose in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_description: Option<String>,
    /// The author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The contact for questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help_email: Option<String>,
    /// The compliance level of its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliance_level: Option<String>,
}

/// The caller's key for a server, without the key.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserKeyView {
    /// Whether the caller has given one.
    set: bool,
    /// When it was given, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_at_ms: Option<i64>,
    /// Whether the server refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<bool>,
}

impl From<Option<UserKeyStatus>> for UserKeyView {
    fn from(status: Option<UserKeyStatus>) -> Self {
        Self {
            set: status.is_some(),
            set_at_ms: status.map(|status| status.set_at_ms),
            refused: status.map(|status| status.is_refused),
        }
    }
}

/// An item of a server that is not in the catalog.
#[derive(Debug, Serialize, ToSchema)]
pub struct AsideView {
    kind: &'static str,
    name: String,
    reason: String,
    /// The name that a quarantined tool would have for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    exposed: Option<String>,
}

/// A list of servers, at one revision of the catalog.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerList {
    revision: u64,
    servers: Vec<ServerView>,
}

/// The latest lines that a server wrote to standard error.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogView {
    name: String,
    /// Total number of lines that it has written.
    total: u64,
    lines: Vec<String>,
}

/// The view of a server. Counts include only what the caller may see; commands, URLs and errors are for administrators.
fn view(rest: &RestState, caller: &Caller, name: &ServerName, managed: &ManagedServer) -> ServerView {
    let catalog = rest.engine().catalog().load();
    let part = catalog.servers().get(name);
    let is_admin = caller.admin == Admin::Yes;
    let running = match managed {
        ManagedServer::Running { server, .. } => Some(server),
        ManagedServer::Idle(_) => None,
    };
    let state = running.map_or_else(|| managed.state(), |server| server.state_for(caller));
    let own_key = running
        .and_then(|server| server.pool.user_keys())
        .map(|keys| UserKeyView::from(keys.status(&caller.user)));
    let connection = running.and_then(|server| server.pool.primary());
    let target = running.filter(|_| is_admin).map(|server| target_of(&server.entry.transport));
    let offers = |offers: &[CatalogItem]| match is_admin {
        true => offers.len(),
        false => offers.iter().filter(|offer| on_item(caller, offer) == Permission::Granted).count(),
    };
    let tools = |part: &ServerCatalog| match is_admin {
        true => part.tool_count(),
        false => part.tools.iter().filter(|tool| on_tool(caller, tool) == Permission::Granted).count(),
    };
    let StateReport { state: word, reason, code, hint, retry_in_seconds } = StateReport::from(&state);
    let output_hint = running.filter(|_| is_admin).and_then(|server| output_hint(server, &state));
    let about = |field: fn(&ServerDescription) -> Option<String>| {
        running.and_then(|server| field(&server.entry.about))
    };
    // Both may contain commands, folders and URLs.
    let is_about_own_key = own_key.is_some() && matches!(state, ServerState::NeedsAuth(_));
    let (reason, hint) = match is_admin || is_about_own_key {
        true => (reason, hint),
        false => (reason.map(|_| public_reason(&state)), None),
    };
    ServerView {
        name: name.clone(),
        state: word,
        reason,
        code,
        hint: output_hint.or(hint).or_else(|| hint_of(&state)),
        retry_in_seconds,
        own_key,
        transport: target.as_ref().map(|(kind, _)| *kind),
        target: target.map(|(_, target)| target),
        era: connection.as_ref().map(|connection| connection.era.as_str()),
        revision: connection.as_ref().map(|connection| connection.revision.as_str()),
        tools: part.map_or(0, |part| tools(part)),
        prompts: part.map_or(0, |part| offers(&part.prompts)),
        resources: part.map_or(0, |part| offers(&part.resources) + offers(&part.templates)),
        stray_lines: running
            .filter(|_| is_admin)
            .map(|server| server.stderr.strays())
            .filter(|count| *count > 0),
        set_aside: part.filter(|_| is_admin).map(|part| asides(rest, part)).unwrap_or_default(),
        description: about(|about| about.description.clone()),
        short_description: about(|about| about.short_description.clone()),
        author: about(|about| about.author.clone()),
        help_email: about(|about| about.help_email.clone()),
        compliance_level: running
            .and_then(|server| server.entry.compliance_level.as_deref())
            .map(|level| rest.front_end.authenticator.level_name(level)),
    }
}

/// The definitions of a server that need attention, for administrators.
fn asides(rest: &RestState, part: &ServerCatalog) -> Vec<AsideView> {
    let exposed = |aside: &SetAside| {
        let mut quarantined = part.quarantined.iter().filter(|quarantined| quarantined.has_name(&aside.name));
        quarantined.next().map(|quarantined| quarantined.tool.exposed.to_string())
    };
    let set_aside = part.set_aside.iter().map(|aside| AsideView {
        kind: aside.kind,
        name: aside.name.clone(),
        reason: aside.reason.clone(),
        exposed: (aside.kind == "quarantine").then(|| exposed(aside)).flatten(),
    });
    set_aside.chain(unsupplied_identities(rest, part)).take(MAX_ASIDES).collect()
}

/// Tools with an identity argument that the gateway does not supply, on a gateway with several users.
fn unsupplied_identities<'a>(
    rest: &RestState,
    part: &'a ServerCatalog,
) -> impl Iterator<Item = AsideView> + use<'a> {
    let tools = match rest.engine().terms().tenancy {
        Tenancy::Owner => &[],
        Tenancy::Many => part.tools.as_slice(),
    };
    tools.iter().flat_map(|tool| {
        unsupplied_identity(&tool.definition).into_iter().map(|argument| AsideView {
            kind: "identity",
            name: tool.name.to_string(),
            reason: format!("callers may name any user in `{argument}`"),
            exposed: Some(tool.exposed.to_string()),
        })
    })
}

/// The failure reason shown to callers who are not administrators.
fn public_reason(state: &ServerState) -> String {
    match state {
        ServerState::NeedsAuth(_) => "it requires a sign-in".into(),
        _ => "it is not available; administrators can see the reason".into(),
    }
}

/// A hint for a state that is not an error.
fn hint_of(state: &ServerState) -> Option<String> {
    match state {
        ServerState::NeedsTrust => Some("run `toolbooth trust` to review and trust it".into()),
        _ => None,
    }
}

fn target_of(transport: &Transport) -> (&'static str, String) {
    match transport {
        Transport::Stdio { command, args, .. } => {
            let words = std::iter::once(command).chain(args).map(|word| word.shown()).collect::<Vec<_>>();
            ("stdio", words.join(" "))
        }
        Transport::Http(remote) => ("http", remote.url.shown().to_owned()),
        Transport::Sse(remote) => ("sse", remote.url.shown().to_owned()),
        Transport::WebSocket(remote) => ("ws", remote.url.shown().to_owned()),
        Transport::Bundled(name) => ("bundled", format!("toolbooth demo-server {name}")),
        Transport::Own => ("own", "the gateway itself".to_owned()),
        Transport::Virtual => ("virtual", "tools of manifests".to_owned()),
    }
}

/// Whether a caller may see a server. Administrators see all servers.
fn visible(caller: &Caller, managed: &ManagedServer) -> bool {
    match (caller.admin, managed) {
        (Admin::Yes, _) => true,
        (Admin::No, ManagedServer::Running { server, .. }) => {
            on_server(caller, &server.entry) == Permission::Granted
        }
        (Admin::No, ManagedServer::Idle(_)) => false,
    }
}

/// Lists the servers that the caller may use. Administrators see all servers.
#[utoipa::path(get, path = "/servers", responses((status = 200, description = "The servers.", body = ServerList)))]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
) -> Json<ServerList> {
    let revision = rest.engine().catalog().load().revision;
    Json(ServerList { revision, servers: all(&rest, &caller) })
}

/// All servers that this caller may see.
pub fn all(rest: &RestState, caller: &Caller) -> Vec<ServerView> {
    let servers = rest.engine().servers().all();
    let visible = servers.iter().filter(|(_, managed)| visible(caller, managed));
    visible.map(|(name, managed)| view(rest, caller, name, managed)).collect()
}

/// Whether there is a server with this name that the caller may see.
pub fn is_known(rest: &RestState, caller: &Caller, name: &str) -> bool {
    let servers = rest.engine().servers().all();
    servers.iter().any(|(known, managed)| known.as_str() == name && visible(caller, managed))
}

fn find(
    rest: &RestState,
    caller: &Caller,
    name: &str,
) -> Result<(ServerName, ManagedServer), ProblemDocument> {
    let servers = rest.engine().servers().all();
    let found = servers.iter().find(|(known, managed)| known.as_str() == name && visible(caller, managed));
    found.map(|(name, managed)| (name.clone(), managed.clone())).ok_or_else(|| unknown_server(name))
}

pub(super) fn running(
    rest: &RestState,
    caller: &Caller,
    name: &str,
) -> Result<Arc<Supervised>, ProblemDocument> {
    match find(rest, caller, name)? {
        (_, ManagedServer::Running { server, .. }) => Ok(server),
        (_, ManagedServer::Idle(state)) => Err(Problem {
            code: "server.not-running",
            blame: Blame::Caller,
            message: format!("server `{name}` is not running: {}", why(&state)),
            hint: state.problem().and_then(|problem| problem.hint.clone()).or_else(|| hint_of(&state)),
        }
        .into()),
    }
}

fn why(state: &ServerState) -> String {
    match (state, state.problem()) {
        (_, Some(problem)) => problem.message.clone(),
        (ServerState::NeedsTrust, None) => "it is not trusted yet".into(),
        (state, None) => format!("it is {}", state.as_str()),
    }
}

/// Shows a server.
#[utoipa::path(
    get,
    path = "/servers/{name}",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    responses(
        (status = 200, description = "The server.", body = ServerView),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<ServerView>, ProblemDocument> {
    let (name, managed) = find(&rest, &caller, &name)?;
    Ok(Json(view(&rest, &caller, &name, &managed)))
}

/// Shows the latest lines that a server wrote to standard error. Administrators only.
#[utoipa::path(
    get,
    path = "/servers/{name}/logs",
    params(("name" = String, Path, description = "The name of the server.", example = "demo")),
    responses(
        (status = 200, description = "At most 200 lines.", body = LogView),
        (status = 400, description = "`server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn logs(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<LogView>, ProblemDocument> {
    let server = running(&rest, &caller, &name)?;
    Ok(Json(LogView { name, total: server.stderr.total(), lines: server.stderr.lines() }))
}

/// An action on a server.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the values of the path parameter, for the OpenAPI document")]
enum ServerAction {
    Connect,
    Disconnect,
    Restart,
    Refresh,
}

/// Connects, disconnects, restarts or refreshes a server. Administrators only.
///
/// If the action fails, the reason is in the state of the server.
#[utoipa::path(
    post,
    path = "/servers/{name}/{action}",
    params(
        ("name" = String, Path, description = "The name of the server.", example = "demo"),
        ("action" = inline(ServerAction), Path, description = "The action.", example = "refresh"),
    ),
    responses(
        (status = 200, description = "The server after the action.", body = ServerView),
        (status = 400, description = "`server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`, or an unknown action."),
    )
)]
pub async fn act(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam((name, action)): PathParam<(String, String)>,
    _: NoQuery,
) -> Result<Json<ServerView>, ProblemDocument> {
    let server = running(&rest, &caller, &name)?;
    let before = server.state();
    if ACTIONS.contains(&action.as_str()) {
        let act =
            Act { server: Some(&server.entry.name), ..Act::new(AuditKind::Server, &caller.user, &action) };
        rest.engine().audit().record_act(act).await?;
    }
    // Failures are shown in the view.
    match action.as_str() {
        "connect" => {
            server.connect().await;
            if before != ServerState::Connected {
                until(MOMENT, || server.state() != before).await;
            }
            settle(&server).await;
        }
        "disconnect" => {
            server.disconnect().await;
            until(STOP_TIMEOUT, || server.state() == ServerState::Disconnected).await;
        }
        "restart" => {
            restart(&server).await;
        }
        "refresh" => {
            server.refresh().await;
            // The caller expects to see the result at once.
            rest.engine().catalog().publish_now().await;
        }
        other => {
            return Err(Problem {
                code: "request.not-found",
                blame: Blame::Caller,
                message: format!("unknown action `{other}`"),
                hint: Some("the actions are connect, disconnect, restart and refresh".into()),
            }
            .into());
        }
    }
    Ok(Json(settled_view(&rest, &caller, &name).await?))
}

/// The view of a server after an action.
pub(super) async fn settled_view(
    rest: &RestState,
    caller: &Caller,
    name: &str,
) -> Result<ServerView, ProblemDocument> {
    let (name, managed) = find(rest, caller, name)?;
    if managed.state() == ServerState::Connected {
        // The tools of a server enter the catalog a moment after it is connected.
        until(MOMENT, || rest.engine().catalog().load().servers().contains_key(&name)).await;
    }
    Ok(view(rest, caller, &name, &managed))
}

/// Restarts a server and waits until it is connected again or has failed.
pub(super) async fn restart(server: &Supervised) {
    let (before, old) = (server.state(), server.pool.primary());
    server.restart().await;
    let gone = || match (&old, server.pool.primary()) {
        (Some(old), Some(now)) => !Arc::ptr_eq(old, &now),
        // The old connection goes before the state changes.
        (Some(_), None) | (None, _) => server.state() != before,
    };
    // A server that was down may be down again before the state is read.
    until(if old.is_some() { STOP_TIMEOUT } else { MOMENT }, gone).await;
    settle(server).await;
}

/// Waits until a server is connected or has failed. A handshake that tries both eras may take longer than one
/// `connect_timeout`.
pub(super) async fn settle(server: &Supervised) {
    let _ = server.ready().await;
    until(server.entry.connect_timeout * 2 + STOP_TIMEOUT, || server.state() != ServerState::Connecting)
        .await;
}

/// Waits until a condition holds, up to a timeout.
pub(super) async fn until(timeout: Duration, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(timeout, waiting).await;
}

/// Reloads the configuration. Administrators only.
#[utoipa::path(
    post,
    path = "/servers/reload",
    responses(
        (status = 200, description = "The changes.", body = Object),
        (status = 400, description = "The configuration is not valid. The last good one stays in force."),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn reload(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    _: NoQuery,
) -> Result<Json<Value>, ProblemDocument> {
    Ok(Json((rest.reload)(ReloadCause::Asked(caller.user.clone())).await?))
}
