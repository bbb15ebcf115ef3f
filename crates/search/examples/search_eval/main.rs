//! Measures how good and how fast tool search is, with collections of tools and queries with known answers.
//!
//! Run it as `cargo xtask search-eval FOLDER`. It uses the catalog and its search as the gateway does.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

mod encoded;
mod goals;
mod measure;
mod rivals;
mod sets;
mod speed;

use encoded::Encoded;
use measure::{Figures, mean};
use rivals::{Bm25, Substrings};
use sets::{Collection, EvalSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The gateway's allocator, so that times are comparable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: search-eval FOLDER [--runs FOLDER] [--speed] [--texts FILE] [--vectors FILE]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut folder = None;
    let mut runs = None;
    let mut speed_alone = false;
    let (mut texts_to, mut vectors_from) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--runs" => runs = Some(PathBuf::from(arguments.next().ok_or(USAGE)?)),
            "--speed" => speed_alone = true,
            "--texts" => texts_to = Some(PathBuf::from(arguments.next().ok_or(USAGE)?)),
            "--vectors" => vectors_from = Some(PathBuf::from(arguments.next().ok_or(USAGE)?)),
            other if other.starts_with("--") => return Err(format!("`{other}` is unknown\n{USAGE}")),
            other => folder = Some(PathBuf::from(other)),
        }
    }
    let folder = folder.ok_or(USAGE)?;
    let sets = sets::read(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if cfg!(debug_assertions) {
        println!("note: this is not an optimised build; its times mean little\n");
    }
    let mut files: Vec<&String> = sets.iter().map(|set| &set.tools).collect();
    files.dedup();
    let collections: Result<Vec<_>, _> = files.iter().map(|file| Collection::read(&folder, file)).collect();
    let collections = collections?;
    if speed_alone {
        // For profilers: nothing but the measured code.
        speeds(&sets, &collections).iter().for_each(|speed| println!("{speed}"));
        return Ok(());
    }
    if let Some(file) = texts_to {
        return encoded::write(&encoded::texts(&sets, &collections), &file);
    }
    let encoded = match vectors_from {
        Some(file) => Some(Encoded::read(encoded::texts(&sets, &collections), &file)?),
        None => None,
    };
    let (mut ours, mut plain, mut seed) = (Vec::new(), Vec::new(), Vec::new());
    for set in &sets {
        let collection = collections.iter().find(|one| one.file == set.tools).ok_or("no tools")?;
        let encoded_tools =
            encoded.as_ref().and_then(|encoded| Some((encoded, encoded.encoded_tools(collection)?)));
        let search = |text: &str| {
            let encoded = encoded_tools.as_ref().map(|(encoded, tools)| encoded.query(tools, text));
            collection.search(text, encoded.as_ref())
        };
        let ranked: Vec<Vec<String>> = set.queries.iter().map(|query| search(&query.text)).collect();
        if let Some(runs) = &runs {
            write_run(runs, set, &ranked)?;
        }
        ours.push(Figures::of(set, &ranked));
        let bm25 = Bm25::of(collection);
        plain.push(Figures::of(
            set,
            &set.queries.iter().map(|query| bm25.search(&query.text)).collect::<Vec<_>>(),
        ));
        let substrings = Substrings::of(collection);
        seed.push(Figures::of(
            set,
            &set.queries.iter().map(|query| substrings.search(&query.text)).collect::<Vec<_>>(),
        ));
    }
    println!("{}", table(&sets, &ours, &plain, &seed));
    let named = measure::exact_names(&collections);
    let speeds = speeds(&sets, &collections);
    for speed in &speeds {
        println!("{speed}");
    }
    println!("\n{}", goals::judge(&sets, &ours, named, &speeds, encoded.is_some()));
    Ok(())
}

fn speeds(sets: &[EvalSet], collections: &[Collection]) -> Vec<speed::Speed> {
    [5_000, 10_000].into_iter().filter_map(|size| speed::measure(sets, collections, size)).collect()
}

fn table(sets: &[EvalSet], ours: &[Figures], plain: &[Figures], seed: &[Figures]) -> String {
    let mut text = format!(
        "{:14} {:>5} {:>5}  {:>5} {:>5} {:>5} {:>5} {:>5} {:>6}   {:>9} {:>7}\n",
        "set", "tools", "asked", "r@1", "r@3", "r@5", "r@10", "MRR", "nDCG@5", "BM25 r@5", "old r@5"
    );
    let mut row = |name: &str, sizes: String, f: &Figures, plain: f64, seed: f64| {
        let _ = writeln!(
            text,
            "{name:14} {sizes}  {:.3} {:.3} {:.3} {:.3} {:.3} {:6.3}   {plain:9.3} {seed:7.3}",
            f.recall[0], f.recall[1], f.recall[2], f.recall[3], f.mrr, f.ndcg
        );
    };
    for (((set, ours), plain), seed) in sets.iter().zip(ours).zip(plain).zip(seed) {
        row(
            &set.name,
            format!("{:5} {:5}", set.size, set.queries.len()),
            ours,
            plain.recall[2],
            seed.recall[2],
        );
    }
    let at_five = |all: &[Figures]| all.iter().map(|f| f.recall[2]).sum::<f64>() / all.len().max(1) as f64;
    row("mean", " ".repeat(11), &mean(ours), at_five(plain), at_five(seed));
    text
}

/// Writes a file that other scorers can read.
fn write_run(folder: &Path, set: &EvalSet, ranked: &[Vec<String>]) -> Result<(), String> {
    let lines = set
        .queries
        .iter()
        .zip(ranked)
        .map(|(query, ranked)| serde_json::json!({"qid": query.id, "ranked": ranked}).to_string());
    let text = lines.collect::<Vec<_>>().join("\n");
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    std::fs::write(folder.join(format!("{}.jsonl", set.name)), text + "\n").map_err(|error| error.to_string())
}
