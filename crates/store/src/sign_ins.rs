//! Sign-ins: the claims of users' signed tokens, stored for calls that run while the user is offline.

use crate::StoreError;
use crate::limits::{optional, size, text};
use async_trait::async_trait;

/// The most sign-ins that are stored; beyond it, those that expire first are deleted.
pub const MAX_SIGN_INS: usize = 100_000;
/// The most groups that are stored for one user.
pub const MAX_SIGN_IN_GROUPS: usize = 1_000;

/// The claims of a user's latest signed token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInRecord {
    /// The user.
    pub user: String,
    /// The issuer of the token.
    pub issuer: String,
    /// The groups in the token.
    pub groups: Vec<String>,
    /// The persona that the token was bound to.
    pub persona: Option<String>,
    /// The data level in the token.
    pub level: Option<String>,
    /// When the sign-in expires.
    pub until_ms: i64,
}

/// Stores sign-ins.
#[async_trait]
pub trait SignInStore: Send + Sync {
    /// Saves a sign-in, and replaces an earlier one of the same user.
    async fn save_sign_in(&self, sign_in: SignInRecord) -> Result<(), StoreError>;

    /// Returns the latest sign-in of a user, even if it has expired.
    async fn sign_in(&self, user: &str) -> Result<Option<SignInRecord>, StoreError>;
}

pub(crate) fn check_sign_in(sign_in: &SignInRecord) -> Result<(), StoreError> {
    text("user", &sign_in.user)?;
    text("issuer", &sign_in.issuer)?;
    size("groups", sign_in.groups.len(), 0, MAX_SIGN_IN_GROUPS)?;
    sign_in.groups.iter().try_for_each(|group| text("group", group))?;
    optional("persona", sign_in.persona.as_deref())?;
    optional("level", sign_in.level.as_deref())
}
