//! Tools that are no longer what was accepted.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::call::situation::Change;
use crate::held::Answerer;

/// What happens at the call of a tool whose definition changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnChange {
    /// Nothing.
    Allow,
    /// A person is asked, once.
    #[default]
    Ask,
    /// It is refused until somebody accepts the change.
    Block,
}

/// Holds calls of changed tools.
#[derive(Debug, Clone, Copy)]
pub struct ChangedTool(pub OnChange);

impl Policy for ChangedTool {
    fn judge(&self, draft: &Draft) -> Verdict {
        if draft.situation.change == Change::None {
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
