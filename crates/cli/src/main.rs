//! `toolbooth`: the one binary. Roles are subcommands; `main` only chooses.

mod allocator;
mod arguments;
mod callback;
mod callers;
mod chat;
mod commands;
mod conformance_client;
mod control;
mod credentials;
mod demo;
mod desk;
mod exit;
mod failure;
mod footprint;
mod gateway;
mod in_force;
mod jq_worker;
mod masking;
mod outward;
mod own;
mod presence;
mod progress;
mod reach;
mod remote;
mod render;
mod room;
mod shell;
mod sign_in;
mod terms;

use std::process::ExitCode;

/// Why not the system's: docs/adr/0011-allocator.md.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    let code = run();
    // The saved output is incomplete.
    if render::output_lost() { exit::Exit::Failed.into() } else { code }
}

fn run() -> ExitCode {
    let mut words = std::env::args_os();
    match words.nth(1) {
        // The reaper of a server must be small and single-threaded, so it is told apart before anything starts.
        Some(word) if word == "reaper" => toolbooth_upstream::process::reaper_main(),
        // So must the child that asks a jq filter: it bounds itself first.
        Some(word) if word == "jq-worker" => {
            jq_worker::run(&words.next().unwrap_or_default().to_string_lossy())
        }
        None => {
            render::print(arguments::WELCOME);
            ExitCode::SUCCESS
        }
        // `toolbooth help call` is what people type for `toolbooth call --help`.
        Some(word) if word == "help" => {
            let asked =
                std::iter::once("toolbooth".into()).chain(words).chain(std::iter::once("--help".into()));
            commands::run(arguments::Arguments::of(asked))
        }
        Some(_) => commands::run(arguments::Arguments::of(std::env::args_os())),
    }
}
