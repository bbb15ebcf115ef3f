//! The deadline of a call.

use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_upstream::{CallLink, UpstreamError};

/// How often an expired deadline checks again whether a question is still open.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Errors that can be made from an expired deadline.
pub(crate) trait FromTimeout {
    /// The error for a server that took longer than `after`.
    fn timed_out(server: &str, after: Duration) -> Self;
}

impl FromTimeout for UpstreamError {
    fn timed_out(server: &str, after: Duration) -> Self {
        Self::Timeout { server: server.to_owned(), after }
    }
}

impl FromTimeout for Problem {
    fn timed_out(server: &str, after: Duration) -> Self {
        let error: &dyn Fault = &UpstreamError::timed_out(server, after);
        Self::of(error)
    }
}

/// The deadline of a call, over all attempts, rounds and providers. Progress extends it, up to a hard maximum. The time
/// in which the client is asked does not count.
#[derive(Clone, Copy)]
pub(crate) struct Deadline<'a> {
    server: &'a str,
    /// The time that the server has, from the start and after each progress notification.
    allowed: Duration,
    link: &'a CallLink,
    pub(super) started: Instant,
    /// The time in which the client had been asked before the call began.
    asked_before: Duration,
    // Both without the time in which the client was asked.
    end: Instant,
    hard_end: Instant,
    progress_seen: u32,
}

impl<'a> Deadline<'a> {
    /// The deadline of a tool call. The caller's own `timeout` comes before the tool's, but it cannot exceed the hard
    /// limit of all calls.
    pub(crate) fn of(
        tool: &'a Tool,
        timeout: Option<Duration>,
        max_call: Duration,
        link: &'a CallLink,
    ) -> Self {
        let allowed = allowed_time(tool.terms.timeout, timeout, max_call);
        Self::on_server(tool.server.name.as_str(), allowed, max_call, link)
    }

    /// The deadline of a request other than a tool call.
    pub(crate) fn on_server(
        server: &'a str,
        allowed: Duration,
        max_call: Duration,
        link: &'a CallLink,
    ) -> Self {
        let started = Instant::now();
        Self {
            server,
            allowed,
            link,
            started,
            asked_before: link.time_with_client(),
            end: started + allowed,
            hard_end: started + max_call.max(allowed),
            progress_seen: link.progress_seen(),
        }
    }

    /// The time in which the client was asked during this call.
    fn client_time(&self) -> Duration {
        self.link.time_with_client().saturating_sub(self.asked_before)
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        (self.end + self.client_time()).saturating_duration_since(Instant::now())
    }

    /// Whether more than `pause` is left.
    pub(crate) fn leaves(&self, pause: Duration) -> bool {
        self.left() > pause
    }

    /// Runs a future until it ends or the deadline passes.
    pub(crate) async fn hold<T, E: FromTimeout>(
        &mut self,
        attempt: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, E> {
        self.hold_for(None, attempt).await
    }

    /// The same, for at most `share` of the time. Progress extends it up to the whole deadline.
    pub(crate) async fn hold_for<T, E: FromTimeout>(
        &mut self,
        share: Option<Duration>,
        mut attempt: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, E> {
        self.link.begin_attempt();
        let began = share.map(|_| Instant::now());
        let mut end = self.end;
        if let (Some(share), Some(began)) = (share, began) {
            end = end.min(began + share - self.client_time());
        }
        let mut wake = end + self.client_time();
        loop {
            if let Ok(outcome) = tokio::time::timeout_at(wake, attempt.as_mut()).await {
                return outcome;
            }
            let now = Instant::now();
            wake = end + self.client_time();
            if wake <= now && self.link.progress_seen() != self.progress_seen && end < self.hard_end {
                self.progress_seen = self.link.progress_seen();
                end = (now - self.client_time() + self.allowed).min(self.hard_end);
                self.end = self.end.max(end);
                wake = end + self.client_time();
            }
            if wake <= now {
                self.link.end_overdue_attempt();
                return Err(E::timed_out(self.server, began.unwrap_or(self.started).elapsed()));
            }
            // With little time left, an open question would otherwise be checked in a busy loop.
            if self.link.waits_for_client() {
                wake = wake.max(now + LOOK_AGAIN);
            }
        }
    }
}

/// The time that a call has: the caller's, up to the hard limit, else the tool's.
fn allowed_time(of_tool: Duration, of_caller: Option<Duration>, max_call: Duration) -> Duration {
    of_caller.map_or(of_tool, |timeout| timeout.min(max_call.max(of_tool)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[test]
    fn the_callers_timeout_comes_first_up_to_the_hard_limit() {
        let seconds = Duration::from_secs;
        let cases = [
            (30, None, 3600, 30),
            (30, Some(5), 3600, 5),
            (30, Some(120), 3600, 120),
            (30, Some(7200), 3600, 3600),
            // A tool that may take longer than the limit keeps its own time.
            (7200, Some(9000), 3600, 7200),
        ];
        for (tool, caller, max_call, expected) in cases {
            let allowed = allowed_time(seconds(tool), caller.map(seconds), seconds(max_call));
            assert_eq!(allowed, seconds(expected), "{tool} {caller:?} {max_call}");
        }
    }

    async fn never() -> Result<(), UpstreamError> {
        std::future::pending().await
    }

    fn deadline<'a>(allowed: u64, link: &'a CallLink) -> Deadline<'a> {
        Deadline::on_server("s", Duration::from_secs(allowed), Duration::from_secs(3600), link)
    }

    // Otherwise a server would have almost no time left after a long question.
    #[tokio::test(start_paused = true)]
    async fn time_spent_on_a_question_does_not_count() {
        let (link, _events) = CallLink::new();
        let start = Instant::now();
        let mut deadline = deadline(30, &link);
        let attempt = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let asked = link.question("elicitation/create", None);
            tokio::time::sleep(Duration::from_secs(300)).await;
            drop(asked);
            never().await
        };
        let error = deadline.hold(pin!(attempt)).await.expect_err("timed out");
        assert!(matches!(error, UpstreamError::Timeout { .. }), "{error}");
        let took = start.elapsed().as_secs_f64();
        assert!((329.0..332.0).contains(&took), "expected 5 s + 300 s of asking + 25 s left, not {took}");
    }

    // `MAX_QUESTION` counts from the beginning of the question, not of the call.
    #[tokio::test(start_paused = true)]
    async fn a_late_question_may_take_as_long_as_an_early_one() {
        let (link, _events) = CallLink::new();
        let mut deadline = deadline(900, &link);
        let attempt = async {
            tokio::time::sleep(Duration::from_secs(890)).await;
            let asked = link.question("elicitation/create", None);
            tokio::time::sleep(Duration::from_secs(500)).await;
            drop(asked);
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok::<_, UpstreamError>(())
        };
        deadline.hold(pin!(attempt)).await.expect("in time");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_question_times_out() {
        let (link, _events) = CallLink::new();
        let start = Instant::now();
        let mut deadline = deadline(30, &link);
        let _asked = link.question("elicitation/create", None);
        deadline.hold(pin!(never())).await.expect_err("timed out");
        let took = start.elapsed().as_secs();
        assert!((629..640).contains(&took), "expected ten minutes and the server's own 30 s, not {took}");
    }
}
