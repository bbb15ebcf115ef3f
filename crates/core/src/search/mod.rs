//! Tool search: from what somebody wants to the tools that do it.
//!
//! Two engines look at every tool: one counts words (`words`, `part`, `lexical`), the other compares meanings by a
//! table of vectors that is part of the binary (`pieces`, `meaning`). By the same table a word also stands for its
//! nearest in the catalog (`neighbours`). `rank` puts both together. Nothing is made before somebody searches. What a
//! server's texts say is worked out once for each part of the catalog and goes with it from snapshot to snapshot.

mod clauses;
mod comparison;
mod cover;
mod fields;
mod gathering;
mod given;
mod guesses;
mod index;
mod lexical;
mod lexicon;
mod meaning;
mod names;
mod neighbours;
mod part;
mod pieces;
mod query;
mod rank;
mod recurring;
mod servers;
mod synonyms;
mod texts;
mod values;
mod weights;
mod words;

pub use fields::Fields;
pub use given::{Given, Standing, text_of, texts_of};
pub use index::{Hit, Index};
pub use meaning::Vector;
pub use part::Part;
pub use query::{MAX_HITS, Pattern, Query, QueryError};
pub use servers::speaks_of;
