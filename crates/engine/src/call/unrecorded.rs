//! Calls whose outcome could not be recorded, for example on a full disk.
//!
//! A call that may change something is not sent before its intent is recorded, so the record always shows that it was
//! made. If its outcome cannot be recorded, its result is withheld, so that every result a caller gets is in the
//! record.

use super::pipeline::CallPipeline;
use crate::answer::{Answer, UNRECORDED};
use std::sync::Arc;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_store::StoreError;
use uuid::Uuid;

/// Whether the caller gets the result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disclosure {
    /// The caller gets it.
    Given,
    /// The caller does not get it, because the call may have changed something and its outcome is not recorded.
    Withheld,
}

impl Disclosure {
    /// The answer that the caller gets.
    pub(crate) fn apply(self, answer: Result<Answer, Problem>) -> Result<Answer, Problem> {
        // Errors and questions do not reveal what the call did.
        let is_result = matches!(answer, Ok(Answer::Result { .. } | Answer::Long { .. }));
        if self == Self::Withheld && is_result { Err(withheld()) } else { answer }
    }
}

fn withheld() -> Problem {
    Problem {
        code: UNRECORDED,
        blame: Blame::Gateway,
        message: "the tool was called, but the call could not be recorded, so its result is withheld".into(),
        hint: Some(
            "check what it changed before you call it again; the gateway's log shows the cause".into(),
        ),
    }
}

impl CallPipeline {
    /// Reports that the outcome of a call could not be recorded, and returns whether the caller gets its result.
    pub(crate) fn report_unrecorded(
        &self,
        call: Uuid,
        user: &Arc<str>,
        error: &StoreError,
        disclosure: Disclosure,
    ) -> Disclosure {
        tracing::error!(call.id = %call, "the outcome of a call could not be recorded: {error}");
        self.metrics.count_unrecorded();
        if disclosure == Disclosure::Withheld {
            self.events.emit_with(|| {
                let mut event = Event::new(EventKind::ToolResult).user(user.clone()).call(call);
                event.code = Some(UNRECORDED.into());
                event.outcome(OutcomeKind::Failed.as_str())
            });
        }
        disclosure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::ResultFacts;
    use toolbooth_core::held::HeldKind;
    use toolbooth_core::json::RawJson;
    use toolbooth_wire::Era;

    #[test]
    fn only_an_unrecorded_result_is_withheld() {
        let result = || {
            Ok(Answer::Result {
                result: RawJson::empty_object(),
                era: Era::Modern,
                facts: ResultFacts::default(),
                warnings: Vec::new(),
            })
        };
        let held = || Ok(Answer::Held { id: Uuid::nil(), text: String::new(), kind: HeldKind::Approval });
        assert!(Disclosure::Given.apply(result()).is_ok());
        assert!(Disclosure::Withheld.apply(held()).is_ok());
        let refused = Disclosure::Withheld.apply(result()).expect_err("withheld");
        assert_eq!(refused.code, UNRECORDED);
        let other = Problem { code: "call.timeout", ..refused };
        let kept = Disclosure::Withheld.apply(Err(other.clone())).expect_err("still an error");
        assert_eq!(kept, other);
    }
}
