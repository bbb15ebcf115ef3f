//! The `toolbooth` binary. Every role is a subcommand; `main` only dispatches.

#![forbid(unsafe_code)]

mod arguments;
mod background;
mod browser;
mod call_hooks;
mod callback;
mod callers;
mod chat;
mod chat_models;
mod commands;
mod conformance_client;
mod control;
mod demo;
mod dispatch;
mod download;
mod edited_file;
mod editor_handle;
mod embedded_gateway;
mod exit;
mod exporters;
mod failure;
mod file_storage;
mod gateway;
mod gateway_handle;
mod gateway_record;
mod global_options;
mod hidden_input;
mod install_method;
mod interrupts;
mod jq_worker;
mod known_secrets;
mod progress;
mod project_notice;
mod prompter;
mod remote_gateway;
mod render;
mod running_gateway;
mod secrets;
mod setting_changes;
mod shell;
mod sign_in;
mod stored_tokens;
mod terms;

use std::process::ExitCode;

/// See docs/adr/0017-plain-allocator.md for the reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let code = run();
    // Output that could not be written makes the command fail.
    if render::output_lost() { exit::Exit::Failed.into() } else { code }
}

fn run() -> ExitCode {
    let mut words = std::env::args_os();
    match words.nth(1) {
        // The reaper must stay small and single-threaded, so it runs before anything else is started.
        Some(word) if word == "reaper" => toolbooth_upstream::process::reaper_main(),
        // The jq worker limits its own resources before it does anything else.
        Some(word) if word == "jq-worker" => {
            jq_worker::run(&words.next().unwrap_or_default().to_string_lossy())
        }
        None => {
            render::print(arguments::WELCOME);
            ExitCode::SUCCESS
        }
        // `toolbooth help call` means `toolbooth call --help`.
        Some(word) if word == "help" => {
            let with_help =
                std::iter::once("toolbooth".into()).chain(words).chain(std::iter::once("--help".into()));
            dispatch::run(arguments::CliArguments::of(with_help))
        }
        Some(_) => dispatch::run(arguments::CliArguments::of(std::env::args_os())),
    }
}
