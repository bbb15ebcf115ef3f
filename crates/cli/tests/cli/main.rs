//! Tests of the real binary: its input, output and exit codes.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

mod bad_input;
mod bundled;
mod calls;
mod clients;
mod configuration;
mod files;
mod first_look;
mod manual;
mod output;
mod running;
mod settings_readers;
mod shell;
mod terminal;
mod trusting;
mod world;
