//! Bearer tokens, stored as hashes only.

use crate::words::words;
use sha2::{Digest, Sha256};
use std::fmt;

/// The record of one bearer token. The token itself is shown once, to the person who created it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// A short id for listing and revoking it.
    pub id: String,
    /// The SHA-256 of the token. Tokens are long and random, so a plain hash reveals nothing, and a lookup by hash
    /// takes the same time however much of a guess is right.
    pub hash: [u8; 32],
    /// Its user.
    pub user: String,
    /// The groups of its user.
    pub groups: Vec<String>,
    /// The persona it is bound to.
    pub persona: Option<String>,
    /// A note by its creator.
    pub note: Option<String>,
    /// When it was created.
    pub created_ms: i64,
    /// When it expires.
    pub expires_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
}

words! {
    /// Whether a token is valid.
    pub enum TokenStatus ("token status") {
        /// It is valid.
        Live = "live",
        /// It has expired.
        Expired = "expired",
        /// It was revoked.
        Revoked = "revoked",
    }
}

impl TokenRecord {
    /// The hash under which a bearer token is stored.
    pub fn hash_of(bearer: &str) -> [u8; 32] {
        Sha256::digest(bearer.as_bytes()).into()
    }

    /// Whether the token is valid at `now_ms`.
    pub fn status(&self, now_ms: i64) -> TokenStatus {
        match (self.revoked_ms, self.expires_ms) {
            (Some(_), _) => TokenStatus::Revoked,
            (None, Some(expires_ms)) if expires_ms <= now_ms => TokenStatus::Expired,
            (None, _) => TokenStatus::Live,
        }
    }

    /// The token, revoked at `at_ms`. A token that is already revoked keeps its time.
    #[must_use]
    pub fn revoke(&self, at_ms: i64) -> Self {
        Self { revoked_ms: Some(self.revoked_ms.unwrap_or(at_ms)), ..self.clone() }
    }
}

// Logs must not contain a hash that a guess could be checked against.
impl fmt::Debug for TokenRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, hash: _, user, groups, persona, note, created_ms, expires_ms, revoked_ms } = self;
        f.debug_struct("TokenRecord")
            .field("id", id)
            .field("user", user)
            .field("groups", groups)
            .field("persona", persona)
            .field("note", note)
            .field("created_ms", created_ms)
            .field("expires_ms", expires_ms)
            .field("revoked_ms", revoked_ms)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_revoked() {
        let token = |expires_ms, revoked_ms| TokenRecord {
            id: "t1".into(),
            hash: TokenRecord::hash_of("secret"),
            user: "ann".into(),
            groups: vec![],
            persona: None,
            note: None,
            created_ms: 0,
            expires_ms,
            revoked_ms,
        };
        let cases = [
            (None, None, TokenStatus::Live),
            (Some(11), None, TokenStatus::Live),
            (Some(10), None, TokenStatus::Expired),
            (None, Some(3), TokenStatus::Revoked),
            (Some(10), Some(12), TokenStatus::Revoked),
        ];
        for (expires_ms, revoked_ms, expected) in cases {
            assert_eq!(token(expires_ms, revoked_ms).status(10), expected, "{expires_ms:?} {revoked_ms:?}");
        }
        assert_eq!(token(None, None).revoke(5).revoke(6).revoked_ms, Some(5));
        assert!(!format!("{:?}", token(None, None)).contains("hash"));
    }
}
