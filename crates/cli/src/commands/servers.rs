//! `toolbooth servers`: how the servers do, and what can be done about it.

use super::servers_login::{self, LoginArguments};
use super::{in_runtime, trust};
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::own::{Wanted, not_running};
use crate::reach::{Reach, read};
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, line};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::io::IsTerminal;
use toolbooth_config::nearest;

/// Which servers, and what about them.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServersArguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all servers (the default).
    List,
    /// Show one server.
    Show { name: String },
    /// Connect a server now.
    Connect { name: String },
    /// Disconnect a server until somebody asks for it.
    Disconnect { name: String },
    /// Disconnect a server and connect it anew.
    Restart { name: String },
    /// Show the last lines a server wrote to its standard error.
    Logs { name: String },
    /// Sign in to a server whose `auth` is `oauth`, in a browser.
    Login(LoginArguments),
    /// Forget the sign-in to a server.
    Logout { name: String },
}

/// Runs `toolbooth servers`.
pub fn run(global: &Global, what: ServersArguments) -> Outcome {
    in_runtime(async {
        let action = what.action.unwrap_or(Action::List);
        let reach = match &action {
            // These change something that lasts, so there must be something that lasts.
            Action::Disconnect { .. } | Action::Restart { .. } => Reach::demand(global).await?,
            // These are kept, whoever does them.
            Action::Login(_) | Action::Logout { .. } => Reach::open_lasting(global).await?,
            _ => Reach::open(global).await?,
        };
        let outcome = perform(&reach, global, &action).await;
        reach.close().await;
        outcome
    })
}

/// The same at a gateway that is open already.
pub async fn within(reach: &Reach, global: &Global, what: ServersArguments) -> Outcome {
    perform(reach, global, &what.action.unwrap_or(Action::List)).await
}

/// Connects or disconnects a server by its name.
pub async fn connect_or_not(reach: &Reach, global: &Global, name: &str, link: Link) -> Outcome {
    let name = name.to_owned();
    let action = match link {
        Link::Up => Action::Connect { name },
        Link::Down => Action::Disconnect { name },
    };
    perform(reach, global, &action).await
}

/// What becomes of the line to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It is connected.
    Up,
    /// It is disconnected.
    Down,
}

async fn perform(reach: &Reach, global: &Global, action: &Action) -> Outcome {
    match action {
        Action::List => list(reach, global).await,
        Action::Show { name } => show(reach, global, name).await,
        Action::Logs { name } => logs(reach, global, name).await,
        Action::Connect { name } => act(reach, global, name, "connect").await,
        Action::Disconnect { name } => act(reach, global, name, "disconnect").await,
        Action::Restart { name } => act(reach, global, name, "restart").await,
        Action::Login(how) => servers_login::login(reach, global, how).await,
        Action::Logout { name } => servers_login::logout(reach, global, name).await,
    }
}

/// Shows how all servers do.
pub async fn list(reach: &Reach, global: &Global) -> Outcome {
    reach.connect(Wanted::Started).await;
    let answer = reach.get("/servers").await?;
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
    text.push_str(&format!("\n{}\n", paint.tone(Tone::Dim, &source_of(reach))));
    render::print(&text);
    Ok(Exit::Ok)
}

/// Where the answer came from.
fn source_of(reach: &Reach) -> String {
    match reach {
        Reach::Running(remote) => format!("The gateway at {} answered.", remote.url),
        Reach::Own(own) if own.stays() => {
            "No gateway runs here: these servers run for this shell and end with it.".into()
        }
        Reach::Own(own) if own.loaded.is_empty_of_servers() => {
            "No servers are configured yet, so the bundled ones are shown.".into()
        }
        Reach::Own(_) => {
            "No gateway was asked: servers were started for this answer and stopped again.".into()
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
        let state = Cell::toned(text("state"), tone_of(text("state")));
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

/// The colour of a state.
pub fn tone_of(state: &str) -> Tone {
    match state {
        "connected" => Tone::Good,
        "error" | "config_error" => Tone::Bad,
        "needs_trust" | "needs_auth" | "connecting" => Tone::Warn,
        _ => Tone::Dim,
    }
}

/// What is wrong with a server, and what to do; nothing for one that does well.
fn trouble_of(server: &Value, paint: Paint) -> String {
    let text = |key: &str| server[key].as_str();
    let name = line(text("name").unwrap_or_default());
    let say = |what: &str| {
        let said = render::wrap(&format!("{name}: {what}"), 2);
        format!("\n{}\n", said.replacen(&name, &paint.tone(Tone::Strong, &name), 1))
    };
    let mut said = match (text("reason"), text("hint")) {
        (Some(reason), hint) => {
            let code = text("code").map(|code| format!(" [{}]", line(code))).unwrap_or_default();
            let hint = hint.map(|hint| format!("  hint: {}\n", render::wrap(&line(hint), 8)));
            say(&format!("{}{code}", line(reason))) + &hint.unwrap_or_default()
        }
        (None, Some(hint)) => say(&line(hint)),
        (None, None) => String::new(),
    };
    // A tool whose schema is sloppy is there all the same.
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
        said.push_str(&say(&format!(
            "{count} set aside: {names}{more}; `toolbooth servers show {name}` tells why"
        )));
    }
    said
}

async fn show(reach: &Reach, global: &Global, name: &str) -> Outcome {
    reach.connect(Wanted::One(name)).await;
    let mut server = one(reach, name).await?;
    if server["state"] != "needs_trust" {
        print_server(&server, global);
        return Ok(Exit::Ok);
    }
    // Trust is given to what stands in the files here, whoever runs it.
    let here = match reach {
        Reach::Own(_) => None,
        // One elsewhere has files of its own.
        Reach::Running(_) if global.url.is_some() => None,
        Reach::Running(_) => gateway::load(global).ok().map(|(_, loaded)| loaded),
    };
    let loaded = match reach {
        Reach::Own(own) => Some(&own.loaded),
        Reach::Running(_) => here.as_ref(),
    };
    let pending = loaded.map(trust::pending).unwrap_or_default();
    let pending = pending.iter().find(|one| one.name == Some(name));
    if let Some(pending) = pending {
        server["would_run"] = pending.json();
    }
    print_server(&server, global);
    if let Some(pending) = pending.filter(|_| !global.json) {
        let file = render::path(pending.file);
        render::print(&format!("  would run, by {file}\n{}", pending.drawn(Paint::stdout())));
    }
    Ok(Exit::Ok)
}

async fn one(reach: &Reach, name: &str) -> Result<Value, Failure> {
    match reach.get(&format!("/servers/{}", segment(name))).await {
        Err(failure) => Err(suggest(reach, failure, name).await),
        found => found,
    }
}

/// Adds the nearest name to a failure about an unknown server.
pub async fn suggest(reach: &Reach, failure: Failure, name: &str) -> Failure {
    if failure.trouble.code != "server.unknown" {
        return failure;
    }
    let Ok(answer) = reach.get("/servers").await else { return failure };
    let servers = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = servers.iter().filter_map(|server| server["name"].as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None if (1..=8).contains(&names.len()) => failure.hint(format!("known: {}", names.join(", "))),
        None => failure,
    }
}

/// Shows one server.
pub fn print_server(server: &Value, global: &Global) {
    if global.json {
        return render::print_json(server);
    }
    let paint = Paint::stdout();
    let text = |key: &str| server[key].as_str().map(line);
    let state = text("state").unwrap_or_default();
    let mut out = format!(
        "{}: {}\n",
        paint.tone(Tone::Strong, &text("name").unwrap_or_default()),
        paint.tone(tone_of(&state), &state)
    );
    let revision = text("revision").map(|revision| format!("MCP {revision}"));
    let lines = [
        ("about", text("description")),
        ("transport", text("transport")),
        ("where", text("target")),
        ("speaks", revision),
        ("offers", offers(server)),
        (
            "reason",
            text("reason").map(|reason| match text("code") {
                Some(code) => format!("{reason} [{code}]"),
                None => reason,
            }),
        ),
        ("hint", text("hint")),
        ("noise", noise(server)),
        (
            "next try",
            server["retry_in_seconds"]
                .as_u64()
                .filter(|seconds| *seconds > 0)
                .map(|seconds| format!("in {seconds} s")),
        ),
    ];
    for (key, value) in lines {
        if let Some(value) = value {
            out.push_str(&format!("  {key:<9}  {}\n", render::wrap(&value, 13)));
        }
    }
    for aside in server["set_aside"].as_array().into_iter().flatten() {
        let word = |key: &str| line(aside[key].as_str().unwrap_or_default());
        match &*word("kind") {
            "schema" => out.push_str(&format!("  note       `{}`: {}\n", word("name"), word("reason"))),
            kind => out.push_str(&format!("  set aside  {kind} `{}`: {}\n", word("name"), word("reason"))),
        }
    }
    render::print(&out);
}

/// What a server wrote where only messages may stand.
fn noise(server: &Value) -> Option<String> {
    let count = usize::try_from(server["stray_lines"].as_u64()?).unwrap_or(usize::MAX);
    let name = line(server["name"].as_str()?);
    let lines = render::count(count, "line");
    Some(format!(
        "{lines} on standard output that are no messages; `toolbooth servers logs {name}` shows them"
    ))
}

fn offers(server: &Value) -> Option<String> {
    let counts = [("tools", "tool"), ("prompts", "prompt"), ("resources", "resource")].map(|(key, noun)| {
        let count = usize::try_from(server[key].as_u64().unwrap_or(0)).unwrap_or(0);
        (count > 0).then(|| render::count(count, noun))
    });
    let said: Vec<String> = counts.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

async fn logs(reach: &Reach, global: &Global, name: &str) -> Outcome {
    reach.connect(Wanted::One(name)).await;
    let answer = reach.get(&format!("/servers/{}/logs", segment(name))).await;
    let answer = match answer {
        Err(failure) => return Err(suggest(reach, failure, name).await),
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

async fn act(reach: &Reach, global: &Global, name: &str, action: &str) -> Outcome {
    let passing = matches!(reach, Reach::Own(own) if !own.stays());
    if passing && action != "connect" {
        return Err(Failure::failed(not_running()));
    }
    let answer = reach
        .post(&format!("{action}ing `{name}`"), &format!("/servers/{}/{action}", segment(name)), None)
        .await;
    let server = match answer {
        Err(failure) => return Err(suggest(reach, failure, name).await),
        Ok(body) => read(&body)?,
    };
    print_server(&server, global);
    let expected = if action == "disconnect" { "disconnected" } else { "connected" };
    if server["state"] != expected {
        return Ok(Exit::Failed);
    }
    if passing && !global.json {
        render::complain("No gateway is running: the server was connected for this answer only.\n");
    }
    Ok(Exit::Ok)
}
