//! `planner`: plans a task with the tools that the caller may use.
//!
//! The plan is data, not a script: steps with a tool and its arguments, each held against the catalog before
//! anybody sees it. What is wrong goes back to the model once. The script is only a way to write a plan down.

mod catalog;
mod plan;
mod script;

use super::conversation::{Answered, Call, Reply, Sampling, Server};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::Known;
use plan::Plan;
use script::Options;
use serde_json::{Value, json};

/// The longest task.
const LONGEST_TASK: usize = 8_000;
/// The longest answer of a model that is read.
const LONGEST_ANSWER: usize = 100_000;
/// How many tokens a model may answer with.
const MAX_TOKENS: u32 = 8_000;

const RULES: &str = "You plan work that is done by calling tools. Answer with one JSON object and nothing else: \
{\"steps\": [{\"tool\": NAME, \"arguments\": OBJECT, \"why\": SENTENCE}]}. Use only tools from the list, by their \
exact names, with arguments that fit their parameters. Steps run in order, each on its own: a step cannot use the \
result of another. At most 50 steps.";

/// The server.
#[derive(Debug)]
pub(super) struct Planner;

#[async_trait]
impl Server for Planner {
    fn name(&self) -> &'static str {
        "planner"
    }

    fn tools(&self) -> Value {
        let file =
            |what: &str| json!({"type": "string", "maxLength": script::LONGEST_OPTION, "description": what});
        json!([
            {"name": "plan_task",
             "description": "Plans a task with the tools you may use, checks the plan against them, and writes it as a bash script. Runs nothing. Without a model it lists the tools instead.",
             "annotations": {"readOnlyHint": true},
             "inputSchema": {"type": "object", "properties": {
                "task": {"type": "string", "minLength": 1, "maxLength": LONGEST_TASK, "description": "What is to be done."},
                "env_file": file("A file of variables for the script's calls (--env-file)."),
                "config_overrides": file("A folder of configuration for the script's calls (--config-overrides)."),
                "llm_config": file("A file about the language model for the script's calls (--llm-config)."),
                "mcp_config": file("A file of servers for the script's calls (--mcp-config)."),
                "_mcp_data": {"type": "object", "description": "The tools; supplied by the gateway."}},
                "required": ["task"]}},
        ])
    }

    async fn call(&self, call: Call) -> Option<Reply> {
        (call.tool == "plan_task").then(|| plan_task(&call).unwrap_or_else(|refused| refused))
    }
}

fn plan_task(call: &Call) -> Result<Reply, Reply> {
    let task: String = call.text("task")?.chars().take(LONGEST_TASK).collect();
    let options = Options::read(&call.arguments).map_err(|why| Reply::failed(&why))?;
    let known = Known::read(&call.arguments["_mcp_data"]);
    match (&call.answered, call.sampling) {
        (None, Sampling::Impossible) => Ok(listing(&task, &known)),
        (None, Sampling::Possible) => Ok(ask(vec![user(&request(&task, &known))], "first")),
        (Some(Answered { answer, state }), _) => {
            let said = text_of(answer);
            match (Plan::read(&said, &known), state.as_str()) {
                (Ok(plan), _) => Ok(finished(&task, &plan, &script::write(&task, &plan, &options))),
                (Err(problems), "first") => {
                    let complaint = format!(
                        "That plan cannot be used:\n- {}\nAnswer with the whole plan again, as one JSON object.",
                        problems.join("\n- ")
                    );
                    let again = vec![user(&request(&task, &known)), assistant(&said), user(&complaint)];
                    Ok(ask(again, "second"))
                }
                (Err(problems), _) => Err(Reply::failed(&format!(
                    "the model gave no plan that fits the tools, not even when told what was wrong:\n- {}",
                    problems.join("\n- ")
                ))),
            }
        }
    }
}

fn request(task: &str, known: &Known) -> String {
    format!("Tools:\n\n{}\nTask: {task}", known.reference())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": {"type": "text", "text": text}})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}})
}

fn ask(messages: Vec<Value>, state: &str) -> Reply {
    let params = json!({
        "systemPrompt": RULES, "messages": messages, "maxTokens": MAX_TOKENS, "temperature": 0.2,
    });
    Reply::Ask { params, state: state.to_owned() }
}

/// The text of a sampled message: one block, or several.
fn text_of(answer: &Value) -> String {
    let blocks = match &answer["content"] {
        Value::Array(blocks) => blocks.as_slice(),
        block => std::slice::from_ref(block),
    };
    let texts = blocks.iter().filter_map(|block| block["text"].as_str());
    texts.flat_map(str::chars).take(LONGEST_ANSWER).collect()
}

/// Without a model: what there is to plan with.
fn listing(task: &str, known: &Known) -> Reply {
    let names: Vec<&str> = known.names().collect();
    Reply::object(&json!({"results": {
        "task": task, "plan": null, "tool_count": names.len(), "available_tools": names,
        "reference": known.reference(),
        "note": "No model could be asked, so this lists the tools. A client that offers sampling makes a plan of it, or `llm` in the gateway's configuration with this server among `llm.allow`.",
    }}))
}

fn finished(task: &str, plan: &Plan, script: &str) -> Reply {
    let name = script::file_name(task);
    let written = plan.to_json(task);
    let file = |name: &str, mime: &str, description: &str, content: &str| json!({"name": name, "mime": mime, "description": description, "viewer": "code", "b64": STANDARD.encode(content)});
    let script_name = format!("{name}.sh");
    Reply::object(&json!({
        "results": {"task": task, "plan": written, "script": script_name},
        "artifacts": [
            file(&script_name, "application/x-sh", "The plan as a script.", script),
            file(&format!("{name}.json"), "application/json", "The plan.", &format!("{written:#}\n")),
        ],
        "display": {"open_canvas": true, "primary_file": script_name, "mode": "replace", "viewer_hint": "code"},
    }))
}

#[cfg(test)]
mod tests;
