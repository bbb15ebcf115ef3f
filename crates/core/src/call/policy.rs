//! Stage 5, judge: policies look at a draft, and the strictest verdict stands.

use super::draft::Draft;
use super::fault::CallFault;

/// What a policy says of a call, mildest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It may run.
    Run,
    /// A person is asked first.
    Ask {
        /// Why.
        reason: String,
    },
    /// It is put into a plan.
    Queue {
        /// Why.
        reason: String,
    },
    /// It may not run.
    Refuse {
        /// Why.
        reason: String,
    },
}

/// A rule over calls: a pure function that cannot fail open.
pub trait Policy: Send + Sync {
    /// Judges one call.
    fn judge(&self, draft: &Draft) -> Verdict;
}

/// A draft that may run now.
#[derive(Debug)]
pub struct Judged(pub(super) Draft);

/// Asks every policy; the strictest verdict wins.
///
/// Holding a call for a person needs the waiting room that comes with approvals; until a door offers
/// one, a verdict other than `Run` refuses the call.
pub fn judge(draft: Draft, policies: &[Box<dyn Policy>]) -> Result<Judged, CallFault> {
    let strictest = policies.iter().map(|policy| policy.judge(&draft)).max().unwrap_or(Verdict::Run);
    match strictest {
        Verdict::Run => Ok(Judged(draft)),
        Verdict::Ask { reason } | Verdict::Queue { reason } | Verdict::Refuse { reason } => {
            Err(CallFault::Refused { name: draft.tool.exposed.to_string(), reason })
        }
    }
}
