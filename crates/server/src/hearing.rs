//! What a connection hears of itself.
//!
//! Whoever takes a piece of a request's body wakes the side that sends the body. That is the same task; and when the
//! piece was the last there is nothing left to send, yet the connection and the whole call would be polled once more.
//! So a connection does not hear itself take the last piece.

use bytes::Bytes;
use http_body::{Body, Frame};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// Whose connection this thread is polling; its address.
    static POLLED: Cell<usize> = const { Cell::new(0) };
    /// Whose body is being taken from.
    static TAKING: Cell<usize> = const { Cell::new(0) };
    /// Whether it was called while it took.
    static WAS_CALLED: Cell<bool> = const { Cell::new(false) };
}

/// Stands between a connection and its task.
#[derive(Debug)]
pub struct Hearing {
    ears: Arc<Ears>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Ears {
    task: OnceLock<Waker>,
}

impl Ears {
    fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }
}

impl Wake for Ears {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if TAKING.get() == self.address() {
            return WAS_CALLED.set(true);
        }
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

impl Default for Hearing {
    fn default() -> Self {
        let ears = Arc::new(Ears::default());
        Self { waker: Waker::from(ears.clone()), ears }
    }
}

/// Puts a note back as it was, also when what was polled panics.
struct Noted(&'static std::thread::LocalKey<Cell<usize>>, usize);

impl Noted {
    fn new(note: &'static std::thread::LocalKey<Cell<usize>>, value: usize) -> Self {
        Self(note, note.replace(value))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

impl Hearing {
    /// Polls the connection. What wakes it goes through here, as long as it stays with the task it began with.
    pub fn poll<F: Future>(&self, connection: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let task = self.ears.task.get_or_init(|| cx.waker().clone());
        if !task.will_wake(cx.waker()) {
            return connection.poll(cx);
        }
        let _polled = Noted::new(&POLLED, self.ears.address());
        connection.poll(&mut Context::from_waker(&self.waker))
    }
}

/// Takes the next piece of a body.
pub fn poll_piece<B>(body: &mut B, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let taking = Noted::new(&TAKING, POLLED.get());
    let polled = Pin::new(&mut *body).poll_frame(cx);
    drop(taking);
    if WAS_CALLED.take() && !body.is_end_stream() {
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

    /// A body whose every piece wakes whoever sends it, as hyper's does.
    struct Echoing {
        pieces: usize,
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
            self.pieces = self.pieces.saturating_sub(1);
            Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
        }

        fn is_end_stream(&self) -> bool {
            self.pieces == 0
        }
    }

    /// How often a task is woken by a connection that takes one piece of a body.
    fn wakes(pieces: usize, extra: impl Fn(&Waker)) -> usize {
        let (hearing, count) = (Hearing::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let connection = poll_fn(|cx| {
            let mut body = Echoing { pieces, sender: cx.waker().clone() };
            extra(cx.waker());
            poll_piece(&mut body, cx).map(|_| ())
        });
        assert!(hearing.poll(pin!(connection), &mut Context::from_waker(&waker)).is_ready());
        count.0.load(Ordering::SeqCst)
    }

    #[test]
    fn only_the_last_piece_is_taken_unheard() {
        assert_eq!(wakes(1, |_| ()), 0, "the last");
        assert_eq!(wakes(2, |_| ()), 1, "more are to be sent");
        assert_eq!(wakes(1, Waker::wake_by_ref), 1, "anything else is heard");
    }

    #[test]
    fn others_are_heard_while_a_body_is_taken() {
        let (other, count) = (Hearing::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let idle = poll_fn(|_| Poll::<()>::Pending);
        assert!(other.poll(pin!(idle), &mut Context::from_waker(&waker)).is_pending());
        let hearing = Hearing::default();
        let connection = poll_fn(|cx| {
            let mut body = Echoing { pieces: 1, sender: other.waker.clone() };
            poll_piece(&mut body, cx).map(|_| ())
        });
        assert!(hearing.poll(pin!(connection), &mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_makes_nobody_deaf() {
        let (hearing, count) = (Hearing::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let panicking = poll_fn(|_| -> Poll<()> {
            let _taking = Noted::new(&TAKING, POLLED.get());
            panic!("as a test");
        });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = hearing.poll(pin!(panicking), &mut Context::from_waker(&waker));
        }));
        assert!(caught.is_err());
        hearing.waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_connection_that_moves_is_woken_where_it_went() {
        let (hearing, count) = (Hearing::default(), Arc::new(Count::default()));
        let idle = poll_fn(|_| Poll::<()>::Pending);
        assert!(hearing.poll(pin!(idle), &mut Context::from_waker(Waker::noop())).is_pending());
        let moved = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let waker = Waker::from(count.clone());
        assert!(hearing.poll(pin!(moved), &mut Context::from_waker(&waker)).is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
