//! Deadlines of request bodies: a client may be slow, but not without end.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a body may pause.
const IDLE: Duration = Duration::from_secs(10);
/// How long a body that is one message may take in all.
const MESSAGE: Duration = Duration::from_secs(60);
/// How long an upload may pause.
const UPLOAD_IDLE: Duration = Duration::from_secs(30);
/// How long an upload may be slower than [`LEAST_RATE`].
const UPLOAD_GRACE: Duration = Duration::from_secs(60);
/// The fewest bytes of an upload in each second, on average.
const LEAST_RATE: u64 = 4 * 1024;

/// What is expected of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One message, held in memory until it is whole.
    Message,
    /// A file of any length.
    Upload,
}

impl Pace {
    fn deadline(self, started: Instant, last_piece: Instant, taken: u64) -> Instant {
        match self {
            Self::Message => (last_piece + IDLE).min(started + MESSAGE),
            Self::Upload => {
                let earned = Duration::from_secs(taken / LEAST_RATE);
                (last_piece + UPLOAD_IDLE).min(started + UPLOAD_GRACE + earned)
            }
        }
    }
}

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Its sender was too slow.
    #[error("the body came too slowly")]
    TooSlow,
    /// The connection broke.
    #[error("the body broke off")]
    Broken(#[source] Box<dyn Error + Send + Sync>),
}

/// Whether an error, or what caused it, is that a body came too slowly.
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

/// A body under deadlines. One that comes at once, as most do, sets no timer.
#[derive(Debug)]
pub struct Paced<B> {
    body: B,
    pace: Pace,
    waiting: Option<Waiting>,
    taken: u64,
    over: bool,
}

#[derive(Debug)]
struct Waiting {
    started: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl<B> Paced<B> {
    /// The body under the deadlines of this pace.
    pub fn new(body: B, pace: Pace) -> Self {
        Self { body, pace, waiting: None, taken: 0, over: false }
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
            let Self { taken, waiting, pace, .. } = &mut *self;
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
            *taken += data.map_or(0, |data| data.len() as u64);
            if let Some(Waiting { started, sleep }) = waiting {
                let deadline = pace.deadline(*started, Instant::now(), *taken);
                sleep.as_mut().reset(deadline);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| BodyError::Broken(error.into()))));
        }
        let Self { taken, waiting, pace, .. } = &mut *self;
        let waiting = waiting.get_or_insert_with(|| {
            let now = Instant::now();
            Waiting { started: now, sleep: Box::pin(sleep_until(pace.deadline(now, now, *taken))) }
        });
        if waiting.sleep.as_mut().poll(cx).is_pending() {
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

    /// How long a body lives that sends a piece every so often, and whether it came to its end.
    async fn outcome(pace: Pace, every: Duration, bytes: usize, pieces: usize) -> (u64, bool) {
        let start = Instant::now();
        let stream = futures_util::stream::unfold(0, move |number| async move {
            if number == pieces {
                return None;
            }
            tokio::time::sleep(every).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(vec![0; bytes]))), number + 1))
        });
        let paced = Paced::new(StreamBody::new(Box::pin(stream)), pace);
        let whole = match paced.collect().await {
            Ok(_) => true,
            Err(error) => {
                assert!(is_too_slow(&axum::Error::new(error)), "also behind another error");
                false
            }
        };
        (start.elapsed().as_secs(), whole)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_neither_pause_nor_drip_without_end() {
        let second = Duration::from_secs(1);
        assert_eq!(outcome(Pace::Message, second, 1, 20).await, (20, true));
        assert_eq!(outcome(Pace::Message, second * 11, 1, 2).await, (10, false), "a pause");
        assert_eq!(outcome(Pace::Message, second * 9, 1, 100).await, (60, false), "a drip");
        assert_eq!(outcome(Pace::Upload, second * 31, 1, 2).await, (30, false), "a pause");
        assert_eq!(outcome(Pace::Upload, second * 7, 1, 100).await, (60, false), "a drip");
        assert_eq!(outcome(Pace::Upload, second * 5, 64 * 1024, 100).await, (500, true), "slow, but enough");
    }
}
