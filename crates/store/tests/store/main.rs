//! The store's tests: what every backend promises, and what the file-backed one promises besides.

mod audit;
mod consents;
mod contract;
mod crash;
mod crash_held;
mod files;
mod held;
mod sample;
mod speed;
mod tamper;
mod tokens;
