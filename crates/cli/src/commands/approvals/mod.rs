//! `toolbooth approvals`: calls that wait for a person, and what people said about them.

mod find;
mod outcome;
mod show;

pub use find::{Among, id, short};
pub use outcome::{read as read_ended, settled};
pub use show::{arguments as shown_arguments, state as shown_state};

use super::{call, in_runtime};
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::own::Wanted;
use crate::reach::{Reach, read};
use crate::remote::segment;
use crate::render::{self, line};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a running gateway is waited for after an approval; the call goes on without us.
const WAIT: Duration = Duration::from_secs(10);

/// What about held calls.
#[derive(Debug, Args)]
#[command(after_help = "\
An id may be given by 6 or more characters of its beginning or its end.
For example:
  toolbooth approvals
  toolbooth approvals approve 9f3ac2 --remember session
  toolbooth approvals reject 9f3ac2 --reason 'not on a Friday'")]
pub struct ApprovalsArguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List calls that wait (the default).
    List(ListArguments),
    /// Show one held call: its question, its arguments, and its result once it ran.
    Show { id: String },
    /// Say yes: the call runs, once.
    Approve(ApproveArguments),
    /// Say no.
    Reject(RejectArguments),
    /// List approvals that are remembered.
    Consents,
    /// Take a remembered approval back: the next call asks again.
    Revoke { id: String },
}

#[derive(Debug, Clone, Default, Args)]
struct ListArguments {
    /// Those in this state instead: pending, approved, rejected, expired, done or failed.
    #[arg(long, value_name = "STATE", conflicts_with = "all")]
    state: Option<String>,
    /// Those in any state.
    #[arg(long)]
    all: bool,
    /// Steps of plans instead.
    #[arg(long)]
    steps: bool,
    /// At most this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

/// Which call is not to be made.
#[derive(Debug, Clone, Args)]
pub struct RejectArguments {
    /// The held call.
    id: String,
    /// Why, for the one who called.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Which call is to be made.
#[derive(Debug, Clone, Args)]
pub struct ApproveArguments {
    /// The held call.
    id: String,
    /// Other arguments to run it with: a JSON object, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    args: Option<String>,
    /// For how long the same tool is not asked about again.
    #[arg(long, value_name = "SPAN")]
    remember: Option<Span>,
}

/// How long an approval is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Span {
    /// For this call only.
    Once,
    /// For the session of the call.
    Session,
    /// Until it is taken back or the tool changes.
    Always,
}

/// Runs `toolbooth approvals`.
pub fn run(global: &Global, what: ApprovalsArguments) -> Outcome {
    // What can be refused without a gateway is refused before one is started.
    let what = what.read()?;
    in_runtime(async {
        let reach = Reach::open_lasting(global).await?;
        let outcome = within(&reach, global, what).await;
        reach.close().await;
        outcome
    })
}

impl ApprovalsArguments {
    /// Whether anything is to be read from standard input.
    pub fn reads_input(&self) -> bool {
        matches!(&self.action, Some(Action::Approve(how)) if how.reads_input())
    }

    /// The same with other arguments of a call in place, wherever they are to be read from.
    pub fn read(mut self) -> Result<Self, Failure> {
        if let Some(Action::Approve(how)) = &mut self.action {
            how.read()?;
        }
        Ok(self)
    }
}

impl ApproveArguments {
    /// Whether other arguments are to be read from standard input.
    pub fn reads_input(&self) -> bool {
        self.args.as_deref() == Some("-")
    }

    /// Reads other arguments of the call, wherever they are.
    pub fn read(&mut self) -> Result<(), Failure> {
        self.args = self.args.as_deref().map(call::read_arguments).transpose()?;
        Ok(())
    }
}

/// The same at a gateway that is open already, with arguments that were read.
pub async fn within(reach: &Reach, global: &Global, what: ApprovalsArguments) -> Outcome {
    match what.action.unwrap_or(Action::List(ListArguments::default())) {
        Action::List(filter) => list(reach, global, &filter).await,
        Action::Show { id } => show(reach, global, &id).await,
        Action::Approve(how) => approve(reach, global, &how).await,
        Action::Reject(how) => reject(reach, global, &how).await,
        Action::Consents => consents(reach, global).await,
        Action::Revoke { id } => revoke(reach, global, &id).await,
    }
}

async fn list(reach: &Reach, global: &Global, filter: &ListArguments) -> Outcome {
    let kind = if filter.steps { "plan" } else { "approval" };
    let mut path = format!("/approvals?kind={kind}&limit={}", filter.limit.unwrap_or(100));
    let state = filter.state.as_deref().or((!filter.all).then_some("pending"));
    if let Some(state) = state {
        path.push_str(&format!("&state={}", segment(state)));
    }
    let answer = reach.get(&path).await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let found = answer["approvals"].as_array().map(Vec::as_slice).unwrap_or_default();
    if found.is_empty() {
        let waits = state == Some("pending");
        render::print(if waits { "Nothing waits for an answer.\n" } else { "There are none.\n" });
    } else {
        render::print(&show::table(found));
    }
    if answer["next_before"].is_string() {
        render::complain(&format!("The newest {} are shown; there are more.\n", found.len()));
    }
    Ok(Exit::Ok)
}

async fn show(reach: &Reach, global: &Global, text: &str) -> Outcome {
    let id = id(reach, Among::Approvals, text).await?;
    let body = reach.fetch(&format!("/approvals/{id}")).await?;
    if global.json {
        // As the server gave it: numbers and order are its own.
        render::print_raw_json(&String::from_utf8_lossy(&body));
        return Ok(Exit::Ok);
    }
    render::print(&show::page(&read(&body)?));
    if let Ok(Some(result)) = read_ended(&body)?.result() {
        render::print("\n");
        call::print_result(result.get());
    }
    Ok(Exit::Ok)
}

/// Says yes to a held call and waits a while for what comes of it.
pub async fn approve(reach: &Reach, global: &Global, how: &ApproveArguments) -> Outcome {
    let id = id(reach, Among::Approvals, &how.id).await?;
    let held = reach.get(&format!("/approvals/{id}")).await?;
    if held["kind"] == "plan" {
        let step = held["plan"]["step"].as_u64().unwrap_or(0);
        let plan = short(&held["plan"]["id"]);
        let message = format!("held call {id} is step {step} of a plan, and steps run in order");
        let hint = format!("`toolbooth plan approve {step} --plan {plan}` runs it");
        return Err(Failure::misuse("usage.plan-step", message, Some(&hint)));
    }
    reach.connect(Wanted::One(held["server"].as_str().unwrap_or_default())).await;
    say_yes(reach, &id, how.args.as_deref(), how.remember).await?;
    // A gateway of the command's own runs the call itself, and ends with it.
    let at_most = matches!(reach, Reach::Running(_)).then_some(WAIT);
    let body = settled(reach, &id, at_most).await?;
    let ended = read_ended(&body)?;
    let failure = ended.result().err();
    if global.json {
        render::print_raw_json(&String::from_utf8_lossy(&body));
    } else {
        let name = held["name"].as_str().map(line).unwrap_or_default();
        let became = match (ended.state.as_str(), &failure) {
            ("approved", Some(failure)) if failure.trouble.code == "call.deferred" => "it waits",
            ("approved", _) => "it runs",
            (_, Some(failure)) if failure.exit == Exit::Held => "it was asked about again",
            ("done", _) => "it ran",
            _ => "it failed",
        };
        let end = short(&held["id"]);
        let more = format!("`toolbooth approvals show {end}` shows what came of it");
        render::print(&format!("Approved {name}: {became}. {more}.\n"));
    }
    match (ended.state.as_str(), failure) {
        ("failed", Some(failure)) if !global.json => Err(failure),
        ("failed", _) => Ok(Exit::Failed),
        _ => Ok(Exit::Ok),
    }
}

async fn say_yes(
    reach: &Reach,
    id: &str,
    given: Option<&str>,
    remember: Option<Span>,
) -> Result<(), Failure> {
    let mut members = Vec::new();
    // The arguments go on as they were written: their numbers are not ours.
    members.extend(given.map(|text| format!("\"arguments\":{text}")));
    members.extend(
        remember.and_then(|span| Some(format!("\"remember\":\"{}\"", span.to_possible_value()?.get_name()))),
    );
    let body = format!("{{{}}}", members.join(","));
    reach.post("approving", &format!("/approvals/{id}/approve"), Some(body.into())).await.map(drop)
}

/// Says yes to a held call, with other arguments where some are given.
pub async fn agree(reach: &Reach, id: &str, given: Option<&str>) -> Result<(), Failure> {
    say_yes(reach, id, given, None).await
}

/// Says no to a held call, as the gateway tells it.
pub async fn decline(reach: &Reach, id: &str, reason: Option<&str>) -> Result<Value, Failure> {
    let body = json!({ "reason": reason }).to_string();
    read(&reach.post("rejecting", &format!("/approvals/{id}/reject"), Some(body.into())).await?)
}

/// Says no to a held call.
pub async fn reject(reach: &Reach, global: &Global, how: &RejectArguments) -> Outcome {
    let id = id(reach, Among::Approvals, &how.id).await?;
    let held = decline(reach, &id, how.reason.as_deref()).await?;
    if global.json {
        render::print_json(&held);
    } else {
        let name = held["name"].as_str().map(line).unwrap_or_default();
        render::print(&format!("Rejected {name}. It is not run.\n"));
    }
    Ok(Exit::Ok)
}

async fn consents(reach: &Reach, global: &Global) -> Outcome {
    let answer = reach.get("/consents").await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let found = answer["consents"].as_array().map(Vec::as_slice).unwrap_or_default();
    match found.is_empty() {
        true => render::print("No approval is remembered.\n"),
        false => render::print(&show::consents(found)),
    }
    Ok(Exit::Ok)
}

async fn revoke(reach: &Reach, global: &Global, text: &str) -> Outcome {
    let id = id(reach, Among::Consents, text).await?;
    let revoked = reach.delete(&format!("/consents/{id}")).await?;
    if global.json {
        render::print_json(&revoked);
    } else {
        let text = |key: &str| revoked[key].as_str().map(line).unwrap_or_default();
        render::print(&format!(
            "{} of {} is asked about again from now on, for {}.\n",
            text("tool"),
            text("server"),
            text("user")
        ));
    }
    Ok(Exit::Ok)
}
