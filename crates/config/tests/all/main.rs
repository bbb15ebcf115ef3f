//! The crate from outside, one module per subject.
#![allow(clippy::unwrap_used, missing_docs)]

mod loading;
mod world;
