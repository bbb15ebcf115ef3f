//! Fake servers of every temper, for tests only; nothing here ships.

#![forbid(unsafe_code)]

pub mod chat;
pub mod encoder;
pub mod fixture;
pub mod world;
