//! `planner`: plans a task with the tools that the caller may use.
//!
//! The plan is data, not a script: steps with a tool and its arguments, each checked against the catalog. If a step is
//! not valid, the model gets the errors once and may correct its plan. The script is only a form of the plan.

mod catalog;
mod plan;
mod script;

use super::conversation::{BundledCall, BundledReply, BundledServer, ModelAnswer, SamplingSupport};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::PlannerCatalog;
use plan::TaskPlan;
use script::ScriptOptions;
use serde_json::{Value, json};

/// The maximum length of a task.
const LONGEST_TASK: usize = 8_000;
/// The maximum length of a model's answer.
const LONGEST_ANSWER: usize = 100_000;
/// The maximum number of tokens of a model's answer.
const MAX_TOKENS: u32 = 8_000;

const RULES: &str = "You plan work that is done by calling tools. Answer with one JSON object and nothing else: \
{\"steps\": [{\"tool\": NAME, \"arguments\": OBJECT, \"why\": SENTENCE}]}. Use only tools from the list, by their \
exact names, with arguments that fit their parameters. Steps run in order, each on its own: a step cannot use the \
result of another. At most 50 steps.";

/// The server.
#[derive(Debug)]
pub(super) struct PlannerServer;

#[async_trait]
impl BundledServer for PlannerServer {
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

    async fn call(&self, call: BundledCall) -> Option<BundledReply> {
        (call.tool == "plan_task").then(|| plan_task(&call).unwrap_or_else(|refused| refused))
    }
}

fn plan_task(call: &BundledCall) -> Result<BundledReply, BundledReply> {
    let task: String = call.text("task")?.chars().take(LONGEST_TASK).collect();
    let options = ScriptOptions::read(&call.arguments).map_err(|why| BundledReply::failed(&why))?;
    let known = PlannerCatalog::read(&call.arguments["_mcp_data"]);
    match (&call.answered, call.sampling) {
        (None, SamplingSupport::Impossible) => Ok(listing(&task, &known)),
        (None, SamplingSupport::Possible) => Ok(ask(vec![user(&request(&task, &known))], "first")),
        (Some(ModelAnswer { answer, state }), _) => {
            let text = text_of(answer);
            match (TaskPlan::read(&text, &known), state.as_str()) {
                (Ok(plan), _) => Ok(finished(&task, &plan, &script::write(&task, &plan, &options))),
                (Err(problems), "first") => {
                    let complaint = format!(
                        "That plan cannot be used:\n- {}\nAnswer with the whole plan again, as one JSON object.",
                        problems.join("\n- ")
                    );
                    let again = vec![user(&request(&task, &known)), assistant(&text), user(&complaint)];
                    Ok(ask(again, "second"))
                }
                (Err(problems), _) => Err(BundledReply::failed(&format!(
                    "the model gave no valid plan, even after a list of its errors:\n- {}",
                    problems.join("\n- ")
                ))),
            }
        }
    }
}

fn request(task: &str, known: &PlannerCatalog) -> String {
    format!("Tools:\n\n{}\nTask: {task}", known.reference())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": {"type": "text", "text": text}})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}})
}

fn ask(messages: Vec<Value>, state: &str) -> BundledReply {
    let params = json!({
        "systemPrompt": RULES, "messages": messages, "maxTokens": MAX_TOKENS, "temperature": 0.2,
    });
    BundledReply::Ask { params, state: state.to_owned() }
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

/// The result without a model: a list of the tools.
fn listing(task: &str, known: &PlannerCatalog) -> BundledReply {
    let names: Vec<&str> = known.names().collect();
    BundledReply::object(&json!({"results": {
        "task": task, "plan": null, "tool_count": names.len(), "available_tools": names,
        "reference": known.reference(),
        "note": "No model is available, so this lists the tools. A plan needs a client that supports sampling, or `llm` in the gateway's configuration with this server in `llm.allow`.",
    }}))
}

fn finished(task: &str, plan: &TaskPlan, script: &str) -> BundledReply {
    let name = script::file_name(task);
    let written = plan.to_json(task);
    let file = |name: &str, mime: &str, description: &str, content: &str| json!({"name": name, "mime": mime, "description": description, "viewer": "code", "b64": STANDARD.encode(content)});
    let script_name = format!("{name}.sh");
    BundledReply::object(&json!({
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
