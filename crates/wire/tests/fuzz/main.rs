//! Mutated messages and event streams: every reader agrees with a simpler one, and chunks make no difference.
//!
//! `cargo xtask fuzz` runs these tests for a longer time.

mod messages;
#[path = "../../../core/tests/json/mutate.rs"]
mod mutate;
mod streams;
