//! A person's yes, bound to one call: the same tool in the same version with the same arguments.

use super::draft::Draft;
use crate::held::{Answerer, HeldCall, HeldKind, HeldState};
use crate::json::RawJson;
use sha2::{Digest, Sha256};

/// In what capacity somebody answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capacity {
    /// As the caller.
    Caller,
    /// As somebody who answers for others.
    Approver,
}

/// The licence to run a held call. Only an approved and claimed call gives one, so it is good for one run.
#[derive(Debug, Clone)]
pub struct Licence {
    kind: HeldKind,
    capacity: Capacity,
    digest: [u8; 32],
    arguments_sha256: [u8; 32],
}

impl Licence {
    /// The licence of a held call, if it is approved and claimed and has not ended.
    pub fn of(held: &HeldCall) -> Option<Self> {
        // Only an approver could have answered what was for approvers alone.
        let capacity = match held.answerer {
            Answerer::ApproverOnly => Capacity::Approver,
            Answerer::CallerOrApprover => Capacity::Caller,
        };
        (held.state == HeldState::Approved && held.claimed_ms.is_some()).then(|| Self {
            kind: held.kind,
            capacity,
            digest: held.digest,
            arguments_sha256: fingerprint(held.final_arguments()),
        })
    }

    /// Whether this is the call that was approved.
    pub(super) fn is_for(&self, draft: &Draft) -> bool {
        self.digest == *draft.tool.digest() && self.arguments_sha256 == fingerprint(&draft.arguments)
    }

    pub(super) fn is_approvers(&self) -> bool {
        self.capacity == Capacity::Approver
    }

    pub(super) fn is_of_plan(&self) -> bool {
        self.kind == HeldKind::Plan
    }
}

/// The SHA-256 of arguments, by which an approval knows them again.
pub fn fingerprint(arguments: &RawJson) -> [u8; 32] {
    Sha256::digest(arguments.as_bytes()).into()
}
