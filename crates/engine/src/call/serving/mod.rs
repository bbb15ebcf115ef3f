//! Serving a call by the providers of a manifest tool: `attempts` tries them in order under one deadline.
//!
//! A provider that is a server's tool gets its own draft (`core/call/reroute.rs`) and is sealed again, so a mapping
//! cannot set arguments that the gateway supplies.

mod attempts;
mod budget;
mod fault;
mod hedge;
mod inner;
mod serve;
mod value;

pub(super) use inner::ProviderOutcome;
