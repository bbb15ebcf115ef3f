//! Tests of the real binary: its input, output and exit codes.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

mod background;
mod bad_input;
mod book;
mod bundled;
mod calls;
mod clients;
mod configuration;
mod files;
mod first_look;
mod manual;
mod output;
mod running;
mod secrets;
mod servers_add;
mod settings_page;
mod settings_readers;
mod shell;
mod store;
mod terminal;
mod trusting;
mod up;
mod world;
