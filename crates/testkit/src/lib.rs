//! Fake servers and clients for tests; not part of the product.

#![forbid(unsafe_code)]

pub mod chat;
pub mod encoder;
pub mod fixture;
pub mod world;
