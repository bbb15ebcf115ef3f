//! A language model for tests: an OpenAI-compatible endpoint that sends scripted replies in order.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The largest request in bytes.
const LONGEST: usize = 4 << 20;

/// The reply to one request.
#[derive(Debug, Clone)]
pub enum ChatReply {
    /// A streamed text in pieces, with token usage.
    Streams(Vec<String>),
    /// Streamed tool calls with their arguments.
    Calls(Vec<(String, Value)>),
    /// A stream that begins and then reports an error.
    GivesUp,
    /// A text in a single JSON body.
    Whole(String),
    /// An HTTP error.
    Refuses(u16),
    /// A stream with an invalid event.
    Babbles,
    /// A stream that begins and then sends nothing.
    Stalls,
    /// A stream that begins and then closes the connection.
    HangsUp,
}

impl ChatReply {
    /// A streamed text in two pieces.
    pub fn says(text: &str) -> Self {
        let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        let (first, second) = text.split_at(middle);
        Self::Streams(vec![first.to_owned(), second.to_owned()])
    }

    /// One tool call.
    pub fn calls(tool: &str, arguments: Value) -> Self {
        Self::Calls(vec![(tool.to_owned(), arguments)])
    }
}

/// A local chat endpoint.
#[derive(Debug)]
pub struct ChatServer {
    /// Its URL, including `/v1`.
    pub url: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl ChatServer {
    /// Starts an endpoint; after the last reply it answers with status 500.
    pub async fn start(replies: impl IntoIterator<Item = ChatReply>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let seen = Arc::<Mutex<Vec<Value>>>::default();
        let replies = Arc::new(Mutex::new(replies.into_iter().collect::<VecDeque<_>>()));
        let log = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, replies.clone(), log.clone()));
            }
        });
        Ok(Self { url, seen })
    }

    /// The request bodies so far, each with `authorization` and `path` added.
    pub fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    replies: Arc<Mutex<VecDeque<ChatReply>>>,
    seen: Arc<Mutex<Vec<Value>>>,
) {
    while let Some(request) = read(&mut stream).await {
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let reply = replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if answer(&mut stream, reply.unwrap_or(ChatReply::Refuses(500))).await.is_none() {
            return;
        }
    }
}

/// Reads one request.
pub(crate) async fn read(stream: &mut TcpStream) -> Option<Value> {
    let mut text = Vec::new();
    let head = loop {
        if let Some(at) = text.windows(4).position(|part| part == b"\r\n\r\n") {
            break at;
        }
        if text.len() > LONGEST || stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    };
    let lines = String::from_utf8_lossy(&text[..head]).into_owned();
    let header = |name: &str| {
        let found = lines.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        found.unwrap_or_default()
    };
    let length: usize = header("content-length").parse().ok().filter(|length| *length <= LONGEST)?;
    while text.len() < head + 4 + length {
        if stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
    let mut request: Value = serde_json::from_slice(&text[head + 4..head + 4 + length]).ok()?;
    request["authorization"] = header("authorization").into();
    request["path"] = lines.split(' ').nth(1)?.into();
    Some(request)
}

/// Sends a reply; `None` if the connection must be closed.
async fn answer(stream: &mut TcpStream, reply: ChatReply) -> Option<()> {
    const STREAM: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let piece = |text: &str| json!({"model": "test-model", "choices": [{"delta": {"content": text}}]});
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let event = |data: &Value| chunk(&format!("data: {data}\n\n"));
    let plain = |status: u16, kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status} Some\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let (text, end) = match reply {
        ChatReply::Streams(pieces) => {
            let mut text = STREAM.to_owned();
            for content in &pieces {
                text.push_str(&event(&piece(content)));
            }
            text.push_str(&event(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})));
            text.push_str(&event(
                &json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}),
            ));
            text.push_str(&chunk("data: [DONE]\n\n"));
            (text + "0\r\n\r\n", StreamEnd::Open)
        }
        ChatReply::Calls(calls) => {
            let mut text = STREAM.to_owned();
            for (number, (tool, arguments)) in calls.iter().enumerate() {
                let arguments = arguments.to_string();
                let middle = arguments.floor_char_boundary(arguments.len() / 2);
                let start = json!({"index": number, "id": format!("call-{number}"), "type": "function",
                    "function": {"name": tool, "arguments": ""}});
                let more = |part: &str| json!({"index": number, "function": {"arguments": part}});
                for call in [start, more(&arguments[..middle]), more(&arguments[middle..])] {
                    let delta = json!({"content": null, "tool_calls": [call]});
                    text.push_str(&event(&json!({"model": "test-model", "choices": [{"delta": delta}]})));
                }
            }
            text.push_str(&event(&json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})));
            text.push_str(&chunk("data: [DONE]\n\n"));
            (text + "0\r\n\r\n", StreamEnd::Open)
        }
        ChatReply::GivesUp => {
            let sorry = json!({"error": {"message": "the server is overloaded", "code": 503}});
            (STREAM.to_owned() + &event(&piece("to be")) + &event(&sorry), StreamEnd::Open)
        }
        ChatReply::Whole(content) => {
            let body = json!({"model": "test-model", "choices": [
                {"message": {"role": "assistant", "content": content}, "finish_reason": "length"}]});
            (plain(200, "application/json", &body.to_string()), StreamEnd::Open)
        }
        ChatReply::Refuses(status) => {
            (plain(status, "application/json", r#"{"error":{"message":"sk-secret"}}"#), StreamEnd::Open)
        }
        ChatReply::Babbles => (STREAM.to_owned() + &chunk("data: <html>\n\n"), StreamEnd::Open),
        ChatReply::Stalls => (STREAM.to_owned() + &event(&piece("to be")), StreamEnd::Silent),
        ChatReply::HangsUp => (STREAM.to_owned() + &event(&piece("to be")), StreamEnd::Closed),
    };
    stream.write_all(text.as_bytes()).await.ok()?;
    match end {
        StreamEnd::Open => Some(()),
        StreamEnd::Closed => None,
        // Waits until the client closes the connection.
        StreamEnd::Silent => stream.read_u8().await.ok().and(None),
    }
}

enum StreamEnd {
    Open,
    Silent,
    Closed,
}
