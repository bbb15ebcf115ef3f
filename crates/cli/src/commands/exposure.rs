//! `toolbooth exposure`: explains which tools a client is shown.

use super::on_gateway;
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, line};
use clap::{Args, Subcommand};
use serde_json::Value;

/// Arguments of `toolbooth exposure`.
#[derive(Debug, Args)]
pub struct ExposureArguments {
    #[command(subcommand)]
    action: ExposureAction,
}

#[derive(Debug, Subcommand)]
enum ExposureAction {
    /// Explain which mode a client gets, why, and how many tokens each mode costs.
    Explain {
        /// Name that the client reports, such as claude-code.
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
    },
}

/// Runs `toolbooth exposure`.
pub fn run(global: &GlobalOptions, arguments: ExposureArguments) -> CommandResult {
    on_gateway(GatewayHandle::open(global), async |gateway| {
        let ExposureAction::Explain { client } = arguments.action;
        gateway.connect(ServerSelection::AutoConnected).await;
        let path = match client {
            Some(client) => format!("/exposure?client={}", segment(&client)),
            None => "/exposure".to_owned(),
        };
        let answer = gateway.get(&path).await?;
        match global.json {
            true => render::print_json(&answer),
            false => render::print(&draw(&answer)),
        }
        Ok(Exit::Ok)
    })
}

fn draw(answer: &Value) -> String {
    let text = |key: &str| answer[key].as_str().map(line).unwrap_or_default();
    let client = match text("client") {
        client if client == "unknown" => "An unknown client".to_owned(),
        client => format!("`{client}`"),
    };
    let tools = usize::try_from(answer["tools"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let mut out = format!("{client} gets the mode `{}`: {}.\n\n", text("mode"), text("reason"));
    let mut table = Table::new(&["MODE", "TOKENS"]).numbers(1);
    for mode in ["full", "summary", "search"] {
        let tokens = answer["tokens"][mode].as_u64().unwrap_or(0).to_string();
        let shown = if mode == text("mode") { TableCell::toned(mode, Tone::Strong) } else { mode.into() };
        table.row([shown, tokens.into()]);
    }
    out.push_str(&table.draw(Paint::stdout()));
    let saved = answer["saved_percent"].as_f64().unwrap_or(0.0);
    out.push_str(&format!(
        "\n{} in total; the list saves {saved} % of the tokens.\n",
        render::count(tools, "tool")
    ));
    out
}
