//! Tests of the public API, one module per subject.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod client_files;
mod dialects;
mod entries;
mod errors;
mod expansion;
mod importing;
mod layering;
mod loading;
mod manifest_names;
mod manifests;
mod parsing;
mod reload;
mod schema;
mod sealed;
mod settings;
mod showing;
mod skills;
mod trusting;
mod typos;
mod watching;
mod workflows;
mod world;
