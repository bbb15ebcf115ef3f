//! Cuts connections whose client does not read: what is written to them must be taken within a bounded time.

use crate::connections::Place;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may take nothing of what is written to it.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// A stream whose writes fail once nothing was taken for [`WRITE_PATIENCE`]. A client that reads sets no timer.
#[derive(Debug)]
pub struct StallGuard<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
    /// The connection's place, where a client that reads slowly counts as one that asks.
    place: Option<Arc<Place>>,
}

impl<S> StallGuard<S> {
    /// Watches the writes to a stream.
    pub fn new(stream: S, place: Option<Arc<Place>>) -> Self {
        Self { stream, stalled: None, place }
    }

    fn taken(&self, polled: &Poll<io::Result<usize>>) {
        if let (Some(place), Poll::Ready(Ok(1..))) = (&self.place, polled) {
            place.touch();
        }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_PATIENCE)));
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
        self.taken(&polled);
        self.watch(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.taken(&polled);
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
    async fn only_those_who_read_nothing_are_cut() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut guarded = StallGuard::new(ours, None);
        let reading = tokio::spawn(async move {
            let mut taken = [0; 1];
            for _ in 0..10 {
                sleep(WRITE_PATIENCE / 2).await;
                theirs.read_exact(&mut taken).await.expect("it is written");
            }
            theirs
        });
        let start = Instant::now();
        let error = guarded.write_all(&[0; 64]).await.expect_err("nobody reads on");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), WRITE_PATIENCE / 2 * 10 + WRITE_PATIENCE);
        drop(reading);
    }
}
