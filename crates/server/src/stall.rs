//! Closes connections whose client does not read: each write must make progress within a timeout.

use crate::connections::ConnectionSlot;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a write may make no progress.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A stream whose writes fail after [`WRITE_TIMEOUT`] without progress. A client that keeps reading sets no timer.
#[derive(Debug)]
pub struct StallGuard<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
    /// The slot of the connection: a client that reads a response slowly is not idle.
    slot: Option<Arc<ConnectionSlot>>,
}

impl<S> StallGuard<S> {
    /// Wraps a stream.
    pub fn new(stream: S, slot: Option<Arc<ConnectionSlot>>) -> Self {
        Self { stream, stalled: None, slot }
    }

    fn note_progress(&self, polled: &Poll<io::Result<usize>>) {
        if let (Some(slot), Poll::Ready(Ok(1..))) = (&self.slot, polled) {
            slot.touch();
        }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_progress(&polled);
        self.watch(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.note_progress(&polled);
        self.watch(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(polled, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn only_clients_that_read_nothing_are_disconnected() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut guarded = StallGuard::new(ours, None);
        let reading = tokio::spawn(async move {
            let mut taken = [0; 1];
            for _ in 0..10 {
                sleep(WRITE_TIMEOUT / 2).await;
                theirs.read_exact(&mut taken).await.expect("bytes were written");
            }
            theirs
        });
        let start = Instant::now();
        let error = guarded.write_all(&[0; 64]).await.expect_err("the reader stopped");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), WRITE_TIMEOUT / 2 * 10 + WRITE_TIMEOUT);
        drop(reading);
    }
}
