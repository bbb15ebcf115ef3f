//! `toolbooth tools`: what the servers offer.

mod change;
mod filter;
mod lint;
mod search;
mod stats;

pub use filter::Filter;
pub use stats::{StatsArguments, run as show_stats};

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::own::Wanted;
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, ago, line, plain};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::IsTerminal;
use toolbooth_config::nearest;

/// How many tools one question returns.
const PAGE: usize = 1000;
/// The most tools that are listed.
const MOST: usize = 100_000;

/// Which tools.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ToolsArguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List tools (the default).
    List(Box<Filter>),
    /// Show one tool, its arguments and how to call it.
    Show { name: String },
    /// Show what tools take of a model's context: in full, as summaries, and as a client was sent them.
    Stats(StatsArguments),
    /// Score how well tools tell a model what they are for; exits with 1 if one does not pass.
    Lint(lint::LintArguments),
    /// Show how a tool, or every tool that changed, differs from what was accepted of it.
    Diff { name: Option<String> },
    /// Accept tools as they are now.
    Accept {
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Let tools out of quarantine as they are now.
    Release {
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Find the tools that do what you want.
    Search(search::Search),
}

/// Runs `toolbooth tools`.
pub fn run(global: &Global, what: ToolsArguments) -> Outcome {
    if let Some(Action::Lint(arguments)) = &what.action
        && lint::is_offline(arguments)
    {
        return lint::files(global, arguments);
    }
    in_runtime(async {
        let reach = Reach::open(global).await?;
        let outcome = within(&reach, global, what).await;
        reach.close().await;
        outcome
    })
}

/// The same at a gateway that is open already.
pub async fn within(reach: &Reach, global: &Global, what: ToolsArguments) -> Outcome {
    match what.action.unwrap_or(Action::List(Box::new(what.filter))) {
        Action::List(filter) => list(reach, global, &filter).await,
        Action::Show { name } => show(reach, global, &name).await,
        Action::Search(search) => search::run(reach, global, &search).await,
        Action::Stats(what) => stats::run(reach, global, &what).await,
        Action::Lint(arguments) if lint::is_offline(&arguments) => lint::files(global, &arguments),
        Action::Lint(arguments) => lint::lint(reach, global, &arguments).await,
        Action::Diff { name } => change::diff(reach, global, name.as_deref()).await,
        Action::Accept { name } => change::accept(reach, global, &name).await,
        Action::Release { name } => change::release(reach, global, &name).await,
    }
}

/// Lists tools.
pub async fn list(reach: &Reach, global: &Global, filter: &Filter) -> Outcome {
    for server in &filter.server {
        // Asked first, so that a slip in the name is not an empty list.
        if let Err(failure) = reach.get(&format!("/servers/{}", segment(server))).await {
            return Err(super::servers::suggest(reach, failure, server).await);
        }
    }
    reach.connect(filter.only_server().map_or(Wanted::Started, Wanted::One)).await;
    let (revision, tools, more) = gather(reach, filter).await?;
    if global.json {
        render::print_json(&json!({ "revision": revision, "tools": tools, "next_cursor": more }));
        return Ok(Exit::Ok);
    }
    let absent = match absent(reach, filter.only_server()).await {
        Some(names) => {
            let without = format!("Without the tools of {names}; `toolbooth servers` tells why.");
            format!("\n{}\n", render::wrap(&without, 0))
        }
        None => String::new(),
    };
    if tools.is_empty() {
        render::print(if filter.narrows() { "No tool matches.\n" } else { "There are no tools.\n" });
        render::complain(&absent);
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["TOOL", "QUALITY", "TOKENS", "DESCRIPTION"]).numbers(1).numbers(2);
    for tool in &tools {
        let text = |key: &str| tool[key].as_str().unwrap_or_default();
        let number = |key: &str| tool[key].as_u64().map(|number| number.to_string()).unwrap_or_default();
        table.row([
            Cell::toned(text("name"), Tone::Strong),
            Cell::toned(&number("quality"), Tone::Dim),
            number("token_cost").into(),
            text("description").into(),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    if more.is_some() {
        render::complain(&format!("The first {} are shown; there are more.\n", tools.len()));
    }
    render::complain(&absent);
    Ok(Exit::Ok)
}

/// All matching tools, page after page: the revision, the tools, and where the rest would start.
async fn gather(reach: &Reach, filter: &Filter) -> Result<(Value, Vec<Value>, Option<String>), Failure> {
    let wanted = filter.limit.map_or(MOST, |limit| usize::try_from(limit).unwrap_or(MOST).min(MOST));
    let mut tools = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let limit = PAGE.min(wanted - tools.len());
        let mut page = reach.get(&filter.path(limit, cursor.as_deref())).await?;
        if let Value::Array(more) = page["tools"].take() {
            tools.extend(more);
        }
        let next = page["next_cursor"].as_str().map(str::to_owned);
        if next.is_none() || next == cursor || tools.len() >= wanted {
            return Ok((page["revision"].take(), tools, next));
        }
        cursor = next;
    }
}

/// Servers whose tools cannot be in a list, with their states.
async fn absent(reach: &Reach, only: Option<&str>) -> Option<String> {
    let answer = reach.get("/servers").await.ok()?;
    let absent: Vec<String> = answer["servers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|server| server["tools"].as_u64() == Some(0))
        .filter_map(|server| Some((server["name"].as_str()?, server["state"].as_str()?)))
        .filter(|(name, state)| {
            !matches!(*state, "connected" | "disabled") && only.is_none_or(|only| only == *name)
        })
        .map(|(name, state)| format!("{} ({})", line(name), line(state)))
        .collect();
    (!absent.is_empty()).then(|| absent.join(", "))
}

/// A tool by any of its names. A gateway of the command's own connects no more servers than it must.
pub async fn find(reach: &Reach, name: &str) -> Result<Value, Failure> {
    let path = format!("/tools/{}", segment(name));
    let cached = reach.get(&path).await;
    if let Reach::Own(own) = reach {
        match &cached {
            // A tool of a manifest may be served by others than the server it stands on.
            Ok(tool) if is_served_elsewhere(tool) => own.connect(Wanted::Started).await,
            Ok(tool) => own.connect(Wanted::One(tool["server"].as_str().unwrap_or_default())).await,
            Err(_) => own.connect(Wanted::Started).await,
        }
    } else if cached.is_ok() {
        return cached;
    }
    match reach.get(&path).await {
        Err(failure) if failure.trouble.code == "tool.unknown" => Err(suggest(reach, failure, name).await),
        found => found,
    }
}

fn is_served_elsewhere(tool: &Value) -> bool {
    let providers = tool["providers"].as_array().map(Vec::as_slice).unwrap_or_default();
    tool["id"].as_str().is_some_and(|id| id.starts_with("tool."))
        || providers.iter().any(|provider| provider["server"] != tool["server"])
}

async fn suggest(reach: &Reach, failure: Failure, name: &str) -> Failure {
    let Ok((_, tools, _)) = gather(reach, &Filter::default()).await else { return failure };
    let names = |key: &'static str| tools.iter().filter_map(move |tool| tool[key].as_str());
    let exposed =
        |bare: &str| tools.iter().find(|tool| tool["tool"] == bare).and_then(|tool| tool["name"].as_str());
    let near = nearest(name, names("name")).or_else(|| nearest(name, names("tool")).and_then(exposed));
    let near = near.or_else(|| names("name").find(|known| known.contains(name)));
    match (near, absent(reach, None).await) {
        (Some(near), _) => failure.hint(format!("did you mean `{near}`?")),
        (None, Some(absent)) => {
            failure.hint(format!("it may belong to {absent}; `toolbooth servers` tells what is wrong there"))
        }
        (None, None) => failure,
    }
}

async fn show(reach: &Reach, global: &Global, name: &str) -> Outcome {
    let tool = find(reach, name).await?;
    if global.json {
        render::print_json(&tool);
        return Ok(Exit::Ok);
    }
    let paint = Paint::stdout();
    let text = |key: &str| tool[key].as_str().unwrap_or_default();
    let mut out = format!(
        "{}  {}\n",
        paint.tone(Tone::Strong, &line(text("name"))),
        paint.tone(Tone::Dim, &line(text("id")))
    );
    if let Some(reason) = tool["quarantined"]["reason"].as_str() {
        let name = line(text("name"));
        let said = format!("In quarantine: {}. `toolbooth tools release {name}` lets it out.", line(reason));
        out.push_str(&format!("\n{}\n", paint.tone(Tone::Bad, &render::wrap(&said, 0))));
    }
    if tool["changed"].is_object() {
        let name = line(text("name"));
        let said = format!("It has changed since it was accepted; `toolbooth tools diff {name}` shows how.");
        out.push_str(&format!("\n{}\n", paint.tone(Tone::Warn, &render::wrap(&said, 0))));
    }
    let description = plain(text("description"));
    if !description.trim().is_empty() {
        // Its server wrote this, not the gateway.
        out.push_str(&match std::io::stdout().is_terminal() {
            true => format!("\n{}", render::framed(description.trim())),
            false => format!("\n{}\n", description.trim()),
        });
    }
    let schema = &tool["parameters"];
    out.push_str(&match parameters(schema) {
        Some(table) => format!("\n{}", table.draw(paint)),
        None => "\nIt takes no arguments.\n".to_owned(),
    });
    out.push_str(&super::terms::draw(&tool, paint));
    out.push_str(&format!("\n  {}\n", example(text("name"), schema)));
    out.push_str(&health(&tool["health"], paint));
    render::print(&out);
    Ok(Exit::Ok)
}

/// How calls of the tool ended lately.
fn health(health: &Value, paint: Paint) -> String {
    let Some(last) = health["last_call"].as_object() else { return String::new() };
    let mut out = "\n".to_owned();
    let mut row = |name: &str, value: String| {
        out.push_str(&format!("  {:<11}{value}\n", paint.tone(Tone::Dim, name)));
    };
    if let (Some(calls), Some(rate)) = (health["calls"].as_u64(), health["success_rate"].as_f64()) {
        row("health", format!("{:.0} % of {calls} calls succeeded", rate * 100.0));
        let ms = |key: &str| health["latency_ms"][key].as_f64().unwrap_or_default();
        row("latency", format!("{:.1} ms on average, p50 {:.1}, p95 {:.1}", ms("avg"), ms("p50"), ms("p95")));
    }
    let word = |key: &str| last.get(key).and_then(Value::as_str).map(line);
    let code = word("error_code").map(|code| format!(" ({code})")).unwrap_or_default();
    let at = last.get("at_ms").and_then(Value::as_i64).map(ago).unwrap_or_default();
    row("last call", format!("{}{code}, {at}", word("outcome").unwrap_or_default()));
    out
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|known| known == name))
}

fn parameters(schema: &Value) -> Option<Table> {
    let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty())?;
    let mut table = Table::new(&["ARGUMENT", "TYPE", "", "DESCRIPTION"]).wrapping();
    for (name, property) in properties {
        let kind = super::call::kind_of(property);
        let needed = if is_required(schema, name) { Cell::toned("required", Tone::Warn) } else { "".into() };
        table.row([
            name.into(),
            kind.into(),
            needed,
            property["description"].as_str().unwrap_or_default().into(),
        ]);
    }
    Some(table)
}

/// A call that a reader can complete.
fn example(name: &str, schema: &Value) -> String {
    let mut words = vec!["toolbooth call".to_owned(), line(name)];
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    words.extend(required.map(|name| format!("{}=…", line(name))));
    words.join(" ")
}
