//! One request, and all messages that the gateway sent for it.

use super::TestClient;
use crate::world::TEST_TIMEOUT;
use crate::world::events::EventReader;
use crate::world::http::HttpReply;
use serde_json::{Value, json};

/// A running request. Dropping it closes the connection, which cancels a modern request.
pub struct Exchange {
    client: TestClient,
    /// The id of the request.
    pub id: u64,
    reply: HttpReply,
}

/// All messages that the gateway sent for a request.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The HTTP status.
    pub status: u16,
    /// Notifications before the answer.
    pub before: Vec<Value>,
    /// Questions to the client, with method and params.
    pub questions: Vec<Value>,
    /// The response; null if the stream ended without one.
    pub answer: Value,
}

impl Exchange {
    /// Reads this reply.
    pub fn new(client: TestClient, id: u64, reply: HttpReply) -> Self {
        Self { client, id, reply }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.reply.status
    }

    /// The stream of a request without an end.
    pub fn into_events(self) -> (u64, EventReader) {
        assert!(self.reply.is_events(), "HTTP {} without a stream", self.reply.status);
        (self.id, self.reply.events())
    }

    /// Reads to the end and answers legacy questions.
    pub async fn finish(self) -> Transcript {
        let Self { client, id, reply } = self;
        let mut transcript = Transcript { status: reply.status, ..Transcript::default() };
        if !reply.is_events() {
            transcript.answer = reply.json().await;
            return transcript;
        }
        let mut events = reply.events();
        loop {
            let next = tokio::time::timeout(TEST_TIMEOUT, events.next()).await;
            let Some(message) = next.expect("the next event arrives in time") else { return transcript };
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (Some(method), Some(question)) => {
                    let answer = client.answer(method, &message["params"]);
                    let status = client.reply(question, answer).await;
                    assert_eq!(status, 202, "an answer is accepted");
                    transcript.questions.push(json!({ "method": method, "params": message["params"] }));
                }
                (Some(_), None) => transcript.before.push(message),
                (None, _) => {
                    assert_eq!(message["id"], id, "the answer has the id of this request: {message}");
                    transcript.answer = message;
                }
            }
        }
    }
}

impl Transcript {
    /// Appends the messages of a later round.
    pub fn then(mut self, later: Transcript) -> Transcript {
        self.before.extend(later.before);
        self.questions.extend(later.questions);
        Transcript { before: self.before, questions: self.questions, ..later }
    }

    /// The result.
    pub fn result(&self) -> &Value {
        self.answer.get("result").unwrap_or_else(|| panic!("no result: HTTP {} {}", self.status, self.answer))
    }

    /// The JSON-RPC error code, if the answer is an error.
    pub fn code(&self) -> Option<i64> {
        self.answer["error"]["code"].as_i64()
    }

    /// The text of the first content block.
    pub fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {}", self.answer))
    }

    /// Whether the result has `isError`.
    pub fn is_error(&self) -> bool {
        self.result()["isError"] == true
    }

    /// The gateway's fault code in the result, or an empty string.
    pub fn fault(&self) -> &str {
        self.answer["result"]["_meta"]["toolbooth/fault"]["code"].as_str().unwrap_or_default()
    }

    /// The params of the notifications of this method.
    pub fn notices(&self, method: &str) -> Vec<&Value> {
        self.before
            .iter()
            .filter(|message| message["method"] == method)
            .map(|message| &message["params"])
            .collect()
    }
}
