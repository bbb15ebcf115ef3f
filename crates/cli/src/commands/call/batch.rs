//! `toolbooth call --batch`: several calls from a file, one after the other.

use super::super::call_arguments::read_source;
use super::super::call_result::ToolResultText;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone, line};
use serde_json::Value;

/// The maximum number of calls, as the gateway limits it.
const MAX_BATCH: usize = 100;

/// The calls of a batch.
pub struct BatchInput {
    /// The body of the request.
    body: String,
    /// The name of each call's tool.
    tools: Vec<String>,
}

/// Reads a file of calls: a list, `{"calls": [...]}`, or one object on each line.
pub fn read_calls(path: &str) -> Result<BatchInput, CommandFailure> {
    parse(&read_source(path)?, path)
}

fn parse(text: &str, path: &str) -> Result<BatchInput, CommandFailure> {
    let wrong = |why: String| {
        let hint = "write one {\"tool\": \"demo_echo\", \"arguments\": {…}} on each line, or a list of them";
        CommandFailure::misuse("usage.batch", format!("`{path}` is not a batch of calls: {why}"), Some(hint))
    };
    let calls = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(calls)) => calls,
        Ok(Value::Object(mut whole)) => match whole.remove("calls") {
            Some(Value::Array(calls)) => calls,
            Some(_) => return Err(wrong("`calls` is not a list".into())),
            None => vec![Value::Object(whole)],
        },
        Ok(_) => return Err(wrong("it is neither a list nor an object".into())),
        Err(_) => {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let calls = lines.map(|(at, line)| {
                serde_json::from_str(line).map_err(|error| wrong(format!("line {}: {error}", at + 1)))
            });
            calls.collect::<Result<Vec<Value>, _>>()?
        }
    };
    if calls.len() > MAX_BATCH {
        return Err(wrong(format!("it has {} calls; {MAX_BATCH} are allowed", calls.len())));
    }
    let tools = calls.iter().enumerate().map(|(at, call)| match call["tool"].as_str() {
        Some(tool) => Ok(tool.to_owned()),
        None => Err(wrong(format!("call {} has no `tool`", at + 1))),
    });
    let tools = tools.collect::<Result<Vec<String>, _>>()?;
    Ok(BatchInput { body: serde_json::json!({ "calls": calls }).to_string(), tools })
}

/// Makes the calls and prints their outcomes.
pub async fn make(gateway: &GatewayHandle, global: &GlobalOptions, input: BatchInput) -> CommandResult {
    let what = format!("making {}", render::count(input.tools.len(), "call"));
    let answer = gateway.post(&what, "/calls/batch", Some(input.body.into())).await?;
    let outcomes = read(&answer)?;
    let outcomes = outcomes["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    if global.json {
        render::print_raw_json(&String::from_utf8_lossy(&answer));
    } else {
        for (at, (tool, outcome)) in input.tools.iter().zip(outcomes).enumerate() {
            print(at + 1, tool, outcome);
        }
    }
    Ok(outcomes.iter().map(exit_of).fold(Exit::Ok, worse))
}

fn exit_of(outcome: &Value) -> Exit {
    match outcome {
        outcome if outcome["held"].is_string() => Exit::Held,
        outcome if outcome["problem"].is_object() || outcome["result"]["isError"] == true => Exit::Failed,
        _ => Exit::Ok,
    }
}

/// The exit code of a batch: 1 if a call failed, else 4 if one is held.
fn worse(one: Exit, other: Exit) -> Exit {
    match (one, other) {
        (Exit::Failed, _) | (_, Exit::Failed) => Exit::Failed,
        (Exit::Held, _) | (_, Exit::Held) => Exit::Held,
        _ => Exit::Ok,
    }
}

fn print(number: usize, tool: &str, outcome: &Value) {
    let head = Paint::stdout().tone(Tone::Strong, &format!("{number}. {}", line(tool)));
    render::print(&format!("{head}\n"));
    if let Some(held) = outcome["held"].as_str() {
        let message = outcome["message"].as_str().map(line).unwrap_or_default();
        render::print(&format!("held as {}: {message}\n", line(held)));
    } else if outcome["problem"].is_object() {
        let problem = &outcome["problem"];
        let text = |key: &str| problem[key].as_str().map(line).unwrap_or_default();
        render::complain(&format!("error[{}]: {}\n", text("code"), text("title")));
    } else {
        ToolResultText::of(&outcome["result"].to_string()).print();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_list_an_object_or_lines() {
        let call = r#"{"tool": "demo_echo", "arguments": {"text": "hi"}}"#;
        let texts = [
            format!("[{call},{call}]"),
            format!("{{\"calls\": [{call}, {call}]}}"),
            format!("{call}\n\n{call}\n"),
        ];
        for text in texts {
            let input = parse(&text, "calls.jsonl").unwrap_or_else(|failure| panic!("{text}: {failure:?}"));
            assert_eq!(input.tools, ["demo_echo", "demo_echo"], "{text}");
        }
        assert_eq!(parse(call, "one.json").map(|input| input.tools.len()).ok(), Some(1));
    }

    #[test]
    fn a_bad_batch_is_refused_with_its_place() {
        let many = format!("[{}]", vec![r#"{"tool":"t"}"#; 101].join(","));
        let cases = [
            ("[{\"tool\": 1}]", "call 1 has no `tool`"),
            ("{\"tool\": \"t\"}\n{oops\n", "line 2"),
            ("7", "neither"),
            ("{\"calls\": 7}", "not a list"),
            (many.as_str(), "100 are allowed"),
        ];
        for (text, expected) in cases {
            let failure = parse(text, "calls.json").err().expect("refused");
            assert_eq!((failure.exit, &*failure.fault.code), (Exit::Usage, "usage.batch"), "{text}");
            assert!(failure.fault.message.contains(expected), "{text}: {failure:?}");
        }
    }

    #[test]
    fn a_failed_call_decides_the_exit_code() {
        let cases = [
            (vec![Exit::Ok, Exit::Ok], Exit::Ok),
            (vec![Exit::Held, Exit::Ok], Exit::Held),
            (vec![Exit::Held, Exit::Failed, Exit::Ok], Exit::Failed),
        ];
        for (outcomes, expected) in cases {
            assert_eq!(outcomes.into_iter().fold(Exit::Ok, worse), expected);
        }
    }
}
