//! A conversation in which the model may call tools.

use super::LlmClient;
use super::calls::ToolCall;
use super::usage::{Finish, Usage};
use serde_json::{Value, json};

/// A model at an endpoint, with the settings of its answers.
#[derive(Debug)]
pub struct ChatModel {
    /// The endpoint.
    pub llm: LlmClient,
    /// Name of the model.
    pub name: String,
    /// The maximum number of tokens of an answer.
    pub max_tokens: u32,
    /// The temperature, if it is not the endpoint's default.
    pub temperature: Option<f64>,
}

/// A chat request with all previous messages.
#[derive(Debug, Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The model.
    pub model: &'a str,
    /// The messages in the endpoint's format.
    pub messages: &'a [Value],
    /// The available tools in the endpoint's format.
    pub tools: &'a [Value],
    /// Maximum number of tokens in the next turn.
    pub max_tokens: u32,
    /// The temperature, if it is not the endpoint's default.
    pub temperature: Option<f64>,
}

/// The model's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssistantTurn {
    /// The text.
    pub text: String,
    /// The requested tool calls, in order.
    pub calls: Vec<ToolCall>,
    /// The model that answered.
    pub model: String,
    /// Why it stopped.
    pub finish: Finish,
    /// The token usage, estimated if the endpoint does not report it.
    pub usage: Usage,
}

impl AssistantTurn {
    /// The turn as a message of the conversation.
    pub fn message(&self) -> Value {
        let content = if self.text.is_empty() { Value::Null } else { self.text.as_str().into() };
        let mut message = json!({ "role": "assistant", "content": content });
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|call| {
                let function = json!({ "name": call.name, "arguments": call.arguments });
                json!({ "id": call.id, "type": "function", "function": function })
            });
            message["tool_calls"] = calls.collect::<Vec<_>>().into();
        }
        message
    }
}

impl ChatRequest<'_> {
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "model": self.model, "messages": self.messages, "max_tokens": self.max_tokens,
            "stream": true, "stream_options": {"include_usage": true},
        });
        if !self.tools.is_empty() {
            body["tools"] = self.tools.into();
        }
        if let Some(temperature) = self.temperature {
            body["temperature"] = temperature.into();
        }
        body
    }

    /// An estimate of its number of tokens.
    pub fn weight(&self) -> u64 {
        let bytes: usize = self.messages.iter().chain(self.tools).map(|part| part.to_string().len()).sum();
        u64::try_from(bytes / 3 + 1).unwrap_or(u64::MAX)
    }
}
