//! Stage 3, authorise: the one decision, asked once more for the tool itself.

use super::fault::CallFault;
use super::resolve::Resolved;
use crate::permission::{Permission, on_server};

/// A call that its caller may make.
#[derive(Debug)]
pub struct Permitted(pub(super) Resolved);

/// Lets a call through, or answers as if the tool did not exist.
pub fn authorise(resolved: Resolved) -> Result<Permitted, CallFault> {
    match on_server(&resolved.incoming.caller, &resolved.tool.server) {
        Permission::Granted => Ok(Permitted(resolved)),
        Permission::Hidden => Err(CallFault::UnknownTool { name: resolved.incoming.name }),
    }
}
