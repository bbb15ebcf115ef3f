//! A conversation in which the model may ask for tools.

use super::answer::{Finish, Usage};
use super::calls::ToolCall;
use serde_json::{Value, json};

/// Everything that was said so far, as the endpoint is to see it.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    /// The model.
    pub model: &'a str,
    /// The messages, in the endpoint's own form.
    pub messages: &'a [Value],
    /// The tools that it may ask for, in the endpoint's own form.
    pub tools: &'a [Value],
    /// The most tokens of the next turn.
    pub max_tokens: u32,
}

/// What the model said in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The text.
    pub text: String,
    /// The tools it wants to be called, in order.
    pub calls: Vec<ToolCall>,
    /// The model that said it.
    pub model: String,
    /// Why it stopped.
    pub finish: Finish,
    /// What it has cost; counted roughly where the endpoint does not say.
    pub usage: Usage,
}

impl Said {
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

impl Conversation<'_> {
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "model": self.model, "messages": self.messages, "max_tokens": self.max_tokens,
            "stream": true, "stream_options": {"include_usage": true},
        });
        if !self.tools.is_empty() {
            body["tools"] = self.tools.into();
        }
        body
    }

    /// Roughly how many tokens it has.
    pub(super) fn weight(&self) -> u64 {
        let bytes: usize = self.messages.iter().chain(self.tools).map(|part| part.to_string().len()).sum();
        u64::try_from(bytes / 3 + 1).unwrap_or(u64::MAX)
    }
}
