//! A chat with a language model that uses the tools of a gateway, as the caller and by the way of every call.
//!
//! The model is given tools to search and call with, so what it is shown stays small. Rounds, results, time and memory
//! are bounded. A turn that fails or is given up leaves no trace in the conversation.

mod command;
mod kit;
mod memory;
mod model;
mod voice;

pub use command::{ChatArguments, run};
pub use kit::Kit;
pub use model::Model;
pub use voice::{Manner, Voice};

use crate::commands::call::{self, Consent};
use crate::commands::tools;
use crate::desk::Desk;
use crate::exit::Exit;
use crate::failure::{Failure, Trouble};
use crate::own::Wanted;
use crate::progress::Sign;
use crate::reach::Reach;
use crate::render::line;
use kit::Wish;
use memory::Memory;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_core::json::RawJson;
use toolbooth_core::redact;
use toolbooth_upstream::llm::{Conversation, Finish, Usage};

/// How often the model may be asked before it has to come to an end.
const MOST_ROUNDS: usize = 16;
/// The most calls of one round that are made.
const MOST_CALLS: usize = 16;
/// How long a turn may take, all in all; looked at between rounds.
const LONGEST_TURN: Duration = Duration::from_secs(15 * 60);
/// How much of a result the model is given.
const LONGEST_RESULT: usize = 24 << 10;
/// How much of all results of a turn it is given.
const MOST_RESULTS: usize = 192 << 10;
/// How much of a result it is given all the same.
const SHORTEST_RESULT: usize = 1 << 10;

/// What is around a chat.
pub struct Surroundings<'a> {
    /// The gateway.
    pub reach: &'a Reach,
    /// Where a person is asked.
    pub desk: &'a Desk,
    /// The session that calls belong to.
    pub session: Option<&'a str>,
}

/// A chat.
#[derive(Debug)]
pub struct Chat {
    model: Model,
    kit: Kit,
    memory: Memory,
}

/// What came of a turn.
#[derive(Debug, Serialize)]
pub struct Turn {
    /// What the model said in the end.
    pub answer: String,
    /// The model that said it.
    pub model: String,
    /// Why it stopped: `end` or `length`.
    pub finish: &'static str,
    /// How often it was asked.
    pub rounds: usize,
    /// What that has cost.
    pub usage: Spent,
    /// The calls that were made for it.
    pub calls: Vec<Made>,
}

/// Tokens, questions and answers apart.
#[derive(Debug, Default, Serialize)]
pub struct Spent {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// A call that was made for an answer.
#[derive(Debug, Serialize)]
pub struct Made {
    tool: String,
    arguments: Value,
    /// `done`, `failed`, `held` or `refused`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

impl Turn {
    /// How a command ends that made this turn.
    pub fn exit(&self) -> Exit {
        if self.calls.iter().any(|call| call.held.is_some()) { Exit::Held } else { Exit::Ok }
    }
}

impl Chat {
    /// A chat with a model that has these tools.
    pub fn new(model: Model, kit: Kit) -> Self {
        Self { model, kit, memory: Memory::default() }
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model.name
    }

    /// Forgets what was said; whether there was anything.
    pub fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.memory).is_empty()
    }

    /// Says something and hears the answer, with all that is done for it.
    pub async fn say(
        &mut self,
        around: &Surroundings<'_>,
        text: &str,
        voice: &mut Voice,
    ) -> Result<Turn, Failure> {
        let started = Instant::now();
        // What is found in a search is to be there when it is called.
        around.reach.connect(Wanted::Started).await;
        let mut memory = self.memory.clone();
        memory.push(json!({ "role": "user", "content": text }));
        let tools = self.kit.definitions();
        let (mut spent, mut calls, mut left) = (Spent::default(), Vec::new(), MOST_RESULTS);
        for round in 1..=MOST_ROUNDS {
            memory.trim();
            let messages = memory.messages(self.kit.advice());
            let Model { llm, name: model, max_tokens } = &self.model;
            let conversation =
                Conversation { model, messages: &messages, tools: &tools, max_tokens: *max_tokens };
            let sign = Sign::new(format!("{} is thinking", line(model)));
            let told = |piece: &str| {
                sign.end();
                voice.say(piece);
            };
            let said = sign.during(llm.converse(&conversation, told)).await;
            voice.pause();
            let said = said.map_err(model::failure)?;
            spent.add(said.usage);
            memory.push(said.message());
            if said.calls.is_empty() {
                let finish = match said.finish {
                    Finish::End => "end",
                    Finish::Length => "length",
                };
                if said.finish == Finish::Length {
                    voice.warn("The answer was cut: it reached `llm.max_tokens`.");
                }
                self.memory = memory;
                return Ok(Turn {
                    answer: said.text,
                    model: said.model,
                    finish,
                    rounds: round,
                    usage: spent,
                    calls,
                });
            }
            for (number, wanted) in said.calls.iter().enumerate() {
                let heard = match self.kit.wish(&wanted.name, &wanted.arguments) {
                    _ if number >= MOST_CALLS => {
                        format!("error: not called: at most {MOST_CALLS} calls at once")
                    }
                    Err(error) => error,
                    Ok(wish) => grant(around, wish, voice, &mut calls).await?,
                };
                let heard = cut(heard, LONGEST_RESULT.min(left).max(SHORTEST_RESULT));
                left = left.saturating_sub(heard.len());
                memory.push(json!({ "role": "tool", "tool_call_id": wanted.id, "content": heard }));
            }
            if started.elapsed() > LONGEST_TURN {
                return Err(endless(&format!(
                    "the model came to no end in {} minutes",
                    LONGEST_TURN.as_secs() / 60
                )));
            }
        }
        Err(endless(&format!("the model came to no end in {MOST_ROUNDS} rounds")))
    }
}

impl Spent {
    fn add(&mut self, usage: Usage) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(usage.prompt);
        self.completion_tokens = self.completion_tokens.saturating_add(usage.completion);
    }
}

fn endless(message: &str) -> Failure {
    Failure::failed(Trouble {
        code: "llm.no-end".to_owned(),
        blame: "caller".to_owned(),
        message: message.to_owned(),
        hint: Some("ask for less at once, or another model (--model)".to_owned()),
    })
}

/// Does what a model wishes; what it is to hear of it. Only a gateway that is gone is a failure of the chat.
async fn grant(
    around: &Surroundings<'_>,
    wish: Wish,
    voice: &mut Voice,
    calls: &mut Vec<Made>,
) -> Result<String, Failure> {
    let heard = match wish {
        Wish::Look { name, arguments } => look(around, name, &arguments, voice).await,
        Wish::Call { name, arguments } => {
            let text = arguments.to_string();
            let preview = RawJson::parse(text.clone().into_bytes()).map(|json| redact::preview(&json));
            voice.note(&format!("→ {name} {}", preview.unwrap_or_default()));
            let mut made = Made { tool: name.clone(), arguments, outcome: "failed", held: None };
            let heard = call_tool(around, &name, &text, voice, &mut made).await;
            if matches!(&heard, Err(failure) if failure.exit == Exit::Refused) {
                made.outcome = "refused";
            }
            calls.push(made);
            heard
        }
    };
    match heard {
        Err(failure) if failure.exit == Exit::Unreachable => Err(failure),
        Err(failure) => {
            let Trouble { code, message, hint, .. } = *failure.trouble;
            voice.note(&format!("  {message} [{code}]"));
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            Ok(format!("error [{code}]: {message}{hint}"))
        }
        Ok(heard) => Ok(heard),
    }
}

/// Asks the gateway what tools there are.
async fn look(
    around: &Surroundings<'_>,
    name: &str,
    arguments: &Value,
    voice: &mut Voice,
) -> Result<String, Failure> {
    let about = ["query", "queries", "regex", "name", "server"].into_iter().map(|key| &arguments[key]);
    let about = about
        .filter(|value| !value.is_null())
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    voice.note(&format!(
        "… {} {}",
        name.trim_start_matches("mcp_tool_"),
        about.collect::<Vec<_>>().join(" ")
    ));
    let text = arguments.to_string();
    let called = call::make(around.reach, name, &text, around.session, Consent::Asked(around.desk));
    match call::heard(called.await?)? {
        call::Heard::Result { text, .. } => Ok(text),
        call::Heard::Held { id, message } => Ok(format!("not run yet, held as {id}: {message}")),
    }
}

async fn call_tool(
    around: &Surroundings<'_>,
    name: &str,
    arguments: &str,
    voice: &mut Voice,
    made: &mut Made,
) -> Result<String, Failure> {
    let tool = tools::find(around.reach, name).await?;
    let exposed = tool["name"].as_str().unwrap_or(name);
    made.tool = exposed.to_owned();
    let called = call::make(around.reach, exposed, arguments, around.session, Consent::Asked(around.desk));
    let heard = call::heard(called.await?)?;
    made.outcome = match &heard {
        call::Heard::Result { is_error: false, .. } => "done",
        call::Heard::Result { is_error: true, .. } => "failed",
        call::Heard::Held { .. } => "held",
    };
    match heard {
        call::Heard::Result { text, is_error } => {
            let word = if is_error { "error: " } else { "" };
            if is_error {
                voice.note(&format!("  failed: {}", text.chars().take(200).collect::<String>()));
            }
            Ok(format!("{word}{text}"))
        }
        call::Heard::Held { id, message } => {
            voice.warn(&format!("Held as {}: {message}", line(&id)));
            made.held = Some(id.clone());
            Ok(format!("not run yet, held as {id}: {message}"))
        }
    }
}

/// So much of a result as the model is given.
fn cut(text: String, longest: usize) -> String {
    if text.len() <= longest {
        return text;
    }
    let end = text.floor_char_boundary(longest);
    format!("{}\n… (cut: the first {end} of {} bytes)", &text[..end], text.len())
}
