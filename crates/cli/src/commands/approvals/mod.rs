//! `toolbooth approvals`: lists and decides held calls.

mod ids;
mod show;
mod status;

pub use ids::{IdKind, call_of_held, id, run_id, short};
pub use show::{arguments as shown_arguments, state as shown_state};
pub use status::{read as read_status, wait_for_end};

use super::{call_arguments, call_result, on_gateway, print_entries, warn_if_not_running};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, line};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::time::Duration;

/// How long to wait for the call after an approval. It continues in the gateway after that.
const WAIT: Duration = Duration::from_secs(10);

/// Arguments of `toolbooth approvals`.
#[derive(Debug, Args)]
#[command(after_help = "\
An id may be given by 6 or more characters of its beginning or its end.
For example:
  toolbooth approvals
  toolbooth approvals approve 9f3ac2 --remember session
  toolbooth approvals reject 9f3ac2 --reason 'not on a Friday'")]
pub struct ApprovalsArguments {
    #[command(subcommand)]
    action: Option<ApprovalsAction>,
}

#[derive(Debug, Subcommand)]
enum ApprovalsAction {
    /// List held calls that wait for approval (the default).
    List(ApprovalListArguments),
    /// Show a held call: its question, its arguments, and its result after it ran.
    Show {
        /// Id of the held call.
        id: String,
    },
    /// Approve a held call: it runs once.
    Approve(ApproveArguments),
    /// Reject a held call.
    Reject(RejectArguments),
    /// List remembered approvals.
    Consents,
    /// Revoke a remembered approval: the next call needs approval again.
    Revoke {
        /// Id of the remembered approval, as `consents` shows it.
        id: String,
    },
}

#[derive(Debug, Clone, Default, Args)]
struct ApprovalListArguments {
    /// List calls in this state: pending, approved, rejected, expired, done or failed.
    #[arg(long, value_name = "STATE", conflicts_with = "all")]
    state: Option<String>,
    /// List calls in any state.
    #[arg(long)]
    all: bool,
    /// List steps of plans instead.
    #[arg(long)]
    steps: bool,
    /// Maximum number of calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

/// Arguments of `toolbooth approvals reject`.
#[derive(Debug, Clone, Args)]
pub struct RejectArguments {
    /// Id of the held call.
    id: String,
    /// Reason, for the caller.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Arguments of `toolbooth approvals approve`.
#[derive(Debug, Clone, Args)]
pub struct ApproveArguments {
    /// Id of the held call.
    id: String,
    /// Run the call with other arguments: a JSON object, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    args: Option<String>,
    /// How long to approve further calls of the same tool.
    #[arg(long, value_name = "SPAN")]
    remember: Option<RememberSpan>,
}

/// How long an approval is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RememberSpan {
    /// For this call only.
    Once,
    /// For the session of the call.
    Session,
    /// Until it is revoked or the tool changes.
    Always,
}

/// Runs `toolbooth approvals`.
pub fn run(global: &GlobalOptions, arguments: ApprovalsArguments) -> CommandResult {
    // Invalid arguments are refused before a gateway is started.
    let arguments = arguments.read()?;
    on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
        within(gateway, global, arguments).await
    })
}

impl ApprovalsArguments {
    /// Whether the arguments come from standard input.
    pub fn reads_input(&self) -> bool {
        matches!(&self.action, Some(ApprovalsAction::Approve(arguments)) if arguments.reads_input())
    }

    /// Replaces `--args` by the JSON object it names.
    pub fn read(mut self) -> Result<Self, CommandFailure> {
        if let Some(ApprovalsAction::Approve(arguments)) = &mut self.action {
            arguments.read()?;
        }
        Ok(self)
    }
}

impl ApproveArguments {
    /// Whether the arguments come from standard input.
    pub fn reads_input(&self) -> bool {
        self.args.as_deref() == Some("-")
    }

    /// Replaces `--args` by the JSON object it names.
    pub fn read(&mut self) -> Result<(), CommandFailure> {
        self.args = self.args.as_deref().map(call_arguments::read).transpose()?;
        Ok(())
    }
}

/// Runs the command on an open gateway; `--args` must have been read.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: ApprovalsArguments,
) -> CommandResult {
    match arguments.action.unwrap_or(ApprovalsAction::List(ApprovalListArguments::default())) {
        ApprovalsAction::List(filter) => list(gateway, global, &filter).await,
        ApprovalsAction::Show { id } => show(gateway, global, &id).await,
        ApprovalsAction::Approve(arguments) => approve(gateway, global, &arguments).await,
        ApprovalsAction::Reject(arguments) => reject(gateway, global, &arguments).await,
        ApprovalsAction::Consents => consents(gateway, global).await,
        ApprovalsAction::Revoke { id } => revoke(gateway, global, &id).await,
    }
}

async fn list(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    filter: &ApprovalListArguments,
) -> CommandResult {
    let kind = if filter.steps { "plan" } else { "approval" };
    let mut path = format!("/approvals?kind={kind}&limit={}", filter.limit.unwrap_or(100));
    let state = filter.state.as_deref().or((!filter.all).then_some("pending"));
    if let Some(state) = state {
        path.push_str(&format!("&state={}", segment(state)));
    }
    let answer = gateway.get(&path).await?;
    let if_empty = match state {
        Some("pending") => "No calls wait for approval.\n",
        _ => "There are no held calls.\n",
    };
    print_entries(global, &answer, "approvals", if_empty, show::table);
    if !global.json && answer["next_before"].is_string() {
        let shown = answer["approvals"].as_array().map_or(0, Vec::len);
        render::complain(&format!("The newest {shown} are shown; there are more.\n"));
    }
    Ok(Exit::Ok)
}

async fn show(gateway: &GatewayHandle, global: &GlobalOptions, text: &str) -> CommandResult {
    let id = id(gateway, IdKind::Approvals, text).await?;
    let body = gateway.fetch(&format!("/approvals/{id}")).await?;
    if global.json {
        // Unchanged, to keep the server's number format and member order.
        render::print_raw_json(&String::from_utf8_lossy(&body));
        return Ok(Exit::Ok);
    }
    render::print(&show::page(&read(&body)?));
    if let Ok(Some(result)) = read_status(&body)?.result() {
        render::print("\n");
        call_result::print_result(result.get());
    }
    Ok(Exit::Ok)
}

/// Approves a held call and waits a while for its result.
pub async fn approve(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &ApproveArguments,
) -> CommandResult {
    let id = id(gateway, IdKind::Approvals, &arguments.id).await?;
    let held = gateway.get(&format!("/approvals/{id}")).await?;
    if held["kind"] == "plan" {
        let step = held["plan"]["step"].as_u64().unwrap_or(0);
        let plan = short(&held["plan"]["id"]);
        let message =
            format!("held call {id} is step {step} of a plan, and the steps of a plan run in order");
        let hint = format!("`toolbooth plan approve {step} --plan {plan}` runs it");
        return Err(CommandFailure::misuse("usage.plan-step", message, Some(&hint)));
    }
    gateway.connect(ServerSelection::One(held["server"].as_str().unwrap_or_default())).await;
    post_approval(gateway, &id, arguments.args.as_deref(), arguments.remember).await?;
    // An embedded gateway runs the call itself, so the command waits until the end.
    let at_most = matches!(gateway, GatewayHandle::Running(_)).then_some(WAIT);
    let body = wait_for_end(gateway, &id, at_most).await?;
    let ended = read_status(&body)?;
    let failure = ended.result().err();
    if global.json {
        render::print_raw_json(&String::from_utf8_lossy(&body));
    } else {
        let name = held["name"].as_str().map(line).unwrap_or_default();
        let became = match (ended.state.as_str(), &failure) {
            ("approved", Some(failure)) if failure.fault.code == "call.deferred" => {
                "it runs as soon as its tool is offered"
            }
            ("approved", _) => "it is running",
            (_, Some(failure)) if failure.exit == Exit::Held => "it needs another approval",
            ("done", _) => "it ran",
            _ => "it failed",
        };
        let end = short(&held["id"]);
        let more = format!("`toolbooth approvals show {end}` shows the result");
        render::print(&format!("Approved {name}: {became}. {more}.\n"));
    }
    if held["run"].is_object() {
        warn_if_not_running(gateway, "the run does not continue");
    }
    match (ended.state.as_str(), failure) {
        ("failed", Some(failure)) if !global.json => Err(failure),
        ("failed", _) => Ok(Exit::Failed),
        _ => Ok(Exit::Ok),
    }
}

async fn post_approval(
    gateway: &GatewayHandle,
    id: &str,
    given: Option<&str>,
    remember: Option<RememberSpan>,
) -> Result<(), CommandFailure> {
    let mut members = Vec::new();
    // The arguments are sent unchanged, to keep their number format.
    members.extend(given.map(|text| format!("\"arguments\":{text}")));
    members.extend(
        remember.and_then(|span| Some(format!("\"remember\":\"{}\"", span.to_possible_value()?.get_name()))),
    );
    let body = format!("{{{}}}", members.join(","));
    gateway.post("approving", &format!("/approvals/{id}/approve"), Some(body.into())).await.map(drop)
}

/// Approves a held call, with other arguments if given.
pub async fn approve_call(
    gateway: &GatewayHandle,
    id: &str,
    given: Option<&str>,
) -> Result<(), CommandFailure> {
    post_approval(gateway, id, given, None).await
}

/// Rejects a held call, and returns the gateway's answer.
pub async fn reject_call(
    gateway: &GatewayHandle,
    id: &str,
    reason: Option<&str>,
) -> Result<Value, CommandFailure> {
    let body = json!({ "reason": reason }).to_string();
    read(&gateway.post("rejecting", &format!("/approvals/{id}/reject"), Some(body.into())).await?)
}

/// Rejects a held call.
pub async fn reject(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &RejectArguments,
) -> CommandResult {
    let id = id(gateway, IdKind::Approvals, &arguments.id).await?;
    let held = reject_call(gateway, &id, arguments.reason.as_deref()).await?;
    if global.json {
        render::print_json(&held);
    } else {
        let name = held["name"].as_str().map(line).unwrap_or_default();
        render::print(&format!("Rejected {name}. The call is not made.\n"));
    }
    if held["run"].is_object() {
        warn_if_not_running(gateway, "the run does not continue");
    }
    Ok(Exit::Ok)
}

async fn consents(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let answer = gateway.get("/consents").await?;
    print_entries(global, &answer, "consents", "There are no remembered approvals.\n", show::consents);
    Ok(Exit::Ok)
}

async fn revoke(gateway: &GatewayHandle, global: &GlobalOptions, text: &str) -> CommandResult {
    let id = id(gateway, IdKind::Consents, text).await?;
    let revoked = gateway.delete(&format!("/consents/{id}")).await?;
    if global.json {
        render::print_json(&revoked);
    } else {
        let text = |key: &str| revoked[key].as_str().map(line).unwrap_or_default();
        render::print(&format!(
            "Calls of {} on {} need approval again for {}.\n",
            text("tool"),
            text("server"),
            text("user")
        ));
    }
    Ok(Exit::Ok)
}
