//! One request and everything that came back for it.

use super::PATIENCE;
use super::client::Client;
use super::events::Events;
use super::http::Reply;
use serde_json::{Value, json};

/// A request under way. Dropping it hangs up, which modern servers take for a cancellation.
pub struct Exchange {
    client: Client,
    /// The id of the request.
    pub id: u64,
    reply: Reply,
}

/// Everything that came back for a request.
#[derive(Debug, Default)]
pub struct Told {
    /// The HTTP status.
    pub status: u16,
    /// Notifications that came before the answer.
    pub before: Vec<Value>,
    /// Questions that the client was asked, with method and params.
    pub questions: Vec<Value>,
    /// The response; null when the stream ended without one.
    pub answer: Value,
}

impl Exchange {
    /// Follows a reply.
    pub fn new(client: Client, id: u64, reply: Reply) -> Self {
        Self { client, id, reply }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.reply.status
    }

    /// The stream itself, for requests that have no end.
    pub fn into_events(self) -> (u64, Events) {
        assert!(self.reply.is_events(), "HTTP {} and no stream", self.reply.status);
        (self.id, self.reply.events())
    }

    /// Reads to the end; legacy questions are answered on the way.
    pub async fn finish(self) -> Told {
        let Self { client, id, reply } = self;
        let mut told = Told { status: reply.status, ..Told::default() };
        if !reply.is_events() {
            told.answer = reply.json().await;
            return told;
        }
        let mut events = reply.events();
        loop {
            let next = tokio::time::timeout(PATIENCE, events.next()).await;
            let Some(message) = next.expect("the next event comes in time") else { return told };
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (Some(method), Some(question)) => {
                    let answer = client.answer(method, &message["params"]);
                    let status = client.reply(question, answer).await;
                    assert_eq!(status, 202, "an answer is accepted");
                    told.questions.push(json!({ "method": method, "params": message["params"] }));
                }
                (Some(_), None) => told.before.push(message),
                (None, _) => {
                    assert_eq!(message["id"], id, "the answer is to this request: {message}");
                    told.answer = message;
                }
            }
        }
    }
}

impl Told {
    /// What came in a later round, put behind what came before.
    pub fn then(mut self, later: Told) -> Told {
        self.before.extend(later.before);
        self.questions.extend(later.questions);
        Told { before: self.before, questions: self.questions, ..later }
    }

    /// The result.
    pub fn result(&self) -> &Value {
        self.answer.get("result").unwrap_or_else(|| panic!("no result: HTTP {} {}", self.status, self.answer))
    }

    /// The error's code, if it is an error.
    pub fn code(&self) -> Option<i64> {
        self.answer["error"]["code"].as_i64()
    }

    /// The text of the first content block.
    pub fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {}", self.answer))
    }

    /// Whether the tool said that it failed.
    pub fn is_error(&self) -> bool {
        self.result()["isError"] == true
    }

    /// The gateway's own fault code, where the result tells of one.
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
