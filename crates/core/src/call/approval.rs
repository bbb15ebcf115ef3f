//! A person's approval, bound to one question: the same tool in the same version with the same arguments.

use super::verdict::Verdict;
use crate::catalog::Tool;
use crate::held::{Answerer, HeldCall, HeldKind, HeldState};
use crate::json::RawJson;
use crate::names::ServerName;
use sha2::{Digest, Sha256};

/// Permission to run a held call. Only an approved and claimed held call gives one, so it is valid for one run.
#[derive(Debug, Clone)]
pub struct Approval {
    kind: HeldKind,
    /// Who could answer the question that was answered.
    answered_as: Answerer,
    by: String,
    server: ServerName,
    tool: String,
    digest: [u8; 32],
    /// The hash of the arguments in the question.
    asked_sha256: [u8; 32],
    /// The approved arguments.
    arguments: RawJson,
}

impl Approval {
    /// The approval of a held call, if it is approved and claimed and has not ended.
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

    /// Whether it approves a call of this tool with these arguments.
    pub(super) fn approves(&self, tool: &Tool, arguments: &RawJson) -> bool {
        self.is_about(tool) && fingerprint(&self.arguments) == fingerprint(arguments)
    }

    /// Whether it is for this tool in this version. Approving one tool does not approve another.
    fn is_about(&self, tool: &Tool) -> bool {
        self.server == tool.server.name && *self.tool == *tool.name && self.digest == *tool.digest()
    }

    /// The approved arguments, if the question was about this tool with the arguments `asked`.
    pub fn approved_for(&self, tool: &Tool, asked: &RawJson) -> Option<&RawJson> {
        (self.is_about(tool) && self.asked_sha256 == fingerprint(asked)).then_some(&self.arguments)
    }

    /// Whether it satisfies a verdict: a question that this person could answer, or the plan of its step.
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

    /// Whether it approves a step of a plan.
    pub fn is_of_plan(&self) -> bool {
        self.kind == HeldKind::Plan
    }
}

/// The SHA-256 of arguments, by which an approval identifies them.
pub fn fingerprint(arguments: &RawJson) -> [u8; 32] {
    Sha256::digest(arguments.as_bytes()).into()
}
