//! The domain types of Toolbooth and all of its decisions.
//!
//! This crate does no IO, does not await, does not read a clock or the environment, and knows neither the wire nor SQL.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests measure real time"))]

pub mod allowance;
pub mod answerer;
pub mod audit;
pub mod call;
pub mod caller;
pub mod catalog;
pub mod clients;
pub mod clock;
pub mod compliance;
pub mod consent;
mod credential;
pub mod dead_letter;
pub mod difference;
pub mod effects;
pub mod elicitation;
pub mod event;
pub mod exposure;
pub mod fault;
pub mod file;
pub mod health;
pub mod held;
pub mod hex;
pub mod job;
pub mod json;
pub mod key_holders;
pub mod keyed_hash;
pub mod lint;
pub mod loaded_tools;
pub mod manifest;
pub mod name_map;
pub mod names;
pub mod outcome;
pub mod own_names;
pub mod own_prompt;
pub mod percent;
pub mod permission;
pub mod persona;
pub mod plan;
pub mod provider;
pub mod redact;
mod reference;
pub mod registry;
pub mod result;
pub mod retry;
pub mod sampling;
pub mod schema;
pub mod secret;
pub mod server;
pub mod skill;
pub mod token;
pub mod trace;
pub mod warning;
pub mod weigh;
pub mod wildcard;
pub mod words;
