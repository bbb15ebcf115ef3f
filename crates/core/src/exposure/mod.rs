//! Exposure: which of a caller's tools a client sees, and in which form.
//!
//! Any permitted tool may be called in any mode, listed or not: exposure saves a model's context and does not affect
//! rights. It depends only on names, settings and sizes.

mod answer;
mod choice;
pub mod meta;
mod signature;
mod statistics;
mod surface;
mod views;

pub use crate::clients::{
    ClientFamily, Dialect, InputSchemas, ListHandling, ListedTaskSupport, OutputSchemas, family,
};
pub use crate::loaded_tools::{LoadedTools, MAX_LOADED};
pub use answer::{AnswerHit, LEAST_HITS, SearchAnswer, search_answer};
pub use choice::{ConfiguredMode, ExposureTerms, ModeChoice, Reason, Size, choose};
pub use signature::{cut, signature};
pub use statistics::{Statistics, Weight};
pub use surface::{ListShape, ModeCosts, summary};
pub use views::CatalogView;

use crate::words::words;

words! {
    /// The exposure mode: what `tools/list` contains.
    pub enum Mode ("exposure mode") {
        /// Every permitted tool, unchanged.
        Full = "full",
        /// Every permitted tool, shortened.
        Summary = "summary",
        /// The meta tools, pinned tools and, in a legacy session, the tools loaded in it.
        Search = "search",
    }
}
