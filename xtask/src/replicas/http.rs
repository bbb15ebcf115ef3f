//! A small HTTP client. One request on a new connection can reach another replica than the one before.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longer than a replica may be stopped, and than a call waits for its approval.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);
/// The longest answer.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A request without its address.
#[derive(Debug, Clone)]
pub struct OutgoingRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Complete lines of headers, each with its line end.
    pub headers: &'a str,
    pub body: &'a str,
}

/// A complete answer.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedAnswer {
    pub status: u16,
    /// The session that the answer opens.
    pub session: Option<String>,
    pub body: String,
}

impl ReceivedAnswer {
    /// The body as JSON; of an event stream, its last message.
    pub fn json(&self) -> Result<Value> {
        let last = self.body.lines().rev().find_map(|line| line.strip_prefix("data:"));
        let text = if self.body.starts_with('{') { &self.body } else { last.unwrap_or(&self.body) };
        serde_json::from_str(text).with_context(|| format!("status {}: {:.200}", self.status, self.body))
    }
}

/// A connection that can be used for several requests.
#[derive(Debug)]
pub struct ReplicaConnection {
    stream: TcpStream,
    address: SocketAddr,
}

impl ReplicaConnection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address })
    }

    /// Sends a request and reads its whole answer.
    pub fn ask(&mut self, request: &OutgoingRequest<'_>) -> Result<ReceivedAnswer> {
        self.exchange(request, |_| Ok(()))
    }

    /// Sends a request and reads its whole answer; passes on each message of an event stream when it arrives.
    pub fn watch(
        &mut self,
        request: &OutgoingRequest<'_>,
        mut on_message: impl FnMut(&Value) -> Result<()>,
    ) -> Result<ReceivedAnswer> {
        let mut passed_on = 0;
        self.exchange(request, |received| {
            let messages = messages(received);
            for message in messages.iter().skip(passed_on) {
                on_message(message)?;
            }
            passed_on = passed_on.max(messages.len());
            Ok(())
        })
    }

    /// Sends a request and reads its whole answer; `on_bytes` gets all received bytes after each read.
    fn exchange(
        &mut self,
        request: &OutgoingRequest<'_>,
        mut on_bytes: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<ReceivedAnswer> {
        let OutgoingRequest { method, path, headers, body } = request;
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(text.as_bytes())?;
        let mut received = Vec::new();
        let mut piece = [0; 16 * 1024];
        loop {
            let count = match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            received.extend_from_slice(&piece[..count]);
            on_bytes(&received)?;
            let ended = if count == 0 { AnswerReading::Ended } else { AnswerReading::Open };
            if let Some(answer) = parse(&received, ended)? {
                return Ok(answer);
            }
            if count == 0 || received.len() > MOST_BYTES {
                bail!("the answer ended after {} bytes", received.len());
            }
        }
    }
}

/// The complete messages of an event stream of which these bytes were received.
fn messages(received: &[u8]) -> Vec<Value> {
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Vec::new() };
    let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
    let rest = &received[end + 4..];
    let body = if head.contains("transfer-encoding: chunked") { chunks_so_far(rest) } else { rest.to_vec() };
    let text = String::from_utf8_lossy(&body);
    // A line without its end may not be complete.
    let Some((complete, _)) = text.rsplit_once('\n') else { return Vec::new() };
    let data = complete.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The content of a chunked body that has not ended.
fn chunks_so_far(mut rest: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok()).unwrap_or(0);
        if size == 0 {
            break;
        }
        let after = &rest[end + 2..];
        content.extend_from_slice(&after[..size.min(after.len())]);
        match after.get(size + 2..) {
            Some(next) => rest = next,
            None => break,
        }
    }
    content
}

/// Whether more bytes of an answer may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerReading {
    Open,
    Ended,
}

/// The answer in these bytes; `None` if it is not complete.
fn parse(received: &[u8], reading: AnswerReading) -> Result<Option<ReceivedAnswer>> {
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&received[..end]).context("the head of the answer is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.context("the answer has no status")?;
    let mut length = None;
    let mut session = None;
    let mut is_chunked = false;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse::<usize>().ok(),
            "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
            "mcp-session-id" => session = Some(value.to_owned()),
            _ => {}
        }
    }
    let rest = &received[end + 4..];
    let body = if is_chunked {
        unchunk(rest)
    } else {
        match length {
            Some(length) => rest.get(..length).map(<[u8]>::to_vec),
            None => (reading == AnswerReading::Ended).then(|| rest.to_vec()),
        }
    };
    let Some(body) = body else { return Ok(None) };
    Ok(Some(ReceivedAnswer { status, session, body: String::from_utf8_lossy(&body).into_owned() }))
}

/// The content of a chunked body; `None` if it is not complete.
fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.trim(), 16).ok()?;
        let chunk = rest.get(end + 2..end + 2 + size)?;
        if size == 0 {
            return Some(content);
        }
        content.extend_from_slice(chunk);
        rest = rest.get(end + 4 + size..)?;
    }
}

/// A user who sends each request on a new connection.
#[derive(Debug, Clone)]
pub struct ReplicaUser {
    address: SocketAddr,
    headers: String,
}

impl ReplicaUser {
    /// A user with this token.
    pub fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, headers: format!("Connection: close\r\nAuthorization: Bearer {token}\r\n") }
    }

    /// Sends a request with more headers.
    pub fn send(&self, method: &str, path: &str, more: &str, body: &str) -> Result<ReceivedAnswer> {
        let headers = format!("{}{more}", self.headers);
        ReplicaConnection::open(self.address)?.ask(&OutgoingRequest { method, path, headers: &headers, body })
    }

    /// Posts a body with more headers; passes on each message of an event stream when it arrives.
    pub fn watch(
        &self,
        path: &str,
        more: &str,
        body: &str,
        on_message: impl FnMut(&Value) -> Result<()>,
    ) -> Result<ReceivedAnswer> {
        let headers = format!("{}{more}", self.headers);
        let request = OutgoingRequest { method: "POST", path, headers: &headers, body };
        ReplicaConnection::open(self.address)?.watch(&request, on_message)
    }

    /// Reads a document.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.send("GET", path, "", "")?.json()
    }

    /// Posts a document; returns the status and the answer.
    pub fn post(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let answer = self.send("POST", path, "", &body.to_string())?;
        Ok((answer.status, answer.json()?))
    }

    /// Posts a document, and fails if the status is an error.
    pub fn order(&self, path: &str, body: &Value) -> Result<Value> {
        match self.post(path, body)? {
            (200..300, answer) => Ok(answer),
            (status, answer) => bail!("{path}: status {status}: {answer}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_only_with_its_last_byte() -> Result<()> {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", AnswerReading::Open, Some("{}")),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{", AnswerReading::Ended, None),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                AnswerReading::Open,
                Some("{}"),
            ),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", AnswerReading::Ended, None),
            ("HTTP/1.1 200 OK\r\n\r\n{}", AnswerReading::Ended, Some("{}")),
            ("HTTP/1.1 200 OK\r\n\r\n{}", AnswerReading::Open, None),
            ("HTTP/1.1 200 OK\r\n", AnswerReading::Ended, None),
        ];
        for (text, reading, expected) in cases {
            let found = parse(text.as_bytes(), reading)?.map(|answer| answer.body);
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
        Ok(())
    }

    #[test]
    fn messages_of_a_stream_are_read_before_it_ends() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let cases = [
            ("", 0),
            ("e\r\ndata: {\"n\":1}", 0),
            ("f\r\ndata: {\"n\":1}\n\n\r\n", 1),
            ("8\r\ndata: {\"\r\n8\r\nn\":1}\n\ni\r\n", 1),
            ("f\r\ndata: {\"n\":1}\n\n\r\nf\r\ndata: {\"n\":2}\n\n\r\n0\r\n\r\n", 2),
        ];
        for (chunks, expected) in cases {
            assert_eq!(messages(format!("{head}{chunks}").as_bytes()).len(), expected, "{chunks:?}");
        }
        assert_eq!(messages(b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n"), [serde_json::json!({})]);
        assert!(messages(b"HTTP/1.1 200 OK\r\n").is_empty());
    }

    #[test]
    fn the_last_message_of_a_stream_is_the_answer() -> Result<()> {
        let body = "event: message\ndata: {\"n\":1}\n\nevent: message\ndata: {\"n\":2}\n\n".to_owned();
        let answer = ReceivedAnswer { status: 200, session: None, body };
        assert_eq!(answer.json()?["n"], 2);
        Ok(())
    }
}
