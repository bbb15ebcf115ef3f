//! Client of a language model behind an OpenAI-compatible endpoint, with streaming. In a conversation the
//! model may also request tool calls.
//!
//! Responses have limits on time and size, and a stalled stream is given up. Error bodies go to the log: they
//! may repeat the prompt or a key.

mod answer;
mod calls;
mod conversation;
mod error;
mod usage;

pub use answer::Completion;
pub use calls::ToolCall;
pub use conversation::{AssistantTurn, ChatModel, ChatRequest};
pub use error::{LlmError, LlmFailure};
pub use usage::{Finish, Usage};

use crate::http::{HttpOrigin, OriginClient, PooledConnection, SendError};
use ::http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, TRANSFER_ENCODING,
};
use ::http::{Request, Response, StatusCode};
use answer::{AnswerBuilder, StreamProgress};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::sampling::{MessageRole, Prompt};
use toolbooth_core::secret::SecretText;
use toolbooth_wire::sse::SseDecoder;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a JSON response or of one event.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// How much of an error body is read.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// A client for one endpoint.
#[derive(Debug)]
pub struct LlmClient {
    client: Arc<OriginClient>,
    key: Option<HeaderValue>,
    /// The operator's own headers.
    headers: HeaderMap,
    /// Total timeout of a response.
    deadline: Duration,
    /// Read timeout.
    stall: Duration,
}

impl LlmClient {
    /// Creates a client. `/chat/completions` is appended to `base_url` if it does not end with it.
    pub fn new(base_url: &str, key: Option<&SecretText>, deadline: Duration) -> Result<Self, LlmError> {
        let wrong = |reason: &str| LlmError::Unreachable { reason: reason.to_owned() };
        let mut origin =
            HttpOrigin::parse(base_url).map_err(|_| wrong("`llm.base_url` is not an http or https URL"))?;
        let base = origin.path.trim_end_matches('/');
        let base = base.strip_suffix("/chat/completions").unwrap_or(base).trim_end_matches('/');
        origin.path = format!("{base}/chat/completions");
        let header = |key: &SecretText| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose())).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        let key = match key.map(header) {
            None => None,
            Some(Some(value)) => Some(value),
            Some(None) => {
                return Err(wrong("`llm.api_key` contains characters that are not allowed in a header"));
            }
        };
        let stall = deadline.min(Duration::from_secs(45));
        let client = OriginClient::new(origin, CONNECT_TIMEOUT);
        Ok(Self { client, key, headers: HeaderMap::new(), deadline, stall })
    }

    /// Adds headers to every request. They may replace the key, but not the headers of the connection.
    pub fn with_headers(mut self, headers: &BTreeMap<String, SecretText>) -> Result<Self, LlmError> {
        for (name, value) in headers {
            let reserved = [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];
            let read = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value.expose()));
            let (Ok(name), Ok(mut value)) = read else {
                let reason = format!("`llm.headers`: `{name}` is not a valid header");
                return Err(LlmError::Unreachable { reason });
            };
            if reserved.contains(&name) {
                let reason = format!("`llm.headers`: `{name}` is set by the gateway");
                return Err(LlmError::Unreachable { reason });
            }
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        Ok(self)
    }

    /// Sets the read timeout.
    pub fn stalling(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Sends a prompt. `on_text` receives each piece of the answer as it arrives.
    pub async fn ask(
        &self,
        prompt: &Prompt,
        on_text: impl FnMut(&str) + Send,
    ) -> Result<Completion, LlmError> {
        let answer = self.exchange(&body(prompt), on_text).await.map_err(|unanswered| unanswered.error)?;
        answer.finish(prompt)
    }

    /// Continues a conversation. `on_text` receives each piece of the text as it arrives.
    pub async fn converse(
        &self,
        conversation: &ChatRequest<'_>,
        on_text: impl FnMut(&str) + Send,
    ) -> Result<AssistantTurn, LlmFailure> {
        let answer = self.exchange(&conversation.body(), on_text).await?;
        Ok(answer.into_turn(conversation)?)
    }

    async fn exchange(
        &self,
        body: &Value,
        on_text: impl FnMut(&str) + Send,
    ) -> Result<AnswerBuilder, LlmFailure> {
        match tokio::time::timeout(self.deadline, self.exchange_in_time(body, on_text)).await {
            Ok(answer) => answer,
            Err(_) => Err(LlmError::Timeout { after: self.deadline }.into()),
        }
    }

    async fn exchange_in_time(
        &self,
        body: &Value,
        on_text: impl FnMut(&str) + Send,
    ) -> Result<AnswerBuilder, LlmFailure> {
        let sent = tokio::time::timeout(self.stall, self.client.send(self.request(body)?)).await;
        let (response, connection) = match sent {
            Ok(sent) => sent.map_err(|failure| match failure {
                SendError::NotSent(reason) => LlmError::Unreachable { reason },
                // The model may have worked on it.
                SendError::Broken(reason) => {
                    tracing::debug!("the connection to the language model broke: {reason}");
                    LlmError::CutOff
                }
            })?,
            Err(_) => return Err(LlmError::Timeout { after: self.stall }.into()),
        };
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            true => Ok(self.follow(response, connection, on_text).await?),
            false => Ok(whole(response, connection, on_text).await?),
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
        if let Some(all) = request.headers_mut() {
            for (name, value) in &self.headers {
                all.insert(name, value.clone());
            }
        }
        let request = request.body(Full::new(Bytes::from(body.to_string())));
        request.map_err(|_| LlmError::Unreachable { reason: "its URL is not a valid request URL".into() })
    }

    /// Reads a streamed response.
    async fn follow(
        &self,
        response: Response<Incoming>,
        connection: PooledConnection,
        mut on_text: impl FnMut(&str) + Send,
    ) -> Result<AnswerBuilder, LlmError> {
        let mut body = response.into_body();
        let mut decoder = SseDecoder::new(MAX_RESPONSE_BYTES);
        let mut answer = AnswerBuilder::default();
        loop {
            let frame = match tokio::time::timeout(self.stall, body.frame()).await {
                Ok(Some(frame)) => frame.map_err(|_| LlmError::CutOff)?,
                Ok(None) => return Err(LlmError::CutOff),
                Err(_) => return Err(LlmError::Timeout { after: self.stall }),
            };
            let Some(data) = frame.data_ref() else { continue };
            decoder.push(data);
            while let Some(event) = decoder.next_event().map_err(|_| LlmError::TooLong)? {
                match answer.take(&event.data, &mut on_text)? {
                    StreamProgress::More => {}
                    StreamProgress::Done => {
                        // Only the end may follow; a connection with more data is not reused.
                        if matches!(tokio::time::timeout(CONNECT_TIMEOUT, body.frame()).await, Ok(None)) {
                            connection.give_back();
                        }
                        return Ok(answer);
                    }
                }
            }
        }
    }

    async fn refusal(&self, response: Response<Incoming>) -> LlmFailure {
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_ERROR_BYTES).collect();
        let body = tokio::time::timeout(CONNECT_TIMEOUT, body).await.ok().and_then(Result::ok);
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        tracing::warn!("the language model answered HTTP {status}: {}", crate::process::preview(&body, 500));
        let error = match status {
            429 => LlmError::RateLimited,
            status => LlmError::Refused { status },
        };
        let key = self.key.as_ref().and_then(|key| key.to_str().ok()?.strip_prefix("Bearer "));
        LlmFailure { error, reason: error::reason_in(&body, key) }
    }
}

/// The request body for a single prompt.
fn body(prompt: &Prompt) -> Value {
    let system = prompt.system.iter().map(|text| json!({"role": "system", "content": text}));
    let turns = prompt.turns.iter().map(|turn| {
        let role = if turn.role == MessageRole::User { "user" } else { "assistant" };
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

/// Reads a response that is not streamed: some endpoints do not stream.
async fn whole(
    response: Response<Incoming>,
    connection: PooledConnection,
    mut on_text: impl FnMut(&str) + Send,
) -> Result<AnswerBuilder, LlmError> {
    let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
    let body = body.map_err(|_| LlmError::CutOff)?.to_bytes();
    connection.give_back();
    let mut answer = AnswerBuilder::default();
    answer.take(&body, &mut on_text)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_or_without_the_path_of_completions_is_the_same() {
        for path in ["/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"] {
            let url = format!("http://llm.example{path}");
            let client = LlmClient::new(&url, None, Duration::from_secs(1)).expect("a client");
            assert_eq!(client.client.origin().path, "/v1/chat/completions", "{path}");
        }
    }

    #[test]
    fn headers_are_checked_and_sent() {
        let client =
            || LlmClient::new("http://llm.example/v1", None, Duration::from_secs(1)).expect("a client");
        let headers = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), SecretText::plain(value))]);
        let client_with = client().with_headers(&headers("X-Title", "t")).expect("headers");
        let request = client_with.request(&json!({})).expect("a request");
        assert_eq!(request.headers()["x-title"], "t");
        for (name, value) in [("a b", "x"), ("x", "a\nb"), ("Host", "other.example")] {
            assert!(client().with_headers(&headers(name, value)).is_err(), "{name}");
        }
    }
}
