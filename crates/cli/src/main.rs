//! `toolbooth`: the one binary. Roles are subcommands; `main` only chooses.

mod arguments;
mod commands;
mod demo;
mod exit;
mod gateway;
mod presence;
mod render;

use clap::Parser;
use std::process::ExitCode;

/// Calls allocate many short-lived buffers of a few kilobytes, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The reaper of a server must be small and single-threaded, so it is told apart before anything starts.
    if std::env::args_os().nth(1).is_some_and(|word| word == "reaper") {
        return toolbooth_upstream::process::reaper_main();
    }
    commands::run(arguments::Arguments::parse())
}
