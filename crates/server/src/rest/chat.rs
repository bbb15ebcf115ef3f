//! The chat of the console: the model's next turn as a stream. The browser keeps the conversation and makes the calls
//! that the model requests with `POST /tools/{name}/call`, so they are ordinary calls of the signed-in user.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{self, JsonBody, NoQuery, bad_body};
use super::problem::{ProblemDocument, ProblemView};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::ChatTurnRequest;
use toolbooth_upstream::llm::{AssistantTurn, Finish, ToolCall};
use toolbooth_wire::sse::{KEEP_ALIVE, write_event};
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
/// The maximum number of turns that a user can wait for at once.
const MAX_TURNS: usize = 4;
/// How long an error can still be the answer to the request, before the stream starts.
const FIRST_PIECE: Duration = Duration::from_secs(10);

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
    id: String,
    /// The name of the tool: a meta tool, or a tool that the model found with one.
    #[schema(max_length = 256)]
    name: String,
    /// The arguments, as the model wrote them: JSON, if the model made no mistake.
    #[schema(max_length = 65536)]
    arguments: String,
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

/// The turns that users wait for.
#[derive(Debug, Default)]
pub struct ChatTurns(Mutex<HashMap<Arc<str>, usize>>);

/// Counts a turn until it is dropped.
#[derive(Debug)]
struct ChatTurnSlot {
    turns: Arc<ChatTurns>,
    user: Arc<str>,
}

impl ChatTurns {
    /// Counts a turn; `None` if the user waits for too many.
    fn begin(self: &Arc<Self>, user: &Arc<str>) -> Option<ChatTurnSlot> {
        let mut turns = self.lock();
        let count = turns.entry(user.clone()).or_default();
        if *count >= MAX_TURNS {
            return None;
        }
        *count += 1;
        drop(turns);
        Some(ChatTurnSlot { turns: self.clone(), user: user.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ChatTurnSlot {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        if let Some(count) = turns.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                turns.remove(&self.user);
            }
        }
    }
}

/// The models of the chat.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatModelsView {
    /// The names, the default first. Empty if `llm` is not configured.
    models: Vec<String>,
}

/// Lists the models that the caller can chat with.
#[utoipa::path(
    get,
    path = "/chat",
    responses((status = 200, description = "The models.", body = ChatModelsView))
)]
pub async fn models(
    State(rest): State<RestState>,
    RestCaller(_): RestCaller,
    _: NoQuery,
) -> Json<ChatModelsView> {
    Json(ChatModelsView { models: rest.door.engine.calls().chat_models() })
}

/// An event of the stream: the `data` of a server-sent event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ChatEvent {
    /// A piece of the text.
    Text {
        /// The piece.
        text: String,
    },
    /// The whole turn, as the last event.
    Turn {
        /// The text.
        text: String,
        /// The calls that the model requests.
        calls: Vec<ChatCallRequest>,
        /// The model that answered.
        model: String,
        /// `end`, or `length` if the answer reached the token limit.
        finish: &'static str,
        /// The tokens of the conversation.
        prompt_tokens: u64,
        /// The tokens of the answer.
        completion_tokens: u64,
    },
    /// Why there is no turn, as the last event.
    Failed {
        /// The problem.
        problem: ProblemView,
    },
}

impl ChatEvent {
    fn of(turn: AssistantTurn) -> Self {
        let AssistantTurn { text, calls, model, finish, usage } = turn;
        let call = |ToolCall { id, name, arguments }| ChatCallRequest { id, name, arguments };
        Self::Turn {
            text,
            calls: calls.into_iter().map(call).collect(),
            model,
            finish: match finish {
                Finish::End => "end",
                Finish::Length => "length",
            },
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
        }
    }

    fn bytes(&self) -> Bytes {
        write_event(&serde_json::to_vec(self).unwrap_or_default(), None)
    }
}

/// Gets the model's next turn of a chat.
///
/// A stream of server-sent events. The gateway adds its own instructions and the meta tools `mcp_tool_search`,
/// `mcp_tool_list`, `mcp_tool_describe` and `mcp_tool_call`. It makes no calls: the client makes the requested ones and
/// sends their results as messages of role `tool`.
#[utoipa::path(
    post,
    path = "/chat",
    request_body(content = ChatBody, example = json!({ "messages": [{ "role": "user", "content": "hello" }] })),
    responses(
        (status = 200, description = "The stream. Each event has a `ChatEvent` as data.", content_type = "text/event-stream", body = ChatEvent),
        (status = 404, description = "`llm.not-configured` or `llm.unknown-model`."),
        (status = 429, description = "`llm.too-many-turns` or `sampling.over-budget`."),
        (status = 502, description = "The language model failed."),
    )
)]
pub async fn turn(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Response, ProblemDocument> {
    let request = read(&body)?;
    let slot = rest.chat_turns.begin(&caller.user).ok_or_else(too_many_turns)?;
    let calls = rest.door.engine.calls().clone();
    let (sender, pieces) = mpsc::unbounded_channel();
    let work = Box::pin(async move {
        // The stream was dropped if the piece cannot be sent, and then this future was, too.
        let on_text = |piece: &str| drop(sender.send(piece.to_owned()));
        calls.chat_turn(&caller, request, on_text).await
    });
    let mut stream = ChatStream { rest, work: Some(work), pieces, _slot: slot, first: None };
    if let Ok(event) = timeout(FIRST_PIECE, stream.next()).await {
        match event {
            Some(Err(problem)) => return Err(problem.into()),
            Some(Ok(event)) => stream.first = Some(event),
            None => {}
        }
    }
    let mut response = Response::new(Body::from_stream(stream.chunks()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Reads and checks the body.
fn read(body: &[u8]) -> Result<ChatTurnRequest, Problem> {
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

fn too_many_turns() -> Problem {
    Problem {
        code: "llm.too-many-turns",
        blame: Blame::Caller,
        message: format!("you wait for {MAX_TURNS} answers of the language model already"),
        hint: Some("wait for one of them, or stop one".into()),
    }
}

/// A turn that is being received. Dropping it ends the request to the model.
struct ChatStream {
    rest: RestState,
    work: Option<BoxFuture<'static, Result<AssistantTurn, Problem>>>,
    pieces: mpsc::UnboundedReceiver<String>,
    _slot: ChatTurnSlot,
    first: Option<ChatEvent>,
}

impl ChatStream {
    fn chunks(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures_util::stream::unfold(self, |mut stream| async move {
            if let Some(event) = stream.first.take() {
                return Some((Ok(event.bytes()), stream));
            }
            let interval = stream.rest.door.keep_alive;
            let chunk = match timeout(interval, stream.next()).await {
                Ok(event) => match event? {
                    Ok(event) => event.bytes(),
                    Err(problem) => {
                        let problem = ProblemDocument::from(problem).view();
                        ChatEvent::Failed { problem }.bytes()
                    }
                },
                Err(_) => Bytes::from_static(KEEP_ALIVE),
            };
            Some((Ok(chunk), stream))
        })
    }

    /// The next event; `None` after the last one. Cancel-safe.
    async fn next(&mut self) -> Option<Result<ChatEvent, Problem>> {
        let work = self.work.as_mut()?;
        tokio::select! {
            biased;
            Some(text) = self.pieces.recv() => Some(Ok(ChatEvent::Text { text })),
            turn = work => {
                self.work = None;
                Some(turn.map(ChatEvent::of))
            }
            () = self.rest.door.stop.cancelled() => {
                self.work = None;
                None
            }
        }
    }
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

    #[test]
    fn a_user_waits_for_a_few_turns_only() {
        let turns = Arc::new(ChatTurns::default());
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let mut slots: Vec<_> = (0..MAX_TURNS).map(|_| turns.begin(&ann)).collect();
        assert!(slots.iter().all(Option::is_some));
        assert!(turns.begin(&ann).is_none() && turns.begin(&bob).is_some());
        slots.pop();
        assert!(turns.begin(&ann).is_some());
        drop(slots);
        assert!(turns.lock().is_empty());
    }
}
