//! The vocabulary of events, and which of them somebody wants to hear.

use crate::fault::{Blame, Fault};
use crate::words::words;

words! {
    /// What happened.
    pub enum EventKind ("type of event") {
        /// A server is being connected.
        ServerConnecting = "server.connecting",
        /// A server is connected and has listed what it offers.
        ServerConnected = "server.connected",
        /// A server was let go.
        ServerDisconnected = "server.disconnected",
        /// A server could not be reached, or was lost.
        ServerError = "server.error",
        /// A call goes to its server.
        ToolCall = "tool.call",
        /// A call ended, however it did.
        ToolResult = "tool.result",
        /// A tool was loaded because a search found it.
        ToolDynamicLoad = "tool.dynamicLoad",
        /// Tools were searched for.
        ToolSearch = "tool.search",
        /// A tool has another definition than before.
        ToolChanged = "tool.changed",
        /// A call waits for a person.
        CallHeld = "call.held",
        /// A person said yes.
        CallApproved = "call.approved",
        /// A person said no.
        CallRejected = "call.rejected",
        /// Nobody answered in time.
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
        /// A step ran, well or badly.
        PlanDone = "plan.done",
        /// A call that failed for good was set aside.
        DeadLetterAdded = "dead_letter.added",
        /// It is tried again.
        DeadLetterRetrying = "dead_letter.retrying",
        /// It went through after all.
        DeadLetterResolved = "dead_letter.resolved",
        /// It was given up.
        DeadLetterDropped = "dead_letter.dropped",
        /// A job has a time to run.
        JobScheduled = "job.scheduled",
        /// A job runs.
        JobStarted = "job.started",
        /// A step of a job ended.
        JobStep = "job.step",
        /// A job ended well.
        JobSucceeded = "job.succeeded",
        /// A job failed.
        JobFailed = "job.failed",
        /// A job was cancelled.
        JobCancelled = "job.cancelled",
        /// A skill runs.
        SkillStarted = "skill.started",
        /// A step of a skill ended.
        SkillStep = "skill.step",
        /// A skill ended well.
        SkillSucceeded = "skill.succeeded",
        /// A skill failed.
        SkillFailed = "skill.failed",
        /// What a server offers is another than before.
        CatalogChanged = "catalog.changed",
        /// The configuration could not be read again; the last good one stays.
        ConfigError = "config.error",
        /// Somebody was refused at the door: a foreign origin, a bad credential, another user of the machine.
        RequestRefused = "request.refused",
    }
}

/// Whom an event is for, besides those who look after the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The user it is about.
    User,
    /// Whoever may see its server.
    Server,
    /// Whoever may use its tool.
    Tool,
    /// Nobody else.
    Keepers,
}

impl EventKind {
    /// Whom events of this kind are for.
    pub fn audience(self) -> Audience {
        match self {
            Self::ServerConnecting
            | Self::ServerConnected
            | Self::ServerDisconnected
            | Self::ServerError
            | Self::CatalogChanged => Audience::Server,
            Self::ToolChanged => Audience::Tool,
            Self::ConfigError | Self::RequestRefused => Audience::Keepers,
            _ => Audience::User,
        }
    }

    fn bit(self) -> u64 {
        1 << (self as u32)
    }
}

/// The kinds that somebody wants to hear, as bits: one look decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);

    /// Those that any of these patterns names; all, where there is none. A pattern may hold `*`.
    pub fn of<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, NoSuchKind> {
        let mut bits = 0;
        let mut named = false;
        for pattern in patterns.into_iter().map(str::trim).filter(|pattern| !pattern.is_empty()) {
            let found =
                EventKind::ALL.into_iter().filter(|kind| crate::wildcard::fits(pattern, kind.as_str()));
            let found = found.fold(0, |bits, kind| bits | kind.bit());
            if found == 0 {
                return Err(NoSuchKind { pattern: pattern.chars().take(64).collect() });
            }
            bits |= found;
            named = true;
        }
        Ok(if named { Self(bits) } else { Self::ALL })
    }

    /// Whether a kind is among them.
    pub fn has(self, kind: EventKind) -> bool {
        self.0 & kind.bit() != 0
    }
}

/// No event is of a kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no event is of the type `{pattern}`")]
pub struct NoSuchKind {
    /// What was asked for.
    pub pattern: String,
}

impl Fault for NoSuchKind {
    fn code(&self) -> &'static str {
        "events.unknown-type"
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        Some("types are such as `tool.result`, `server.*` or `call.*`".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_bit_for_every_kind() {
        assert!(EventKind::ALL.len() <= 64);
    }

    #[test]
    fn patterns_name_kinds() {
        let cases: [(&[&str], &[&str], &[&str]); 6] = [
            (&[], &["tool.call", "config.error"], &[]),
            (&["tool.result"], &["tool.result"], &["tool.call", "plan.done"]),
            (&["tool.*", "call.held"], &["tool.search", "call.held"], &["call.approved", "server.error"]),
            (&["*.error"], &["server.error", "config.error"], &["server.connected"]),
            (&["*"], &["plan.done"], &[]),
            (&["s*r*.c*d"], &["server.connected"], &["server.connecting", "server.error"]),
        ];
        for (patterns, wanted, unwanted) in cases {
            let kinds = Kinds::of(patterns.iter().copied()).expect("known");
            for word in wanted {
                assert!(kinds.has(word.parse().expect("a kind")), "{patterns:?} {word}");
            }
            for word in unwanted {
                assert!(!kinds.has(word.parse().expect("a kind")), "{patterns:?} {word}");
            }
        }
        for unknown in ["tool", "tools.*", "tool.result.*", "TOOL.*"] {
            assert!(Kinds::of([unknown]).is_err(), "{unknown}");
        }
    }
}
