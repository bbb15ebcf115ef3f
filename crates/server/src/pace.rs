//! Deadlines of request bodies: limits on pauses and on the total time.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Maximum pause between chunks of a message.
const IDLE: Duration = Duration::from_secs(10);
/// Maximum total time of a message.
const MESSAGE: Duration = Duration::from_secs(60);
/// Maximum pause between chunks of an upload.
const UPLOAD_IDLE: Duration = Duration::from_secs(30);
/// How long an upload may be slower than [`LEAST_RATE`].
const UPLOAD_GRACE: Duration = Duration::from_secs(60);
/// Minimum average rate of an upload, in bytes per second.
const LEAST_RATE: u64 = 4 * 1024;

/// Which deadlines apply to a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One message, which is buffered in memory.
    Message,
    /// A file of any length.
    Upload,
}

impl Pace {
    fn deadline(self, started: Instant, last_chunk: Instant, taken: u64) -> Instant {
        match self {
            Self::Message => (last_chunk + IDLE).min(started + MESSAGE),
            Self::Upload => {
                let earned = Duration::from_secs(taken / LEAST_RATE);
                (last_chunk + UPLOAD_IDLE).min(started + UPLOAD_GRACE + earned)
            }
        }
    }
}

/// Errors that end a body early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The client sent it too slowly.
    #[error("the body arrived too slowly")]
    TooSlow,
    /// The connection broke.
    #[error("the body ended early")]
    Broken(#[source] Box<dyn Error + Send + Sync>),
}

/// Whether an error or one of its sources is [`BodyError::TooSlow`].
pub fn is_too_slow(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if matches!(error.downcast_ref(), Some(BodyError::TooSlow)) {
            return true;
        }
        next = error.source();
    }
    false
}

/// A body with deadlines. A body that arrives at once, as most do, sets no timer.
#[derive(Debug)]
pub struct Paced<B> {
    body: B,
    pace: Pace,
    timer: Option<DeadlineTimer>,
    taken: u64,
    over: bool,
}

#[derive(Debug)]
struct DeadlineTimer {
    started: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl<B> Paced<B> {
    /// Applies the deadlines of this pace to a body.
    pub fn new(body: B, pace: Pace) -> Self {
        Self { body, pace, timer: None, taken: 0, over: false }
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let Self { taken, timer, pace, .. } = &mut *self;
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
            *taken += data.map_or(0, |data| data.len() as u64);
            if let Some(DeadlineTimer { started, sleep }) = timer {
                let deadline = pace.deadline(*started, Instant::now(), *taken);
                sleep.as_mut().reset(deadline);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| BodyError::Broken(error.into()))));
        }
        let Self { taken, timer, pace, .. } = &mut *self;
        let timer = timer.get_or_insert_with(|| {
            let now = Instant::now();
            DeadlineTimer { started: now, sleep: Box::pin(sleep_until(pace.deadline(now, now, *taken))) }
        });
        if timer.sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.over = true;
        Poll::Ready(Some(Err(BodyError::TooSlow)))
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, StreamBody};
    use std::convert::Infallible;

    /// Sends a chunk at each interval; returns how long the body lived and whether it was complete.
    async fn outcome(pace: Pace, every: Duration, bytes: usize, chunks: usize) -> (u64, bool) {
        let start = Instant::now();
        let stream = futures_util::stream::unfold(0, move |number| async move {
            if number == chunks {
                return None;
            }
            tokio::time::sleep(every).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(vec![0; bytes]))), number + 1))
        });
        let paced = Paced::new(StreamBody::new(Box::pin(stream)), pace);
        let whole = match paced.collect().await {
            Ok(_) => true,
            Err(error) => {
                assert!(is_too_slow(&axum::Error::new(error)), "also as the source of another error");
                false
            }
        };
        (start.elapsed().as_secs(), whole)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_not_pause_or_trickle_forever() {
        let second = Duration::from_secs(1);
        assert_eq!(outcome(Pace::Message, second, 1, 20).await, (20, true));
        assert_eq!(outcome(Pace::Message, second * 11, 1, 2).await, (10, false), "a pause");
        assert_eq!(outcome(Pace::Message, second * 9, 1, 100).await, (60, false), "a trickle");
        assert_eq!(outcome(Pace::Upload, second * 31, 1, 2).await, (30, false), "a pause");
        assert_eq!(outcome(Pace::Upload, second * 7, 1, 100).await, (60, false), "a trickle");
        assert_eq!(
            outcome(Pace::Upload, second * 5, 64 * 1024, 100).await,
            (500, true),
            "slow, but above the minimum rate"
        );
    }
}
