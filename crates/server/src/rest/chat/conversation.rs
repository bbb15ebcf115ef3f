//! A conversation as the browser sends it: its messages, their limits, and the request to the model.

use super::super::extract::{self, bad_body};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::ChatTurnRequest;
use utoipa::ToSchema;

/// An example of a valid body.
const EXAMPLE: &str = "send {\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}";
/// The maximum number of messages.
const MAX_MESSAGES: usize = 200;
/// The maximum number of calls in one message.
const MAX_CALLS: usize = 64;
/// The maximum length of a text, in characters.
const MAX_TEXT: usize = 65_536;
/// The maximum length of an id or a name, in characters.
const MAX_NAME: usize = 256;
/// The maximum size of all texts, in bytes.
const MAX_BYTES: usize = 512 << 10;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChatRole {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// A message of a chat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatMessage {
    role: ChatRole,
    /// The text. A message of the model may have none if it requests calls.
    #[serde(default)]
    #[schema(max_length = 65536)]
    content: Option<String>,
    /// The calls that the model requested.
    #[serde(default)]
    #[schema(max_items = 64)]
    calls: Vec<ChatCallRequest>,
    /// The id of the call that a message of a tool answers.
    #[serde(default)]
    #[schema(max_length = 256)]
    call: Option<String>,
}

/// A call that the model requests.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatCallRequest {
    /// The id, for the answer.
    #[schema(max_length = 256)]
    pub(super) id: String,
    /// The name of the tool: a meta tool, or a tool that the model found with one.
    #[schema(max_length = 256)]
    pub(super) name: String,
    /// The arguments, as the model wrote them: JSON, if the model made no mistake.
    #[schema(max_length = 65536)]
    pub(super) arguments: String,
}

/// A conversation up to the model's next turn.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatBody {
    /// The model; the first one of `GET /chat` if absent.
    #[serde(default)]
    #[schema(max_length = 256)]
    model: Option<String>,
    /// The messages, oldest first, at most 512 KiB together.
    #[schema(min_items = 1, max_items = 200)]
    messages: Vec<ChatMessage>,
}

impl ChatMessage {
    /// Checks the limits and returns the size in bytes.
    fn check(&self) -> Result<usize, String> {
        let is_long = |text: &str, most: usize| text.len() > most && text.chars().count() > most;
        let texts = self.calls.iter().map(|call| &call.arguments).chain(&self.content);
        let names = self.calls.iter().flat_map(|call| [&call.id, &call.name]).chain(&self.call);
        if self.calls.len() > MAX_CALLS {
            return Err(format!("a message has at most {MAX_CALLS} calls"));
        }
        if texts.clone().any(|text| is_long(text, MAX_TEXT)) {
            return Err(format!("a text has at most {MAX_TEXT} characters"));
        }
        if names.clone().any(|name| is_long(name, MAX_NAME)) {
            return Err(format!("an id or a name has at most {MAX_NAME} characters"));
        }
        Ok(texts.chain(names).map(String::len).sum())
    }

    /// The message in the format of the endpoint.
    fn into_value(self) -> Value {
        let Self { role, content, calls, call } = self;
        let mut message = json!({ "role": role, "content": content });
        if !calls.is_empty() {
            let calls = calls.into_iter().map(|ChatCallRequest { id, name, arguments }| {
                json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
            });
            message["tool_calls"] = calls.collect::<Vec<_>>().into();
        }
        if let Some(call) = call {
            message["tool_call_id"] = call.into();
        }
        message
    }
}

/// Reads and checks the body.
pub(super) fn read(body: &[u8]) -> Result<ChatTurnRequest, Problem> {
    let ChatBody { model, messages } = extract::object(body, EXAMPLE)?;
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        return Err(bad_body(format!("a chat has 1 to {MAX_MESSAGES} messages"), EXAMPLE));
    }
    if model.as_ref().is_some_and(|model| model.chars().count() > MAX_NAME) {
        return Err(bad_body(format!("`model` has at most {MAX_NAME} characters"), EXAMPLE));
    }
    let mut bytes = 0;
    for message in &messages {
        bytes += message.check().map_err(|reason| bad_body(reason, EXAMPLE))?;
    }
    if bytes > MAX_BYTES {
        return Err(Problem {
            code: "request.too-large",
            blame: Blame::Caller,
            message: format!("the messages of a chat have at most {MAX_BYTES} bytes together"),
            hint: Some("leave out the oldest messages".into()),
        });
    }
    Ok(ChatTurnRequest { model, messages: messages.into_iter().map(ChatMessage::into_value).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_checked_and_translated() {
        let body = json!({ "messages": [
            { "role": "user", "content": "hash x" },
            { "role": "assistant", "calls": [{ "id": "1", "name": "demo_hash", "arguments": "{}" }] },
            { "role": "tool", "call": "1", "content": "abc" },
        ] });
        let request = read(body.to_string().as_bytes()).expect("valid");
        assert_eq!(request.messages[1]["tool_calls"][0]["function"]["name"], "demo_hash");
        assert_eq!(request.messages[2], json!({ "role": "tool", "tool_call_id": "1", "content": "abc" }));
        let message = |text: &str| json!({ "role": "user", "content": text });
        let cases = [
            (json!({ "messages": [] }), "request.bad-body"),
            (json!({ "messages": [{ "role": "system", "content": "x" }] }), "request.bad-body"),
            (json!({ "messages": [message(&"x".repeat(MAX_TEXT + 1))] }), "request.bad-body"),
            (json!({ "messages": vec![message("x"); MAX_MESSAGES + 1] }), "request.bad-body"),
            (json!({ "messages": vec![message(&"x".repeat(MAX_TEXT)); 9] }), "request.too-large"),
        ];
        for (body, code) in cases {
            let problem = read(body.to_string().as_bytes()).expect_err("not valid");
            assert_eq!(problem.code, code, "{}", problem.message);
        }
    }
}
