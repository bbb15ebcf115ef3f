//! The catalog: what all servers offer, as one immutable snapshot.

mod admission;
mod digest;
mod hidden;
mod index;
mod listing;
mod naming;
mod roll;
mod snapshot;
mod tool;

pub use admission::{ServerCatalog, SetAside, admit};
pub use hidden::{Companion, Fit, IdentityArgument, Injected, MCP_DATA};
pub use index::{Lookup, NameIndex};
pub use listing::{ListBytes, ListKind};
pub use naming::{Naming, NamingStyle};
pub use snapshot::Catalog;
pub use tool::{Discovery, Offer, Tool};
