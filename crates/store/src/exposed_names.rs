//! Exposed names of tools. The first server that claims a name has it, so that all gateways on a store give it to the same
//! server, whichever server answers them first.

use crate::StoreError;
use crate::limits::{size, text};
use async_trait::async_trait;
use toolbooth_core::names::ServerName;

/// The most names that are stored; further ones are not.
pub const MAX_EXPOSED_NAMES: usize = 100_000;
/// The most names of one claim.
pub const MAX_NAMES_OF_CLAIM: usize = 1_000;

/// An exposed name, and the server that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposedName {
    /// The name.
    pub name: String,
    /// The server.
    pub server: ServerName,
}

/// Stores exposed names.
#[async_trait]
pub trait ExposedNameStore: Send + Sync {
    /// Claims names for servers in this order, at most `MAX_NAMES_OF_CLAIM` at once. Returns the claimed names that
    /// another server has, with that server.
    async fn claim_names(&self, claims: Vec<ExposedName>, at_ms: i64)
    -> Result<Vec<ExposedName>, StoreError>;

    /// Deletes all claims of a server.
    async fn release_names(&self, server: &ServerName) -> Result<(), StoreError>;
}

pub(crate) fn check_claims(claims: &[ExposedName]) -> Result<(), StoreError> {
    size("names", claims.len(), 0, MAX_NAMES_OF_CLAIM)?;
    claims.iter().try_for_each(|claim| text("name", &claim.name))
}
