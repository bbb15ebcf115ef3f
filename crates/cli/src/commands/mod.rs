//! The commands, one file a noun.

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

use crate::arguments::{Arguments, Command, Global};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, Paint};
use serde_json::json;
use std::future::Future;
use std::process::ExitCode;
use toolbooth_core::fault::{Blame, Problem};

/// Runs a command.
pub fn run(arguments: Arguments) -> ExitCode {
    let Arguments { global, command } = arguments;
    let outcome = match command {
        Command::Serve(how) => serve::run(&global, &how),
        Command::Stdio(how) => stdio::run(&global, &how),
        Command::Chat(what) => crate::chat::run(&global, &what),
        Command::Shell(how) => crate::shell::run(&global, &how),
        Command::Connect(what) => connect::run(&global, &what),
        Command::Servers(what) => servers::run(&global, what),
        Command::Tools(what) => tools::run(&global, what),
        Command::Call(what) => call::run(&global, &what),
        Command::Approvals(what) => approvals::run(&global, what),
        Command::Plan(what) => plan::run(&global, what),
        Command::DeadLetters(what) => dead_letters::run(&global, what),
        Command::Files(what) => files::run(&global, what),
        Command::Events(what) => events::run(&global, &what),
        Command::Audit(what) => audit::run(&global, what),
        Command::Exposure(what) => exposure::run(&global, what),
        Command::Config(what) => config::run(&global, what),
        Command::Manifest(what) => manifest::run(&global, what),
        Command::Reload => reload::run(&global),
        Command::Tokens(what) => tokens::run(&global, what),
        Command::Login(what) => login::run(&global, &what),
        Command::Trust(what) => trust::run(&global, &what),
        Command::Doctor => doctor::run(&global),
        Command::Explain(what) => explain::run(&global, &what),
        Command::Completions(what) => completions::run(&what),
        Command::Man(what) => man::run(&what),
        Command::ConformanceClient { url } => crate::conformance_client::run(&url),
        Command::DemoServer { name } => return crate::demo::run(&name),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure, &global).into(),
    }
}

/// Tells why a command did not do its work.
pub fn report(failure: &Failure, global: &Global) -> Exit {
    if global.json {
        render::print_json(&json!({ "error": failure.trouble }));
    } else {
        render::complain(&render::failure(failure, Paint::stderr()));
    }
    failure.exit
}

/// Runs the asynchronous part of a command to its end.
pub fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    let mut outcome = None;
    let run = toolbooth_server::runtime::run(Box::pin(async { outcome = Some(work.await) }));
    run.map_err(no_runtime)?;
    outcome.expect("a runtime ends when its work has")
}

fn no_runtime(error: std::io::Error) -> Failure {
    Failure::failed(Problem {
        code: "serve.no-runtime",
        blame: Blame::Gateway,
        message: format!("the system gave no threads: {error}"),
        hint: Some("check the limits on processes and open files (`ulimit -a`)".into()),
    })
}
