//! A line to a server: one HTTP/1.1 connection, driven by whoever uses it.
//!
//! No task of its own stands between a call and its server, so nobody is woken to pass a request or an answer on.

use super::client::Failure;
use super::head::{self, After, AnswerHead};
use super::heading::Outgoing;
use ::http::StatusCode;
use bytes::{Buf, Bytes, BytesMut};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Room for the head of an answer and a short body.
const FIRST_READ: usize = 8 << 10;
/// The most that is read of a long body at once.
const LONGEST_READ: usize = 256 << 10;
/// Room for more than is expected: a read that leaves some of it tells that no more has come.
const SPARE: usize = 1 << 10;
/// Bodies up to this size are copied out, so that the line's own buffer serves the next answer too.
const COPIED_UP_TO: usize = 2 << 10;

/// What a line runs over: TCP, with or without TLS.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection to a server.
pub(super) struct Line {
    io: Box<dyn Io>,
    /// What came and has not been taken yet.
    buffer: BytesMut,
    /// How long the last answer was: the next may well be as long.
    last: usize,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Line({} bytes wait)", self.buffer.len())
    }
}

impl Line {
    /// A line over a connection that was just made.
    pub(super) fn new(io: Box<dyn Io>) -> Self {
        Self { io, buffer: BytesMut::new(), last: 0 }
    }

    /// Whether a free line can take a request, as far as is known: nobody closed it or said something unasked.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut place = [0];
        let mut place = ReadBuf::new(&mut place);
        let looked = Pin::new(&mut self.io).poll_read(&mut Context::from_waker(Waker::noop()), &mut place);
        self.buffer.is_empty() && looked.is_pending()
    }

    /// Sends a request and reads the head of its answer. The line is of no more use after a failure.
    pub(super) async fn exchange(&mut self, request: Outgoing) -> Result<AnswerHead, Failure> {
        let mut sending = Sending { pieces: request, sent: 0, error: None };
        poll_fn(|cx| {
            // Both at once: a server may answer before it has heard all, and stop listening.
            sending.poll(&mut self.io, cx);
            loop {
                let read = head::read(&self.buffer).map_err(|why| Failure::Broken(why.into()))?;
                if let Some((mut head, taken)) = read {
                    self.buffer.advance(taken);
                    self.last = head.length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
                    if head.status == StatusCode::SWITCHING_PROTOCOLS {
                        return Poll::Ready(Err(Failure::Broken("it speaks another protocol now".into())));
                    }
                    if head.status.is_informational() {
                        continue; // The answer itself is still to come.
                    }
                    if !sending.is_done() {
                        head.after = After::Closed;
                    }
                    return Poll::Ready(Ok(head));
                }
                let came = match (ready!(self.poll_fill(self.last, cx)), sending.error.take()) {
                    (Ok(0) | Err(_), Some(error)) => Err(error),
                    (Ok(0), None) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                    (read, _) => read,
                };
                came.map_err(|error| match sending.sent {
                    0 => Failure::NotSent(error.to_string()),
                    _ => Failure::Broken(format!("the connection ended without an answer: {error}")),
                })?;
            }
        })
        .await
    }

    /// Gives back the room of the last answers.
    pub(super) fn rest(&mut self) {
        self.buffer = BytesMut::new();
    }

    /// What waits to be taken.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.buffer
    }

    /// Drops so many bytes of what waits.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.buffer.advance(bytes);
    }

    /// Takes up to so many bytes of what waits.
    pub(super) fn take(&mut self, most: u64) -> Bytes {
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        if length > COPIED_UP_TO {
            return self.buffer.split_to(length).freeze();
        }
        let taken = Bytes::copy_from_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        taken
    }

    /// Reads what has come, with room for so many bytes within bounds; how many came, which is none at the end.
    pub(super) fn poll_fill(&mut self, expected: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(expected.saturating_add(SPARE).clamp(FIRST_READ, LONGEST_READ));
        pin!(self.io.read_buf(&mut self.buffer)).poll(cx)
    }
}

/// A request on its way out.
struct Sending {
    pieces: Outgoing,
    sent: usize,
    error: Option<io::Error>,
}

impl Sending {
    fn is_done(&self) -> bool {
        self.pieces.start.is_empty() && self.pieces.rest.is_empty()
    }

    /// Sends what the connection takes. A failure is kept: the server may have answered before it.
    fn poll(&mut self, io: &mut Box<dyn Io>, cx: &mut Context<'_>) {
        if self.error.is_some() {
            return;
        }
        while !self.is_done() {
            let Outgoing { start, rest } = &mut self.pieces;
            let written = match (start.is_empty(), rest.is_empty()) {
                (false, true) => Pin::new(&mut *io).poll_write(cx, start),
                (true, _) => Pin::new(&mut *io).poll_write(cx, rest),
                (false, false) => {
                    let slices = [IoSlice::new(start), IoSlice::new(rest)];
                    Pin::new(&mut *io).poll_write_vectored(cx, &slices)
                }
            };
            match written {
                Poll::Ready(Ok(0)) => return self.error = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(length)) => {
                    self.sent += length;
                    let of_start = length.min(start.len());
                    start.advance(of_start);
                    rest.advance(length - of_start);
                }
                Poll::Ready(Err(error)) => return self.error = Some(error),
                Poll::Pending => return,
            }
        }
        // Nothing over TCP; over TLS, what is still being wrapped up.
        if let Poll::Ready(Err(error)) = Pin::new(io).poll_flush(cx) {
            self.error = Some(error);
        }
    }
}
