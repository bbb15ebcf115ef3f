//! Runs the command that the command line names.

use crate::arguments::{CliArguments, CliCommand};
use crate::commands::{
    approvals, audit, call, calls, completions, config, connect, dead_letters, doctor, events, explain,
    exposure, files, login, man, manifest, plan, reload, report, secrets, serve, servers, stdio, tokens,
    tools, trust,
};
use crate::commands::{console, jobs, tasks};
use crate::commands::{service, skills, start, status, stop, store, up, upgrade};
use crate::{chat, conformance_client, demo, shell};
use clap::CommandFactory;
use std::process::ExitCode;

/// Runs a command.
pub fn run(arguments: CliArguments) -> ExitCode {
    let CliArguments { global, command } = arguments;
    let outcome = match command {
        CliCommand::Up(arguments) => up::run(&global, &arguments),
        CliCommand::Serve(arguments) => serve::run(&global, &arguments),
        CliCommand::Start(arguments) => start::run(&global, &arguments),
        CliCommand::Stop(arguments) => stop::run(&global, &arguments),
        CliCommand::Status => status::run(&global),
        CliCommand::Service(arguments) => service::run(&global, &arguments),
        CliCommand::Console(arguments) => console::run(&global, &arguments),
        CliCommand::Stdio(arguments) => stdio::run(&global, &arguments),
        CliCommand::Chat(arguments) => chat::run(&global, &arguments),
        CliCommand::Shell(arguments) => shell::run(&global, &arguments, CliArguments::command()),
        CliCommand::Connect(arguments) => connect::run(&global, &arguments),
        CliCommand::Servers(arguments) => servers::run(&global, arguments),
        CliCommand::Secrets(arguments) => secrets::run(&global, arguments),
        CliCommand::Tools(arguments) => tools::run(&global, arguments),
        CliCommand::Call(arguments) => call::run(&global, &arguments),
        CliCommand::Calls(arguments) => calls::run(&global, arguments),
        CliCommand::Approvals(arguments) => approvals::run(&global, arguments),
        CliCommand::Plan(arguments) => plan::run(&global, arguments),
        CliCommand::Skills(arguments) => skills::run(&global, arguments),
        CliCommand::Jobs(arguments) => jobs::run(&global, arguments),
        CliCommand::Tasks(arguments) => tasks::run(&global, arguments),
        CliCommand::DeadLetters(arguments) => dead_letters::run(&global, arguments),
        CliCommand::Files(arguments) => files::run(&global, arguments),
        CliCommand::Events(arguments) => events::run(&global, &arguments),
        CliCommand::Audit(arguments) => audit::run(&global, arguments),
        CliCommand::Store(arguments) => store::run(&global, arguments),
        CliCommand::Exposure(arguments) => exposure::run(&global, arguments),
        CliCommand::Config(arguments) => config::run(&global, arguments),
        CliCommand::Manifest(arguments) => manifest::run(&global, arguments),
        CliCommand::Reload => reload::run(&global),
        CliCommand::Tokens(arguments) => tokens::run(&global, arguments),
        CliCommand::Login(arguments) => login::run(&global, &arguments),
        CliCommand::Trust(arguments) => trust::run(&global, &arguments),
        CliCommand::Doctor => doctor::run(&global),
        CliCommand::Upgrade => upgrade::run(&global),
        CliCommand::Explain(arguments) => explain::run(&global, &arguments),
        CliCommand::Completions(arguments) => completions::run(&arguments, CliArguments::command()),
        CliCommand::Man(arguments) => man::run(&arguments, CliArguments::command()),
        CliCommand::ConformanceClient { url } => conformance_client::run(&url),
        CliCommand::DemoServer { name } => return demo::run(&name),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure, &global).into(),
    }
}
