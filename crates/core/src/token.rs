//! Bearer tokens: kept by their hash, never as themselves.

use crate::words::words;
use sha2::{Digest, Sha256};
use std::fmt;

/// What is known about one bearer token. The token itself is shown once, to the person who made it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// A short name to list and revoke it by.
    pub id: String,
    /// The SHA-256 of the token. Tokens are long and random, so a plain hash gives nothing away, and
    /// looking one up by its hash takes the same time however much of a guess is right.
    pub hash: [u8; 32],
    /// Whose it is.
    pub user: String,
    /// The groups its holder is in.
    pub groups: Vec<String>,
    /// The persona it is bound to.
    pub persona: Option<String>,
    /// What its maker wrote about it.
    pub note: Option<String>,
    /// When it was made.
    pub created_ms: i64,
    /// From when on it is refused.
    pub expires_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
}

words! {
    /// Whether a token admits its holder.
    pub enum TokenStanding ("token standing") {
        /// It does.
        Live = "live",
        /// Its time is over.
        Expired = "expired",
        /// Somebody revoked it.
        Revoked = "revoked",
    }
}

impl TokenRecord {
    /// The hash under which a bearer token is kept.
    pub fn hash_of(bearer: &str) -> [u8; 32] {
        Sha256::digest(bearer.as_bytes()).into()
    }

    /// Whether the token admits its holder at `now_ms`.
    pub fn standing(&self, now_ms: i64) -> TokenStanding {
        match (self.revoked_ms, self.expires_ms) {
            (Some(_), _) => TokenStanding::Revoked,
            (None, Some(expires_ms)) if expires_ms <= now_ms => TokenStanding::Expired,
            (None, _) => TokenStanding::Live,
        }
    }

    /// The token, revoked at `at_ms`; the first revocation stands.
    #[must_use]
    pub fn revoke(&self, at_ms: i64) -> Self {
        Self { revoked_ms: Some(self.revoked_ms.unwrap_or(at_ms)), ..self.clone() }
    }
}

// A log is no place for a hash that a guess could be checked against.
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
    fn a_token_admits_until_it_expires_or_is_revoked() {
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
            (None, None, TokenStanding::Live),
            (Some(11), None, TokenStanding::Live),
            (Some(10), None, TokenStanding::Expired),
            (None, Some(3), TokenStanding::Revoked),
            (Some(10), Some(12), TokenStanding::Revoked),
        ];
        for (expires_ms, revoked_ms, expected) in cases {
            assert_eq!(token(expires_ms, revoked_ms).standing(10), expected, "{expires_ms:?} {revoked_ms:?}");
        }
        assert_eq!(token(None, None).revoke(5).revoke(6).revoked_ms, Some(5));
        assert!(!format!("{:?}", token(None, None)).contains("hash"));
    }
}
