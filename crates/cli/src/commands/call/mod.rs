//! `toolbooth call`: one call, from the command line.

mod arguments;
mod asking;
mod result;
mod typed;

pub use arguments::read as read_arguments;
pub use typed::kind_of;

use super::{approvals, in_runtime, tools};
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::Reach;
use crate::remote::segment;
use crate::render;
use asking::Consent;
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
enum Came {
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
    let given = what.args.as_deref().map(arguments::read).transpose()?;
    let pairs = arguments::pairs(&what.pairs)?;
    in_runtime(async {
        // Plans, consents and the audit are in the store: without it a call could slip past them.
        let reach = Reach::open_lasting(global).await?;
        let outcome = call(&reach, what, given, &pairs).await;
        let forgotten = reach.forgets();
        reach.close().await;
        match outcome? {
            Came::Ran(answer) => finish(&answer, global),
            Came::Answered(held) => finish_answered(&held, global),
            Came::Held(held) if forgotten => Err(asking::forgotten(&held)),
            Came::Held(held) => Ok(held.print(global)),
        }
    })
}

async fn call(
    reach: &Reach,
    what: &CallArguments,
    given: Option<String>,
    pairs: &[(String, String)],
) -> Result<Came, Failure> {
    let name = &what.tool;
    let tool = tools::find(reach, name).await?;
    let exposed = tool["name"].as_str().unwrap_or(name);
    let arguments = match given {
        Some(text) => text,
        None => arguments::typed(exposed, &tool["parameters"], pairs)?,
    };
    let session = what.session.as_ref().map(|name| format!(",\"session\":{}", Value::from(name.as_str())));
    // Nobody waits for a person here: they are asked, or told the id.
    let body = format!("{{\"arguments\":{arguments},\"wait\":0{}}}", session.unwrap_or_default());
    let path = format!("/tools/{}/call", segment(exposed));
    let answer = reach.post(&format!("calling {exposed}"), &path, Some(body.into())).await?;
    match serde_json::from_slice::<asking::Held>(&answer) {
        Ok(held) => asking::settle(reach, held, if what.yes { Consent::Given } else { Consent::Asked }).await,
        Err(_) => Ok(Came::Ran(answer)),
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
    let Answer { result, warnings, provider, attempts } = serde_json::from_slice(answer).map_err(|_| {
        Failure::misuse("gateway.stranger", "what answered there is no Toolbooth gateway", None)
    })?;
    let said = [("provider", provider), ("attempts", attempts)];
    let said = said.into_iter().filter_map(|(key, value)| Some(format!(", \"{key}\": {}", value?.get())));
    tell(result, &warnings, &said.collect::<String>(), global)
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
