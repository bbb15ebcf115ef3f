//! Exposure: what a client is shown of the tools its caller may use, and in which form.
//!
//! Any permitted tool may be called in any mode, listed or not: exposure saves a model's context and takes no
//! right away. What is decided here is decided from names, settings and sizes alone.

mod answer;
mod choice;
mod clients;
mod loaded;
pub mod meta;
mod signature;
mod surface;

pub use answer::{AnswerHit, SearchAnswer, search_answer};
pub use choice::{Choice, Forced, Reason, Size, Terms, choose};
pub(crate) use clients::name_limits;
pub use clients::{Dialect, Family, Output, Rooted, family};
pub use loaded::{Loaded, MAX_LOADED};
pub use signature::{cut, signature};
pub use surface::{Shape, Weights, summary};
pub(crate) use surface::{ShapeKey, shortened, size};

use crate::words::words;

words! {
    /// What `tools/list` holds.
    pub enum Mode ("exposure mode") {
        /// Every permitted tool, as it is.
        Full = "full",
        /// Every permitted tool, shortened.
        Summary = "summary",
        /// The meta tools, pinned tools and, in a legacy session, what was loaded in it.
        Search = "search",
    }
}
