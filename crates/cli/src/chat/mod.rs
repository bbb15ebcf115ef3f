//! A chat with a language model that calls the tools of a gateway on behalf of the caller.
//!
//! The model gets meta tools to search and call tools, so its context stays small. Rounds, results, time and history
//! are limited. A turn that fails or is cancelled leaves no trace in the conversation.

mod chat_tools;
mod command;
mod history;
mod model;
mod printer;

pub use chat_tools::ChatTools;
pub use command::{ChatArguments, run};
pub use model::select;
pub use printer::{ChatPrinter, ChatVerbosity};

use crate::commands::call::{self, CallerConsent};
use crate::commands::tools;
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use crate::gateway_handle::GatewayHandle;
use crate::progress::Spinner;
use crate::prompter::Prompter;
use crate::render::line;
use chat_tools::ToolRequest;
use history::ChatHistory;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::json::RawJson;
use toolbooth_core::redact;
use toolbooth_upstream::llm::{ChatModel, ChatRequest, Finish, Usage};

/// The maximum number of rounds in a turn.
const MAX_ROUNDS: usize = 16;
/// The maximum number of calls in a round.
const MAX_CALLS: usize = 16;
/// The time limit of a turn, checked between rounds.
const MAX_TURN: Duration = Duration::from_secs(15 * 60);
/// The maximum number of bytes of a result that the model gets.
const MAX_RESULT: usize = 24 << 10;
/// The maximum number of bytes of all results in a turn.
const MAX_RESULTS: usize = 192 << 10;
/// The number of bytes of each result that the model gets even beyond that limit.
const MIN_RESULT: usize = 1 << 10;

/// The gateway, user and session of a chat.
pub struct ChatContext<'a> {
    /// The gateway.
    pub gateway: &'a GatewayHandle,
    /// How to ask the user for approval.
    pub prompter: &'a Prompter,
    /// Session of the calls.
    pub session: Option<&'a str>,
}

/// A chat with a model.
#[derive(Debug)]
pub struct Chat {
    model: ChatModel,
    tools: ChatTools,
    history: ChatHistory,
}

/// The result of a turn.
#[derive(Debug, Serialize)]
pub struct ChatTurn {
    /// The model's final answer.
    pub answer: String,
    /// The model that answered.
    pub model: String,
    /// Why it stopped: `end` or `length`.
    pub finish: &'static str,
    /// The number of requests to the model.
    pub rounds: usize,
    /// The tokens used.
    pub usage: ChatUsage,
    /// The calls made.
    pub calls: Vec<ChatCall>,
}

/// The tokens used by prompts and by answers.
#[derive(Debug, Default, Serialize)]
pub struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// A call made during a turn.
#[derive(Debug, Serialize)]
pub struct ChatCall {
    tool: String,
    arguments: Value,
    /// `done`, `failed`, `held` or `refused`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

impl ChatTurn {
    /// The exit code for this turn.
    pub fn exit(&self) -> Exit {
        if self.calls.iter().any(|call| call.held.is_some()) { Exit::Held } else { Exit::Ok }
    }
}

impl Chat {
    /// A chat with a model that has these tools.
    pub fn new(model: ChatModel, tools: ChatTools) -> Self {
        Self { model, tools, history: ChatHistory::default() }
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model.name
    }

    /// Clears the conversation. Returns whether it had any messages.
    pub fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.history).is_empty()
    }

    /// Sends a message and runs rounds of tool calls until the model answers.
    pub async fn say(
        &mut self,
        context: &ChatContext<'_>,
        text: &str,
        printer: &mut ChatPrinter,
    ) -> Result<ChatTurn, CommandFailure> {
        let started = Instant::now();
        // The tools of a search result must be callable.
        context.gateway.connect(ServerSelection::AutoConnected).await;
        let mut history = self.history.clone();
        history.push(json!({ "role": "user", "content": text }));
        let tools = self.tools.definitions();
        let (mut usage_total, mut calls, mut left) = (ChatUsage::default(), Vec::new(), MAX_RESULTS);
        for round in 1..=MAX_ROUNDS {
            history.trim();
            let messages = history.messages(self.tools.advice());
            let ChatModel { llm, name: model, max_tokens, temperature } = &self.model;
            let conversation = ChatRequest {
                model,
                messages: &messages,
                tools: &tools,
                max_tokens: *max_tokens,
                temperature: *temperature,
            };
            let spinner = Spinner::new(format!("{} is thinking", line(model)));
            let on_text = |piece: &str| {
                spinner.end();
                printer.say(piece);
            };
            let turn = spinner.during(llm.converse(&conversation, on_text)).await;
            printer.pause();
            let turn = turn.map_err(model::failure)?;
            usage_total.add(turn.usage);
            history.push(turn.message());
            if turn.calls.is_empty() {
                let finish = match turn.finish {
                    Finish::End => "end",
                    Finish::Length => "length",
                };
                if turn.finish == Finish::Length {
                    printer.warn("The answer was truncated: it reached `llm.max_tokens`.");
                }
                self.history = history;
                return Ok(ChatTurn {
                    answer: turn.text,
                    model: turn.model,
                    finish,
                    rounds: round,
                    usage: usage_total,
                    calls,
                });
            }
            for (number, requested) in turn.calls.iter().enumerate() {
                let text_for_model = match self.tools.parse_request(&requested.name, &requested.arguments) {
                    _ if number >= MAX_CALLS => {
                        format!("error: not called: at most {MAX_CALLS} calls at once")
                    }
                    Err(error) => error,
                    Ok(request) => execute(context, request, printer, &mut calls).await?,
                };
                let text_for_model = truncate(text_for_model, MAX_RESULT.min(left).max(MIN_RESULT));
                left = left.saturating_sub(text_for_model.len());
                history
                    .push(json!({ "role": "tool", "tool_call_id": requested.id, "content": text_for_model }));
            }
            if started.elapsed() > MAX_TURN {
                return Err(no_final_answer(&format!(
                    "the model gave no final answer within {} minutes",
                    MAX_TURN.as_secs() / 60
                )));
            }
        }
        Err(no_final_answer(&format!("the model gave no final answer within {MAX_ROUNDS} rounds")))
    }
}

impl ChatUsage {
    fn add(&mut self, usage: Usage) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(usage.prompt);
        self.completion_tokens = self.completion_tokens.saturating_add(usage.completion);
    }
}

fn no_final_answer(message: &str) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "llm.no-end".to_owned(),
        blame: "caller".to_owned(),
        message: message.to_owned(),
        hint: Some("ask for less at once, or use another model (--model)".to_owned()),
    })
}

/// Executes a tool request and returns the text for the model. Only an unreachable gateway fails the chat.
async fn execute(
    context: &ChatContext<'_>,
    request: ToolRequest,
    printer: &mut ChatPrinter,
    calls: &mut Vec<ChatCall>,
) -> Result<String, CommandFailure> {
    let text_for_model = match request {
        ToolRequest::Look { name, arguments } => query_tools(context, name, &arguments, printer).await,
        ToolRequest::Call { name, arguments } => {
            let text = arguments.to_string();
            let preview = RawJson::parse(text.clone().into_bytes()).map(|json| redact::preview(&json));
            printer.note(&format!("→ {name} {}", preview.unwrap_or_default()));
            let mut record = ChatCall { tool: name.clone(), arguments, outcome: "failed", held: None };
            let text_for_model = call_tool(context, &name, &text, printer, &mut record).await;
            if matches!(&text_for_model, Err(failure) if failure.exit == Exit::Refused) {
                record.outcome = "refused";
            }
            calls.push(record);
            text_for_model
        }
    };
    match text_for_model {
        Err(failure) if failure.exit == Exit::Unreachable || failure.is_unauthenticated() => Err(failure),
        Err(failure) => {
            let FaultReport { code, message, hint, .. } = *failure.fault;
            printer.note(&format!("  {message} [{code}]"));
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            Ok(format!("error [{code}]: {message}{hint}"))
        }
        Ok(text_for_model) => Ok(text_for_model),
    }
}

/// Queries the gateway about its tools.
async fn query_tools(
    context: &ChatContext<'_>,
    name: &str,
    arguments: &Value,
    printer: &mut ChatPrinter,
) -> Result<String, CommandFailure> {
    let about = ["query", "queries", "regex", "name", "server"].into_iter().map(|key| &arguments[key]);
    let about = about
        .filter(|value| !value.is_null())
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    printer.note(&format!(
        "… {} {}",
        name.trim_start_matches("mcp_tool_"),
        about.collect::<Vec<_>>().join(" ")
    ));
    let text = arguments.to_string();
    let called =
        call::make(context.gateway, name, &text, context.session, CallerConsent::Asked(context.prompter));
    match call::as_text(called.await?)? {
        call::CallText::Result { text, .. } => Ok(text),
        call::CallText::Held { id, message } => Ok(format!("not run yet, held as {id}: {message}")),
    }
}

async fn call_tool(
    context: &ChatContext<'_>,
    name: &str,
    arguments: &str,
    printer: &mut ChatPrinter,
    record: &mut ChatCall,
) -> Result<String, CommandFailure> {
    let tool = tools::find(context.gateway, name).await?;
    let exposed = tool["name"].as_str().unwrap_or(name);
    record.tool = exposed.to_owned();
    let called = call::make(
        context.gateway,
        exposed,
        arguments,
        context.session,
        CallerConsent::Asked(context.prompter),
    );
    let text_for_model = call::as_text(called.await?)?;
    record.outcome = match &text_for_model {
        call::CallText::Result { is_error: false, .. } => "done",
        call::CallText::Result { is_error: true, .. } => "failed",
        call::CallText::Held { .. } => "held",
    };
    match text_for_model {
        call::CallText::Result { text, is_error } => {
            let word = if is_error { "error: " } else { "" };
            if is_error {
                printer.note(&format!("  failed: {}", text.chars().take(200).collect::<String>()));
            }
            Ok(format!("{word}{text}"))
        }
        call::CallText::Held { id, message } => {
            printer.warn(&format!("Held as {}: {message}", line(&id)));
            record.held = Some(id.clone());
            Ok(format!("not run yet, held as {id}: {message}"))
        }
    }
}

/// Truncates a result for the model.
fn truncate(text: String, longest: usize) -> String {
    if text.len() <= longest {
        return text;
    }
    let end = text.floor_char_boundary(longest);
    format!("{}\n… (truncated: the first {end} of {} bytes)", &text[..end], text.len())
}
