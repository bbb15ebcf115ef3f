//! `toolbooth exposure`: what a client is shown of the tools, and why.

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::own::Wanted;
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, line};
use clap::{Args, Subcommand};
use serde_json::Value;

/// What about exposure.
#[derive(Debug, Args)]
pub struct ExposureArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say which mode a client gets, why, and what each mode costs.
    Explain {
        /// The client, by the name it gives itself, such as claude-code.
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
    },
}

/// Runs `toolbooth exposure`.
pub fn run(global: &Global, what: ExposureArguments) -> Outcome {
    in_runtime(async {
        let reach = Reach::open(global).await?;
        let Action::Explain { client } = what.action;
        reach.connect(Wanted::Started).await;
        let path = match client {
            Some(client) => format!("/exposure?client={}", segment(&client)),
            None => "/exposure".to_owned(),
        };
        let outcome = reach.get(&path).await;
        reach.close().await;
        let answer = outcome?;
        match global.json {
            true => render::print_json(&answer),
            false => render::print(&told(&answer)),
        }
        Ok(Exit::Ok)
    })
}

fn told(answer: &Value) -> String {
    let text = |key: &str| answer[key].as_str().map(line).unwrap_or_default();
    let client = match text("client") {
        client if client == "unknown" => "A client that nobody knows".to_owned(),
        client => format!("`{client}`"),
    };
    let tools = usize::try_from(answer["tools"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let mut out = format!("{client} is shown `{}`: {}.\n\n", text("mode"), text("reason"));
    let mut table = Table::new(&["MODE", "TOKENS"]).numbers(1);
    for mode in ["full", "summary", "search"] {
        let tokens = answer["tokens"][mode].as_u64().unwrap_or(0).to_string();
        let shown = if mode == text("mode") { Cell::toned(mode, Tone::Strong) } else { mode.into() };
        table.row([shown, tokens.into()]);
    }
    out.push_str(&table.draw(Paint::stdout()));
    let saved = answer["saved_percent"].as_f64().unwrap_or(0.0);
    out.push_str(&format!("\n{} in all; the list saves {saved} %.\n", render::count(tools, "tool")));
    out
}
