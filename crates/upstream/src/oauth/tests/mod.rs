//! The authorizer against a small world: one server, its authorization servers, a person, a vault.
#![allow(clippy::unwrap_used)]

mod guarding;
mod keeping;
mod login;
mod means;
mod world;
