//! Fake servers and clients for tests; not part of the product.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "measures real processes in real time")]

pub mod chat;
pub mod encoder;
pub mod fixture;
pub mod world;
