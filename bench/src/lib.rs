//! A load generator, a fast test server and measurements for the gateway: see README.md.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

pub mod answers;
pub mod catalog;
pub mod client;
pub mod era;
pub mod processes;
pub mod summary;
pub mod work;
