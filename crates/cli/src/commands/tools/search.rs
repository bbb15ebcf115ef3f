//! `toolbooth tools search`: from what one wants to the tools that do it.

use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::own::Wanted;
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, line};
use clap::Args;

/// What is searched for.
#[derive(Debug, Args)]
pub struct Search {
    /// What the tool should do, or its name. Several are searched for together.
    #[arg(value_name = "QUERY", required = true)]
    queries: Vec<String>,
    /// The query is a regular expression.
    #[arg(long)]
    regex: bool,
    /// At most this many.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    limit: u32,
}

impl Search {
    fn path(&self) -> String {
        let mut path = format!("/tools/search?limit={}", self.limit);
        for query in &self.queries {
            path.push_str(&format!("&q={}", segment(query)));
        }
        if self.regex {
            path.push_str("&regex=true");
        }
        path
    }
}

/// Searches and shows what was found.
pub async fn run(reach: &Reach, global: &Global, search: &Search) -> Outcome {
    reach.connect(Wanted::Started).await;
    let found = reach.get(&search.path()).await?;
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
            table.row([Cell::toned(text("name"), Tone::Strong), score.into(), text("description").into()]);
        }
        render::print(&table.draw(Paint::stdout()));
    }
    let notes = list("notes").iter().filter_map(|note| note["text"].as_str());
    notes.for_each(|note: &str| render::complain(&format!("Note: {}.\n", line(note))));
    Ok(Exit::Ok)
}
