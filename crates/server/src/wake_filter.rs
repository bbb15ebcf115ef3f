//! Suppresses hyper's redundant self-wake after the last chunk of a request body.
//!
//! hyper wakes the task that fills a body whenever a chunk is read from it. On the server that is the same task. After
//! the last chunk nothing is left to fill, but the wake would poll the connection and the whole call once more.

use bytes::Bytes;
use http_body::{Body, Frame};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// Address of the filter whose connection this thread is polling, or 0.
    static POLLED: Cell<usize> = const { Cell::new(0) };
    /// Address of the filter whose connection is reading a chunk, or 0.
    static READING: Cell<usize> = const { Cell::new(0) };
    /// Whether that filter was woken during the read.
    static WOKEN_WHILE_READING: Cell<bool> = const { Cell::new(false) };
}

/// Filters the wake-ups between a connection and its task.
#[derive(Debug)]
pub struct WakeFilter {
    state: Arc<FilterState>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct FilterState {
    task: OnceLock<Waker>,
}

impl FilterState {
    fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }
}

impl Wake for FilterState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if READING.get() == self.address() {
            return WOKEN_WHILE_READING.set(true);
        }
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

impl Default for WakeFilter {
    fn default() -> Self {
        let state = Arc::new(FilterState::default());
        Self { waker: Waker::from(state.clone()), state }
    }
}

/// Sets a thread-local cell and restores its old value on drop, also during a panic.
struct CellGuard(&'static std::thread::LocalKey<Cell<usize>>, usize);

impl CellGuard {
    fn new(cell: &'static std::thread::LocalKey<Cell<usize>>, value: usize) -> Self {
        Self(cell, cell.replace(value))
    }
}

impl Drop for CellGuard {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

impl WakeFilter {
    /// Polls the connection with the filtered waker, as long as the connection stays on its first task.
    pub fn poll<F: Future>(&self, connection: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let task = self.state.task.get_or_init(|| cx.waker().clone());
        if !task.will_wake(cx.waker()) {
            return connection.poll(cx);
        }
        let _polled = CellGuard::new(&POLLED, self.state.address());
        connection.poll(&mut Context::from_waker(&self.waker))
    }
}

/// Reads the next chunk of a body.
pub fn poll_chunk<B>(body: &mut B, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let reading = CellGuard::new(&READING, POLLED.get());
    let polled = Pin::new(&mut *body).poll_frame(cx);
    drop(reading);
    if WOKEN_WHILE_READING.take() && !body.is_end_stream() {
        cx.waker().wake_by_ref();
    }
    polled
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A body that wakes its sender at every chunk, as hyper's does.
    struct Echoing {
        chunks: usize,
        sender: Waker,
    }

    impl Body for Echoing {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            self.sender.wake_by_ref();
            self.chunks = self.chunks.saturating_sub(1);
            Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
        }

        fn is_end_stream(&self) -> bool {
            self.chunks == 0
        }
    }

    /// How often a task is woken by a connection that reads one chunk of a body.
    fn wakes(chunks: usize, extra: impl Fn(&Waker)) -> usize {
        let (filter, count) = (WakeFilter::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let connection = poll_fn(|cx| {
            let mut body = Echoing { chunks, sender: cx.waker().clone() };
            extra(cx.waker());
            poll_chunk(&mut body, cx).map(|_| ())
        });
        assert!(filter.poll(pin!(connection), &mut Context::from_waker(&waker)).is_ready());
        count.0.load(Ordering::SeqCst)
    }

    #[test]
    fn only_the_wake_after_the_last_chunk_is_suppressed() {
        assert_eq!(wakes(1, |_| ()), 0, "the last chunk");
        assert_eq!(wakes(2, |_| ()), 1, "more chunks follow");
        assert_eq!(wakes(1, Waker::wake_by_ref), 1, "other wake-ups pass");
    }

    #[test]
    fn other_connections_are_woken_while_a_body_is_read() {
        let (other, count) = (WakeFilter::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let idle = poll_fn(|_| Poll::<()>::Pending);
        assert!(other.poll(pin!(idle), &mut Context::from_waker(&waker)).is_pending());
        let filter = WakeFilter::default();
        let connection = poll_fn(|cx| {
            let mut body = Echoing { chunks: 1, sender: other.waker.clone() };
            poll_chunk(&mut body, cx).map(|_| ())
        });
        assert!(filter.poll(pin!(connection), &mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_does_not_leave_wakes_suppressed() {
        let (filter, count) = (WakeFilter::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let panicking = poll_fn(|_| -> Poll<()> {
            let _reading = CellGuard::new(&READING, POLLED.get());
            panic!("as a test");
        });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = filter.poll(pin!(panicking), &mut Context::from_waker(&waker));
        }));
        assert!(caught.is_err());
        filter.waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_connection_that_moves_wakes_its_new_task() {
        let (filter, count) = (WakeFilter::default(), Arc::new(Count::default()));
        let idle = poll_fn(|_| Poll::<()>::Pending);
        assert!(filter.poll(pin!(idle), &mut Context::from_waker(Waker::noop())).is_pending());
        let moved = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let waker = Waker::from(count.clone());
        assert!(filter.poll(pin!(moved), &mut Context::from_waker(&waker)).is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
