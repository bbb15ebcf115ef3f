//! The store's tests: the contract of every backend, and tests of single backends.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

mod audit;
mod blob_promises;
mod blobs;
mod consents;
mod console_sessions;
mod contract;
mod crash;
mod crash_held;
mod exposed_names;
mod file_rows;
mod files;
mod health;
mod held;
mod jobs;
mod keys;
mod late_records;
mod letters;
mod postgres;
mod power_cut;
mod sample;
mod shared_records;
mod speed;
mod tamper;
mod tokens;
mod transfer;
