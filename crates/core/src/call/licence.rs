//! A person's yes, bound to one question: the same tool in the same version with the same arguments, and who gave it.

use super::draft::Draft;
use super::policy::Verdict;
use crate::catalog::Tool;
use crate::held::{Answerer, HeldCall, HeldKind, HeldState};
use crate::json::RawJson;
use crate::names::ServerName;
use sha2::{Digest, Sha256};

/// The licence to run a held call. Only an approved and claimed call gives one, so it is good for one run.
#[derive(Debug, Clone)]
pub struct Licence {
    kind: HeldKind,
    /// The question that was answered: who could answer it.
    answered_as: Answerer,
    by: String,
    server: ServerName,
    tool: String,
    digest: [u8; 32],
    /// The arguments that were asked about.
    asked_sha256: [u8; 32],
    /// The arguments that were agreed to.
    arguments: RawJson,
}

impl Licence {
    /// The licence of a held call, if it is approved and claimed and has not ended.
    pub fn of(held: &HeldCall) -> Option<Self> {
        if held.state != HeldState::Approved || held.claimed_ms.is_none() {
            return None;
        }
        Some(Self {
            kind: held.kind,
            answered_as: held.answerer,
            by: held.decided_by.clone()?,
            server: held.server.clone(),
            tool: held.tool.clone(),
            digest: held.digest,
            asked_sha256: held.arguments_sha256,
            arguments: held.final_arguments().clone(),
        })
    }

    /// Whether this is the call that was approved.
    pub(super) fn is_for(&self, draft: &Draft) -> bool {
        self.agreed_to(&draft.tool, &draft.arguments)
    }

    /// Whether a call of this tool with these arguments was agreed to.
    pub(super) fn agreed_to(&self, tool: &Tool, arguments: &RawJson) -> bool {
        self.is_about(tool) && fingerprint(&self.arguments) == fingerprint(arguments)
    }

    /// Whether it is about this tool in this version. A yes to one tool says nothing about another.
    fn is_about(&self, tool: &Tool) -> bool {
        self.server == tool.server.name && *self.tool == *tool.name && self.digest == *tool.digest()
    }

    /// The arguments that were agreed to, if this tool was asked about with these.
    pub fn agreed_for(&self, tool: &Tool, asked: &RawJson) -> Option<&RawJson> {
        (self.is_about(tool) && self.asked_sha256 == fingerprint(asked)).then_some(&self.arguments)
    }

    /// What it is good for: questions that this person could answer, and the plan whose step it was.
    pub(super) fn covers(&self, verdict: &Verdict, caller: &str) -> bool {
        match verdict {
            Verdict::Ask { answerer: Answerer::ApproverOnly, .. } => {
                self.answered_as == Answerer::ApproverOnly && self.by != caller
            }
            Verdict::Ask { answerer, .. } => self.answered_as >= *answerer,
            Verdict::Queue { .. } => self.is_of_plan(),
            Verdict::Run | Verdict::Refuse { .. } | Verdict::Hide => false,
        }
    }

    /// Whether a step of a plan was approved.
    pub fn is_of_plan(&self) -> bool {
        self.kind == HeldKind::Plan
    }
}

/// The SHA-256 of arguments, by which an approval knows them again.
pub fn fingerprint(arguments: &RawJson) -> [u8; 32] {
    Sha256::digest(arguments.as_bytes()).into()
}
