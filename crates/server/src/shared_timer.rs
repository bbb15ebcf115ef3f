//! One timer per connection for the header timeouts of all its requests.
//!
//! hyper starts a timer for every request head that it waits for and cancels it when the head arrives, usually a
//! moment later. `SharedTimer` records only the new deadline. The running timer fires before that deadline, and a
//! waiter that is not due yet re-arms it. A busy connection arms a timer twice a minute instead of twice a request.

use hyper::rt::{Sleep, Timer};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A timer for hyper. Each connection has its own.
#[derive(Debug, Clone, Default)]
pub struct SharedTimer {
    running: Arc<Mutex<Option<ArmedTimer>>>,
}

#[derive(Debug)]
struct ArmedTimer {
    sleep: Pin<Box<tokio::time::Sleep>>,
    wakes: Waker,
}

impl ArmedTimer {
    fn wakes_in_time(&self, deadline: Instant, waker: &Waker) -> bool {
        !self.sleep.is_elapsed()
            && self.sleep.deadline().into_std() <= deadline
            && self.wakes.will_wake(waker)
    }
}

impl Timer for SharedTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(SharedSleep { timer: self.clone(), deadline })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

struct SharedSleep {
    timer: SharedTimer,
    deadline: Instant,
}

impl Sleep for SharedSleep {}

impl Future for SharedSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut running = self.timer.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_some_and(|running| running.wakes_in_time(self.deadline, cx.waker())) {
            return Poll::Pending;
        }
        let mut sleep = match running.take() {
            Some(before) => before.sleep,
            None => Box::pin(tokio::time::sleep_until(self.deadline.into())),
        };
        sleep.as_mut().reset(self.deadline.into());
        if sleep.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        *running = Some(ArmedTimer { sleep, wakes: cx.waker().clone() });
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_when_it_is_due() {
        let (timer, start) = (SharedTimer::default(), tokio::time::Instant::now());
        // Cancelled half-way, as when a head arrives; the next deadline is later than the armed timer's.
        assert!(tokio::time::timeout(HALF, timer.sleep(HALF * 2)).await.is_err());
        timer.sleep(HALF * 2).await;
        assert_eq!(start.elapsed().as_secs(), 45);
        // A deadline before that of the armed timer.
        assert!(tokio::time::timeout(HALF, timer.sleep(HALF * 2)).await.is_err());
        timer.sleep(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed().as_secs(), 61);
        timer.sleep_until(timer.now()).await;
        assert_eq!(start.elapsed().as_secs(), 61, "already due");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_moves_to_another_task_wakes_that_task() {
        let timer = SharedTimer::default();
        let mut wait = timer.sleep(HALF);
        assert!(futures_util::poll!(wait.as_mut()).is_pending());
        tokio::time::timeout(HALF * 2, tokio::spawn(wait)).await.expect("in time").expect("no panic");
    }

    /// When the armed timer fires.
    fn armed_for(timer: &SharedTimer) -> Option<tokio::time::Instant> {
        timer.running.lock().expect("whole").as_ref().map(|running| running.sleep.deadline())
    }

    #[tokio::test(start_paused = true)]
    async fn many_requests_arm_one_timer() {
        let timer = SharedTimer::default();
        for _ in 0..1_000 {
            assert!(futures_util::poll!(timer.sleep(HALF)).is_pending());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let left = armed_for(&timer).map(|end| end - tokio::time::Instant::now());
        assert_eq!(left, Some(HALF - Duration::from_secs(1)), "armed by the first request");
    }
}
