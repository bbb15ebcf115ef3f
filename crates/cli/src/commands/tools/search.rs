//! `toolbooth tools search`: finds tools by what they do.

use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, line};
use clap::Args;

/// Arguments of `toolbooth tools search`.
#[derive(Debug, Args)]
pub struct ToolSearchArguments {
    /// What the tool should do, or its name. Several queries are searched together.
    #[arg(value_name = "QUERY", required = true)]
    queries: Vec<String>,
    /// The query is a regular expression.
    #[arg(long)]
    regex: bool,
    /// Maximum number of hits, from 1 to 50, instead of `exposure.max_tools_per_search`.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
}

impl ToolSearchArguments {
    fn path(&self) -> String {
        let queries = self.queries.iter().map(|query| format!("q={}", segment(query)));
        let mut path = format!("/tools/search?{}", queries.collect::<Vec<_>>().join("&"));
        if let Some(limit) = self.limit {
            path.push_str(&format!("&limit={limit}"));
        }
        if self.regex {
            path.push_str("&regex=true");
        }
        path
    }
}

/// Searches and prints the hits.
pub async fn run(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    search: &ToolSearchArguments,
) -> CommandResult {
    gateway.connect(ServerSelection::AutoConnected).await;
    let found = gateway.get(&search.path()).await?;
    if global.json {
        render::print_json(&found);
        return Ok(Exit::Ok);
    }
    let list = |key: &str| found[key].as_array().map(Vec::as_slice).unwrap_or_default();
    if list("hits").is_empty() {
        render::print("No tool matches.\n");
    } else {
        let mut table = Table::new(&["TOOL", "SCORE", "DESCRIPTION"]);
        for hit in list("hits") {
            let text = |key: &str| hit[key].as_str().unwrap_or_default();
            let score = format!("{:.2}", hit["score"].as_f64().unwrap_or_default());
            let about = match text("kind") {
                "skill" => format!("skill: {}", text("description")),
                _ => text("description").to_owned(),
            };
            table.row([TableCell::toned(text("name"), Tone::Strong), score.into(), about.into()]);
        }
        render::print(&table.draw(Paint::stdout()));
    }
    let notes = list("notes").iter().filter_map(|note| note["text"].as_str());
    notes.for_each(|note: &str| render::complain(&format!("Note: {}.\n", line(note))));
    Ok(Exit::Ok)
}
