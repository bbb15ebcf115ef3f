//! The child process that runs a jq filter: JSON on standard input, one value per line on standard output.
//!
//! It limits its own memory and CPU time before it reads anything; its parent kills it at a deadline.

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};
use nix::sys::resource::{Resource, setrlimit};
use std::io::{Read, Write};
use std::process::ExitCode;

/// The limits of memory in bytes and of CPU time in seconds.
const MAX_MEMORY: u64 = 512 << 20;
const MAX_SECONDS: u64 = 10;

/// Runs the filter.
pub fn run(filter: &str) -> ExitCode {
    // If a limit cannot be set, the deadline still applies.
    let _ = setrlimit(Resource::RLIMIT_AS, MAX_MEMORY, MAX_MEMORY);
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = setrlimit(Resource::RLIMIT_CPU, MAX_SECONDS, MAX_SECONDS);
    match filtered(filter) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{}", why.chars().take(300).collect::<String>());
            ExitCode::FAILURE
        }
    }
}

fn filtered(filter: &str) -> Result<(), String> {
    let mut text = Vec::new();
    std::io::stdin().lock().read_to_end(&mut text).map_err(|error| error.to_string())?;
    let input = read::parse_single(&text).map_err(|error| format!("the file is not valid JSON: {error}"))?;
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let (loader, arena) = (Loader::new(defs), Arena::default());
    let bad = "the filter is not valid jq, or uses an unknown function";
    let modules = loader.load(&arena, File { code: filter, path: () }).map_err(|_| bad.to_owned())?;
    let filter = Compiler::default().with_funs(funs).compile(modules).map_err(|_| bad.to_owned())?;
    let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for value in filter.id.run((context, input)).map(unwrap_valr) {
        let value = value.map_err(|error| error.to_string())?;
        writeln!(out, "{value}").map_err(|error| error.to_string())?;
    }
    out.flush().map_err(|error| error.to_string())
}
