//! The commands, one file per noun.

pub mod approvals;
pub mod audit;
pub mod call;
pub mod completions;
pub mod config;
pub mod connect;
pub mod dead_letters;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod exposure;
pub mod files;
pub mod login;
pub mod man;
pub mod manifest;
pub mod plan;
pub mod reload;
pub mod serve;
pub mod servers;
mod servers_login;
pub mod stdio;
mod terms;
pub mod tokens;
pub mod tools;
pub mod trust;

use crate::arguments::{CliArguments, CliCommand, GlobalOptions};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::render::{self, Paint};
use serde_json::{Value, json};
use std::future::Future;
use std::process::ExitCode;
use toolbooth_core::fault::{Blame, Problem};

/// Runs a command.
pub fn run(arguments: CliArguments) -> ExitCode {
    let CliArguments { global, command } = arguments;
    let outcome = match command {
        CliCommand::Serve(arguments) => serve::run(&global, &arguments),
        CliCommand::Stdio(arguments) => stdio::run(&global, &arguments),
        CliCommand::Chat(arguments) => crate::chat::run(&global, &arguments),
        CliCommand::Shell(arguments) => crate::shell::run(&global, &arguments),
        CliCommand::Connect(arguments) => connect::run(&global, &arguments),
        CliCommand::Servers(arguments) => servers::run(&global, arguments),
        CliCommand::Tools(arguments) => tools::run(&global, arguments),
        CliCommand::Call(arguments) => call::run(&global, &arguments),
        CliCommand::Approvals(arguments) => approvals::run(&global, arguments),
        CliCommand::Plan(arguments) => plan::run(&global, arguments),
        CliCommand::DeadLetters(arguments) => dead_letters::run(&global, arguments),
        CliCommand::Files(arguments) => files::run(&global, arguments),
        CliCommand::Events(arguments) => events::run(&global, &arguments),
        CliCommand::Audit(arguments) => audit::run(&global, arguments),
        CliCommand::Exposure(arguments) => exposure::run(&global, arguments),
        CliCommand::Config(arguments) => config::run(&global, arguments),
        CliCommand::Manifest(arguments) => manifest::run(&global, arguments),
        CliCommand::Reload => reload::run(&global),
        CliCommand::Tokens(arguments) => tokens::run(&global, arguments),
        CliCommand::Login(arguments) => login::run(&global, &arguments),
        CliCommand::Trust(arguments) => trust::run(&global, &arguments),
        CliCommand::Doctor => doctor::run(&global),
        CliCommand::Explain(arguments) => explain::run(&global, &arguments),
        CliCommand::Completions(arguments) => completions::run(&arguments),
        CliCommand::Man(arguments) => man::run(&arguments),
        CliCommand::ConformanceClient { url } => crate::conformance_client::run(&url),
        CliCommand::DemoServer { name } => return crate::demo::run(&name),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure, &global).into(),
    }
}

/// Prints a failure, as JSON if requested.
pub fn report(failure: &CommandFailure, global: &GlobalOptions) -> Exit {
    if global.json {
        render::print_json(&json!({ "error": failure.fault }));
    } else {
        render::complain(&render::failure(failure, Paint::stderr()));
    }
    failure.exit
}

/// Runs the asynchronous part of a command.
pub fn in_runtime(work: impl Future<Output = CommandResult>) -> CommandResult {
    let mut outcome = None;
    let run = toolbooth_server::runtime::run(Box::pin(async { outcome = Some(work.await) }));
    run.map_err(no_runtime)?;
    outcome.expect("the runtime returns after the work has finished")
}

/// Opens a gateway, runs a command on it, and closes it.
pub fn on_gateway(
    opening: impl Future<Output = Result<GatewayHandle, CommandFailure>>,
    work: impl AsyncFnOnce(&GatewayHandle) -> CommandResult,
) -> CommandResult {
    in_runtime(async {
        let gateway = opening.await?;
        let outcome = work(&gateway).await;
        gateway.close().await;
        outcome
    })
}

/// Prints the entries of an answer as a table, or `if_empty` if there are none; with `--json`, the whole answer.
pub fn print_entries(
    global: &GlobalOptions,
    answer: &Value,
    key: &str,
    if_empty: &str,
    table: impl FnOnce(&[Value]) -> String,
) {
    let entries = answer[key].as_array().map(Vec::as_slice).unwrap_or_default();
    match entries {
        _ if global.json => render::print_json(answer),
        [] => render::print(if_empty),
        entries => render::print(&table(entries)),
    }
}

fn no_runtime(error: std::io::Error) -> CommandFailure {
    CommandFailure::failed(Problem {
        code: "serve.no-runtime",
        blame: Blame::Gateway,
        message: format!("the runtime cannot be started: {error}"),
        hint: Some("check the limits on processes and open files (`ulimit -a`)".into()),
    })
}
