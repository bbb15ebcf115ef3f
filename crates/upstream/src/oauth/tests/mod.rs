//! The authorizer in a simulated environment: one server, its authorization servers, a person, a vault.
#![allow(clippy::unwrap_used, reason = "tests")]

mod login;
mod method;
mod token_lifecycle;
mod url_checks;
mod world;
