//! The catalog: what all servers offer, as one immutable snapshot.

mod admission;
mod assembly;
mod bounds;
mod digest;
mod filter;
mod hidden;
mod index;
mod listing;
mod naming;
mod overlay;
mod patterns;
mod quarantine;
mod roll;
mod snapshot;
mod spelling;
mod tool;
mod views;
mod virtual_tool;

pub use admission::{Admitting, MAX_TOOLS, ServerCatalog, SetAside, admit, admit_by};
pub use assembly::{Assembly, EntryPlace, EntryStanding, Ground, Parts, assemble};
pub use bounds::{Backing, Bounds, Evenness};
pub use hidden::{Companion, Fit, IdentityArgument, Injected, MCP_DATA};
pub use index::{Lookup, NameIndex};
pub use listing::{ListBytes, ListKind};
pub use naming::{Naming, NamingStyle};
pub use patterns::{BadPattern, Gate, ToolPatterns};
pub use quarantine::Quarantined;
pub use snapshot::Catalog;
pub use tool::{Discovery, Offer, Tool};
pub use views::View;
