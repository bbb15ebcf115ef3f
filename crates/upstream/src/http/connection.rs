//! One HTTP/1.1 connection, driven by the task that uses it.
//!
//! There is no connection task, so no task has to be woken to pass a request or a response on.

use super::request_headers::RawRequest;
use super::response_head::{self, ConnectionReuse, ResponseHead};
use super::send_error::SendError;
use ::http::StatusCode;
use bytes::{Buf, Bytes, BytesMut};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Buffer size for a response head and a short body.
const MIN_READ_BYTES: usize = 8 << 10;
/// Maximum size of one read of a long body.
const MAX_READ_BYTES: usize = 256 << 10;
/// Additional buffer space: a read that does not fill it shows that no more data is available.
const EXTRA_READ_BYTES: usize = 1 << 10;
/// Bodies up to this size are copied out, so that the connection's buffer is reused for the next response.
const MAX_COPIED_BYTES: usize = 2 << 10;

/// The underlying stream: TCP, with or without TLS.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An HTTP/1.1 connection to a server.
pub(super) struct HttpConnection {
    io: Box<dyn Io>,
    /// Received data that has not been taken yet.
    buffer: BytesMut,
    /// Length of the last response, used as the expected length of the next.
    last: usize,
}

impl std::fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpConnection({} bytes buffered)", self.buffer.len())
    }
}

impl HttpConnection {
    /// Wraps a newly opened stream.
    pub(super) fn new(io: Box<dyn Io>) -> Self {
        Self { io, buffer: BytesMut::new(), last: 0 }
    }

    /// Whether an idle connection can take a request: it is not closed and has received no unsolicited data,
    /// as far as is known.
    pub(super) fn is_reusable(&mut self) -> bool {
        let mut place = [0];
        let mut place = ReadBuf::new(&mut place);
        let polled = Pin::new(&mut self.io).poll_read(&mut Context::from_waker(Waker::noop()), &mut place);
        self.buffer.is_empty() && polled.is_pending()
    }

    /// Sends a request and reads the head of its response. After a failure the connection must not be reused.
    pub(super) async fn exchange(&mut self, request: RawRequest) -> Result<ResponseHead, SendError> {
        let mut sending = Sending { pieces: request, sent: 0, error: None };
        poll_fn(|cx| {
            // Both at once: a server may answer before it has read the whole request, and stop reading.
            sending.poll(&mut self.io, cx);
            loop {
                let read = response_head::read(&self.buffer).map_err(|why| SendError::Broken(why.into()))?;
                if let Some((mut head, taken)) = read {
                    self.buffer.advance(taken);
                    self.last = head.length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
                    if head.status == StatusCode::SWITCHING_PROTOCOLS {
                        return Poll::Ready(Err(SendError::Broken("it switched to another protocol".into())));
                    }
                    if head.status.is_informational() {
                        continue; // The final response is still to come.
                    }
                    if !sending.is_done() {
                        head.reuse = ConnectionReuse::Closed;
                    }
                    return Poll::Ready(Ok(head));
                }
                let received = match (ready!(self.poll_fill(self.last, cx)), sending.error.take()) {
                    (Ok(0) | Err(_), Some(error)) => Err(error),
                    (Ok(0), None) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                    (read, _) => read,
                };
                received.map_err(|error| match sending.sent {
                    0 => SendError::NotSent(error.to_string()),
                    _ => SendError::Broken(format!("the connection ended without an answer: {error}")),
                })?;
            }
        })
        .await
    }

    /// Releases the buffer of earlier responses.
    pub(super) fn release_buffer(&mut self) {
        self.buffer = BytesMut::new();
    }

    /// The buffered data.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer
    }

    /// Drops this number of buffered bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.buffer.advance(bytes);
    }

    /// Takes up to this number of buffered bytes.
    pub(super) fn take(&mut self, most: u64) -> Bytes {
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        if length > MAX_COPIED_BYTES {
            return self.buffer.split_to(length).freeze();
        }
        let taken = Bytes::copy_from_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        taken
    }

    /// Reads available data, with buffer space for `expected` bytes within limits. Returns the number of
    /// bytes read, zero at the end.
    pub(super) fn poll_fill(&mut self, expected: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(expected.saturating_add(EXTRA_READ_BYTES).clamp(MIN_READ_BYTES, MAX_READ_BYTES));
        pin!(self.io.read_buf(&mut self.buffer)).poll(cx)
    }
}

/// A request that is being sent.
struct Sending {
    pieces: RawRequest,
    sent: usize,
    error: Option<io::Error>,
}

impl Sending {
    fn is_done(&self) -> bool {
        self.pieces.start.is_empty() && self.pieces.rest.is_empty()
    }

    /// Sends as much as the stream accepts. A failure is kept, because the server may have answered before
    /// it.
    fn poll(&mut self, io: &mut Box<dyn Io>, cx: &mut Context<'_>) {
        if self.error.is_some() {
            return;
        }
        while !self.is_done() {
            let RawRequest { start, rest } = &mut self.pieces;
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
        // Does nothing over TCP; flushes pending records over TLS.
        if let Poll::Ready(Err(error)) = Pin::new(io).poll_flush(cx) {
            self.error = Some(error);
        }
    }
}
