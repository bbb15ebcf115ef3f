//! Temporary addresses: made for one file, one server and one call, honoured until the call is over.

use super::Files;
use crate::clock::now_ms;
use crate::engine::Engine;
use crate::keys::sealing_key;
use crate::roster::{Absentee, Rights};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use toolbooth_core::call::inject::{
    Claims, Expected, KeyError, SignedUrl, TokenFault, TokenKey, TokenKeys, Uses,
};
use toolbooth_core::caller::{Caller, IdentifiedBy};
use toolbooth_core::catalog::Catalog;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_core::file::FileRow;
use toolbooth_core::names::ServerName;
use toolbooth_store::{NonceUse, Store, StoreError};
use uuid::Uuid;

/// The name under which the store keeps a key that nobody configured.
const KEY_NAME: &str = "file-token-key";

/// The most addresses whose uses are counted at once.
const MAX_COUNTED: usize = 100_000;

/// Why a token opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// It is missing, altered, expired or used up, or its call is over. Which of these is not told.
    #[error("a valid token is needed to fetch this file")]
    Invalid,
    /// It is good, but for another file.
    #[error("the token is for another file")]
    OtherFile,
    /// It is good, and the file is gone.
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
                Some("addresses of files count while their call runs; fetch the file during the call".into())
            }
            Self::OtherFile | Self::Gone => None,
            Self::Store(error) => error.hint(),
        }
    }
}

/// The keys that sign addresses: the configured one, or one that every replica finds in the store.
pub(super) async fn keys(configured: Option<Vec<u8>>, store: &dyn Store) -> Result<TokenKeys, Problem> {
    let secret = match configured {
        Some(secret) => secret,
        None => sealing_key(store, KEY_NAME).await?.to_vec(),
    };
    // An id by the key itself: replicas with the same key agree on it.
    let digest = Sha256::new_with_prefix("toolbooth file key id\0").chain_update(&secret).finalize();
    let id: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let key = TokenKey::new(id, secret).map_err(|error| weak(&error))?;
    Ok(TokenKeys::new(key, Vec::new()))
}

fn weak(error: &KeyError) -> Problem {
    Problem {
        code: "config.weak-key",
        blame: Blame::Gateway,
        message: format!("`files.key` cannot be used: {error}"),
        hint: Some("make one: `openssl rand -hex 32`".into()),
    }
}

impl Files {
    /// The address of a file, for a server and a call that has been granted it.
    pub(super) fn address(
        &self,
        base: &str,
        file: &FileRow,
        server: &ServerName,
        call: Uuid,
        expires_s: i64,
    ) -> Option<SignedUrl> {
        let claims = Claims {
            user: file.user.clone(),
            file: file.id.to_string(),
            server: server.to_string(),
            call: call.to_string(),
            expires_s,
            uses: self.terms.uses,
        };
        let token = self.keys.sign(&claims)?;
        Some(SignedUrl::new(format!(
            "{}/files/download/{}?token={token}",
            base.trim_end_matches('/'),
            file.id
        )))
    }

    /// The file that a token opens, at the first look and at later ones where it may be used often.
    pub async fn by_token(&self, id: &str, token: Option<&str>, look: Look) -> Result<Granted, TokenRefusal> {
        let token = token.ok_or(TokenRefusal::Invalid)?;
        let now = now_ms();
        let expected = Expected { file: id, user: None, now_s: now / 1000 };
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
        let is_used_up = match (claims.uses, look) {
            (Uses::Once, Look::Fetch) => {
                let expires_ms = claims.expires_s.saturating_mul(1000);
                self.store.use_nonce(&Sha256::digest(token), expires_ms).await? == NonceUse::Again
            }
            (Uses::Once, Look::Head) => false,
            (Uses::Many, _) => !self.uses.count(token, claims.expires_s, now / 1000, self.terms.max_uses),
        };
        if is_used_up {
            return Err(TokenRefusal::Invalid);
        }
        Ok(Granted { file, server: claims.server })
    }
}

/// What a token opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The file.
    pub file: FileRow,
    /// The server that the address was made for.
    pub server: String,
}

/// How often addresses were used that may be used more than once.
#[derive(Debug, Default)]
pub(super) struct UseCount(Mutex<HashMap<[u8; 32], (u32, i64)>>);

impl UseCount {
    /// Counts a use; whether it is within what is allowed.
    fn count(&self, token: &str, expires_s: i64, now_s: i64, most: u32) -> bool {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= MAX_COUNTED {
            uses.retain(|_, (_, expires_s)| *expires_s > now_s);
        }
        let key: [u8; 32] = Sha256::digest(token).into();
        // An address that cannot be counted is not honoured.
        if uses.len() >= MAX_COUNTED && !uses.contains_key(&key) {
            return false;
        }
        let (count, _) = uses.entry(key).or_insert((0, expires_s));
        *count = count.saturating_add(1);
        *count <= most
    }
}

impl Engine {
    /// The file that a token opens, if the server that the address was made for is in the catalog and the file's owner
    /// may still use it.
    pub async fn file_by_token(
        &self,
        id: &str,
        token: Option<&str>,
        look: Look,
    ) -> Result<FileRow, TokenRefusal> {
        let Granted { file, server } = self.files().by_token(id, token, look).await?;
        let owner = Absentee {
            user: &file.user,
            persona: None,
            session: file.session.as_deref(),
            level: None,
            identified_by: Some(&IdentifiedBy::Any),
        };
        let Rights::Known(owner) = self.rights(owner).await else { return Err(TokenRefusal::Invalid) };
        match is_admitted(&self.catalog(), &server, &owner) {
            true => Ok(file),
            false => Err(TokenRefusal::Invalid),
        }
    }
}

/// Whether a server is in the catalog, enabled, and admits one of the caller's groups. A server that was taken out of the
/// configuration admits no one: its process may still run and hold addresses.
// Personas are not compared: the file's row does not say through which one the call was made.
pub(super) fn is_admitted(catalog: &Catalog, server: &str, owner: &Caller) -> bool {
    let part = catalog.servers().iter().find(|(name, _)| name.as_str() == server);
    part.is_some_and(|(_, part)| {
        part.entry.enabled && part.entry.groups.iter().any(|group| owner.groups.contains(group))
    })
}

/// What a token is shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// To fetch the file: that uses up a token that may be used once.
    Fetch,
    /// To learn its size and kind.
    Head,
}
