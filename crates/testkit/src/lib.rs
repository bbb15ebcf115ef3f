//! Fake servers of every temper, for tests only; nothing here ships.

pub mod chat;
pub mod fixture;
pub mod world;
