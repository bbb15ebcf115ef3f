//! A language model behind an OpenAI-compatible endpoint: one question, one answer, streamed. In a conversation an answer
//! may also be a wish to call tools.
//!
//! The answer is bounded in time and length, and a stream that stands still is given up. What the endpoint
//! says in an error goes to the log: it may repeat the question, or a key.

mod answer;
mod calls;
mod conversation;
mod error;

pub use answer::{Completion, Finish, Usage};
pub use calls::ToolCall;
pub use conversation::{Conversation, Said};
pub use error::{LlmError, Unanswered};

use crate::http::{Client, Failure, Origin, PooledConnection};
use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use ::http::{Request, Response, StatusCode};
use answer::{Answer, Progress};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::sampling::{Prompt, Role};
use toolbooth_core::secret::SecretText;
use toolbooth_wire::sse::Decoder;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest answer, in bytes of its JSON or of one event.
const LONGEST: usize = 4 << 20;
/// How much of an error is read.
const LONGEST_ERROR: usize = 16 << 10;

/// An endpoint.
#[derive(Debug)]
pub struct Llm {
    client: Arc<Client>,
    key: Option<HeaderValue>,
    /// How long one answer may take.
    deadline: Duration,
    /// How long it may stand still.
    stall: Duration,
}

impl Llm {
    /// An endpoint at an address that ends where `/chat/completions` is to follow.
    pub fn new(base_url: &str, key: Option<&SecretText>, deadline: Duration) -> Result<Self, LlmError> {
        let wrong = |reason: &str| LlmError::Unreachable { reason: reason.to_owned() };
        let mut origin =
            Origin::parse(base_url).map_err(|_| wrong("`llm.base_url` is no http or https address"))?;
        origin.path = format!("{}/chat/completions", origin.path.trim_end_matches('/'));
        let header = |key: &SecretText| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose())).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        let key = match key.map(header) {
            None => None,
            Some(Some(value)) => Some(value),
            Some(None) => return Err(wrong("`llm.api_key` holds what a header may not")),
        };
        let stall = deadline.min(Duration::from_secs(45));
        Ok(Self { client: Client::new(origin, CONNECT), key, deadline, stall })
    }

    /// The same, with another patience for an answer that stands still.
    pub fn stalling(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Asks. Each piece of the answer is told as it comes.
    pub async fn ask(&self, prompt: &Prompt, told: impl FnMut(&str) + Send) -> Result<Completion, LlmError> {
        let answer = self.exchange(&body(prompt), told).await.map_err(|unanswered| unanswered.error)?;
        answer.finish(prompt)
    }

    /// Goes on with a conversation. Each piece of what is said is told as it comes.
    pub async fn converse(
        &self,
        conversation: &Conversation<'_>,
        told: impl FnMut(&str) + Send,
    ) -> Result<Said, Unanswered> {
        let answer = self.exchange(&conversation.body(), told).await?;
        Ok(answer.said(conversation)?)
    }

    async fn exchange(&self, body: &Value, told: impl FnMut(&str) + Send) -> Result<Answer, Unanswered> {
        match tokio::time::timeout(self.deadline, self.exchange_in_time(body, told)).await {
            Ok(answer) => answer,
            Err(_) => Err(LlmError::Timeout { after: self.deadline }.into()),
        }
    }

    async fn exchange_in_time(
        &self,
        body: &Value,
        told: impl FnMut(&str) + Send,
    ) -> Result<Answer, Unanswered> {
        let sent = tokio::time::timeout(self.stall, self.client.send(self.request(body)?)).await;
        let (response, connection) = match sent {
            Ok(sent) => sent.map_err(|failure| {
                let (Failure::NotSent(reason) | Failure::Broken(reason)) = failure;
                LlmError::Unreachable { reason }
            })?,
            Err(_) => return Err(LlmError::Timeout { after: self.stall }.into()),
        };
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            true => Ok(self.follow(response, connection, told).await?),
            false => Ok(whole(response, connection, told).await?),
        }
    }

    fn request(&self, body: &Value) -> Result<Request<Full<Bytes>>, LlmError> {
        let origin = self.client.origin();
        let mut request = Request::post(origin.path.as_str())
            .header(HOST, origin.authority.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let request = request.body(Full::new(Bytes::from(body.to_string())));
        request.map_err(|_| LlmError::Unreachable { reason: "its address cannot be asked".into() })
    }

    /// Reads a stream of pieces.
    async fn follow(
        &self,
        response: Response<Incoming>,
        connection: PooledConnection,
        mut told: impl FnMut(&str) + Send,
    ) -> Result<Answer, LlmError> {
        let mut body = response.into_body();
        let mut decoder = Decoder::new(LONGEST);
        let mut answer = Answer::default();
        loop {
            let frame = match tokio::time::timeout(self.stall, body.frame()).await {
                Ok(Some(frame)) => frame.map_err(|_| LlmError::CutOff)?,
                Ok(None) => return Err(LlmError::CutOff),
                Err(_) => return Err(LlmError::Timeout { after: self.stall }),
            };
            let Some(data) = frame.data_ref() else { continue };
            decoder.push(data);
            while let Some(event) = decoder.next_event().map_err(|_| LlmError::TooLong)? {
                match answer.take(&event.data, &mut told)? {
                    Progress::More => {}
                    Progress::Done => {
                        // Nothing but the end may follow; a connection that has more to say is not used again.
                        if matches!(tokio::time::timeout(CONNECT, body.frame()).await, Ok(None)) {
                            connection.give_back();
                        }
                        return Ok(answer);
                    }
                }
            }
        }
    }

    async fn refusal(&self, response: Response<Incoming>) -> Unanswered {
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LONGEST_ERROR).collect();
        let body = tokio::time::timeout(CONNECT, body).await.ok().and_then(Result::ok);
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        tracing::warn!("the language model answered HTTP {status}: {}", crate::process::preview(&body, 500));
        let error = match status {
            429 => LlmError::RateLimited,
            status => LlmError::Refused { status },
        };
        let key = self.key.as_ref().and_then(|key| key.to_str().ok()?.strip_prefix("Bearer "));
        Unanswered { error, said: error::reason_in(&body, key) }
    }
}

/// A question without a conversation around it.
fn body(prompt: &Prompt) -> Value {
    let system = prompt.system.iter().map(|text| json!({"role": "system", "content": text}));
    let turns = prompt.turns.iter().map(|turn| {
        let role = if turn.role == Role::User { "user" } else { "assistant" };
        json!({"role": role, "content": turn.text})
    });
    let mut body = json!({
        "model": prompt.model, "messages": system.chain(turns).collect::<Vec<_>>(),
        "max_tokens": prompt.max_tokens, "stream": true, "stream_options": {"include_usage": true},
    });
    if let Some(temperature) = prompt.temperature {
        body["temperature"] = temperature.into();
    }
    if !prompt.stops.is_empty() {
        body["stop"] = prompt.stops.clone().into();
    }
    body
}

/// Reads an answer that came in one piece: some endpoints do not stream.
async fn whole(
    response: Response<Incoming>,
    connection: PooledConnection,
    mut told: impl FnMut(&str) + Send,
) -> Result<Answer, LlmError> {
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|_| LlmError::CutOff)?.to_bytes();
    connection.give_back();
    let mut answer = Answer::default();
    answer.take(&body, &mut told)?;
    Ok(answer)
}
