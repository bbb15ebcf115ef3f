//! The rows of the store, in one source for two databases: `sqlite` and `postgres` each include this module.
//!
//! The including module has a `dialect` with the types of its database and the few differences in SQL, and a store
//! (`dialect::StoreBackend`) that commits changes and runs queries. See docs/adr/0022-one-source-two-databases.md.

pub(super) mod audit;
pub(super) mod change;
pub(super) mod changes;
mod consents;
mod console_sessions;
mod discoveries;
mod exposed_names;
mod files;
mod health;
mod held;
mod jobs;
mod letters;
pub(super) mod marks;
mod plans;
pub(super) mod read;
mod shared_records;
mod sign_ins;
mod store;
mod tokens;
pub(super) mod transfer;

use super::dialect;
