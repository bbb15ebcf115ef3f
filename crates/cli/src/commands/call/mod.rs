//! `toolbooth call`: calls a tool from the command line.

mod approval_prompt;
mod asked_question;
mod batch;
mod last_output;
mod page_prompt;
mod progress;
mod question_prompt;
mod sampling_prompt;

pub use approval_prompt::CallerConsent;

use super::call_result::ToolResultText;
use super::{approvals, call_arguments, in_runtime, job_views, on_gateway, tools, warn_if_not_running};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::prompter::Prompter;
use crate::remote_gateway::segment;
use crate::render::{self, Paint};
use asked_question::AskedQuestion;
use bytes::Bytes;
use clap::Args;
use question_prompt::QuestionReply;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;

/// Arguments of `toolbooth call`.
#[derive(Debug, Args)]
#[command(after_help = "\
For example:
  toolbooth call demo_echo text='hello there'
  toolbooth call demo_slow --args '{\"milliseconds\": 200}'
  jq -n '{text: \"hi\"}' | toolbooth call demo_echo --args -
  toolbooth call --batch calls.jsonl")]
pub struct CallArguments {
    /// Name of the tool, as `toolbooth tools list` shows it.
    #[arg(required_unless_present = "batch")]
    tool: Option<String>,
    /// Arguments; the tool's schema sets their types.
    #[arg(value_name = "KEY=VALUE", conflicts_with = "args")]
    pairs: Vec<String>,
    /// Arguments as JSON, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    args: Option<String>,
    /// Session of the call, for remembered approvals and plans of a session.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Approve the call yourself, without a prompt, if it needs your approval.
    #[arg(long, short)]
    yes: bool,
    /// Deadline of the call, such as 500ms, 5s or 2m, instead of the tool's own.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout, conflicts_with = "batch")]
    timeout: Option<Duration>,
    /// Answer a question of the tool's server; repeat it for each field.
    #[arg(long = "answer", value_name = "KEY=VALUE", conflicts_with = "batch")]
    answers: Vec<String>,
    /// Make the calls in a file, one after the other: one {"tool", "arguments"} on each line, or a list; - for standard
    /// input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tool", "pairs", "args", "session", "yes"])]
    batch: Option<String>,
}

/// Parses a deadline.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number followed by ms, s, m or h, such as 5s".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let milliseconds = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let milliseconds = number.checked_mul(milliseconds).filter(|milliseconds| *milliseconds > 0);
    milliseconds.map(Duration::from_millis).ok_or_else(wrong)
}

/// Options of a call besides its arguments.
#[derive(Debug, Default)]
pub struct CallOptions<'a> {
    /// Session of the call.
    pub session: Option<&'a str>,
    /// Deadline of the call.
    pub timeout: Option<Duration>,
    /// Answers to questions of the tool's server.
    pub answers: Vec<(String, String)>,
    /// Whether progress is shown on standard error.
    pub shows_progress: bool,
}

#[derive(Deserialize)]
struct CallAnswer<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default, borrow)]
    provider: Option<&'a RawValue>,
    #[serde(default, borrow)]
    attempts: Option<&'a RawValue>,
}

/// The outcome of a call.
pub enum CallResponse {
    /// It ran; the gateway's answer.
    Ran(Bytes),
    /// It was held and then decided; the held call with its outcome.
    Answered(Bytes),
    /// It is still held.
    Held(approval_prompt::HeldAnswer),
    /// Its server asks a question, and no person can be asked.
    Asked(AskedQuestion),
}

/// Runs `toolbooth call`.
pub fn run(global: &GlobalOptions, what: &CallArguments) -> CommandResult {
    // Invalid arguments are refused before a gateway is started.
    if let Some(file) = &what.batch {
        let input = batch::read_calls(file)?;
        return on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
            batch::make(gateway, global, input).await
        });
    }
    let input = what.input()?;
    in_runtime(async {
        // Plans, consents and the audit are in the store: without it a call could bypass them.
        let gateway = GatewayHandle::open_persistent(global).await?;
        let outcome = call(&gateway, global, what, input, &Prompter::here()).await;
        let not_stored = gateway.has_temporary_store();
        gateway.close().await;
        print_response(outcome?, global, not_stored.then_some(TemporaryStore))
    })
}

/// Runs the command on an open gateway; `prompter` asks the caller for approval.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    what: &CallArguments,
    prompter: &Prompter,
) -> CommandResult {
    if let Some(file) = &what.batch {
        return batch::make(gateway, global, batch::read_calls(file)?).await;
    }
    let response = call(gateway, global, what, what.input()?, prompter).await?;
    print_response(response, global, gateway.has_temporary_store().then_some(TemporaryStore))
}

/// Runs the plan of a skill by calling its tool. A run that waits for a person has the exit code of a held call.
pub async fn run_skill(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    what: &CallArguments,
    skill: &Value,
    prompter: &Prompter,
) -> CommandResult {
    let response = call(gateway, global, what, what.input()?, prompter).await?;
    let report = run_report(&response);
    let is_held = report.as_ref().is_some_and(|report| report["state"] == "held");
    let exit = match report.filter(|_| !global.json) {
        Some(report) => {
            if let CallResponse::Ran(answer) = &response {
                for warning in &answer_in(answer)?.warnings {
                    render::complain(&format!("warning: {}\n", render::line(warning)));
                }
            }
            render::print(&job_views::run_page(&run_of(&report, skill)));
            if report["state"] == "failed" { Exit::Failed } else { Exit::Ok }
        }
        None => print_response(response, global, gateway.has_temporary_store().then_some(TemporaryStore))?,
    };
    if is_held {
        warn_if_not_running(gateway, "the run does not continue");
    }
    Ok(if is_held && exit == Exit::Ok { Exit::Held } else { exit })
}

/// The run of a skill as `toolbooth skills runs` gets it, from the report in the result of the skill's tool.
fn run_of(report: &Value, skill: &Value) -> Value {
    let plan = &skill["plan"];
    let planned = plan.as_array().or_else(|| plan["steps"].as_array()).map(Vec::as_slice).unwrap_or_default();
    let tool = |id: &str| {
        let step = planned.iter().enumerate().find(|(number, step)| match step["id"].as_str() {
            Some(known) => known == id,
            None => format!("step{}", number + 1) == id,
        });
        step.map_or(Value::Null, |(_, step)| step["tool"].clone())
    };
    let steps = report["steps"].as_object().into_iter().flatten().map(|(id, record)| {
        json!({
            "id": id, "tool": tool(id), "status": record["state"], "held": record["held"],
            "results": record["results"], "error": record["error"],
        })
    });
    let steps: Vec<Value> = steps.collect();
    json!({ "id": report["run"], "skill": report["skill"], "status": report["state"], "steps": steps })
}

/// The report of a skill's run in the result of its tool.
fn run_report(response: &CallResponse) -> Option<Value> {
    let result = match response {
        CallResponse::Ran(answer) => answer_in(answer).ok().map(|answer| answer.result),
        CallResponse::Answered(held) => {
            approvals::read_status(held).ok().and_then(|ended| ended.result().ok().flatten())
        }
        CallResponse::Held(_) | CallResponse::Asked(_) => None,
    };
    let mut result: Value = serde_json::from_str(result?.get()).ok()?;
    let report = result.get_mut("structuredContent").map(Value::take)?;
    report["state"].is_string().then_some(report)
}

/// Marks a gateway whose store is temporary.
struct TemporaryStore;

fn print_response(
    response: CallResponse,
    global: &GlobalOptions,
    gateway: Option<TemporaryStore>,
) -> CommandResult {
    match (response, gateway) {
        (CallResponse::Ran(answer), _) => finish(&answer, global),
        (CallResponse::Answered(held), _) => finish_answered(&held, global),
        (CallResponse::Held(held), Some(TemporaryStore)) => Err(approval_prompt::not_stored(&held)),
        (CallResponse::Held(held), None) => Ok(held.print(global)),
        (CallResponse::Asked(asked), _) => Ok(asked.print(global)),
    }
}

/// The arguments as given on the command line.
enum CallInput {
    /// A JSON object.
    Object(String),
    /// Keys and values; the tool's schema determines their types.
    Pairs(Vec<(String, String)>),
}

impl CallArguments {
    /// A call with a JSON object as arguments.
    pub fn of_object(tool: &str, args: String) -> Self {
        Self {
            tool: Some(tool.to_owned()),
            pairs: Vec::new(),
            args: Some(args),
            session: None,
            yes: false,
            timeout: None,
            answers: Vec::new(),
            batch: None,
        }
    }

    /// A call with arguments as they are written on the command line.
    pub fn of_words(tool: String, pairs: Vec<String>, args: Option<String>) -> Self {
        Self { tool: Some(tool), pairs, args, ..Self::of_object("", String::new()) }
    }

    /// Sets the session if the arguments have none.
    pub fn session_or(mut self, session: Option<&str>) -> Self {
        self.session = self.session.or_else(|| session.map(str::to_owned));
        self
    }

    /// Whether the arguments come from standard input.
    pub fn reads_input(&self) -> bool {
        self.args.as_deref() == Some("-") || self.batch.as_deref() == Some("-")
    }

    fn input(&self) -> Result<CallInput, CommandFailure> {
        match self.args.as_deref() {
            Some(text) => call_arguments::read(text).map(CallInput::Object),
            None => call_arguments::pairs(&self.pairs).map(CallInput::Pairs),
        }
    }
}

async fn call(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    what: &CallArguments,
    input: CallInput,
    prompter: &Prompter,
) -> Result<CallResponse, CommandFailure> {
    let name = what.tool.as_deref().unwrap_or_default();
    let answers = call_arguments::pairs(&what.answers)?;
    let tool = tools::find(gateway, name).await?;
    let exposed = tool["name"].as_str().unwrap_or(name);
    let arguments = match input {
        CallInput::Object(text) => text,
        CallInput::Pairs(pairs) => call_arguments::typed(exposed, &tool["parameters"], &pairs)?,
    };
    let consent = if what.yes { CallerConsent::Given(prompter) } else { CallerConsent::Asked(prompter) };
    let session = what.session.as_deref();
    let options = CallOptions { session, timeout: what.timeout, answers, shows_progress: !global.json };
    match make_with(gateway, exposed, &arguments, &options, consent).await {
        Err(failure) => Err(last_output::with_last_output(gateway, failure).await),
        made => made,
    }
}

/// Makes a call by the tool's exposed name, and asks the caller if it needs approval.
pub async fn make(
    gateway: &GatewayHandle,
    exposed: &str,
    arguments: &str,
    session: Option<&str>,
    consent: CallerConsent<'_>,
) -> Result<CallResponse, CommandFailure> {
    let options = CallOptions { session, ..CallOptions::default() };
    make_with(gateway, exposed, arguments, &options, consent).await
}

/// The same with further options. Asks the caller the questions of the tool's server, too.
async fn make_with(
    gateway: &GatewayHandle,
    exposed: &str,
    arguments: &str,
    options: &CallOptions<'_>,
    consent: CallerConsent<'_>,
) -> Result<CallResponse, CommandFailure> {
    let session = options.session.map(|name| format!(",\"session\":{}", Value::from(name)));
    let timeout = options.timeout.map(|timeout| format!(",\"timeout_ms\":{}", timeout.as_millis()));
    let more = [session, timeout].into_iter().flatten().collect::<String>();
    // The gateway must not wait for approval: the caller is asked here, or gets the id.
    let body = |sampling: &str| format!("{{\"arguments\":{arguments},\"wait\":0{more}{sampling}}}");
    let what = format!("calling {exposed}");
    let (CallerConsent::Given(prompter) | CallerConsent::Asked(prompter)) = consent;
    let mut answer = match prompter.is_attended() {
        // Only a person answers in place of a language model.
        true => match post_call(gateway, exposed, body(",\"sampling\":true"), options).await {
            // A gateway of an earlier version does not know the member, and did not make the call.
            Err(failure) if refuses_sampling(&failure) => {
                post_call(gateway, exposed, body(""), options).await?
            }
            posted => posted?,
        },
        false => post_call(gateway, exposed, body(""), options).await?,
    };
    while let Ok(asked) = serde_json::from_slice::<AskedQuestion>(&answer) {
        let path = format!("/calls/{}/answer", segment(&asked.call));
        let reply = match question_prompt::reply(gateway, &asked, &options.answers, prompter).await {
            Ok(QuestionReply::Send(reply)) => gateway.post(&what, &path, Some(reply.into())).await,
            Ok(QuestionReply::Unanswered) => return Ok(CallResponse::Asked(asked)),
            Err(failure) => Err(failure),
        };
        answer = match reply {
            Ok(next) => next,
            Err(failure) if failure.fault.code == "call.bad-answer" && options.answers.is_empty() => {
                // The same question is asked again.
                render::complain(&render::failure(&failure, Paint::stderr()));
                continue;
            }
            Err(failure) => {
                // The server does not wait for an answer that will not come. The failure is what matters to the user.
                let _ = gateway.post(&what, &path, Some(asked_question::dismissal().into())).await;
                return Err(failure);
            }
        };
    }
    match serde_json::from_slice::<approval_prompt::HeldAnswer>(&answer) {
        Ok(held) => approval_prompt::settle(gateway, held, consent).await,
        Err(_) => Ok(CallResponse::Ran(answer)),
    }
}

/// Sends the request of a call.
async fn post_call(
    gateway: &GatewayHandle,
    exposed: &str,
    body: String,
    options: &CallOptions<'_>,
) -> Result<Bytes, CommandFailure> {
    let path = format!("/tools/{}/call", segment(exposed));
    match options.shows_progress {
        true => progress::post(gateway, exposed, &path, body.into()).await,
        false => gateway.post(&format!("calling {exposed}"), &path, Some(body.into())).await,
    }
}

/// Whether a gateway refused the request because it does not know `sampling`.
fn refuses_sampling(failure: &CommandFailure) -> bool {
    failure.fault.code == "request.bad-body" && failure.fault.message.contains("`sampling`")
}

/// The outcome of a call as text.
pub enum CallText {
    /// It ran.
    Result {
        /// Text of the result.
        text: String,
        /// Whether the tool reports an error.
        is_error: bool,
    },
    /// It waits for approval, or is a step of a plan.
    Held {
        /// Id of the held call.
        id: String,
        /// Next steps, for the user.
        message: String,
    },
}

/// Converts the outcome of a call to text.
pub fn as_text(response: CallResponse) -> Result<CallText, CommandFailure> {
    let result = |raw: &RawValue, before: &str| {
        let read = ToolResultText::of(raw.get());
        CallText::Result { text: format!("{before}{}", read.text()), is_error: read.is_error }
    };
    match response {
        CallResponse::Held(held) => Ok(CallText::Held { id: held.held, message: held.message }),
        CallResponse::Asked(asked) => Ok(CallText::Held { message: asked.summary(), id: asked.call }),
        CallResponse::Ran(answer) => {
            let CallAnswer { result: raw, warnings, .. } = answer_in(&answer)?;
            let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
            Ok(result(raw, &warnings))
        }
        CallResponse::Answered(held) => {
            let ended = approvals::read_status(&held)?;
            let edited = ended
                .edited
                .map(|arguments| format!("(a person changed the arguments to {})\n", arguments.get()));
            match ended.result()? {
                Some(raw) => Ok(result(raw, &edited.unwrap_or_default())),
                None => Ok(CallText::Result {
                    text: "The call ran; its result was too long to store.".to_owned(),
                    is_error: false,
                }),
            }
        }
    }
}

/// Prints the result of a held call like that of any other call.
fn finish_answered(held: &Bytes, global: &GlobalOptions) -> CommandResult {
    let ended = approvals::read_status(held)?;
    let edited = ended
        .edited
        .map(|arguments| format!("the arguments were changed on approval, to {}", arguments.get()));
    match ended.result()? {
        Some(result) => print_answer(result, &edited.into_iter().collect::<Vec<_>>(), "", global),
        None => {
            render::complain("The call ran; its result was too long to store.\n");
            Ok(Exit::Ok)
        }
    }
}

fn finish(answer: &Bytes, global: &GlobalOptions) -> CommandResult {
    let CallAnswer { result, warnings, provider, attempts } = answer_in(answer)?;
    let members = [("provider", provider), ("attempts", attempts)];
    let members =
        members.into_iter().filter_map(|(key, value)| Some(format!(", \"{key}\": {}", value?.get())));
    print_answer(result, &warnings, &members.collect::<String>(), global)
}

fn answer_in(body: &Bytes) -> Result<CallAnswer<'_>, CommandFailure> {
    serde_json::from_slice(body).map_err(|_| {
        CommandFailure::misuse("gateway.stranger", "the answer is not from a Toolbooth gateway", None)
    })
}

/// Prints a result. `members` are more members of the JSON output.
fn print_answer(
    result: &RawValue,
    warnings: &[String],
    members: &str,
    global: &GlobalOptions,
) -> CommandResult {
    let read = ToolResultText::of(result.get());
    if global.json {
        // Unchanged, to keep the server's number format and member order.
        let warned = match warnings.is_empty() {
            true => String::new(),
            false => format!(", \"warnings\": {}", serde_json::json!(warnings)),
        };
        render::print_raw_json(&format!("{{\"result\": {}{warned}{members}}}", result.get()));
    } else {
        for warning in warnings {
            render::complain(&format!("warning: {}\n", render::line(warning)));
        }
        read.print();
    }
    Ok(if read.is_error { Exit::Failed } else { Exit::Ok })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_skill_is_held_if_its_result_says_so() {
        for (state, expected) in [("held", true), ("succeeded", false), ("failed", false)] {
            let answer =
                format!(r#"{{"result":{{"content":[],"structuredContent":{{"state":"{state}"}}}}}}"#);
            let report = run_report(&CallResponse::Ran(answer.into())).expect("a report");
            assert_eq!(report["state"] == "held", expected, "{state}");
        }
    }

    #[test]
    fn the_run_of_a_skill_is_shown_like_any_other_run() {
        let report = json!({
            "skill": "brief", "run": "0199", "state": "held",
            "steps": {
                "read": {"state": "succeeded", "results": {"pages": 3}},
                "step2": {"state": "held", "held": "0198"},
            },
        });
        let skill = json!({"plan": [{"id": "read", "tool": "demo_read"}, {"tool": "notes_write"}]});
        let shown = job_views::run_page(&run_of(&report, &skill));
        let parts = [
            "Run 0199 of brief is held.",
            "  succeeded  read  demo_read\n",
            "\"pages\": 3",
            "  held  step2  notes_write: waits for approval as 0198; `toolbooth approvals approve 0198`",
        ];
        for part in parts {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
    }

    #[test]
    fn a_deadline_has_a_unit() {
        let cases = [
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0s", None),
            ("5", None),
            ("5d", None),
            ("-5s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_timeout(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }
}
