//! The commands, one file per noun.

pub mod approvals;
mod argument_kind;
pub mod audit;
mod bundled_hint;
pub mod call;
mod call_arguments;
mod call_result;
pub mod calls;
pub mod client_views;
pub mod completions;
pub mod config;
mod config_notices;
pub mod connect;
pub mod console;
pub mod dead_letters;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod exposure;
pub mod files;
mod idle_pins;
mod job_views;
pub mod jobs;
pub mod login;
pub mod man;
pub mod manifest;
pub mod plan;
pub mod reload;
mod running_calls;
pub mod secrets;
pub mod serve;
mod server_edits;
mod server_entry;
mod server_entry_fields;
mod server_view;
pub mod servers;
pub mod servers_add;
mod servers_key;
mod servers_login;
pub mod service;
mod shell_variables;
pub mod skills;
pub mod start;
pub mod status;
pub mod stdio;
pub mod stop;
pub mod store;
pub mod tasks;
mod terms;
pub mod tokens;
pub mod tools;
pub mod trust;
mod unsupplied_names;
pub mod up;
pub mod upgrade;
mod waiting_work;

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone};
use serde_json::{Value, json};
use std::future::Future;
use toolbooth_core::fault::{Blame, Problem};

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

/// Warns that work does not go on while only commands use the store.
fn warn_if_not_running(gateway: &GatewayHandle, consequence: &str) {
    if matches!(gateway, GatewayHandle::Embedded(_)) {
        let word = Paint::stderr().tone(Tone::Warn, "warning");
        let text = format!("no gateway is running; {consequence} until `toolbooth start` starts one");
        render::complain(&format!("{word}: {text}\n"));
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
