//! Injectors: what the gateway itself puts into a call's arguments. Only [`super::seal`] runs them.

mod file_token;
mod files;
mod identity;
mod mcp_data;

pub use file_token::{Claims, Expected, KeyError, TokenFault, TokenKey, TokenKeys, Uses};
pub use files::{FileBook, FileFault, Files, NoFiles, SignedUrl, UnknownName, file_names};
pub use identity::Identity;
pub use mcp_data::{MAX_MCP_DATA, McpData};

use super::fault::CallFault;
use crate::caller::Caller;
use crate::catalog::{Catalog, Tool};
use crate::json::{Member, RawJson};

/// What the world looks like when a call is sealed.
pub struct Moment<'a> {
    /// The catalog.
    pub catalog: &'a Catalog,
    /// The id of the call; asked for only when something is bound to it.
    pub call_id: &'a dyn Fn() -> String,
    /// The files that the call may name.
    pub files: &'a dyn FileBook,
}

/// What an injector may look at.
pub struct InjectionContext<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The tool.
    pub tool: &'a Tool,
    /// The caller's own arguments: an object.
    pub arguments: &'a RawJson,
    /// The world.
    pub moment: &'a Moment<'a>,
}

/// Supplies arguments of the gateway's own.
pub trait Injector: Send + Sync {
    /// The arguments and their values; none when this call takes none. An error ends the call.
    fn supply(&self, context: &InjectionContext<'_>) -> Result<Vec<Member>, CallFault>;
}
