//! `toolbooth servers`: shows and controls the servers.

use super::server_edits::{self, ServerEdit};
use super::server_view::{print_server, suggest, tone_of};
use super::servers_add::{self, ServerAddArguments};
use super::servers_key::{self, ServerKeyAction};
use super::servers_login::{self, ServerLoginArguments};
use super::shell_variables::{self, GatewayEnvironment};
use super::{in_runtime, trust};
use crate::embedded_gateway::{ServerSelection, not_running};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::project_notice;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, line};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::io::IsTerminal;

/// Arguments of `toolbooth servers`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServersArguments {
    #[command(subcommand)]
    action: Option<ServersAction>,
}

#[derive(Debug, Subcommand)]
enum ServersAction {
    /// List all servers (the default).
    List,
    /// Show one server.
    Show {
        /// Name of the server.
        name: String,
    },
    /// Add a server by its command, its URL or its name in a registry, or an OpenAPI service.
    Add(Box<ServerAddArguments>),
    /// Remove a server from the configuration.
    Remove {
        /// Name of the server.
        name: String,
    },
    /// Enable a disabled server.
    Enable {
        /// Name of the server.
        name: String,
    },
    /// Disable a server, but keep its entry.
    Disable {
        /// Name of the server.
        name: String,
    },
    /// Connect a server now.
    Connect {
        /// Name of the server.
        name: String,
    },
    /// Disconnect a server until it is connected again.
    Disconnect {
        /// Name of the server.
        name: String,
    },
    /// Disconnect a server and connect it again.
    Restart {
        /// Name of the server.
        name: String,
    },
    /// Show the last lines a server wrote to standard error.
    Logs {
        /// Name of the server.
        name: String,
    },
    /// Sign in to a server whose `auth` is `oauth`, in a browser.
    Login(ServerLoginArguments),
    /// Delete the stored sign-in to a server.
    Logout {
        /// Name of the server.
        name: String,
    },
    /// Give a server your own key, if its users give their own.
    Key {
        #[command(subcommand)]
        action: Option<ServerKeyAction>,
    },
}

/// Runs `toolbooth servers`.
pub fn run(global: &GlobalOptions, arguments: ServersArguments) -> CommandResult {
    let action = arguments.action.unwrap_or(ServersAction::List);
    // These change files.
    match &action {
        ServersAction::Add(arguments) => return servers_add::run(global, arguments),
        ServersAction::Remove { name } => return server_edits::run(global, name, ServerEdit::Remove),
        ServersAction::Enable { name } => return server_edits::run(global, name, ServerEdit::Enable),
        ServersAction::Disable { name } => return server_edits::run(global, name, ServerEdit::Disable),
        _ => {}
    }
    in_runtime(async {
        let gateway = match &action {
            // These have an effect only on a running gateway.
            ServersAction::Disconnect { .. } | ServersAction::Restart { .. } => {
                GatewayHandle::require_running(global).await?
            }
            // These change the store.
            ServersAction::Login(_) | ServersAction::Logout { .. } | ServersAction::Key { .. } => {
                GatewayHandle::open_persistent(global).await?
            }
            _ => GatewayHandle::open(global).await?,
        };
        let outcome = perform(&gateway, global, &action).await;
        gateway.close().await;
        outcome
    })
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: ServersArguments,
) -> CommandResult {
    let action = arguments.action.unwrap_or(ServersAction::List);
    if matches!(action, ServersAction::Key { action: Some(ServerKeyAction::Set { .. }) }) {
        // The shell reads the input itself, and keeps a history of it.
        return Err(CommandFailure::misuse(
            "usage.shell-outside",
            "a key is not read in the shell",
            Some("run `toolbooth servers key set` in another terminal"),
        ));
    }
    perform(gateway, global, &action).await
}

/// Connects or disconnects a server by its name.
pub async fn change_connection(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    name: &str,
    change: ConnectionChange,
) -> CommandResult {
    let name = name.to_owned();
    let action = match change {
        ConnectionChange::Connect => ServersAction::Connect { name },
        ConnectionChange::Disconnect => ServersAction::Disconnect { name },
    };
    perform(gateway, global, &action).await
}

/// Whether to connect or to disconnect a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionChange {
    /// Connect it.
    Connect,
    /// Disconnect it.
    Disconnect,
}

async fn perform(gateway: &GatewayHandle, global: &GlobalOptions, action: &ServersAction) -> CommandResult {
    match action {
        ServersAction::List => list(gateway, global).await,
        ServersAction::Show { name } => show(gateway, global, name).await,
        ServersAction::Add(_)
        | ServersAction::Remove { .. }
        | ServersAction::Enable { .. }
        | ServersAction::Disable { .. } => Err(CommandFailure::misuse(
            "usage.shell-outside",
            "configuration files are not changed in the shell",
            Some("run `toolbooth servers` in another terminal"),
        )),
        ServersAction::Logs { name } => logs(gateway, global, name).await,
        ServersAction::Connect { name } => act(gateway, global, name, "connect").await,
        ServersAction::Disconnect { name } => act(gateway, global, name, "disconnect").await,
        ServersAction::Restart { name } => act(gateway, global, name, "restart").await,
        ServersAction::Login(arguments) => servers_login::login(gateway, global, arguments).await,
        ServersAction::Logout { name } => servers_login::logout(gateway, global, name).await,
        ServersAction::Key { action } => {
            servers_key::perform(gateway, global, action.as_ref().unwrap_or(&ServerKeyAction::List)).await
        }
    }
}

/// Lists all servers with their state.
pub async fn list(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    gateway.connect(ServerSelection::AutoConnected).await;
    let mut answer = gateway.get("/servers").await?;
    let environment = GatewayEnvironment::of(gateway, global);
    for server in answer.get_mut("servers").and_then(Value::as_array_mut).into_iter().flatten() {
        shell_variables::add_hint(server, environment);
    }
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let servers = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let paint = Paint::stdout();
    let mut text =
        if servers.is_empty() { "There are no servers.\n".to_owned() } else { table(servers, paint) };
    for server in servers {
        text.push_str(&trouble_of(server, paint));
    }
    text.push_str(&format!("\n{}\n", paint.tone(Tone::Dim, &source_of(gateway))));
    if let Some(notice) = unused_project(gateway, global) {
        text.push_str(&format!("{}\n", render::wrap(&notice, 0)));
    }
    render::print(&text);
    Ok(Exit::Ok)
}

/// Says which servers of the current folder the running gateway of this machine does not use.
fn unused_project(gateway: &GatewayHandle, global: &GlobalOptions) -> Option<String> {
    if matches!(gateway, GatewayHandle::Embedded(_)) || global.url.is_some() {
        return None;
    }
    project_notice::of_this_folder(global)
}

/// Explains which gateway the answer comes from.
fn source_of(gateway: &GatewayHandle) -> String {
    match gateway {
        GatewayHandle::Running(remote) => format!("The gateway at {} answered.", remote.url),
        GatewayHandle::Embedded(embedded) if embedded.is_session() => {
            "No running gateway was used: these servers run for this shell only.".into()
        }
        GatewayHandle::Embedded(embedded) if embedded.loaded.is_empty_of_servers() => {
            "No servers are configured yet, so the bundled ones are shown.".into()
        }
        GatewayHandle::Embedded(_) => {
            "No running gateway was used: the servers were started for this command only.".into()
        }
    }
}

fn table(servers: &[Value], paint: Paint) -> String {
    let mut table = Table::new(&["SERVER", "STATE", "TOOLS", "TRANSPORT", "WHERE"]).numbers(2);
    for server in servers {
        let text = |key: &str| server[key].as_str().unwrap_or_default();
        let tools = match (text("state"), server["tools"].as_u64().unwrap_or(0)) {
            ("connected", tools) | (_, tools @ 1..) => tools.to_string(),
            _ => String::new(),
        };
        let state = TableCell::toned(text("state"), tone_of(text("state")));
        table.row([
            text("name").into(),
            state,
            tools.into(),
            text("transport").into(),
            text("target").into(),
        ]);
    }
    table.draw(paint)
}

/// Describes the problem of a server and its fix; empty for a server without problems.
fn trouble_of(server: &Value, paint: Paint) -> String {
    let text = |key: &str| server[key].as_str();
    let name = line(text("name").unwrap_or_default());
    let say = |what: &str| {
        let sentence = render::wrap(&format!("{name}: {what}"), 2);
        format!("\n{}\n", sentence.replacen(&name, &paint.tone(Tone::Strong, &name), 1))
    };
    let mut sentence = match (text("reason"), text("hint")) {
        (Some(reason), hint) => {
            let code = text("code").map(|code| format!(" [{}]", line(code))).unwrap_or_default();
            let hint = hint.map(|hint| format!("  hint: {}\n", render::wrap(&line(hint), 8)));
            say(&format!("{}{code}", line(reason))) + &hint.unwrap_or_default()
        }
        (None, Some(hint)) => say(&line(hint)),
        (None, None) => String::new(),
    };
    // A tool with an imprecise schema is still offered.
    let aside: Vec<&Value> = server["set_aside"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|aside| aside["kind"] != "schema")
        .collect();
    if !aside.is_empty() {
        let names: Vec<String> =
            aside.iter().take(5).map(|aside| line(aside["name"].as_str().unwrap_or("?"))).collect();
        let more = if aside.len() > 5 { ", …" } else { "" };
        let count = render::count(aside.len(), "definition");
        let names = names.join(", ");
        sentence.push_str(&say(&format!(
            "{count} set aside: {names}{more}; `toolbooth servers show {name}` shows why"
        )));
    }
    sentence
}

async fn show(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    gateway.connect(ServerSelection::One(name)).await;
    let mut server = one(gateway, name).await?;
    shell_variables::add_hint(&mut server, GatewayEnvironment::of(gateway, global));
    if server["state"] != "needs_trust" {
        print_server(&server, global);
        return Ok(Exit::Ok);
    }
    // Trust is about the files here, whichever gateway uses them.
    let here = match gateway {
        GatewayHandle::Embedded(_) => None,
        // A remote gateway has its own files.
        GatewayHandle::Running(_) if global.url.is_some() => None,
        GatewayHandle::Running(_) => gateway::load(global).ok().map(|(_, loaded)| loaded),
    };
    let loaded = match gateway {
        GatewayHandle::Embedded(embedded) => Some(&embedded.loaded),
        GatewayHandle::Running(_) => here.as_ref(),
    };
    let pending = loaded.map(trust::pending).unwrap_or_default();
    let pending = pending.iter().find(|one| one.name == Some(name));
    if let Some(pending) = pending {
        server["would_run"] = pending.json();
    }
    print_server(&server, global);
    if let Some(pending) = pending.filter(|_| !global.json) {
        let file = render::path(pending.file);
        render::print(&format!("  would run, as defined in {file}\n{}", pending.drawn(Paint::stdout())));
    }
    Ok(Exit::Ok)
}

async fn one(gateway: &GatewayHandle, name: &str) -> Result<Value, CommandFailure> {
    match gateway.get(&format!("/servers/{}", segment(name))).await {
        Err(failure) => Err(suggest(gateway, failure, name).await),
        found => found,
    }
}

async fn logs(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    gateway.connect(ServerSelection::One(name)).await;
    let answer = gateway.get(&format!("/servers/{}/logs", segment(name))).await;
    let answer = match answer {
        Err(failure) => return Err(suggest(gateway, failure, name).await),
        Ok(answer) => answer,
    };
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let lines = answer["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
    let total = answer["total"].as_u64().unwrap_or(0);
    let mut text = String::new();
    let is_terminal = std::io::stdout().is_terminal();
    for line in lines {
        let written = line.as_str().unwrap_or_default();
        text.push_str(&if is_terminal { render::framed(written) } else { render::plain(written) + "\n" });
    }
    let note = match (lines.len() as u64, total) {
        (0, _) => format!("`{}` has written nothing to its standard error.\n", line(name)),
        (shown, total) if shown < total => format!("The last {shown} of {total} lines.\n"),
        _ => String::new(),
    };
    render::print(&text);
    render::complain(&note);
    Ok(Exit::Ok)
}

async fn act(gateway: &GatewayHandle, global: &GlobalOptions, name: &str, action: &str) -> CommandResult {
    let passing = matches!(gateway, GatewayHandle::Embedded(embedded) if !embedded.is_session());
    if passing && action != "connect" {
        return Err(CommandFailure::new(Exit::Unreachable, not_running()));
    }
    let answer = gateway
        .post(&format!("{action}ing `{name}`"), &format!("/servers/{}/{action}", segment(name)), None)
        .await;
    let environment = GatewayEnvironment::of(gateway, global);
    let mut server = match answer {
        Err(failure) => {
            let fix = shell_variables::fix(name, &failure.fault.message, environment);
            let failure = suggest(gateway, failure, name).await;
            return Err(match fix {
                Some(fix) => failure.hint(fix),
                None => failure,
            });
        }
        Ok(body) => read(&body)?,
    };
    shell_variables::add_hint(&mut server, environment);
    print_server(&server, global);
    let expected = if action == "disconnect" { "disconnected" } else { "connected" };
    if server["state"] != expected {
        return Ok(Exit::Failed);
    }
    if passing && !global.json {
        render::complain("No running gateway was used: the server was connected for this command only.\n");
    }
    Ok(Exit::Ok)
}
