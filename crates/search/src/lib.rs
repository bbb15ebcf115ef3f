//! Tool search: finds the tools that fit a request in words.
//!
//! Two engines score every tool: one counts words (`words`, `server_index`, `lexical`), the other compares meanings
//! with a table of vectors that is part of the binary (`pieces`, `meaning`). With the same table, `neighbours` finds
//! the words of the catalog nearest to each word of a request. `rank` combines both scores. The index is built on the
//! first search and kept with the snapshot (`catalog`). The index of one server's tools is built once and shared by all
//! snapshots in which that server is unchanged.
//!
//! Only the tools of the caller's view are scored, so hidden tools do not affect the ranking. `values` removes
//! arguments from a request, `guesses` replaces words that no tool has, and `cover` orders the hits of a request with
//! several clauses. All weights are in `weights`.

#![forbid(unsafe_code)]

mod catalog;
mod clauses;
mod comparison;
mod cover;
mod encoder;
mod fields;
mod guesses;
mod index;
mod lexical;
mod lexicon;
mod meaning;
mod names;
mod near_words;
mod neighbours;
mod pieces;
mod posting_builder;
mod query;
mod rank;
mod run_table;
mod server_index;
mod server_indexer;
mod servers;
mod similarities;
mod synonyms;
mod texts;
mod values;
mod weights;
mod words;

pub use catalog::{index_of, search, search_with};
pub use encoder::{EncodedQuery, EncodedTools, query_texts, tool_text};
pub use fields::MatchedFields;
pub use index::{Hit, Index};
pub use meaning::Vector;
pub use query::{MAX_HITS, Pattern, Query, QueryError};
pub use server_index::ServerIndex;
pub use servers::mentions_server;
