//! The body of an HTTP answer, read off its line; with its last byte the line is free for the next call.

use super::client::Client;
use super::head::{After, AnswerHead, Framing};
use super::line::Line;
use bytes::Bytes;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The longest line between chunks, extensions and trailers included.
const LONGEST_LINE: usize = 4 << 10;
/// How many trailers a body may have; nobody reads them.
const MOST_TRAILERS: usize = 100;

/// The body of an answer on its way in. Dropped before its end, it takes the connection along.
#[derive(Debug)]
pub(super) struct Inbound {
    line: Option<Line>,
    client: Arc<Client>,
    state: State,
    after: After,
}

/// What comes next on the line.
#[derive(Debug, Clone, Copy)]
enum State {
    /// So many bytes of a body, then nothing.
    Length(u64),
    /// Bytes up to the end of the connection.
    UntilClosed,
    /// The size of a chunk.
    Size,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The end of a line behind a chunk.
    ChunkEnd,
    /// The lines behind the last chunk; how many there were.
    Trailers(usize),
    /// Nothing.
    Ended,
}

impl Inbound {
    /// The body behind a head that was just read.
    pub(super) fn new(head: &AnswerHead, line: Line, client: Arc<Client>) -> Self {
        let state = match head.framing {
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size,
            Framing::UntilClosed => State::UntilClosed,
        };
        let mut body = Self { line: Some(line), client, state, after: head.after };
        if matches!(state, State::Length(0)) {
            body.end();
        }
        body
    }

    /// Whether all of it was read.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// The next piece; nothing at the end. Dropping the future loses nothing.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            let Some(line) = &mut self.line else { return Poll::Ready(Ok(None)) };
            if line.waiting().is_empty() {
                let expected = match self.state {
                    State::Length(left) | State::Chunk(left) => usize::try_from(left).unwrap_or(usize::MAX),
                    _ => 0,
                };
                let read = ready!(line.poll_fill(expected, cx));
                match (read, self.state) {
                    (Ok(0), State::UntilClosed) => self.end(),
                    (Ok(0), _) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    (Ok(_), _) => {}
                    (Err(error), _) => return Poll::Ready(Err(error)),
                }
                continue;
            }
            match self.state {
                State::Length(left) => {
                    let taken = line.take(left);
                    self.state = State::Length(left - taken.len() as u64);
                    if left == taken.len() as u64 {
                        self.end();
                    }
                    return Poll::Ready(Ok(Some(taken)));
                }
                State::UntilClosed => return Poll::Ready(Ok(Some(line.take(u64::MAX)))),
                State::Chunk(left) => {
                    let taken = line.take(left);
                    let left = left - taken.len() as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Poll::Ready(Ok(Some(taken)));
                }
                State::Size | State::ChunkEnd | State::Trailers(_) => {
                    let Some(length) = line.waiting().iter().position(|byte| *byte == b'\n') else {
                        if line.waiting().len() > LONGEST_LINE {
                            return Poll::Ready(Err(unreadable()));
                        }
                        match ready!(line.poll_fill(0, cx))? {
                            0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                            _ => continue,
                        }
                    };
                    let state = self.state.after_line(line.waiting()[..length].trim_ascii())?;
                    line.skip(length + 1);
                    self.state = state;
                    if self.is_ended() {
                        self.end();
                    }
                }
                State::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// The end: the line is put back where it can be used again.
    fn end(&mut self) {
        self.state = State::Ended;
        if let Some(line) = self.line.take()
            && self.after == After::Kept
            && line.waiting().is_empty()
        {
            self.client.put_back(line);
        }
    }
}

impl State {
    /// What follows a line between chunks.
    fn after_line(self, line: &[u8]) -> io::Result<Self> {
        match self {
            Self::Size => match chunk_size(line).ok_or_else(unreadable)? {
                0 => Ok(Self::Trailers(0)),
                size => Ok(Self::Chunk(size)),
            },
            Self::ChunkEnd if line.is_empty() => Ok(Self::Size),
            Self::Trailers(_) if line.is_empty() => Ok(Self::Ended),
            Self::Trailers(count) if count < MOST_TRAILERS => Ok(Self::Trailers(count + 1)),
            _ => Err(unreadable()),
        }
    }
}

/// The size of a chunk: hexadecimal digits, and perhaps extensions that nobody here knows.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_number)?, 16).ok()
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a chunk of it cannot be read")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::client::{Failure, Origin};
    use super::super::heading::Heading;
    use super::*;
    use ::http::{Method, StatusCode};
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// What a server does with one connection, request by request.
    #[derive(Clone, Copy)]
    enum Manner {
        /// Writes at once.
        Whole,
        /// Writes byte by byte.
        ByteByByte,
        /// Writes and hangs up.
        HangsUp,
    }

    /// A server that gives this answer to every request; how often it was dialled.
    async fn answering(answer: &str, manner: Manner) -> (Arc<Client>, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = Origin::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
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
                        match manner {
                            Manner::Whole => stream.write_all(answer.as_bytes()).await.unwrap(),
                            Manner::ByteByByte => {
                                for byte in answer.as_bytes().chunks(1) {
                                    stream.write_all(byte).await.unwrap();
                                    tokio::task::yield_now().await;
                                }
                            }
                            Manner::HangsUp => {
                                stream.write_all(answer.as_bytes()).await.unwrap();
                                return;
                            }
                        }
                    }
                });
            }
        });
        (Client::new(origin, Duration::from_secs(5)), dialled)
    }

    async fn ask(client: &Arc<Client>, body: Option<Bytes>) -> Result<(StatusCode, String), String> {
        let request = Heading::with_capacity(0).request(&Method::POST, "/", body);
        let (head, mut body) = client.exchange(request).await.map_err(|failure| match failure {
            Failure::NotSent(why) => format!("not sent: {why}"),
            Failure::Broken(why) => why,
        })?;
        let mut gathered = Vec::new();
        while let Some(chunk) = body.chunk().await.map_err(|error| error.to_string())? {
            gathered.extend_from_slice(&chunk);
        }
        Ok((head.status, String::from_utf8(gathered).unwrap()))
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_end_and_leaves_the_line_free() {
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
            // What comes behind an answer is nobody's: the line is not used again.
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!".to_owned(), "ok", 2),
            (long.clone(), &long[long.len() - 100_000..], 1),
        ];
        for (answer, body, dials) in &cases {
            for manner in [Manner::Whole, Manner::ByteByByte] {
                if matches!(manner, Manner::ByteByByte) && (answer.len() > 1000 || answer.ends_with('!')) {
                    continue;
                }
                let (client, dialled) = answering(answer, manner).await;
                for _ in 0..2 {
                    assert_eq!(ask(&client, Some(Bytes::new())).await.unwrap().1, *body, "{answer:.80}");
                }
                assert_eq!(*dialled.lock().unwrap(), *dials, "{answer:.80}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_without_an_end_ends_with_its_connection() {
        let (client, dialled) = answering("HTTP/1.1 200 OK\r\n\r\nhello", Manner::HangsUp).await;
        for _ in 0..2 {
            assert_eq!(ask(&client, None).await.unwrap().1, "hello");
        }
        assert_eq!(*dialled.lock().unwrap(), 2);
    }

    #[tokio::test]
    async fn what_breaks_off_or_cannot_be_read_is_no_answer() {
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
            format!("{chunked}5;{}", "x".repeat(LONGEST_LINE + 1024)),
            format!("{chunked}0\r\n{}\r\n", "x: y\r\n".repeat(MOST_TRAILERS + 1)),
        ];
        for answer in cases {
            let (client, _) = answering(&answer, Manner::HangsUp).await;
            let answered = ask(&client, Some(Bytes::new())).await;
            assert!(
                answered.as_ref().is_err_and(|why| !why.starts_with("not sent")),
                "{answer:.80}: {answered:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_line_that_its_server_closed_is_not_used_again() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        let (client, dialled) = answering(answer, Manner::HangsUp).await;
        for _ in 0..5 {
            assert_eq!(ask(&client, Some(Bytes::from_static(b"{}"))).await.unwrap().1, "hello");
            // The news that it was closed has to come in first.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(*dialled.lock().unwrap(), 5);
    }

    #[tokio::test]
    async fn a_server_may_answer_before_it_has_heard_all() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = Origin::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut read = [0; 64];
                stream.read_exact(&mut read).await.unwrap();
                stream.write_all(b"HTTP/1.1 413 No\r\ncontent-length: 3\r\n\r\nbig").await.unwrap();
                kept.push(stream); // Neither read on nor closed.
            }
        });
        let client = Client::new(origin, Duration::from_secs(5));
        for _ in 0..2 {
            let body = Bytes::from(vec![b' '; 32 << 20]);
            let answered = tokio::time::timeout(Duration::from_secs(10), ask(&client, Some(body))).await;
            assert_eq!(answered.unwrap().unwrap(), (StatusCode::PAYLOAD_TOO_LARGE, "big".to_owned()));
        }
    }
}
