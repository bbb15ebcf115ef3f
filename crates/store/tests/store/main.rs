//! The store's tests: what every backend promises, and what the file-backed one promises besides.

mod contract;
mod crash;
mod files;
mod sample;
mod speed;
mod tokens;
