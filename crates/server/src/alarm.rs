//! The alarm of a connection: one timer for the heads of all its requests.
//!
//! hyper sets a timer for every head it waits for and takes it back when the head has come, mostly a moment later.
//! Here it only notes until when it waits. The timer that runs already goes off before that; whoever is not due then
//! sets it on. So a busy connection sets a timer twice a minute, and not twice a request.

use hyper::rt::{Sleep, Timer};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A timer for hyper; each connection has one of its own.
#[derive(Debug, Clone, Default)]
pub struct Alarm {
    running: Arc<Mutex<Option<Running>>>,
}

#[derive(Debug)]
struct Running {
    sleep: Pin<Box<tokio::time::Sleep>>,
    wakes: Waker,
}

impl Running {
    fn wakes_in_time(&self, deadline: Instant, waker: &Waker) -> bool {
        !self.sleep.is_elapsed()
            && self.sleep.deadline().into_std() <= deadline
            && self.wakes.will_wake(waker)
    }
}

impl Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait { alarm: self.clone(), deadline })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

struct Wait {
    alarm: Alarm,
    deadline: Instant,
}

impl Sleep for Wait {}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut running = self.alarm.running.lock().unwrap_or_else(PoisonError::into_inner);
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
        *running = Some(Running { sleep, wakes: cx.waker().clone() });
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_when_it_is_due() {
        let (alarm, start) = (Alarm::default(), tokio::time::Instant::now());
        // Given up half-way, as when a head came; the next is due later than the timer that still runs.
        assert!(tokio::time::timeout(HALF, alarm.sleep(HALF * 2)).await.is_err());
        alarm.sleep(HALF * 2).await;
        assert_eq!(start.elapsed().as_secs(), 45);
        // One that is due before the timer that runs.
        assert!(tokio::time::timeout(HALF, alarm.sleep(HALF * 2)).await.is_err());
        alarm.sleep(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed().as_secs(), 61);
        alarm.sleep_until(alarm.now()).await;
        assert_eq!(start.elapsed().as_secs(), 61, "due already");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_moves_to_another_task_is_heard_there() {
        let alarm = Alarm::default();
        let mut wait = alarm.sleep(HALF);
        assert!(futures_util::poll!(wait.as_mut()).is_pending());
        tokio::time::timeout(HALF * 2, tokio::spawn(wait)).await.expect("in time").expect("no panic");
    }

    /// When the timer that runs goes off.
    fn set_for(alarm: &Alarm) -> Option<tokio::time::Instant> {
        alarm.running.lock().expect("whole").as_ref().map(|running| running.sleep.deadline())
    }

    #[tokio::test(start_paused = true)]
    async fn many_requests_set_one_timer() {
        let alarm = Alarm::default();
        for _ in 0..1_000 {
            assert!(futures_util::poll!(alarm.sleep(HALF)).is_pending());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let left = set_for(&alarm).map(|end| end - tokio::time::Instant::now());
        assert_eq!(left, Some(HALF - Duration::from_secs(1)), "as the first one set it");
    }
}
