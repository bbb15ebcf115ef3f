//! `cargo xtask vocabulary FILE`: packs the published vocabulary of a tokenizer into the table in the binary.
//!
//! Each line of the file has a token in base64 and its rank: `o200k_base.tiktoken` of the crate `tiktoken-rs`, which
//! cargo has unpacked because the tests of `toolbooth-core` depend on it.

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::path::Path;

const TABLE: &str = "crates/core/src/weigh/o200k_base.bin";

/// Runs the task.
pub fn run(root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<()> {
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
    Ok(std::fs::write(root.join(TABLE), packed)?)
}
