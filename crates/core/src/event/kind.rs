//! The kinds of events, and filters over them.

use crate::fault::{Blame, Fault};
use crate::words::words;

words! {
    /// The kind of an event.
    pub enum EventKind ("type of event") {
        /// The gateway connects to a server.
        ServerConnecting = "server.connecting",
        /// A server is connected and has listed what it offers.
        ServerConnected = "server.connected",
        /// A server was disconnected.
        ServerDisconnected = "server.disconnected",
        /// A server could not be reached, or its connection was lost.
        ServerError = "server.error",
        /// A call is sent to its server.
        ToolCall = "tool.call",
        /// A call ended, with any outcome.
        ToolResult = "tool.result",
        /// A server reported the progress of a call.
        ToolProgress = "tool.progress",
        /// A server sent a message, content or files before the end of a call.
        ToolUpdate = "tool.update",
        /// A failed call is sent again.
        ToolRetry = "tool.retry",
        /// A tool was loaded because a search found it.
        ToolDynamicLoad = "tool.dynamicLoad",
        /// Tools were searched for.
        ToolSearch = "tool.search",
        /// The definition of a tool changed.
        ToolChanged = "tool.changed",
        /// A call waits for a person.
        CallHeld = "call.held",
        /// A held call was approved.
        CallApproved = "call.approved",
        /// A held call was rejected.
        CallRejected = "call.rejected",
        /// A held call was not answered in time.
        CallExpired = "call.expired",
        /// Plan mode was switched on.
        PlanCreated = "plan.created",
        /// Plan mode was switched off.
        PlanClosed = "plan.closed",
        /// A call became a step of a plan.
        PlanQueued = "plan.queued",
        /// A step was approved.
        PlanApproved = "plan.approved",
        /// A step was rejected.
        PlanRejected = "plan.rejected",
        /// A step ran, with any outcome.
        PlanDone = "plan.done",
        /// A call that failed permanently was stored as a dead letter.
        DeadLetterAdded = "dead_letter.added",
        /// A dead letter is replayed.
        DeadLetterRetrying = "dead_letter.retrying",
        /// The replay of a dead letter succeeded.
        DeadLetterResolved = "dead_letter.resolved",
        /// A dead letter was dropped.
        DeadLetterDropped = "dead_letter.dropped",
        /// A job was scheduled.
        JobScheduled = "job.scheduled",
        /// A job runs.
        JobStarted = "job.started",
        /// A step of a job ended.
        JobStep = "job.step",
        /// A job succeeded.
        JobSucceeded = "job.succeeded",
        /// A job failed.
        JobFailed = "job.failed",
        /// A job was cancelled.
        JobCancelled = "job.cancelled",
        /// A run of a job waits for a person.
        JobHeld = "job.held",
        /// A job was due and did not run.
        JobMissed = "job.missed",
        /// A job is escalated by its policy.
        JobEscalated = "job.escalated",
        /// The schedule of a job was paused.
        JobPaused = "job.paused",
        /// The schedule of a job was resumed.
        JobResumed = "job.resumed",
        /// The state of a task changed.
        TaskChanged = "task.changed",
        /// A task is escalated by its policy.
        TaskEscalated = "task.escalated",
        /// A skill runs.
        SkillStarted = "skill.started",
        /// A step of a skill ended.
        SkillStep = "skill.step",
        /// A skill succeeded.
        SkillSucceeded = "skill.succeeded",
        /// A skill ended because a step waits for a person.
        SkillHeld = "skill.held",
        /// A skill failed.
        SkillFailed = "skill.failed",
        /// The tools, prompts or resources of a server changed.
        CatalogChanged = "catalog.changed",
        /// The configuration could not be reloaded; the last valid one stays in effect.
        ConfigError = "config.error",
        /// A request was refused: a foreign origin, a bad credential, or another user of the machine.
        RequestRefused = "request.refused",
        /// Another gateway had more events than it could send.
        EventsMissed = "events.missed",
    }
}

/// Who may receive an event, besides administrators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventAudience {
    /// The user it is about.
    User,
    /// Users who may see its server.
    Server,
    /// Users who may use its tool.
    Tool,
    /// Only administrators.
    Administrators,
}

impl EventKind {
    /// Who may receive events of this kind.
    pub fn audience(self) -> EventAudience {
        match self {
            Self::ServerConnecting
            | Self::ServerConnected
            | Self::ServerDisconnected
            | Self::ServerError
            | Self::CatalogChanged => EventAudience::Server,
            Self::ToolChanged => EventAudience::Tool,
            Self::ConfigError | Self::RequestRefused | Self::EventsMissed => EventAudience::Administrators,
            _ => EventAudience::User,
        }
    }

    fn bit(self) -> u64 {
        1 << (self as u32)
    }
}

/// A set of event kinds, as a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventKinds(u64);

impl EventKinds {
    /// All kinds.
    pub const ALL: Self = Self(u64::MAX);

    /// The kinds that any of these patterns matches; all if there are no patterns. A pattern may contain `*`.
    pub fn of<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownEventKind> {
        let mut bits = 0;
        let mut named = false;
        for pattern in patterns.into_iter().map(str::trim).filter(|pattern| !pattern.is_empty()) {
            let found =
                EventKind::ALL.into_iter().filter(|kind| crate::wildcard::fits(pattern, kind.as_str()));
            let found = found.fold(0, |bits, kind| bits | kind.bit());
            if found == 0 {
                return Err(UnknownEventKind { pattern: pattern.chars().take(64).collect() });
            }
            bits |= found;
            named = true;
        }
        Ok(if named { Self(bits) } else { Self::ALL })
    }

    /// Whether it contains a kind.
    pub fn has(self, kind: EventKind) -> bool {
        self.0 & kind.bit() != 0
    }
}

/// The error for a pattern that matches no event kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no event type matches `{pattern}`")]
pub struct UnknownEventKind {
    /// The pattern.
    pub pattern: String,
}

impl Fault for UnknownEventKind {
    fn code(&self) -> &'static str {
        "events.unknown-type"
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        Some("use types such as `tool.result`, `server.*` or `call.*`".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_bit() {
        assert!(EventKind::ALL.len() <= 64);
    }

    #[test]
    fn patterns_match_kinds() {
        let cases: [(&[&str], &[&str], &[&str]); 6] = [
            (&[], &["tool.call", "config.error"], &[]),
            (&["tool.result"], &["tool.result"], &["tool.call", "plan.done"]),
            (&["tool.*", "call.held"], &["tool.search", "call.held"], &["call.approved", "server.error"]),
            (&["*.error"], &["server.error", "config.error"], &["server.connected"]),
            (&["*"], &["plan.done"], &[]),
            (&["s*r*.c*d"], &["server.connected"], &["server.connecting", "server.error"]),
        ];
        for (patterns, wanted, unwanted) in cases {
            let kinds = EventKinds::of(patterns.iter().copied()).expect("known");
            for word in wanted {
                assert!(kinds.has(word.parse().expect("a kind")), "{patterns:?} {word}");
            }
            for word in unwanted {
                assert!(!kinds.has(word.parse().expect("a kind")), "{patterns:?} {word}");
            }
        }
        for unknown in ["tool", "tools.*", "tool.result.*", "TOOL.*"] {
            assert!(EventKinds::of([unknown]).is_err(), "{unknown}");
        }
    }
}
