//! Server processes: launch, line protocol, and termination of the whole process tree.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

#[path = "process/ending.rs"]
mod ending;
#[path = "process/hostile_modes.rs"]
mod hostile_modes;
#[path = "process/launching.rs"]
mod launching;
#[path = "process/support.rs"]
mod support;
