//! `cargo xtask tokens CATALOGUE...`: what catalogues cost a model in full, as summaries and through search.
//!
//! A catalogue is a folder of files, or files joined by commas; each file holds what one server answered to
//! `tools/list`, or lines of tools with their servers. Everything is counted and searched by the product's own
//! code, with the settings that it has when nobody sets any.

mod answers;
mod catalogue;

use answers::Answers;
use anyhow::{Context, Result, bail};
use catalogue::{Catalogue, percentile};
use std::path::Path;
use toolbooth_core::caller::Caller;
use toolbooth_core::exposure::{Dialect, Terms, Weights};

const USAGE: &str = "usage: cargo xtask tokens [--queries FILE.jsonl] CATALOGUE...

  CATALOGUE   a folder of tools/list files, or files joined by commas
  --queries   what is searched for in the catalogues that follow; else words of the tools themselves";

/// Runs the task.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let mut rows = Vec::new();
    let mut queries: Option<Vec<String>> = None;
    while let Some(argument) = arguments.next() {
        if argument == "--queries" {
            let file = arguments.next().context(USAGE)?;
            queries = Some(answers::read(Path::new(&file))?);
        } else {
            rows.push(Row::of(&argument, queries.as_deref())?);
        }
    }
    if rows.is_empty() {
        bail!("{USAGE}");
    }
    println!("Definitions, in tokens (o200k_base), under the servers' own names:\n");
    println!("| catalogue | servers | tools | raw | definitions | mean / median / p95 of a tool |");
    println!("|---|---:|---:|---:|---:|---|");
    rows.iter().for_each(|row| println!("{}", row.definitions));
    println!("\nSurfaces, as the gateway names and lists them, and the answers to searches:\n");
    println!(
        "| catalogue | full | summary | search | answer mean / median / p95 | net of 1 / 3 / 5 searches |"
    );
    println!("|---|---:|---|---|---|---|");
    rows.iter().for_each(|row| println!("{}", row.surfaces));
    Ok(())
}

/// A line of each table.
struct Row {
    definitions: String,
    surfaces: String,
}

impl Row {
    fn of(argument: &str, queries: Option<&[String]>) -> Result<Self> {
        let catalogue = Catalogue::read(argument)?;
        let figures = catalogue.figures();
        let definitions = format!(
            "| {} | {} | {} | {} | {} | {} / {} / {} |",
            catalogue.name,
            catalogue.servers.len(),
            figures.each.len(),
            figures.raw,
            figures.definitions,
            figures.mean(),
            percentile(&figures.each, 50),
            percentile(&figures.each, 95),
        );
        let (catalog, caller, terms) = (catalogue.admitted()?, Caller::owner("owner"), Terms::default());
        let Weights { full, summary, search, .. } = Weights::of(&catalog, &caller, Dialect::ANY, &terms);
        let made = || answers::made(&catalog, &caller);
        let queries = queries.map_or_else(made, <[String]>::to_vec);
        let answers = Answers::to(&catalog, &caller, &queries, &terms)?;
        let net = [1, 3, 5].map(|searches| saving(full, search + searches * answers.mean()));
        let surfaces = format!(
            "| {} | {full} | {summary} ({}) | {search} ({}) | {} / {} / {} ({}) | {} |",
            catalogue.name,
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

/// By how much less something is, in percent.
fn saving(whole: u64, rest: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a percentage for people")]
    let change = (rest as f64 / whole.max(1) as f64 - 1.0) * 100.0;
    format!("{change:+.1} %")
}
