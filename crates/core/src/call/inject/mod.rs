//! Injectors: supply the gateway's own arguments of a call. Only [`super::seal`] runs them.

mod file_token;
mod files;
mod identity;
mod mcp_data;

pub use file_token::{FileTokenCheck, FileTokenClaims, TokenFault, TokenKey, TokenKeyError, TokenKeys, Uses};
pub use files::{FileFault, FileInjector, FileUrlSource, NoFiles, SignedUrl, UnknownName, file_names};
pub use identity::IdentityInjector;
pub use mcp_data::{MAX_MCP_DATA, McpDataInjector};

use super::fault::CallFault;
use crate::caller::Caller;
use crate::catalog::{Catalog, Tool};
use crate::json::{Member, RawJson};
use crate::warning::Warning;

/// The inputs of [`super::seal`] besides the call.
pub struct SealContext<'a> {
    /// The catalog.
    pub catalog: &'a Catalog,
    /// Returns the id of the call; only used when something is bound to it.
    pub call_id: &'a dyn Fn() -> String,
    /// The files that the call may name.
    pub files: &'a dyn FileUrlSource,
}

/// The inputs of an injector.
pub struct InjectionContext<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The tool.
    pub tool: &'a Tool,
    /// The caller's own arguments: an object.
    pub arguments: &'a RawJson,
    /// The inputs of sealing.
    pub seal_context: &'a SealContext<'a>,
}

/// Supplies some of the gateway's own arguments.
pub trait Injector: Send + Sync {
    /// The arguments and their values; empty if this tool takes none. An error ends the call.
    fn supply(&self, context: &InjectionContext<'_>) -> Result<Supplied, CallFault>;
}

/// The arguments that an injector supplies.
#[derive(Debug, Default)]
pub struct Supplied {
    /// The arguments and their values.
    pub members: Vec<Member>,
    /// Warnings for the caller.
    pub warnings: Vec<Warning>,
}

impl From<Vec<Member>> for Supplied {
    fn from(members: Vec<Member>) -> Self {
        Self { members, warnings: Vec::new() }
    }
}
