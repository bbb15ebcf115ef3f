//! `cargo xtask tokens CATALOGUE...`: what catalogues cost a model in full, as summaries and through search.
//!
//! A catalogue is a folder of files, or files joined by commas; each file holds what one server answered to
//! `tools/list`. Tokens are counted by the product's own code.

mod catalogue;

use anyhow::{Result, bail};
use catalogue::Catalogue;

const USAGE: &str = "usage: cargo xtask tokens CATALOGUE... (a folder of tools/list files, or files joined by commas)";

/// Runs the task.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let catalogues = arguments.map(|argument| Catalogue::read(&argument)).collect::<Result<Vec<_>>>()?;
    if catalogues.is_empty() {
        bail!("{USAGE}");
    }
    println!("| catalogue | servers | tools | raw | definitions | per tool mean / median / p95 | summaries |");
    println!("|---|---:|---:|---:|---:|---|---|");
    for catalogue in &catalogues {
        let figures = catalogue.figures();
        println!(
            "| {} | {} | {} | {} | {} | {} / {} / {} | {} ({}) |",
            catalogue.name,
            catalogue.servers.len(),
            figures.each.len(),
            figures.raw,
            figures.definitions,
            figures.mean(),
            figures.percentile(50),
            figures.percentile(95),
            figures.summaries,
            saving(figures.definitions, figures.summaries),
        );
    }
    Ok(())
}

/// By how much less something is, in percent.
fn saving(whole: u64, rest: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    #[allow(clippy::cast_precision_loss, reason = "a percentage for people")]
    let change = (rest as f64 / whole as f64 - 1.0) * 100.0;
    format!("{change:+.1} %")
}
