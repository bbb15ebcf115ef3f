//! Counts the tokens of catalogs in full, as summaries and through search.
//!
//! Run it as `cargo xtask tokens CATALOG...`.
//! A catalog is a folder of files, or files joined by commas; each file holds one server's answer to `tools/list`, or
//! lines of tools with their servers. The product's own code counts and searches, with default settings.

mod answers;
mod tool_lists;

use answers::AnswerCosts;
use anyhow::{Context, Result, bail};
use std::path::Path;
use tool_lists::{ToolLists, percentile};
use toolbooth_core::caller::Caller;
use toolbooth_core::exposure::{Dialect, ExposureTerms, ModeCosts};

const USAGE: &str = "usage: cargo xtask tokens [--queries FILE.jsonl] CATALOG...

  CATALOG     a folder of tools/list files, or files joined by commas
  --queries   the search queries for the catalogs that follow; by default, words from tool descriptions";

fn main() -> Result<()> {
    run(std::env::args().skip(1))
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let mut rows = Vec::new();
    let mut queries: Option<Vec<String>> = None;
    while let Some(argument) = arguments.next() {
        if argument == "--queries" {
            let file = arguments.next().context(USAGE)?;
            queries = Some(answers::read(Path::new(&file))?);
        } else {
            rows.push(TokensRow::of(&argument, queries.as_deref())?);
        }
    }
    if rows.is_empty() {
        bail!("{USAGE}");
    }
    println!("Definitions, in tokens (o200k_base), with the servers' own tool names:\n");
    println!("| catalog | servers | tools | raw | definitions | mean / median / p95 of a tool |");
    println!("|---|---:|---:|---:|---:|---|");
    rows.iter().for_each(|row| println!("{}", row.definitions));
    println!("\nLists as the gateway exposes them, and answers to searches:\n");
    println!(
        "| catalog | full | summary | search | answer mean / median / p95 | net of 1 / 3 / 5 searches |"
    );
    println!("|---|---:|---|---|---|---|");
    rows.iter().for_each(|row| println!("{}", row.surfaces));
    Ok(())
}

/// One row of each table.
struct TokensRow {
    definitions: String,
    surfaces: String,
}

impl TokensRow {
    fn of(argument: &str, queries: Option<&[String]>) -> Result<Self> {
        let lists = ToolLists::read(argument)?;
        let figures = lists.figures();
        let definitions = format!(
            "| {} | {} | {} | {} | {} | {} / {} / {} |",
            lists.name,
            lists.servers.len(),
            figures.each.len(),
            figures.raw,
            figures.definitions,
            figures.mean(),
            percentile(&figures.each, 50),
            percentile(&figures.each, 95),
        );
        let (catalog, caller, terms) = (lists.admitted()?, Caller::owner("owner"), ExposureTerms::default());
        let ModeCosts { full, summary, search, .. } = ModeCosts::of(&catalog, &caller, Dialect::ANY, &terms);
        let made = || answers::made(&catalog, &caller);
        let queries = queries.map_or_else(made, <[String]>::to_vec);
        let answers = AnswerCosts::to(&catalog, &caller, &queries, &terms)?;
        let net = [1, 3, 5].map(|searches| saving(full, search + searches * answers.mean()));
        let surfaces = format!(
            "| {} | {full} | {summary} ({}) | {search} ({}) | {} / {} / {} ({}) | {} |",
            lists.name,
            saving(full, summary),
            saving(full, search),
            answers.mean(),
            answers.percentile(50),
            answers.percentile(95),
            answers.count(),
            net.join(" / "),
        );
        Ok(Self { definitions, surfaces })
    }
}

/// The change from `whole` to `rest`, in percent.
fn saving(whole: u64, rest: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a percentage for people")]
    let change = (rest as f64 / whole.max(1) as f64 - 1.0) * 100.0;
    format!("{change:+.1} %")
}
