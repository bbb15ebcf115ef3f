//! `cargo xtask fuzz`: runs the tests with mutated texts for a longer time than `cargo test` does.

use anyhow::{Result, bail, ensure};
use std::path::Path;

const USAGE: &str = "usage: cargo xtask fuzz [--seconds N, 60]";

/// The tests with mutated texts: packages, test binaries and names.
const TESTS: [(&str, &str, &str); 3] = [
    ("toolbooth-core", "json", "all_readers_agree_on_mutated_texts"),
    ("toolbooth-wire", "fuzz", "fast_readers_agree_with_the_full_parser"),
    ("toolbooth-wire", "fuzz", "mutated_streams_are_decoded_the_same_for_every_split"),
];

/// Runs each test for some time, in a release build.
pub fn run(root: &Path, arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.collect();
    let seconds: u64 = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => 60,
        ["--seconds", seconds] => seconds.parse()?,
        _ => bail!("{USAGE}"),
    };
    for (package, binary, test) in TESTS {
        println!("{package}: {test}");
        let status = crate::cargo(root)
            .args(["test", "--quiet", "--release", "--package", package, "--test", binary, test])
            .env("TOOLBOOTH_FUZZ_SECONDS", seconds.to_string())
            .status()?;
        ensure!(status.success(), "the test ended with {status}");
    }
    Ok(())
}
