//! Servers over REST.

use super::asked::{At, Nothing};
use super::problem::{ProblemDocument, unknown_server};
use super::who::{Keeper, Who};
use super::{ReloadCause, Rest};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::{Offer, ServerCatalog, SetAside};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::lint::unsupplied_identity;
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, on_offer, on_server, on_tool};
use toolbooth_core::server::{About, Transport};
use toolbooth_engine::engine::Managed;
use toolbooth_engine::{Act, Audience};
use toolbooth_upstream::{ServerState, StateReport, Supervised};
use utoipa::ToSchema;

/// How long something that is about to happen is waited for.
pub(super) const MOMENT: Duration = Duration::from_secs(1);
/// How long a server may take to end: closed standard input, then TERM, then KILL.
const ENDING: Duration = Duration::from_secs(7);
/// What can be done to a server; each leaves a row in the audit.
const ACTIONS: [&str; 4] = ["connect", "disconnect", "restart", "refresh"];

/// A server as REST shows it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerView {
    /// Its name.
    #[schema(value_type = String)]
    pub name: ServerName,
    /// Where it stands: `connected`, `connecting`, `error` and so on.
    pub state: &'static str,
    /// Why, if something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The fault's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Seconds until the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_seconds: Option<u64>,
    /// How it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// The command or address, secrets as their templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The era it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<&'static str>,
    /// The revision agreed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<&'static str>,
    /// How many tools it offers.
    pub tools: usize,
    /// How many prompts.
    pub prompts: usize,
    /// How many resources and templates.
    pub resources: usize,
    /// How many lines it wrote to its standard output that are no messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stray_lines: Option<u64>,
    /// What did not enter the catalog, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<AsideView>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The same in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_description: Option<String>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Whom to ask about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help_email: Option<String>,
}

/// Something of a server that did not enter the catalog.
#[derive(Debug, Serialize, ToSchema)]
pub struct AsideView {
    kind: &'static str,
    name: String,
    reason: String,
    /// The name that a tool in quarantine would be offered under.
    #[serde(skip_serializing_if = "Option::is_none")]
    exposed: Option<String>,
}

/// Servers, at one revision of the catalog.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerList {
    revision: u64,
    servers: Vec<ServerView>,
}

/// The last lines that a server wrote on its standard error.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogView {
    name: String,
    /// How many lines it wrote in all.
    total: u64,
    lines: Vec<String>,
}

/// Counts are of what the caller may see; commands, addresses and what failed are for those who look after it.
fn view(rest: &Rest, caller: &Caller, name: &ServerName, managed: &Managed) -> ServerView {
    let catalog = rest.door.engine.catalog();
    let part = catalog.servers().get(name);
    let keeper = caller.admin == Admin::Yes;
    let state = managed.state();
    let running = match managed {
        Managed::Running { server, .. } => Some(server),
        Managed::Idle(_) => None,
    };
    let connection = running.and_then(|server| server.pool.primary());
    let target = running.filter(|_| keeper).map(|server| target_of(&server.entry.transport));
    let aside = part.filter(|_| keeper).map(|part| part.set_aside.as_slice()).unwrap_or_default();
    let exposed = |aside: &SetAside| {
        let apart = part.filter(|_| aside.kind == "quarantine")?.quarantined.iter();
        let mut apart = apart.filter(|apart| apart.goes_by(&aside.name));
        apart.next().map(|apart| apart.tool.exposed.to_string())
    };
    let offers = |offers: &[Offer]| match keeper {
        true => offers.len(),
        false => offers.iter().filter(|offer| on_offer(caller, offer) == Permission::Granted).count(),
    };
    let tools = |part: &ServerCatalog| match keeper {
        true => part.tools.len(),
        false => part.tools.iter().filter(|tool| on_tool(caller, tool) == Permission::Granted).count(),
    };
    let StateReport { state: word, reason, code, hint, retry_in_seconds } = StateReport::from(&state);
    let last_words = running.filter(|_| keeper).and_then(|server| last_words(server, &state));
    let about = |field: fn(&About) -> Option<String>| running.and_then(|server| field(&server.entry.about));
    // Both may name commands, folders and addresses.
    let (reason, hint) = if keeper { (reason, hint) } else { (reason.map(|_| withheld(&state)), None) };
    ServerView {
        name: name.clone(),
        state: word,
        reason,
        code,
        hint: last_words.or(hint).or_else(|| hint_of(&state)),
        retry_in_seconds,
        transport: target.as_ref().map(|(kind, _)| *kind),
        target: target.map(|(_, target)| target),
        era: connection.as_ref().map(|connection| connection.era.as_str()),
        revision: connection.as_ref().map(|connection| connection.revision.as_str()),
        tools: part.map_or(0, |part| tools(part)),
        prompts: part.map_or(0, |part| offers(&part.prompts)),
        resources: part.map_or(0, |part| offers(&part.resources) + offers(&part.templates)),
        stray_lines: running
            .filter(|_| keeper)
            .map(|server| server.stderr.strays())
            .filter(|count| *count > 0),
        set_aside: aside
            .iter()
            .map(|aside| AsideView {
                kind: aside.kind,
                name: aside.name.clone(),
                reason: aside.reason.clone(),
                exposed: exposed(aside),
            })
            .chain(part.filter(|_| keeper).into_iter().flat_map(|part| nameable(rest, part)))
            .take(100)
            .collect(),
        description: about(|about| about.description.clone()),
        short_description: about(|about| about.short_description.clone()),
        author: about(|about| about.author.clone()),
        help_email: about(|about| about.help_email.clone()),
    }
}

/// Tools that ask who calls and are told by their callers, where callers are told apart.
fn nameable<'a>(rest: &Rest, part: &'a ServerCatalog) -> impl Iterator<Item = AsideView> + use<'a> {
    let tools = match rest.door.engine.terms().audience {
        Audience::Owner => &[],
        Audience::Many => part.tools.as_slice(),
    };
    tools.iter().flat_map(|tool| {
        unsupplied_identity(tool).into_iter().map(|argument| AsideView {
            kind: "identity",
            name: tool.name.to_string(),
            reason: format!("callers may name anybody in `{argument}`"),
            exposed: Some(tool.exposed.to_string()),
        })
    })
}

/// The failure reason shown to callers who are not administrators.
fn withheld(state: &ServerState) -> String {
    match state {
        ServerState::NeedsAuth(_) => "it wants the gateway to sign in".into(),
        _ => "it cannot be used now; administrators see why".into(),
    }
}

/// What to do about a state that is nobody's fault.
fn hint_of(state: &ServerState) -> Option<String> {
    match state {
        ServerState::NeedsTrust => Some("`toolbooth trust` shows what it would run, and asks".into()),
        _ => None,
    }
}

/// A process that failed has mostly said why.
fn last_words(server: &Supervised, state: &ServerState) -> Option<String> {
    let code = state.problem()?.code;
    let told_more = [
        "server.lost",
        "server.start-failed",
        "server.start-timeout",
        "server.bad-answer",
        "server.unreachable",
        "server.flood",
        "call.timeout",
    ];
    if !told_more.contains(&code)
        || !matches!(server.entry.transport, Transport::Stdio { .. } | Transport::Bundled(_))
    {
        return None;
    }
    let name = &server.entry.name;
    Some(match server.stderr.lines().iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => {
            let line: String = line.trim().chars().take(200).collect();
            format!("its last words were: {line}; `toolbooth servers logs {name}` shows more")
        }
        // It may only need longer.
        None if code == "server.start-timeout" => return None,
        None => {
            format!("run its command by hand to see what it does; `toolbooth servers logs {name}` is empty")
        }
    })
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

/// What a caller may not use does not exist for them. Those who look after the gateway see every server.
fn visible(caller: &Caller, managed: &Managed) -> bool {
    match (caller.admin, managed) {
        (Admin::Yes, _) => true,
        (Admin::No, Managed::Running { server, .. }) => {
            on_server(caller, &server.entry) == Permission::Granted
        }
        (Admin::No, Managed::Idle(_)) => false,
    }
}

/// Lists the servers that the caller may use; all of them for an administrator.
#[utoipa::path(get, path = "/servers", responses((status = 200, description = "The servers.", body = ServerList)))]
pub async fn list(State(rest): State<Rest>, Who(caller): Who, _: Nothing) -> Json<ServerList> {
    let revision = rest.door.engine.catalog().revision;
    Json(ServerList { revision, servers: all(&rest, &caller) })
}

/// Every server that this caller may see.
pub fn all(rest: &Rest, caller: &Caller) -> Vec<ServerView> {
    let servers = rest.door.engine.servers();
    let visible = servers.iter().filter(|(_, managed)| visible(caller, managed));
    visible.map(|(name, managed)| view(rest, caller, name, managed)).collect()
}

fn find(rest: &Rest, caller: &Caller, name: &str) -> Result<(ServerName, Managed), ProblemDocument> {
    let servers = rest.door.engine.servers();
    let found = servers.iter().find(|(known, managed)| known.as_str() == name && visible(caller, managed));
    found.map(|(name, managed)| (name.clone(), managed.clone())).ok_or_else(|| unknown_server(name))
}

pub(super) fn running(rest: &Rest, caller: &Caller, name: &str) -> Result<Arc<Supervised>, ProblemDocument> {
    match find(rest, caller, name)? {
        (_, Managed::Running { server, .. }) => Ok(server),
        (_, Managed::Idle(state)) => Err(Problem {
            code: "server.not-running",
            blame: Blame::Caller,
            message: format!("server `{name}` does not run: {}", why(&state)),
            hint: state.problem().and_then(|problem| problem.hint.clone()).or_else(|| hint_of(&state)),
        }
        .into()),
    }
}

fn why(state: &ServerState) -> String {
    match (state, state.problem()) {
        (_, Some(problem)) => problem.message.clone(),
        (ServerState::NeedsTrust, None) => "nobody has agreed to it yet".into(),
        (state, None) => format!("it is {}", state.as_str()),
    }
}

/// Shows a server.
#[utoipa::path(
    get,
    path = "/servers/{name}",
    params(("name" = String, Path, description = "The server's name.", example = "demo")),
    responses(
        (status = 200, description = "The server.", body = ServerView),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(name): At<String>,
    _: Nothing,
) -> Result<Json<ServerView>, ProblemDocument> {
    let (name, managed) = find(&rest, &caller, &name)?;
    Ok(Json(view(&rest, &caller, &name, &managed)))
}

/// Shows the last lines that a server wrote on its standard error; for administrators.
#[utoipa::path(
    get,
    path = "/servers/{name}/logs",
    params(("name" = String, Path, description = "The server's name.", example = "demo")),
    responses(
        (status = 200, description = "At most 200 lines.", body = LogView),
        (status = 400, description = "`server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn logs(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At(name): At<String>,
    _: Nothing,
) -> Result<Json<LogView>, ProblemDocument> {
    let server = running(&rest, &caller, &name)?;
    Ok(Json(LogView { name, total: server.stderr.total(), lines: server.stderr.lines() }))
}

/// What can be done with a server.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the words of the path, for the document")]
enum ServerAction {
    Connect,
    Disconnect,
    Restart,
    Refresh,
}

/// Connects, disconnects, restarts or refreshes a server; for administrators.
///
/// What goes wrong on the way is in the server's state.
#[utoipa::path(
    post,
    path = "/servers/{name}/{action}",
    params(
        ("name" = String, Path, description = "The server's name.", example = "demo"),
        ("action" = inline(ServerAction), Path, description = "What to do.", example = "refresh"),
    ),
    responses(
        (status = 200, description = "The server as it is then.", body = ServerView),
        (status = 400, description = "`server.not-running`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`server.unknown`, or an action that no server knows."),
    )
)]
pub async fn act(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At((name, action)): At<(String, String)>,
    _: Nothing,
) -> Result<Json<ServerView>, ProblemDocument> {
    let server = running(&rest, &caller, &name)?;
    let before = server.state();
    if ACTIONS.contains(&action.as_str()) {
        let act =
            Act { server: Some(&server.entry.name), ..Act::new(AuditKind::Server, &caller.user, &action) };
        rest.door.engine.audit_act(act).await?;
    }
    // What goes wrong on the way is in the view.
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
            until(ENDING, || server.state() == ServerState::Disconnected).await;
        }
        "restart" => {
            restart(&server).await;
        }
        "refresh" => {
            server.refresh().await;
            // Whoever asks wants to see it.
            rest.door.engine.publish_now().await;
        }
        other => {
            return Err(Problem {
                code: "request.not-found",
                blame: Blame::Caller,
                message: format!("a server cannot `{other}`"),
                hint: Some("connect, disconnect, restart and refresh are known".into()),
            }
            .into());
        }
    }
    Ok(Json(settled_view(&rest, &caller, &name).await?))
}

/// A server as it is after something was done with it.
pub(super) async fn settled_view(
    rest: &Rest,
    caller: &Caller,
    name: &str,
) -> Result<ServerView, ProblemDocument> {
    let (name, managed) = find(rest, caller, name)?;
    if managed.state() == ServerState::Connected {
        // What a server lists is in the catalog a moment after it is connected.
        until(MOMENT, || rest.door.engine.catalog().servers().contains_key(&name)).await;
    }
    Ok(view(rest, caller, &name, &managed))
}

/// Ends a server's connections, and waits until it is connected anew or known not to be.
pub(super) async fn restart(server: &Supervised) {
    let (before, old) = (server.state(), server.pool.primary());
    server.restart().await;
    let gone = || match (&old, server.pool.primary()) {
        (Some(old), Some(now)) => !Arc::ptr_eq(old, &now),
        // The old one goes before the state says so.
        (Some(_), None) | (None, _) => server.state() != before,
    };
    // One that was down may be down again before anybody looks.
    until(if old.is_some() { ENDING } else { MOMENT }, gone).await;
    settle(server).await;
}

/// Waits until a server is connected or known not to be. A handshake in two eras may take longer than
/// one `connect_timeout`.
pub(super) async fn settle(server: &Supervised) {
    let _ = server.ready().await;
    until(server.entry.connect_timeout * 2 + ENDING, || server.state() != ServerState::Connecting).await;
}

/// Waits until something holds, but not for ever.
pub(super) async fn until(patience: Duration, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(patience, waiting).await;
}

/// Reads the configuration again; for administrators.
#[utoipa::path(
    post,
    path = "/servers/reload",
    responses(
        (status = 200, description = "What changed.", body = Object),
        (status = 400, description = "The configuration is wrong; the last good one stays."),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn reload(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    _: Nothing,
) -> Result<Json<Value>, ProblemDocument> {
    Ok(Json((rest.reload)(ReloadCause::Asked(caller.user.clone())).await?))
}
