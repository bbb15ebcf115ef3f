//! The body of an HTTP response, read from its connection. After the last byte the connection returns to the
//! pool.

use super::connection::HttpConnection;
use super::idle_pool::IdlePools;
use super::response_head::{ConnectionReuse, Framing, ResponseHead};
use bytes::Bytes;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Maximum length of a line between chunks, including extensions and trailers.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Maximum number of trailers; they are ignored.
const MAX_TRAILERS: usize = 100;

/// The body of a response. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(super) struct IncomingBody {
    connection: Option<HttpConnection>,
    idle_pools: Arc<IdlePools>,
    state: BodyState,
    reuse: ConnectionReuse,
}

/// The next expected part of the body.
#[derive(Debug, Clone, Copy)]
enum BodyState {
    /// This number of bytes, then the end.
    Length(u64),
    /// Bytes until the connection closes.
    UntilClosed,
    /// The size of a chunk.
    Size,
    /// This number of bytes of a chunk.
    Chunk(u64),
    /// The line break after a chunk.
    ChunkEnd,
    /// The trailers after the last chunk; holds their number so far.
    Trailers(usize),
    /// Nothing: the body has ended.
    Ended,
}

impl IncomingBody {
    /// The body that follows a head.
    pub(super) fn new(head: &ResponseHead, connection: HttpConnection, idle_pools: Arc<IdlePools>) -> Self {
        let state = match head.framing {
            Framing::Length(length) => BodyState::Length(length),
            Framing::Chunked => BodyState::Size,
            Framing::UntilClosed => BodyState::UntilClosed,
        };
        let mut body = Self { connection: Some(connection), idle_pools, state, reuse: head.reuse };
        if matches!(state, BodyState::Length(0)) {
            body.end();
        }
        body
    }

    /// Whether the body was read to its end.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, BodyState::Ended)
    }

    /// Reads the next piece; `None` at the end. Cancel safe.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(None)) };
            if connection.buffered().is_empty() {
                let expected = match self.state {
                    BodyState::Length(left) | BodyState::Chunk(left) => {
                        usize::try_from(left).unwrap_or(usize::MAX)
                    }
                    _ => 0,
                };
                let read = ready!(connection.poll_fill(expected, cx));
                match (read, self.state) {
                    (Ok(0), BodyState::UntilClosed) => self.end(),
                    (Ok(0), _) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    (Ok(_), _) => {}
                    (Err(error), _) => return Poll::Ready(Err(error)),
                }
                continue;
            }
            match self.state {
                BodyState::Length(left) => {
                    let taken = connection.take(left);
                    self.state = BodyState::Length(left - taken.len() as u64);
                    if left == taken.len() as u64 {
                        self.end();
                    }
                    return Poll::Ready(Ok(Some(taken)));
                }
                BodyState::UntilClosed => return Poll::Ready(Ok(Some(connection.take(u64::MAX)))),
                BodyState::Chunk(left) => {
                    let taken = connection.take(left);
                    let left = left - taken.len() as u64;
                    self.state = if left == 0 { BodyState::ChunkEnd } else { BodyState::Chunk(left) };
                    return Poll::Ready(Ok(Some(taken)));
                }
                BodyState::Size | BodyState::ChunkEnd | BodyState::Trailers(_) => {
                    let Some(length) = connection.buffered().iter().position(|byte| *byte == b'\n') else {
                        if connection.buffered().len() > MAX_LINE_BYTES {
                            return Poll::Ready(Err(unreadable()));
                        }
                        match ready!(connection.poll_fill(0, cx))? {
                            0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                            _ => continue,
                        }
                    };
                    let state = self.state.after_line(connection.buffered()[..length].trim_ascii())?;
                    connection.skip(length + 1);
                    self.state = state;
                    if self.is_ended() {
                        self.end();
                    }
                }
                BodyState::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Ends the body and returns the connection to the pool if it can be reused.
    fn end(&mut self) {
        self.state = BodyState::Ended;
        if let Some(connection) = self.connection.take()
            && self.reuse == ConnectionReuse::Kept
            && connection.buffered().is_empty()
        {
            self.idle_pools.put(connection);
        }
    }
}

impl BodyState {
    /// The state after a line between chunks.
    fn after_line(self, line: &[u8]) -> io::Result<Self> {
        match self {
            Self::Size => match chunk_size(line).ok_or_else(unreadable)? {
                0 => Ok(Self::Trailers(0)),
                size => Ok(Self::Chunk(size)),
            },
            Self::ChunkEnd if line.is_empty() => Ok(Self::Size),
            Self::Trailers(_) if line.is_empty() => Ok(Self::Ended),
            Self::Trailers(count) if count < MAX_TRAILERS => Ok(Self::Trailers(count + 1)),
            _ => Err(unreadable()),
        }
    }
}

/// The size of a chunk: hexadecimal digits, optionally followed by extensions, which are ignored.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_number)?, 16).ok()
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a chunk is malformed")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::client::{HttpOrigin, OriginClient};
    use super::super::request_headers::RequestHeaders;
    use super::super::send_error::SendError;
    use super::*;
    use ::http::{Method, StatusCode};
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// How a test server writes its responses.
    #[derive(Clone, Copy)]
    enum WriteMode {
        /// Writes at once.
        Whole,
        /// Writes byte by byte.
        ByteByByte,
        /// Writes and closes the connection.
        HangsUp,
    }

    /// Starts a server with a fixed response; returns a client and the number of connections accepted.
    async fn answering(answer: &str, mode: WriteMode) -> (Arc<OriginClient>, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = HttpOrigin::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let dialled = Arc::new(Mutex::new(0));
        let (count, answer) = (dialled.clone(), answer.to_owned());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let answer = answer.clone();
                tokio::spawn(async move {
                    stream.set_nodelay(true).unwrap();
                    let mut read = [0; 4096];
                    while stream.read(&mut read).await.is_ok_and(|length| length > 0) {
                        match mode {
                            WriteMode::Whole => stream.write_all(answer.as_bytes()).await.unwrap(),
                            WriteMode::ByteByByte => {
                                for byte in answer.as_bytes().chunks(1) {
                                    stream.write_all(byte).await.unwrap();
                                    tokio::task::yield_now().await;
                                }
                            }
                            WriteMode::HangsUp => {
                                stream.write_all(answer.as_bytes()).await.unwrap();
                                return;
                            }
                        }
                    }
                });
            }
        });
        (OriginClient::new(origin, Duration::from_secs(5)), dialled)
    }

    async fn ask(client: &Arc<OriginClient>, body: Option<Bytes>) -> Result<(StatusCode, String), String> {
        let request = RequestHeaders::with_capacity(0).request(&Method::POST, "/", body);
        let (head, mut body) = client.exchange(request).await.map_err(|failure| match failure {
            SendError::NotSent(why) => format!("not sent: {why}"),
            SendError::Broken(why) => why,
        })?;
        let mut gathered = Vec::new();
        while let Some(chunk) = body.chunk().await.map_err(|error| error.to_string())? {
            gathered.extend_from_slice(&chunk);
        }
        Ok((head.status, String::from_utf8(gathered).unwrap()))
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_end_and_frees_the_connection() {
        let long = "x".repeat(100_000);
        let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{long}");
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let cases = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_owned(), "hello", 1),
            ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "", 1),
            (format!("{chunked}5\r\nhello\r\n0\r\n\r\n"), "hello", 1),
            (format!("{chunked}2;a=b\r\nhe\r\n3 \r\nllo\r\n00\r\nx-trailer: y\r\n\r\n"), "hello", 1),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned(),
                "ok",
                1,
            ),
            ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok".to_owned(), "ok", 2),
            // Bytes after the response belong to no request: the connection is not reused.
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!".to_owned(), "ok", 2),
            (long.clone(), &long[long.len() - 100_000..], 1),
        ];
        for (answer, body, dials) in &cases {
            for mode in [WriteMode::Whole, WriteMode::ByteByByte] {
                if matches!(mode, WriteMode::ByteByByte) && (answer.len() > 1000 || answer.ends_with('!')) {
                    continue;
                }
                let (client, dialled) = answering(answer, mode).await;
                for _ in 0..2 {
                    assert_eq!(ask(&client, Some(Bytes::new())).await.unwrap().1, *body, "{answer:.80}");
                }
                assert_eq!(*dialled.lock().unwrap(), *dials, "{answer:.80}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_without_a_length_ends_with_its_connection() {
        let (client, dialled) = answering("HTTP/1.1 200 OK\r\n\r\nhello", WriteMode::HangsUp).await;
        for _ in 0..2 {
            assert_eq!(ask(&client, None).await.unwrap().1, "hello");
        }
        assert_eq!(*dialled.lock().unwrap(), 2);
    }

    #[tokio::test]
    async fn truncated_and_malformed_responses_are_errors() {
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let cases = [
            "".to_owned(),
            "HTTP/1.1 200".to_owned(),
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello".to_owned(),
            "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
            "garbage\r\n\r\n".to_owned(),
            format!("{chunked}5\r\nhello\r\n"),
            format!("{chunked}-5\r\nhello\r\n0\r\n\r\n"),
            format!("{chunked}\r\nhello\r\n0\r\n\r\n"),
            format!("{chunked}5\r\nhelloo\r\n0\r\n\r\n"),
            format!("{chunked}fffffffffffffffff\r\nhello\r\n"),
            format!("{chunked}5;{}", "x".repeat(MAX_LINE_BYTES + 1024)),
            format!("{chunked}0\r\n{}\r\n", "x: y\r\n".repeat(MAX_TRAILERS + 1)),
        ];
        for answer in cases {
            let (client, _) = answering(&answer, WriteMode::HangsUp).await;
            let answered = ask(&client, Some(Bytes::new())).await;
            assert!(
                answered.as_ref().is_err_and(|why| !why.starts_with("not sent")),
                "{answer:.80}: {answered:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_connection_that_its_server_closed_is_not_reused() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        let (client, dialled) = answering(answer, WriteMode::HangsUp).await;
        for _ in 0..5 {
            assert_eq!(ask(&client, Some(Bytes::from_static(b"{}"))).await.unwrap().1, "hello");
            // Wait until the close has arrived.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(*dialled.lock().unwrap(), 5);
    }

    #[tokio::test]
    async fn a_server_may_answer_before_it_has_read_the_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = HttpOrigin::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut read = [0; 64];
                stream.read_exact(&mut read).await.unwrap();
                stream.write_all(b"HTTP/1.1 413 No\r\ncontent-length: 3\r\n\r\nbig").await.unwrap();
                kept.push(stream); // Neither read further nor closed.
            }
        });
        let client = OriginClient::new(origin, Duration::from_secs(5));
        for _ in 0..2 {
            let body = Bytes::from(vec![b' '; 32 << 20]);
            let answered = tokio::time::timeout(Duration::from_secs(10), ask(&client, Some(body))).await;
            assert_eq!(answered.unwrap().unwrap(), (StatusCode::PAYLOAD_TOO_LARGE, "big".to_owned()));
        }
    }
}
