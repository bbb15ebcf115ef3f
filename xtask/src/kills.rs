//! `cargo xtask kills`: kills the gateway at random moments and checks its guarantees.

use crate::cargo;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// The number of kills of a full run.
const FULL: u32 = 200;

/// Runs the full form of a test that `cargo xtask test` runs in a short form.
pub fn run(root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let kills = match arguments.next() {
        Some(text) => text.parse().with_context(|| format!("`{text}` is not a number of kills"))?,
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
