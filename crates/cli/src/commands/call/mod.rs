//! `toolbooth call`: one call, from the command line.

mod arguments;
mod asking;
mod result;
mod typed;

pub use arguments::read as read_arguments;
pub use asking::Consent;
pub use typed::kind_of;

use super::{approvals, in_runtime, tools};
use crate::arguments::Global;
use crate::desk::Desk;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::Reach;
use crate::remote::segment;
use crate::render;
use bytes::Bytes;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What to call.
#[derive(Debug, Args)]
#[command(after_help = "\
For example:
  toolbooth call demo_echo text='hello there'
  toolbooth call demo_slow --args '{\"milliseconds\": 200}'
  jq -n '{text: \"hi\"}' | toolbooth call demo_echo --args -")]
pub struct CallArguments {
    /// The tool, by the name `toolbooth tools list` shows.
    tool: String,
    /// Its arguments; numbers, booleans, lists and objects by the tool's own schema.
    #[arg(value_name = "KEY=VALUE", conflicts_with = "args")]
    pairs: Vec<String>,
    /// Its arguments as a JSON object: the text itself, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    args: Option<String>,
    /// The session it belongs to: what is remembered for a session, and plans of one, go by it.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Approve it yourself where a person is asked, without being asked here.
    #[arg(long, short)]
    yes: bool,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default, borrow)]
    provider: Option<&'a RawValue>,
    #[serde(default, borrow)]
    attempts: Option<&'a RawValue>,
}

/// What a call came to.
pub enum Came {
    /// It ran: the gateway's answer.
    Ran(Bytes),
    /// It was held and then answered: the held call, over.
    Answered(Bytes),
    /// It is still held.
    Held(asking::Held),
}

/// Runs `toolbooth call`.
pub fn run(global: &Global, what: &CallArguments) -> Outcome {
    // What can be refused without a gateway is refused before one is started.
    let given = what.given()?;
    in_runtime(async {
        // Plans, consents and the audit are in the store: without it a call could slip past them.
        let reach = Reach::open_lasting(global).await?;
        let outcome = call(&reach, what, given, &Desk::here()).await;
        let forgotten = reach.forgets();
        reach.close().await;
        tell_all(outcome?, global, forgotten.then_some(Forgetful))
    })
}

/// The same at a gateway that is open already; `desk` is where a person is asked.
pub async fn within(reach: &Reach, global: &Global, what: &CallArguments, desk: &Desk) -> Outcome {
    let came = call(reach, what, what.given()?, desk).await?;
    tell_all(came, global, reach.forgets().then_some(Forgetful))
}

/// A gateway that keeps nothing.
struct Forgetful;

fn tell_all(came: Came, global: &Global, gateway: Option<Forgetful>) -> Outcome {
    match (came, gateway) {
        (Came::Ran(answer), _) => finish(&answer, global),
        (Came::Answered(held), _) => finish_answered(&held, global),
        (Came::Held(held), Some(Forgetful)) => Err(asking::forgotten(&held)),
        (Came::Held(held), None) => Ok(held.print(global)),
    }
}

/// Arguments as they were given.
enum Given {
    /// A JSON object.
    Object(String),
    /// Keys and values, whose types the tool's schema tells.
    Pairs(Vec<(String, String)>),
}

impl CallArguments {
    /// A call with a JSON object.
    pub fn of_object(tool: &str, args: String) -> Self {
        Self { tool: tool.to_owned(), pairs: Vec::new(), args: Some(args), session: None, yes: false }
    }

    /// The session it belongs to, where it names none itself.
    pub fn session_or(mut self, session: Option<&str>) -> Self {
        self.session = self.session.or_else(|| session.map(str::to_owned));
        self
    }

    /// Whether its arguments are to be read from standard input.
    pub fn reads_input(&self) -> bool {
        self.args.as_deref() == Some("-")
    }

    fn given(&self) -> Result<Given, Failure> {
        match self.args.as_deref() {
            Some(text) => arguments::read(text).map(Given::Object),
            None => arguments::pairs(&self.pairs).map(Given::Pairs),
        }
    }
}

async fn call(reach: &Reach, what: &CallArguments, given: Given, desk: &Desk) -> Result<Came, Failure> {
    let name = &what.tool;
    let tool = tools::find(reach, name).await?;
    let exposed = tool["name"].as_str().unwrap_or(name);
    let arguments = match given {
        Given::Object(text) => text,
        Given::Pairs(pairs) => arguments::typed(exposed, &tool["parameters"], &pairs)?,
    };
    let consent = if what.yes { Consent::Given(desk) } else { Consent::Asked(desk) };
    make(reach, exposed, &arguments, what.session.as_deref(), consent).await
}

/// Makes a call by the tool's exposed name; who has to agree to it is asked.
pub async fn make(
    reach: &Reach,
    exposed: &str,
    arguments: &str,
    session: Option<&str>,
    consent: Consent<'_>,
) -> Result<Came, Failure> {
    let session = session.map(|name| format!(",\"session\":{}", Value::from(name)));
    // Nobody waits for a person here: they are asked, or told the id.
    let body = format!("{{\"arguments\":{arguments},\"wait\":0{}}}", session.unwrap_or_default());
    let path = format!("/tools/{}/call", segment(exposed));
    let answer = reach.post(&format!("calling {exposed}"), &path, Some(body.into())).await?;
    match serde_json::from_slice::<asking::Held>(&answer) {
        Ok(held) => asking::settle(reach, held, consent).await,
        Err(_) => Ok(Came::Ran(answer)),
    }
}

/// What a call came to, for somebody who reads it as text.
pub enum Heard {
    /// It ran.
    Result {
        /// What the tool said.
        text: String,
        /// Whether it says that it failed.
        is_error: bool,
    },
    /// It waits for a person, or is a step of a plan.
    Held {
        /// The held call.
        id: String,
        /// What to do about it.
        message: String,
    },
}

/// A call's end as text.
pub fn heard(came: Came) -> Result<Heard, Failure> {
    let result = |raw: &RawValue, before: &str| {
        let read = result::Read::of(raw.get());
        Heard::Result { text: format!("{before}{}", read.text()), is_error: read.is_error }
    };
    match came {
        Came::Held(held) => Ok(Heard::Held { id: held.held, message: held.message }),
        Came::Ran(answer) => {
            let Answer { result: raw, warnings, .. } = answer_in(&answer)?;
            let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
            Ok(result(raw, &warnings))
        }
        Came::Answered(held) => {
            let ended = approvals::read_ended(&held)?;
            let edited = ended
                .edited
                .map(|arguments| format!("(a person changed the arguments to {})\n", arguments.get()));
            match ended.result()? {
                Some(raw) => Ok(result(raw, &edited.unwrap_or_default())),
                None => Ok(Heard::Result {
                    text: "It ran; its result was too long to keep.".to_owned(),
                    is_error: false,
                }),
            }
        }
    }
}

/// A held call that is over is told like any other.
fn finish_answered(held: &Bytes, global: &Global) -> Outcome {
    let ended = approvals::read_ended(held)?;
    let edited = ended
        .edited
        .map(|arguments| format!("the arguments were changed on approval, to {}", arguments.get()));
    match ended.result()? {
        Some(result) => tell(result, &edited.into_iter().collect::<Vec<_>>(), "", global),
        None => {
            render::complain("It ran; its result was too long to keep.\n");
            Ok(Exit::Ok)
        }
    }
}

/// Prints a result for people.
pub fn print_result(result: &str) {
    result::Read::of(result).print();
}

fn finish(answer: &Bytes, global: &Global) -> Outcome {
    let Answer { result, warnings, provider, attempts } = answer_in(answer)?;
    let said = [("provider", provider), ("attempts", attempts)];
    let said = said.into_iter().filter_map(|(key, value)| Some(format!(", \"{key}\": {}", value?.get())));
    tell(result, &warnings, &said.collect::<String>(), global)
}

fn answer_in(body: &Bytes) -> Result<Answer<'_>, Failure> {
    serde_json::from_slice(body)
        .map_err(|_| Failure::misuse("gateway.stranger", "what answered there is no Toolbooth gateway", None))
}

/// `said` is what a program is told besides, as members of an object.
fn tell(result: &RawValue, warnings: &[String], said: &str, global: &Global) -> Outcome {
    let read = result::Read::of(result.get());
    if global.json {
        // As the server gave it: numbers and order are its own.
        let warned = match warnings.is_empty() {
            true => String::new(),
            false => format!(", \"warnings\": {}", serde_json::json!(warnings)),
        };
        render::print_raw_json(&format!("{{\"result\": {}{warned}{said}}}", result.get()));
    } else {
        for warning in warnings {
            render::complain(&format!("warning: {}\n", render::line(warning)));
        }
        read.print();
    }
    Ok(if read.is_error { Exit::Failed } else { Exit::Ok })
}
