//! How a call ended, for its audit row and its event.

use crate::answer::Answer;
use crate::call::summary::AnswerSummary;
use std::borrow::Cow;
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::outcome::OutcomeKind;

/// How a call ended.
pub(super) struct CallEnd {
    pub(super) kind: OutcomeKind,
    pub(super) code: Option<Cow<'static, str>>,
    pub(super) result: Option<RawJson>,
    /// The word for the outcome in events. `held` is not an `OutcomeKind`: the call continues under another row.
    pub(super) outcome: &'static str,
    /// What the record keeps of the answer.
    pub(super) summary: AnswerSummary,
}

impl CallEnd {
    /// The end of a call whose client disconnected or cancelled it.
    pub(super) fn cancelled() -> Self {
        Self {
            kind: OutcomeKind::Cancelled,
            code: None,
            result: None,
            outcome: OutcomeKind::Cancelled.as_str(),
            summary: AnswerSummary::default(),
        }
    }

    /// The end of a call with this answer.
    pub(super) fn of(answer: &Result<Answer, Problem>) -> Self {
        let (kind, code, result) = match answer {
            Ok(Answer::Result { result, facts, .. }) => {
                let kind = if facts.is_error { OutcomeKind::ToolError } else { OutcomeKind::Done };
                (kind, None, Some(result.clone()))
            }
            Ok(Answer::Long { facts, .. }) if facts.is_error => (OutcomeKind::ToolError, None, None),
            Ok(Answer::Long { .. } | Answer::InputRequired { .. }) => (OutcomeKind::Done, None, None),
            Ok(Answer::Held { id, .. }) => {
                let mut next = ObjectWriter::default();
                next.text("held", &id.to_string());
                (OutcomeKind::Done, None, Some(next.finish()))
            }
            Ok(Answer::Error(error)) => {
                (OutcomeKind::ToolError, Some(format!("rpc {}", error.code).into()), None)
            }
            Err(problem) if problem.code == "call.timeout" => {
                (OutcomeKind::Timeout, Some(problem.code.into()), None)
            }
            Err(problem) => (OutcomeKind::Failed, Some(problem.code.into()), None),
        };
        let outcome = match answer {
            Ok(Answer::Held { .. }) => "held",
            Err(problem) if problem.blame == Blame::Caller => "refused",
            _ => kind.as_str(),
        };
        Self { kind, code, result, outcome, summary: AnswerSummary::of(answer) }
    }

    /// Adds the outcome to the audit row of the call.
    pub(super) fn fill(&self, entry: AuditEntry, at_ms: i64, started: Instant) -> AuditEntry {
        AuditEntry {
            at_ms,
            outcome: if self.outcome == "held" { self.outcome } else { self.kind.as_str() }.into(),
            code: self.code.as_deref().map(Into::into),
            duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
            ..entry
        }
    }
}
