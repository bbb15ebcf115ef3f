//! `toolbooth call`: one call, from the command line.

mod arguments;
mod result;
mod typed;

pub use typed::kind_of;

use super::{in_runtime, tools};
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::Reach;
use crate::remote::segment;
use crate::render;
use bytes::Bytes;
use clap::Args;
use serde::Deserialize;
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
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
    #[serde(default)]
    warnings: Vec<String>,
}

/// Runs `toolbooth call`.
pub fn run(global: &Global, what: &CallArguments) -> Outcome {
    // What can be refused without a gateway is refused before one is started.
    let given = what.args.as_deref().map(arguments::read).transpose()?;
    let pairs = arguments::pairs(&what.pairs)?;
    in_runtime(async {
        let reach = Reach::open(global).await?;
        let outcome = call(&reach, &what.tool, given, &pairs).await;
        reach.close().await;
        finish(&outcome?, global)
    })
}

async fn call(
    reach: &Reach,
    name: &str,
    given: Option<String>,
    pairs: &[(String, String)],
) -> Result<Bytes, Failure> {
    let tool = tools::find(reach, name).await?;
    let exposed = tool["name"].as_str().unwrap_or(name);
    let arguments = match given {
        Some(text) => text,
        None => arguments::typed(exposed, &tool["parameters"], pairs)?,
    };
    let body = format!("{{\"arguments\":{arguments}}}");
    let path = format!("/tools/{}/call", segment(exposed));
    reach.post(&format!("calling {exposed}"), &path, Some(body.into())).await
}

fn finish(answer: &Bytes, global: &Global) -> Outcome {
    let Answer { result, warnings } = serde_json::from_slice(answer).map_err(|_| {
        Failure::misuse("gateway.stranger", "what answered there is no Toolbooth gateway", None)
    })?;
    let read = result::Read::of(result.get());
    if global.json {
        // As the server gave it: numbers and order are its own.
        let warned = match warnings.is_empty() {
            true => String::new(),
            false => format!(", \"warnings\": {}", serde_json::json!(warnings)),
        };
        render::print_raw_json(&format!("{{\"result\": {}{warned}}}", result.get()));
    } else {
        for warning in &warnings {
            render::complain(&format!("warning: {}\n", render::line(warning)));
        }
        read.print();
    }
    Ok(if read.is_error { Exit::Failed } else { Exit::Ok })
}
