//! Stage 3, authorise: the one decision, asked once more for the tool itself.

use super::fault::CallFault;
use super::resolve::Resolved;
use crate::caller::Caller;
use crate::catalog::Tool;
use crate::compliance::{Meeting, meet};
use crate::permission::{Permission, on_tool};
use std::sync::Arc;

/// A call that its caller may make.
#[derive(Debug)]
pub struct Permitted(pub(super) Resolved);

impl Permitted {
    /// Who calls.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.0.incoming.caller
    }

    /// The tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.0.tool
    }
}

/// Lets a call through, or answers as if the tool did not exist. Levels of data that may not meet are named
/// only to somebody who may know of the tool.
pub fn authorise(resolved: Resolved) -> Result<Permitted, CallFault> {
    let caller = &resolved.incoming.caller;
    if on_tool(caller, &resolved.tool) == Permission::Hidden {
        return Err(CallFault::UnknownTool { name: resolved.incoming.name });
    }
    match meet(caller, &resolved.tool.server) {
        Meeting::Allowed => Ok(Permitted(resolved)),
        Meeting::Forbidden => Err(CallFault::Compliance {
            name: resolved.tool.exposed.to_string(),
            level: caller.compliance_level.as_ref().map(|level| level.name.to_string()).unwrap_or_default(),
        }),
    }
}
