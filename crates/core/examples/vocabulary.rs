//! Packs the published vocabulary of a tokenizer into the table in the binary.
//!
//! Run it as `cargo xtask vocabulary FILE`, in any folder of the repository.
//! Each line of the file has a token in base64 and its rank: `o200k_base.tiktoken` of the crate `tiktoken-rs`, which
//! cargo has unpacked because the tests of this crate depend on it.

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::path::Path;

/// The table, in the folder of this crate.
const TABLE: &str = "src/weigh/o200k_base.bin";

fn main() -> Result<()> {
    run(std::env::args().skip(1))
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let file = arguments.next().context("usage: cargo xtask vocabulary FILE.tiktoken")?;
    let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;
    let mut tokens = Vec::new();
    for (rank, line) in text.lines().enumerate() {
        let (token, given) = line.split_once(' ').with_context(|| format!("line {}: no rank", rank + 1))?;
        anyhow::ensure!(given.parse() == Ok(rank), "line {}: ranks must rise by one from 0", rank + 1);
        tokens.push(STANDARD.decode(token)?);
    }
    let packed = toolbooth_core::weigh::pack(&tokens)?;
    println!("{TABLE}: {} tokens, {} bytes", tokens.len(), packed.len());
    Ok(std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE), packed)?)
}
