//! Stage 3, authorise: applies the permission decision to the resolved tool.

use super::fault::CallFault;
use super::resolve::ResolvedCall;
use crate::caller::Caller;
use crate::catalog::Tool;
use crate::permission::{Permission, on_tool};
use std::sync::Arc;

/// A call that its caller may make.
#[derive(Debug)]
pub struct PermittedCall(pub(super) ResolvedCall);

impl PermittedCall {
    /// The caller.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.0.incoming.caller
    }

    /// The tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.0.tool
    }
}

/// Lets a call through, or fails as if the tool did not exist.
pub fn authorise(resolved: ResolvedCall) -> Result<PermittedCall, CallFault> {
    let caller = &resolved.incoming.caller;
    if on_tool(caller, &resolved.tool) == Permission::Hidden {
        return Err(CallFault::UnknownTool { name: resolved.incoming.name });
    }
    Ok(PermittedCall(resolved))
}
