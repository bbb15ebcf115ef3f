//! `toolbooth tools`: lists and inspects the tools of the servers.

mod change;
mod filter;
mod lint;
mod search;
mod stats;

pub use filter::ToolListFilter;
pub use stats::{StatsArguments, run as show_stats};

use super::{bundled_hint, on_gateway};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult, FaultReport};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, ago, line, plain};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::IsTerminal;
use toolbooth_config::nearest;

/// The page size.
const PAGE: usize = 1000;
/// The maximum number of listed tools.
const MAX_TOOLS: usize = 100_000;

/// Arguments of `toolbooth tools`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ToolsArguments {
    #[command(subcommand)]
    action: Option<ToolsAction>,
    #[command(flatten)]
    filter: ToolListFilter,
}

#[derive(Debug, Subcommand)]
enum ToolsAction {
    /// List tools (the default).
    List(Box<ToolListFilter>),
    /// Show one tool, its arguments and how to call it.
    Show {
        /// Name of the tool.
        name: String,
    },
    /// Show how many context tokens tools use: in full, as summaries, and as sent to a client.
    Stats(StatsArguments),
    /// Score how well tools are described for a model; exits with 1 if one does not pass.
    Lint(lint::LintArguments),
    /// Show how a tool, or every changed tool, differs from its accepted version.
    Diff {
        /// Name of the tool; all changed tools by default.
        name: Option<String>,
    },
    /// Accept the current version of tools.
    Accept {
        /// Names of the tools.
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Release tools from quarantine.
    Release {
        /// Names of the tools.
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Find the tools that do what you want.
    Search(search::ToolSearchArguments),
}

/// Runs `toolbooth tools`.
pub fn run(global: &GlobalOptions, arguments: ToolsArguments) -> CommandResult {
    if let Some(ToolsAction::Lint(arguments)) = &arguments.action
        && lint::is_offline(arguments)
    {
        return lint::files(global, arguments);
    }
    on_gateway(GatewayHandle::open(global), async |gateway| within(gateway, global, arguments).await)
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: ToolsArguments,
) -> CommandResult {
    match arguments.action.unwrap_or(ToolsAction::List(Box::new(arguments.filter))) {
        ToolsAction::List(filter) => list(gateway, global, &filter).await,
        ToolsAction::Show { name } => show(gateway, global, &name).await,
        ToolsAction::Search(search) => search::run(gateway, global, &search).await,
        ToolsAction::Stats(arguments) => stats::run(gateway, global, &arguments).await,
        ToolsAction::Lint(arguments) if lint::is_offline(&arguments) => lint::files(global, &arguments),
        ToolsAction::Lint(arguments) => lint::lint(gateway, global, &arguments).await,
        ToolsAction::Diff { name } => change::diff(gateway, global, name.as_deref()).await,
        ToolsAction::Accept { name } => change::accept(gateway, global, &name).await,
        ToolsAction::Release { name } => change::release(gateway, global, &name).await,
    }
}

/// Lists tools.
pub async fn list(gateway: &GatewayHandle, global: &GlobalOptions, filter: &ToolListFilter) -> CommandResult {
    for server in &filter.server {
        // Checked first, so that a typo in the name does not give an empty list.
        if let Err(failure) = gateway.get(&format!("/servers/{}", segment(server))).await {
            return Err(super::server_view::suggest(gateway, failure, server).await);
        }
    }
    gateway.connect(filter.only_server().map_or(ServerSelection::AutoConnected, ServerSelection::One)).await;
    let (revision, tools, more) = gather(gateway, filter).await?;
    if global.json {
        render::print_json(&json!({ "revision": revision, "tools": tools, "next_cursor": more }));
        return Ok(Exit::Ok);
    }
    let absent = match absent(gateway, filter.only_server()).await {
        Some(names) => {
            let without = format!("Without the tools of {names}; `toolbooth servers` shows why.");
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
            TableCell::toned(text("name"), Tone::Strong),
            TableCell::toned(&number("quality"), Tone::Dim),
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

/// Fetches all matching tools page by page. Returns the revision, the tools and the next cursor.
async fn gather(
    gateway: &GatewayHandle,
    filter: &ToolListFilter,
) -> Result<(Value, Vec<Value>, Option<String>), CommandFailure> {
    let limit_total =
        filter.limit.map_or(MAX_TOOLS, |limit| usize::try_from(limit).unwrap_or(MAX_TOOLS).min(MAX_TOOLS));
    let mut tools = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let limit = PAGE.min(limit_total - tools.len());
        let mut page = gateway.get(&filter.path(limit, cursor.as_deref())).await?;
        if let Value::Array(more) = page["tools"].take() {
            tools.extend(more);
        }
        let next = page["next_cursor"].as_str().map(str::to_owned);
        if next.is_none() || next == cursor || tools.len() >= limit_total {
            return Ok((page["revision"].take(), tools, next));
        }
        cursor = next;
    }
}

/// Servers that offer no tools because of their state, with that state.
async fn absent(gateway: &GatewayHandle, only: Option<&str>) -> Option<String> {
    let absent: Vec<String> = without_tools(gateway)
        .await
        .iter()
        .filter(|(name, state)| state != "disabled" && only.is_none_or(|only| only == *name))
        .map(|(name, state)| format!("{} ({})", line(name), line(state)))
        .collect();
    (!absent.is_empty()).then(|| absent.join(", "))
}

/// The names and states of servers that offer no tools at present, disabled ones included.
async fn without_tools(gateway: &GatewayHandle) -> Vec<(String, String)> {
    let answer = gateway.get("/servers").await.unwrap_or_default();
    let servers = answer["servers"].as_array().into_iter().flatten();
    servers
        .filter(|server| server["tools"].as_u64() == Some(0) && server["state"] != "connected")
        .filter_map(|server| {
            Some((server["name"].as_str()?.to_owned(), server["state"].as_str()?.to_owned()))
        })
        .collect()
}

/// Finds a tool by any of its names. An embedded gateway connects only the necessary servers.
pub async fn find(gateway: &GatewayHandle, name: &str) -> Result<Value, CommandFailure> {
    let cached = get_tool(gateway, name).await;
    if let GatewayHandle::Embedded(embedded) = gateway {
        match &cached {
            // A manifest tool may be served by other servers than the one it is listed under.
            Ok(tool) if is_served_elsewhere(tool) => embedded.connect(ServerSelection::AutoConnected).await,
            Ok(tool) => {
                embedded.connect(ServerSelection::One(tool["server"].as_str().unwrap_or_default())).await
            }
            Err(_) => embedded.connect(ServerSelection::AutoConnected).await,
        }
    } else if cached.is_ok() {
        return cached;
    }
    match get_tool(gateway, name).await {
        Err(failure) if failure.fault.code == "tool.unknown" => Err(suggest(gateway, failure, name).await),
        found => found,
    }
}

/// Gets a tool. If no tool has the name, the path may be that of something else, such as `/tools/search`.
async fn get_tool(gateway: &GatewayHandle, name: &str) -> Result<Value, CommandFailure> {
    let found = gateway.get(&format!("/tools/{}", segment(name))).await;
    let is_other = match &found {
        Ok(answer) => !answer["id"].is_string(),
        Err(failure) => failure.fault.code == "search.blank",
    };
    if !is_other {
        return found;
    }
    Err(CommandFailure::failed(FaultReport {
        code: "tool.unknown".to_owned(),
        blame: "caller".to_owned(),
        message: format!("there is no tool `{name}`"),
        hint: Some("`toolbooth tools list` shows the tools you may use".to_owned()),
    }))
}

fn is_served_elsewhere(tool: &Value) -> bool {
    let providers = tool["providers"].as_array().map(Vec::as_slice).unwrap_or_default();
    tool["id"].as_str().is_some_and(|id| id.starts_with("tool."))
        || providers.iter().any(|provider| provider["server"] != tool["server"])
}

async fn suggest(gateway: &GatewayHandle, failure: CommandFailure, name: &str) -> CommandFailure {
    let Ok((_, tools, _)) = gather(gateway, &ToolListFilter::default()).await else { return failure };
    let names = |key: &'static str| tools.iter().filter_map(move |tool| tool[key].as_str());
    let exposed =
        |bare: &str| tools.iter().find(|tool| tool["tool"] == bare).and_then(|tool| tool["name"].as_str());
    let near = nearest(name, names("name")).or_else(|| nearest(name, names("tool")).and_then(exposed));
    let near = near.or_else(|| names("name").find(|known| known.contains(name)));
    if let Some(near) = near {
        return failure.hint(format!("did you mean `{near}`?"));
    }
    if let Some(hint) = bundled_hint::of_tool(gateway, name).await {
        return failure.hint(hint);
    }
    // A name usually begins with its server.
    let silent = without_tools(gateway).await;
    let begins = |server: &str| name.strip_prefix(server).is_some_and(|rest| rest.starts_with('_'));
    let owner = silent.iter().filter(|(server, _)| begins(server)).max_by_key(|(server, _)| server.len());
    if let Some((server, _)) = owner.filter(|(_, state)| state == "disabled") {
        let server = line(server);
        return failure.hint(format!(
            "the server `{server}` is disabled; `toolbooth servers enable {server}` enables it"
        ));
    }
    match absent(gateway, owner.map(|(server, _)| server.as_str())).await {
        Some(absent) => {
            failure.hint(format!("it may belong to {absent}; `toolbooth servers` shows what is wrong there"))
        }
        None => failure,
    }
}

async fn show(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    let tool = find(gateway, name).await?;
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
        let sentence =
            format!("In quarantine: {}. `toolbooth tools release {name}` releases it.", line(reason));
        out.push_str(&format!("\n{}\n", paint.tone(Tone::Bad, &render::wrap(&sentence, 0))));
    }
    if tool["changed"].is_object() {
        let name = line(text("name"));
        let sentence =
            format!("It has changed since it was accepted; `toolbooth tools diff {name}` shows the change.");
        out.push_str(&format!("\n{}\n", paint.tone(Tone::Warn, &render::wrap(&sentence, 0))));
    }
    let description = plain(text("description"));
    if !description.trim().is_empty() {
        // The text comes from the server, so it is framed.
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

/// Draws the tool's recent health.
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
        let kind = super::argument_kind::kind_of(property);
        let needed =
            if is_required(schema, name) { TableCell::toned("required", Tone::Warn) } else { "".into() };
        table.row([
            name.into(),
            kind.into(),
            needed,
            property["description"].as_str().unwrap_or_default().into(),
        ]);
    }
    Some(table)
}

/// An example command line with the required arguments.
fn example(name: &str, schema: &Value) -> String {
    let mut words = vec!["toolbooth call".to_owned(), line(name)];
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    words.extend(required.map(|name| format!("{}=…", line(name))));
    words.join(" ")
}
