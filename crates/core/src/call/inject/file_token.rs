//! File tokens: the right to fetch one file, for one call, for a limited time.
//!
//! `v1.KEY-ID.PAYLOAD.MAC`: the payload is JSON in base64url, the MAC is HMAC-SHA256 over everything before it. Keys
//! have ids, so that a key can be rotated while older tokens are still accepted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// The maximum length of a token.
const MAX_TOKEN: usize = 4096;
/// How many former keys are accepted.
const MAX_FORMER: usize = 4;
/// The minimum length of a key.
const MIN_KEY: usize = 32;

/// The rights that a token grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTokenClaims {
    /// The user whose file it is.
    #[serde(rename = "u")]
    pub user: String,
    /// The file's id.
    #[serde(rename = "f")]
    pub file: String,
    /// The server it was issued for.
    #[serde(rename = "s")]
    pub server: String,
    /// The call it was issued for.
    #[serde(rename = "c")]
    pub call: String,
    /// When it expires, in seconds since 1970.
    #[serde(rename = "e")]
    pub expires_s: i64,
    /// How often it may be used. The component that serves the file counts.
    #[serde(rename = "n")]
    pub uses: Uses,
}

/// How often a token may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uses {
    /// Once.
    Once,
    /// Until it expires.
    Many,
}

/// The values a token is checked against.
#[derive(Debug, Clone, Copy)]
pub struct FileTokenCheck<'a> {
    /// The requested file.
    pub file: &'a str,
    /// The requesting user, if known from something other than the token.
    pub user: Option<&'a str>,
    /// The current time, in seconds since 1970.
    pub now_s: i64,
}

/// Why a token is rejected. The response is the same for all reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// The text is not a token.
    #[error("this is not a file token")]
    Malformed,
    /// Its key is unknown.
    #[error("the token's key is unknown")]
    UnknownKey,
    /// It was modified, or not issued here.
    #[error("the token was modified")]
    Forged,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
    /// It is for another file.
    #[error("the token is for another file")]
    OtherFile,
    /// It is for another user.
    #[error("the token is for another user")]
    OtherUser,
}

/// The error for an unusable key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenKeyError {
    /// Its id is not 1 to 16 letters and digits.
    #[error("a key id must have 1 to 16 letters and digits")]
    Id,
    /// It is too short, or repeats one character.
    #[error("a key must have at least {MIN_KEY} bytes that are not all the same")]
    Weak,
}

/// A key and its id. `Debug` does not show the key.
#[derive(Clone)]
pub struct TokenKey {
    id: String,
    secret: Vec<u8>,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({})", self.id)
    }
}

impl TokenKey {
    /// Checks and wraps a key.
    pub fn new(id: impl Into<String>, secret: impl Into<Vec<u8>>) -> Result<Self, TokenKeyError> {
        let (id, secret) = (id.into(), secret.into());
        if !(1..=16).contains(&id.len()) || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(TokenKeyError::Id);
        }
        if secret.len() < MIN_KEY || secret.iter().all(|byte| *byte == secret[0]) {
            return Err(TokenKeyError::Weak);
        }
        Ok(Self { id, secret })
    }

    fn mac(&self, signed: &str) -> Option<Hmac<Sha256>> {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.secret).ok()?;
        mac.update(b"toolbooth file token\0");
        mac.update(signed.as_bytes());
        Some(mac)
    }
}

/// The signing key, and former keys that are still accepted.
#[derive(Debug, Clone)]
pub struct TokenKeys {
    current: TokenKey,
    former: Vec<TokenKey>,
}

impl TokenKeys {
    /// Signs with `current`, and also accepts the first few keys of `former`.
    pub fn new(current: TokenKey, mut former: Vec<TokenKey>) -> Self {
        former.truncate(MAX_FORMER);
        Self { current, former }
    }

    /// Issues a token.
    pub fn sign(&self, claims: &FileTokenClaims) -> Option<String> {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?);
        let signed = format!("v1.{}.{payload}", self.current.id);
        let mac = self.current.mac(&signed)?.finalize().into_bytes();
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac)))
    }

    /// Verifies a token. The MAC is compared in constant time, before any part of the token is trusted.
    pub fn verify(&self, token: &str, expected: FileTokenCheck<'_>) -> Result<FileTokenClaims, TokenFault> {
        if token.len() > MAX_TOKEN {
            return Err(TokenFault::Malformed);
        }
        let (signed, mac) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let mut parts = signed.split('.');
        let (Some("v1"), Some(id), Some(payload), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenFault::Malformed);
        };
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| TokenFault::Malformed)?;
        let mut keys = std::iter::once(&self.current).chain(&self.former);
        let key = keys.find(|key| key.id == id).ok_or(TokenFault::UnknownKey)?;
        let ours = key.mac(signed).ok_or(TokenFault::Forged)?;
        ours.verify_slice(&mac).map_err(|_| TokenFault::Forged)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| TokenFault::Malformed)?;
        let claims: FileTokenClaims = serde_json::from_slice(&payload).map_err(|_| TokenFault::Malformed)?;
        if expected.now_s >= claims.expires_s {
            return Err(TokenFault::Expired);
        }
        if claims.file != expected.file {
            return Err(TokenFault::OtherFile);
        }
        if expected.user.is_some_and(|user| user != claims.user) {
            return Err(TokenFault::OtherUser);
        }
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, start: u8) -> TokenKey {
        TokenKey::new(id, (start..start + 32).collect::<Vec<u8>>()).expect("a key")
    }

    fn claims() -> FileTokenClaims {
        FileTokenClaims {
            user: "ann".into(),
            file: "f1".into(),
            server: "mail".into(),
            call: "c1".into(),
            expires_s: 1_000,
            uses: Uses::Once,
        }
    }

    #[test]
    fn a_token_is_valid_only_for_what_it_was_issued_for() {
        let keys = TokenKeys::new(key("k2", 7), vec![key("k1", 99)]);
        let token = keys.sign(&claims()).expect("a token");
        let former = TokenKeys::new(key("k1", 99), vec![]).sign(&claims()).expect("a token");
        let other_key = TokenKeys::new(key("k2", 50), vec![]).sign(&claims()).expect("a token");
        let unknown = TokenKeys::new(key("k9", 7), vec![]).sign(&claims()).expect("a token");
        let mine = FileTokenCheck { file: "f1", user: Some("ann"), now_s: 999 };
        // Another user's payload under this token's MAC.
        let bob =
            TokenKeys::new(key("k2", 50), vec![]).sign(&FileTokenClaims { user: "bob".into(), ..claims() });
        let bob = bob.expect("a token");
        let grafted = format!(
            "{}.{}",
            bob.rsplit_once('.').expect("a dot").0,
            token.rsplit_once('.').expect("a dot").1
        );
        let cases = [
            ("as made", &*token, mine, Ok(claims())),
            ("without a user", &token, FileTokenCheck { user: None, ..mine }, Ok(claims())),
            ("by a former key", &former, mine, Ok(claims())),
            ("missing", "", mine, Err(TokenFault::Malformed)),
            ("half", token.rsplit_once('.').expect("a dot").0, mine, Err(TokenFault::Malformed)),
            ("grafted", &grafted, mine, Err(TokenFault::Forged)),
            ("other key", &other_key, mine, Err(TokenFault::Forged)),
            ("unknown key", &unknown, mine, Err(TokenFault::UnknownKey)),
            ("at its end", &token, FileTokenCheck { now_s: 1_000, ..mine }, Err(TokenFault::Expired)),
            ("after its end", &token, FileTokenCheck { now_s: 1_001, ..mine }, Err(TokenFault::Expired)),
            ("other file", &token, FileTokenCheck { file: "f2", ..mine }, Err(TokenFault::OtherFile)),
            ("other user", &token, FileTokenCheck { user: Some("bob"), ..mine }, Err(TokenFault::OtherUser)),
        ];
        for (case, token, expected, outcome) in cases {
            assert_eq!(keys.verify(token, expected), outcome, "{case}");
        }
        // Every character matters.
        for at in 0..token.len() {
            let mut altered = token.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).expect("ASCII");
            assert!(keys.verify(&altered, mine).is_err(), "altered at {at}");
        }
    }

    #[test]
    fn weak_keys_are_refused_and_none_is_shown() {
        assert_eq!(TokenKey::new("k", "changeme").err(), Some(TokenKeyError::Weak));
        assert_eq!(TokenKey::new("k", vec![0; 64]).err(), Some(TokenKeyError::Weak));
        assert_eq!(TokenKey::new("a.b", (0..40).collect::<Vec<u8>>()).err(), Some(TokenKeyError::Id));
        assert_eq!(format!("{:?}", key("k1", 65)), "TokenKey(k1)");
    }
}
