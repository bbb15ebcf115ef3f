//! Calls whose end could not be written down, as on a full disk.
//!
//! A call that may change something is not sent before its intent is written, so the record always shows that it was
//! made. If its end cannot be written, its result is withheld: a result that a caller has is in the record.

use crate::answer::Answer;
use crate::engine::Engine;
use std::sync::Arc;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_store::StoreError;
use uuid::Uuid;

/// The code of a call that was made and whose end could not be written down.
pub(crate) const UNRECORDED: &str = "call.unrecorded";

/// What becomes of the result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disclosure {
    /// The caller gets it.
    Given,
    /// Nobody gets it, since the call may have changed something and its end is not in the record.
    Withheld,
}

impl Disclosure {
    /// The answer that the caller gets.
    pub(crate) fn apply(self, answer: Result<Answer, Problem>) -> Result<Answer, Problem> {
        // Faults and questions to the caller do not say what the call did.
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
            "do not call it again before you have looked at what it changed; the gateway's log says why"
                .into(),
        ),
    }
}

impl Engine {
    /// Reports that the end of a call could not be written down; what becomes of its result.
    pub(crate) fn report_unrecorded(
        &self,
        call: Uuid,
        user: &Arc<str>,
        error: &StoreError,
        disclosure: Disclosure,
    ) -> Disclosure {
        tracing::error!(call.id = %call, "the end of a call was not written down: {error}");
        self.tally().count_unrecorded();
        if disclosure == Disclosure::Withheld {
            self.emit_made(|| {
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
    fn a_result_without_a_record_is_withheld_and_other_answers_are_given() {
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
        let kept = Disclosure::Withheld.apply(Err(other.clone())).expect_err("still a fault");
        assert_eq!(kept, other);
    }
}
