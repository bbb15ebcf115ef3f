//! `cargo xtask kills`: the gateway is killed at random moments, and all that was promised is looked for.

use crate::cargo;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// How many kills a full run takes.
const FULL: u32 = 200;

/// Runs the test that every run of all tests takes a short form of.
pub fn run(root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let kills = match arguments.next() {
        Some(text) => text.parse().with_context(|| format!("`{text}` is no number of kills"))?,
        None => FULL,
    };
    ensure!(kills > 0 && arguments.next().is_none(), "usage: cargo xtask kills [COUNT]");
    let mut command = cargo(root);
    command.args([
        "test",
        "--package",
        "toolbooth-testkit",
        "--test",
        "gateway",
        "kills::",
        "--",
        "--nocapture",
    ]);
    let status = command.env("TOOLBOOTH_KILLS", kills.to_string()).status()?;
    ensure!(status.success(), "the kills ended with {status}");
    Ok(())
}
