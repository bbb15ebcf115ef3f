//! The catalog: an immutable snapshot of what all servers offer.

mod admission;
mod assembly;
mod candidate;
mod derived;
mod digest;
mod filter;
mod hidden;
mod index;
mod listing;
mod naming;
mod overlay;
mod patterns;
mod quarantine;
mod skills;
mod snapshot;
mod sorted;
mod spelling;
mod tool;
mod virtual_tool;

pub use admission::{MAX_TOOLS, ServerCatalog, admit, admit_by};
pub use assembly::{Assembly, AssemblyInput, CatalogParts, EntryOutcome, EntryReport, assemble};
pub use candidate::{AdmissionContext, SetAside};
pub use derived::DerivedData;
pub use filter::ServerToolFilter;
pub use hidden::{Companion, IdentityArgument, InjectedArguments, MCP_DATA, TextFit};
pub use index::{Lookup, NameIndex};
pub use listing::{ListBytes, ListKind};
pub use naming::{Naming, NamingStyle};
pub use patterns::{BadPattern, ToolGate, ToolPatterns};
pub use quarantine::Quarantined;
pub use skills::SkillSet;
pub use snapshot::Catalog;
pub(crate) use snapshot::ViewCondition;
pub(crate) use sorted::SortedView;
pub use tool::{Backing, Bounds, CatalogItem, Discovery, Tool, ToolAccess};
