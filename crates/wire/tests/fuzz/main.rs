//! Mutated messages and event streams: every reader agrees with a simpler one, and chunks make no difference.
//!
//! `cargo xtask fuzz` runs these tests for a longer time.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

mod messages;
#[path = "../../../core/tests/json/mutate.rs"]
mod mutate;
mod streams;
