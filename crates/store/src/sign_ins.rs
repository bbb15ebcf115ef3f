//! What signed tokens said of users, kept for calls that run when their callers are not there.

use crate::StoreError;
use crate::limits::{optional, size, text};
use async_trait::async_trait;

/// The most users that are remembered; the ones whose time is over first make room for others.
pub const MAX_SIGN_INS: usize = 100_000;
/// The most groups that are remembered of one user.
pub const MAX_SIGN_IN_GROUPS: usize = 1_000;

/// What the latest signed token of a user said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// The user.
    pub user: String,
    /// Who made the token.
    pub issuer: String,
    /// The groups that the token vouched for.
    pub groups: Vec<String>,
    /// The persona that the token was bound to.
    pub persona: Option<String>,
    /// The level of data that the token named.
    pub level: Option<String>,
    /// Until when it is believed.
    pub until_ms: i64,
}

/// Keeps what signed tokens said.
#[async_trait]
pub trait SignInStore: Send + Sync {
    /// Keeps a sign-in in place of an earlier one of the same user.
    async fn save_sign_in(&self, sign_in: SignIn) -> Result<(), StoreError>;

    /// The latest sign-in of a user, also one whose time is over.
    async fn sign_in(&self, user: &str) -> Result<Option<SignIn>, StoreError>;
}

pub(crate) fn check_sign_in(sign_in: &SignIn) -> Result<(), StoreError> {
    text("user", &sign_in.user)?;
    text("issuer", &sign_in.issuer)?;
    size("groups", sign_in.groups.len(), 0, MAX_SIGN_IN_GROUPS)?;
    sign_in.groups.iter().try_for_each(|group| text("group", group))?;
    optional("persona", sign_in.persona.as_deref())?;
    optional("level", sign_in.level.as_deref())
}
