//! The policy for tools that changed since they were accepted.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::call::situation::DefinitionChange;
use crate::held::Answerer;

/// How a call of a changed tool is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnChange {
    /// It runs.
    Allow,
    /// A person must approve it, once.
    #[default]
    Ask,
    /// It is refused until the change is accepted.
    Block,
}

/// Asks about or refuses calls of changed tools.
#[derive(Debug, Clone, Copy)]
pub struct ChangedToolPolicy(pub OnChange);

impl Policy for ChangedToolPolicy {
    fn judge(&self, draft: &Draft) -> Verdict {
        if draft.situation.change == DefinitionChange::None {
            return Verdict::Run;
        }
        let name = &draft.tool.exposed;
        let reason = format!("the definition of `{name}` has changed since it was accepted");
        match self.0 {
            OnChange::Allow => Verdict::Run,
            OnChange::Ask => Verdict::Ask { reason, answerer: Answerer::CallerOrApprover },
            OnChange::Block => {
                let reason = format!(
                    "{reason}; `toolbooth tools diff {name}` shows how, `toolbooth tools accept {name}` accepts it"
                );
                Verdict::Refuse { reason }
            }
        }
    }
}
