//! Who may answer a held call, and who must approve the calls of a tool.

use crate::words::words;
use serde::{Deserialize, Serialize};

words! {
    /// Who may approve, mildest first. The caller and every approver who can see a held call may reject it.
    pub enum Answerer ("kind of answerer") {
        /// The caller, or an approver; the answer may be remembered.
        CallerOrApprover = "caller_or_approver",
        /// The caller, or an approver, each time and in person: no earlier answer counts.
        InPerson = "in_person",
        /// An approver other than the caller.
        ApproverOnly = "approver_only",
    }
}

/// Who must approve each call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalBy {
    /// No approval is required.
    #[default]
    None,
    /// The caller, each time and in person.
    Caller,
    /// An approver other than the caller.
    Approver,
}

impl ApprovalBy {
    /// Who may answer, if approval is required.
    pub fn answerer(self) -> Option<Answerer> {
        match self {
            Self::None => None,
            Self::Caller => Some(Answerer::InPerson),
            Self::Approver => Some(Answerer::ApproverOnly),
        }
    }
}

/// Whether a person must consent before the first use of a tool, and whether a file says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentTerm {
    /// No consent is required.
    NotRequired,
    /// It is required, by the default for discovered tools. Clients usually ask their own users.
    ByDefault,
    /// It is required, because the configuration or a manifest says so.
    Written,
}

impl ConsentTerm {
    /// The term for a written `requires_consent`.
    pub fn written(required: bool) -> Self {
        if required { Self::Written } else { Self::NotRequired }
    }

    /// The value of `requires_consent`.
    pub fn is_required(self) -> bool {
        self != Self::NotRequired
    }
}
