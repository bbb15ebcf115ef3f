//! A language model for tests: an OpenAI-compatible endpoint that says what it is told to, one answer after another.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The longest request it reads.
const LONGEST: usize = 4 << 20;

/// How it answers one request.
#[derive(Debug, Clone)]
pub enum Manner {
    /// In pieces, with what it has cost.
    Streams(Vec<String>),
    /// By asking for tools, each with its arguments, in pieces.
    Calls(Vec<(String, Value)>),
    /// It begins, and says that it cannot go on.
    GivesUp,
    /// In one piece.
    Whole(String),
    /// With an error.
    Refuses(u16),
    /// With something that is no answer.
    Babbles,
    /// It begins, and says no more.
    Stalls,
    /// It begins, and hangs up.
    HangsUp,
}

impl Manner {
    /// A text, in two pieces.
    pub fn says(text: &str) -> Self {
        let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        let (first, second) = text.split_at(middle);
        Self::Streams(vec![first.to_owned(), second.to_owned()])
    }

    /// One tool.
    pub fn calls(tool: &str, arguments: Value) -> Self {
        Self::Calls(vec![(tool.to_owned(), arguments)])
    }
}

/// An endpoint on this machine.
#[derive(Debug)]
pub struct ChatServer {
    /// Its address, up to and including `/v1`.
    pub url: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl ChatServer {
    /// Starts one; when it has nothing left to say, it refuses with 500.
    pub async fn start(manners: impl IntoIterator<Item = Manner>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let seen = Arc::<Mutex<Vec<Value>>>::default();
        let manners = Arc::new(Mutex::new(manners.into_iter().collect::<VecDeque<_>>()));
        let journal = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, manners.clone(), journal.clone()));
            }
        });
        Ok(Self { url, seen })
    }

    /// The requests so far: each with its `authorization` beside what its body says.
    pub fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(mut stream: TcpStream, manners: Arc<Mutex<VecDeque<Manner>>>, seen: Arc<Mutex<Vec<Value>>>) {
    while let Some(request) = read(&mut stream).await {
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let manner = manners.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if answer(&mut stream, manner.unwrap_or(Manner::Refuses(500))).await.is_none() {
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

/// Answers; nothing once the connection is of no more use.
async fn answer(stream: &mut TcpStream, manner: Manner) -> Option<()> {
    const STREAM: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let piece = |text: &str| json!({"model": "test-model", "choices": [{"delta": {"content": text}}]});
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let event = |data: &Value| chunk(&format!("data: {data}\n\n"));
    let plain = |status: u16, kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status} Some\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let (text, end) = match manner {
        Manner::Streams(pieces) => {
            let mut text = STREAM.to_owned();
            for said in &pieces {
                text.push_str(&event(&piece(said)));
            }
            text.push_str(&event(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})));
            text.push_str(&event(
                &json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}),
            ));
            text.push_str(&chunk("data: [DONE]\n\n"));
            (text + "0\r\n\r\n", End::Open)
        }
        Manner::Calls(calls) => {
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
            (text + "0\r\n\r\n", End::Open)
        }
        Manner::GivesUp => {
            let sorry = json!({"error": {"message": "the server is overloaded", "code": 503}});
            (STREAM.to_owned() + &event(&piece("to be")) + &event(&sorry), End::Open)
        }
        Manner::Whole(said) => {
            let body = json!({"model": "test-model", "choices": [
                {"message": {"role": "assistant", "content": said}, "finish_reason": "length"}]});
            (plain(200, "application/json", &body.to_string()), End::Open)
        }
        Manner::Refuses(status) => {
            (plain(status, "application/json", r#"{"error":{"message":"sk-secret"}}"#), End::Open)
        }
        Manner::Babbles => (STREAM.to_owned() + &chunk("data: <html>\n\n"), End::Open),
        Manner::Stalls => (STREAM.to_owned() + &event(&piece("to be")), End::Silent),
        Manner::HangsUp => (STREAM.to_owned() + &event(&piece("to be")), End::Closed),
    };
    stream.write_all(text.as_bytes()).await.ok()?;
    match end {
        End::Open => Some(()),
        End::Closed => None,
        // Until the other side gives up.
        End::Silent => stream.read_u8().await.ok().and(None),
    }
}

enum End {
    Open,
    Silent,
    Closed,
}
