//! `toolbooth tools stats`: how many context tokens the tools use.

use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, ago, line};
use clap::Args;
use serde_json::Value;

/// Arguments of `toolbooth tools stats`.
#[derive(Debug, Args)]
pub struct StatsArguments {
    /// Name that the client reports; without it, the most recent client.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Maximum number of tools, the most expensive first.
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: u32,
}

/// Runs `toolbooth tools stats`.
pub async fn run(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &StatsArguments,
) -> CommandResult {
    gateway.connect(ServerSelection::AutoConnected).await;
    let client =
        arguments.client.as_deref().map(|name| format!("&client={}", segment(name))).unwrap_or_default();
    let stats = gateway.get(&format!("/stats?limit={}{client}", arguments.limit)).await?;
    if global.json {
        render::print_json(&stats);
    } else {
        render::print(&draw(&stats, Paint::stdout()));
    }
    Ok(Exit::Ok)
}

fn draw(stats: &Value, paint: Paint) -> String {
    let mut out = totals(stats, paint);
    let rows = |key: &str| stats[key].as_array().cloned().unwrap_or_default();
    let (servers, dearest) = (rows("servers"), rows("dearest"));
    if !servers.is_empty() {
        let mut table = Table::new(&["SERVER", "TOOLS", "FULL", "SUMMARY", "SENT", "LOADED"]);
        table = (1..6).fold(table, Table::numbers);
        for server in &servers {
            let name = TableCell::toned(server["name"].as_str().unwrap_or_default(), Tone::Strong);
            let [full, summary, sent, loaded] = weights(server);
            table.row([name, number(&server["tools"]), full, summary, sent, loaded]);
        }
        out.push_str(&format!("\n{}", table.draw(paint)));
    }
    if !dearest.is_empty() {
        let mut table = Table::new(&["TOP TOOLS", "FULL", "SUMMARY", "SENT", "LOADED"]);
        table = (1..5).fold(table, Table::numbers);
        for tool in &dearest {
            let name = TableCell::toned(tool["name"].as_str().unwrap_or_default(), Tone::Strong);
            let [full, summary, sent, loaded] = weights(tool);
            table.row([name, full, summary, sent, loaded]);
        }
        out.push_str(&format!("\n{}", table.draw(paint)));
    }
    out
}

fn totals(stats: &Value, paint: Paint) -> String {
    let count = |key: &str| stats[key].as_u64().unwrap_or_default();
    let full = count("full");
    let mut rows = vec![
        ("full", format!("{full} tokens for {} tools", count("tools"))),
        ("summaries", format!("{} tokens{}", count("summary"), less(full, count("summary")))),
    ];
    match (stats["client"].as_str(), stats["sent"].as_u64()) {
        (None, _) => rows.push(("sent", "no client has requested the list of tools yet".into())),
        (Some(client), Some(sent)) => {
            let at = stats["listed_at_ms"].as_i64().map(ago).unwrap_or_default();
            rows.push(("sent", format!("{sent} tokens{} to {}, {at}", less(full, sent), line(client))));
        }
        (Some(client), None) => {
            rows.push(("sent", format!("unknown: {} has no list of the current catalog", line(client))));
        }
    }
    let loaded = &stats["loaded"];
    if let Some(answers) = loaded["answers"].as_u64().filter(|answers| *answers > 0) {
        let (tokens, tools) = (loaded["tokens"].as_u64().unwrap_or(0), loaded["tools"].as_u64().unwrap_or(0));
        rows.push(("loaded", format!("{tokens} tokens in {answers} answers about {tools} tools")));
    }
    if let (Some(saved), Some(net)) = (stats["saved"].as_i64(), stats["saved_net"].as_i64()) {
        let net = if net == saved { String::new() } else { format!(", {net} after loaded tools") };
        rows.push(("saved", format!("{saved} tokens{net}")));
    }
    rows.iter()
        .map(|(name, value)| format!("{}  {value}\n", paint.tone(Tone::Dim, &format!("{name:<9}"))))
        .collect()
}

/// The relative difference in percent.
fn less(full: u64, other: u64) -> String {
    if full == 0 || full == other {
        return String::new();
    }
    #[allow(clippy::cast_precision_loss, reason = "the percentage is only displayed")]
    let change = (other as f64 / full as f64 - 1.0) * 100.0;
    format!(" ({change:+.1} %)")
}

fn weights(row: &Value) -> [TableCell; 4] {
    ["full", "summary", "sent", "loaded"].map(|key| number(&row[key]))
}

fn number(value: &Value) -> TableCell {
    value.as_u64().map_or_else(|| "".into(), |number| number.to_string().into())
}
