//! Servers as real processes: how they start, how they speak, and that nothing of them outlives the gateway.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "process/ending.rs"]
mod ending;
#[path = "process/launching.rs"]
mod launching;
#[path = "process/support.rs"]
mod support;
#[path = "process/tempers.rs"]
mod tempers;
