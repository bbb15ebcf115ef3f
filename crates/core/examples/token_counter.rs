//! Measures the token counter beside the crate `tiktoken-rs`: time and memory of the first count, and speed.
//!
//! One counter per process, because memory that was used once stays with the process. Figures are in
//! `docs/adr/0019-own-token-counter.md`.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::process::ExitCode;
use std::time::Instant;
use toolbooth_core::weigh;

const USAGE: &str = "usage: token-counter own|tiktoken-rs FILE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [counter, file] = arguments.as_slice() else { return fail(USAGE) };
    let count: fn(&str) -> usize = match counter.as_str() {
        "own" => |text| usize::try_from(weigh::tokens(text)).unwrap_or(usize::MAX),
        "tiktoken-rs" => |text| tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len(),
        _ => return fail(USAGE),
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return fail(&format!("{file}: {error}")),
    };
    let before = resident_kib();
    let started = Instant::now();
    std::hint::black_box(count("Sends a mail."));
    let first = started.elapsed();
    let started = Instant::now();
    let tokens: usize = text.lines().map(count).sum();
    let all = started.elapsed();
    let speed = text.len() as f64 / 1e6 / all.as_secs_f64();
    let grown = resident_kib().saturating_sub(before) as f64 / 1024.0;
    println!(
        "{counter}: first count {first:.2?}, {tokens} tokens at {speed:.1} MB/s, {grown:.1} MiB more memory"
    );
    ExitCode::SUCCESS
}

fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}

/// The resident memory of this process in KiB; 0 if the system does not tell.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
