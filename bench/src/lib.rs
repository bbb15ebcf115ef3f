//! A load generator, a fast test server and measurements for the gateway: see README.md.

pub mod answers;
pub mod catalog;
pub mod client;
pub mod era;
pub mod processes;
pub mod summary;
pub mod work;
