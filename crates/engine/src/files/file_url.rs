//! File URLs: temporary, signed for one file, one server and one call, and valid until the call ends.

use super::CallerFiles;
use crate::keys::sealing_key;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use toolbooth_core::call::inject::{
    FileTokenCheck, FileTokenClaims, SignedUrl, TokenFault, TokenKey, TokenKeyError, TokenKeys, Uses,
};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_core::file::FileRow;
use toolbooth_core::names::ServerName;
use toolbooth_core::percent;
use toolbooth_store::{NonceUse, Store, StoreError};
use uuid::Uuid;

/// The name of the key in the store, used if no key is configured.
const KEY_NAME: &str = "file-token-key";

/// The maximum number of file URLs whose uses are counted.
const MAX_COUNTED: usize = 100_000;

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// It is missing, altered, expired or used up, or its call has ended. The caller does not learn which.
    #[error("a valid token is needed to fetch this file")]
    Invalid,
    /// It is valid, but for another file.
    #[error("the token is for another file")]
    OtherFile,
    /// It is valid, but the file no longer exists.
    #[error("there is no such file")]
    Gone,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Fault for TokenRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Invalid => "file.token-invalid",
            Self::OtherFile => "file.token-other-file",
            Self::Gone => "file.unknown",
            Self::Store(error) => error.code(),
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Store(error) => error.blame(),
            _ => Blame::Caller,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid => {
                Some("file URLs are valid only while the call runs; fetch the file during the call".into())
            }
            Self::OtherFile | Self::Gone => None,
            Self::Store(error) => error.hint(),
        }
    }
}

/// The keys that sign file URLs: the configured one, or one that all replicas share through the store.
pub(super) async fn keys(configured: Option<Vec<u8>>, store: &dyn Store) -> Result<TokenKeys, Problem> {
    let secret = match configured {
        Some(secret) => secret,
        None => sealing_key(store, KEY_NAME).await?.to_vec(),
    };
    // The key id is derived from the key, so that replicas with the same key agree on it.
    let digest = Sha256::new_with_prefix("toolbooth file key id\0").chain_update(&secret).finalize();
    let id = toolbooth_core::hex::encode(&digest[..4]);
    let key = TokenKey::new(id, secret).map_err(|error| weak_key(&error))?;
    Ok(TokenKeys::new(key, Vec::new()))
}

fn weak_key(error: &TokenKeyError) -> Problem {
    Problem {
        code: "config.weak-key",
        blame: Blame::Gateway,
        message: format!("`files.key` cannot be used: {error}"),
        hint: Some("generate one: `openssl rand -hex 32`".into()),
    }
}

impl CallerFiles {
    /// The URL of a file for one server and one call. It ends in the file's name: tools take the name and the type of
    /// a file from its path.
    pub(super) fn file_url(
        &self,
        base: &str,
        file: &FileRow,
        server: &ServerName,
        call: Uuid,
        expires_s: i64,
    ) -> Option<SignedUrl> {
        let claims = FileTokenClaims {
            user: file.user.clone(),
            file: file.id.to_string(),
            server: server.to_string(),
            call: call.to_string(),
            expires_s,
            uses: self.terms.load().uses,
        };
        let token = self.keys.sign(&claims)?;
        Some(SignedUrl::new(format!(
            "{}/files/download/{}/{}?token={token}",
            base.trim_end_matches('/'),
            file.id,
            percent::encoded(file.name.as_str()),
        )))
    }

    /// The file that a token gives access to. Counts the use, or uses up a token for one use.
    pub async fn by_token(
        &self,
        id: &str,
        token: Option<&str>,
        purpose: TokenUse,
    ) -> Result<OpenedFile, TokenRefusal> {
        let token = token.ok_or(TokenRefusal::Invalid)?;
        let now = self.clock.now_ms();
        let expected = FileTokenCheck { file: id, user: None, now_s: now / 1000 };
        let claims = self.keys.verify(token, expected).map_err(|fault| match fault {
            TokenFault::OtherFile => TokenRefusal::OtherFile,
            _ => TokenRefusal::Invalid,
        })?;
        let id: Uuid = id.parse().map_err(|_| TokenRefusal::Gone)?;
        let call: Uuid = claims.call.parse().map_err(|_| TokenRefusal::Invalid)?;
        let file = self.store.file(id).await?.filter(|file| file.user == claims.user);
        let file = file.ok_or(TokenRefusal::Gone)?;
        if self.store.grant(call).await?.is_none_or(|until_ms| until_ms <= now) {
            return Err(TokenRefusal::Invalid);
        }
        let is_used_up = match (claims.uses, purpose) {
            (Uses::Once, TokenUse::Fetch) => {
                let expires_ms = claims.expires_s.saturating_mul(1000);
                self.store.use_nonce(&Sha256::digest(token), expires_ms).await? == NonceUse::Again
            }
            (Uses::Once, TokenUse::Head) => false,
            (Uses::Many, _) => {
                !self.uses.count(token, claims.expires_s, now / 1000, self.terms.load().max_uses)
            }
        };
        if is_used_up {
            return Err(TokenRefusal::Invalid);
        }
        Ok(OpenedFile { file, server: claims.server })
    }
}

/// A file that a token gives access to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedFile {
    /// The file.
    pub file: FileRow,
    /// The server that the URL was made for.
    pub server: String,
}

/// The number of uses of file URLs that may be used several times.
#[derive(Debug, Default)]
pub(super) struct UseCount(Mutex<HashMap<[u8; 32], (u32, i64)>>);

impl UseCount {
    /// Counts a use, and returns whether it is within the limit.
    fn count(&self, token: &str, expires_s: i64, now_s: i64, most: u32) -> bool {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= MAX_COUNTED {
            uses.retain(|_, (_, expires_s)| *expires_s > now_s);
        }
        let key: [u8; 32] = Sha256::digest(token).into();
        // A URL whose uses cannot be counted is refused.
        if uses.len() >= MAX_COUNTED && !uses.contains_key(&key) {
            return false;
        }
        let (count, _) = uses.entry(key).or_insert((0, expires_s));
        *count = count.saturating_add(1);
        *count <= most
    }
}

/// Whether a server is in the catalog, is enabled, and serves one of the caller's groups. A server that was removed
/// from the configuration may not fetch files: its process may still run and hold URLs.
// Personas are not compared, because the file's row does not contain the persona of the call.
pub(crate) fn is_admitted(catalog: &Catalog, server: &str, owner: &Caller) -> bool {
    let part = catalog.servers().iter().find(|(name, _)| name.as_str() == server);
    part.is_some_and(|(_, part)| {
        part.entry.enabled && part.entry.groups.iter().any(|group| owner.groups.contains(group))
    })
}

/// The purpose that a token is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// To fetch the file, which uses up a token for one use.
    Fetch,
    /// To read its size and media type.
    Head,
}
