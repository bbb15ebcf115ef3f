//! The keys that users give to a server for themselves: stored sealed, used only on that user's own connections.
//!
//! The server's tools are listed with the key of one of the users, because the gateway has no key of its own.

use super::ServerCredential;
use crate::error::{Remedy, UpstreamError};
use crate::oauth::{TokenVault, VaultTurn};
use crate::state::ServerState;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use tokio::sync::Mutex;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_core::key_holders::KeyHolders;
use toolbooth_core::secret::KnownSecrets;
use toolbooth_core::server::{OutboundAuth, ServerEntry, Transport};

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4096;
/// How many users may give a key to one server.
const MAX_KEYS: usize = 10_000;

/// The keys that users gave to one server.
pub struct UserKeys {
    /// The server's name.
    server: String,
    vault: Arc<dyn TokenVault>,
    clock: Arc<Clock>,
    /// The name of the record in the vault.
    record: String,
    holders: KeyHolders,
    known: StdMutex<KnownKeys>,
    /// Held during a change, so that no key is lost between reading and writing.
    turn: Mutex<()>,
}

#[derive(Default)]
struct KnownKeys {
    by_user: BTreeMap<String, StoredKey>,
    /// Users whose key the server refused.
    refused: BTreeSet<String>,
}

/// A key as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredKey {
    key: String,
    set_at_ms: i64,
}

/// What is known about a user's key, without the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserKeyStatus {
    /// When it was set, in milliseconds since 1970.
    pub set_at_ms: i64,
    /// Whether the server refused it.
    pub is_refused: bool,
}

/// A user's key was replaced or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// There is a new key: calls that run keep their connection until they end.
    Set,
    /// There is no key: connections are closed at once.
    Deleted,
}

/// A key was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserKeyError {
    /// It cannot be a key.
    #[error("the key is not valid: {0}")]
    Invalid(&'static str),
    /// Too many users have given one.
    #[error("server `{0}` already has the keys of {MAX_KEYS} users, the limit")]
    TooMany(String),
    /// The vault could not be written.
    #[error("the keys for server `{0}` could not be stored")]
    NotStored(String),
}

impl Fault for UserKeyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "server.bad-key",
            Self::TooMany(_) => "server.too-many-keys",
            Self::NotStored(_) => "server.key-not-stored",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Invalid(_) => Blame::Caller,
            Self::TooMany(_) | Self::NotStored(_) => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid(_) => {
                Some("give the key alone, without spaces, line breaks, quotes and the word `Bearer`".into())
            }
            Self::TooMany(_) => Some("delete keys that are no longer needed".into()),
            Self::NotStored(_) => Some("the gateway's log has the reason; check its `data_dir`".into()),
        }
    }
}

impl fmt::Debug for UserKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserKeys({})", self.known().by_user.len())
    }
}

impl UserKeys {
    /// The origin of a server, which its keys are bound to: if the entry names another host, its users give their keys
    /// again. `None` if it is not a remote server.
    pub fn origin_of(entry: &ServerEntry) -> Option<String> {
        let (Transport::Http(remote) | Transport::Sse(remote) | Transport::WebSocket(remote)) =
            &entry.transport
        else {
            return None;
        };
        let url: http::Uri = remote.url.expose().parse().ok()?;
        Some(format!("{}://{}", url.scheme_str()?, url.authority()?).to_ascii_lowercase())
    }

    /// The keys of a server at this origin.
    pub fn new(server: String, origin: &str, vault: Arc<dyn TokenVault>, clock: Arc<Clock>) -> Self {
        Self {
            server,
            vault,
            clock,
            record: format!("user-keys {origin}"),
            holders: KeyHolders::default(),
            known: StdMutex::default(),
            turn: Mutex::default(),
        }
    }

    /// Whether these are the keys of the same server at the same origin.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.server == other.server && self.record == other.record
    }

    /// The users who have given a key.
    pub fn holders(&self) -> &KeyHolders {
        &self.holders
    }

    /// Reads the stored keys.
    pub async fn load(&self) {
        let _turn = self.turn.lock().await;
        if let Ok(stored) = self.stored().await {
            self.keep(stored);
        }
    }

    /// Reads the stored keys again, and returns the users whose key another replica has changed.
    pub async fn reload(&self) -> Vec<(String, KeyChange)> {
        let _turn = self.turn.lock().await;
        let Ok(stored) = self.stored().await else { return Vec::new() };
        let before = self.known().by_user.clone();
        let changed = stored.iter().filter(|(user, key)| before.get(*user) != Some(*key));
        let mut changes: Vec<_> = changed.map(|(user, _)| (user.clone(), KeyChange::Set)).collect();
        let deleted = before.keys().filter(|user| !stored.contains_key(*user));
        changes.extend(deleted.map(|user| (user.clone(), KeyChange::Deleted)));
        if !changes.is_empty() {
            for (user, _) in &changes {
                self.known().refused.remove(user);
            }
            self.keep(stored);
        }
        changes
    }

    /// Stores a user's key and replaces an earlier one.
    pub async fn set(&self, user: &str, key: &str) -> Result<(), UserKeyError> {
        check(key)?;
        let _turn = self.turn.lock().await;
        let _replicas = self.turn_of_replica().await?;
        let mut keys = self.stored().await?;
        if !keys.contains_key(user) && keys.len() >= MAX_KEYS {
            return Err(UserKeyError::TooMany(self.server.clone()));
        }
        let set_at_ms = self.clock.now_ms();
        keys.insert(user.to_owned(), StoredKey { key: key.to_owned(), set_at_ms });
        self.store(keys).await?;
        self.known().refused.remove(user);
        Ok(())
    }

    /// Deletes a user's key. Returns whether there was one.
    pub async fn delete(&self, user: &str) -> Result<bool, UserKeyError> {
        let _turn = self.turn.lock().await;
        let _replicas = self.turn_of_replica().await?;
        let mut keys = self.stored().await?;
        let was_set = keys.remove(user).is_some() | self.holders.contains(user);
        if was_set {
            self.store(keys).await?;
        }
        Ok(was_set)
    }

    /// Whether a user has given a key, and when.
    pub fn status(&self, user: &str) -> Option<UserKeyStatus> {
        let known = self.known();
        let set_at_ms = known.by_user.get(user)?.set_at_ms;
        Some(UserKeyStatus { set_at_ms, is_refused: known.refused.contains(user) })
    }

    /// The server's state for a user, given its state for the gateway.
    pub fn state_for(&self, user: &str, state: ServerState) -> ServerState {
        let refused = || UpstreamError::NeedsAuth {
            server: self.server.clone(),
            challenge: None,
            status: 401,
            remedy: Remedy::GiveKey,
        };
        match self.status(user) {
            None => ServerState::NeedsAuth(Problem::of(&self.missing())),
            Some(status) if status.is_refused => ServerState::NeedsAuth(Problem::of(&refused())),
            Some(_) => state,
        }
    }

    /// The error of a call by a user without a key.
    pub(crate) fn missing(&self) -> UpstreamError {
        UpstreamError::NeedsKey { server: self.server.clone() }
    }

    /// The credential of a user, and the secrets to mask on connections that use it.
    pub(crate) fn credential(
        &self,
        user: &str,
        entry: &ServerEntry,
    ) -> Result<(ServerCredential, KnownSecrets), UpstreamError> {
        let key = self.known().by_user.get(user).map(|stored| stored.key.clone());
        let (OutboundAuth::UserKey(auth), Some(key)) = (&entry.auth, key) else {
            return Err(self.missing());
        };
        match ServerCredential::fixed(&auth.with_key(&key)) {
            Some(ServerCredential::Fixed(name, value)) => {
                Ok((ServerCredential::OfUser(name, value), entry.credentials_with(&key)))
            }
            _ => Err(self.missing()),
        }
    }

    /// The users whose keys can list the tools: those that were not refused first, then the latest.
    pub(crate) fn listers(&self, limit: usize) -> Vec<String> {
        let known = self.known();
        let mut users: Vec<(&String, &StoredKey)> = known.by_user.iter().collect();
        users.sort_by_key(|(user, stored)| (known.refused.contains(*user), Reverse(stored.set_at_ms)));
        users.into_iter().take(limit).map(|(user, _)| user.clone()).collect()
    }

    /// Whether there is a key that the server has not refused.
    pub(crate) fn has_usable_key(&self) -> bool {
        let known = self.known();
        known.by_user.keys().any(|user| !known.refused.contains(user))
    }

    /// Notes whether the server accepted a user's key.
    pub(crate) fn note_outcome<T>(&self, user: &str, outcome: &Result<T, UpstreamError>) {
        let mut known = self.known();
        match outcome {
            Ok(_) => drop(known.refused.remove(user)),
            Err(UpstreamError::NeedsAuth { .. }) if known.by_user.contains_key(user) => {
                known.refused.insert(user.to_owned());
            }
            Err(_) => {}
        }
    }

    /// The turn of this replica. Without one, the key of another user that is stored at the same time would be lost.
    async fn turn_of_replica(&self) -> Result<Option<VaultTurn>, UserKeyError> {
        self.vault.turn().await.map_err(|why| {
            tracing::warn!(server.name = %self.server, "the keys for `{}` cannot be changed: {why}", self.server);
            UserKeyError::NotStored(self.server.clone())
        })
    }

    async fn stored(&self) -> Result<BTreeMap<String, StoredKey>, UserKeyError> {
        let bytes = self.vault.try_load(&self.record).await;
        let bytes = bytes.map_err(|_| UserKeyError::NotStored(self.server.clone()))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    async fn store(&self, keys: BTreeMap<String, StoredKey>) -> Result<(), UserKeyError> {
        let failed = || UserKeyError::NotStored(self.server.clone());
        let bytes = match keys.is_empty() {
            true => Bytes::new(),
            false => serde_json::to_vec(&keys).map_err(|_| failed())?.into(),
        };
        self.vault.save(&self.record, bytes).await;
        // A vault that cannot be written only logs it, but a key that is lost at the next start was not stored.
        let stored = self.stored().await?;
        let is_stored = stored == keys;
        self.keep(stored);
        if is_stored { Ok(()) } else { Err(failed()) }
    }

    fn keep(&self, keys: BTreeMap<String, StoredKey>) {
        let users: BTreeSet<String> = keys.keys().cloned().collect();
        {
            let mut known = self.known();
            known.refused.retain(|user| users.contains(user));
            known.by_user = keys;
        }
        self.holders.replace(users);
    }

    fn known(&self) -> MutexGuard<'_, KnownKeys> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that a key can be sent in a header.
fn check(key: &str) -> Result<(), UserKeyError> {
    match key {
        "" => Err(UserKeyError::Invalid("it is empty")),
        key if key.len() > MAX_KEY_BYTES => Err(UserKeyError::Invalid("it is longer than 4096 bytes")),
        key if !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(UserKeyError::Invalid("it contains spaces or characters outside ASCII"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use std::time::Duration;
    use toolbooth_core::clock::TimeSource;
    use toolbooth_core::secret::SecretText;
    use toolbooth_core::server::{RemoteEndpoint, UserKeyEntry};

    #[derive(Debug)]
    struct FixedTime;

    impl TimeSource for FixedTime {
        fn wall(&self) -> Duration {
            Duration::from_secs(1_800_000_000)
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    /// A vault that keeps values, or fails to.
    #[derive(Default)]
    struct FlakyVault {
        values: StdMutex<BTreeMap<String, Bytes>>,
        is_full: std::sync::atomic::AtomicBool,
        is_taken: std::sync::atomic::AtomicBool,
    }

    #[async_trait]
    impl TokenVault for FlakyVault {
        async fn load(&self, key: &str) -> Option<Bytes> {
            self.values.lock().expect("no test panicked").get(key).filter(|value| !value.is_empty()).cloned()
        }

        async fn save(&self, key: &str, value: Bytes) {
            if !self.is_full.load(std::sync::atomic::Ordering::Relaxed) {
                self.values.lock().expect("no test panicked").insert(key.to_owned(), value);
            }
        }

        async fn turn(&self) -> Result<Option<VaultTurn>, String> {
            match self.is_taken.load(std::sync::atomic::Ordering::Relaxed) {
                true => Err("another gateway has not ended its turn".into()),
                false => Ok(None),
            }
        }
    }

    fn keys_in(vault: &Arc<FlakyVault>, origin: &str) -> UserKeys {
        UserKeys::new("shop".into(), origin, vault.clone(), Arc::new(Clock::new(FixedTime)))
    }

    fn entry() -> ServerEntry {
        let url = SecretText::plain("https://shop.example/mcp");
        let transport = Transport::Http(RemoteEndpoint { url, headers: BTreeMap::new() });
        let mut entry = ServerEntry::with_defaults("shop".parse().expect("a name"), transport);
        entry.auth =
            OutboundAuth::UserKey(UserKeyEntry { header: Some("X-Key".into()), ..Default::default() });
        entry
    }

    fn refusal() -> Result<(), UpstreamError> {
        let (server, remedy) = ("shop".to_owned(), Remedy::GiveKey);
        Err(UpstreamError::NeedsAuth { server, challenge: None, status: 401, remedy })
    }

    #[tokio::test]
    async fn each_user_has_their_own_key_and_it_survives_a_restart() {
        let vault = Arc::new(FlakyVault::default());
        let keys = keys_in(&vault, "https://shop.example");
        keys.set("ann", "ann-key-1111").await.expect("a good key");
        keys.set("bob", "bob-key-2222").await.expect("a good key");
        keys.set("ann", "ann-key-3333").await.expect("a good key");
        assert!(!format!("{keys:?}").contains("key-"));
        let again = keys_in(&vault, "https://shop.example");
        again.load().await;
        for (user, expected) in [("ann", Some("ann-key-3333")), ("bob", Some("bob-key-2222")), ("eve", None)]
        {
            let header = match again.credential(user, &entry()) {
                Ok((credential, secrets)) => {
                    assert_eq!(secrets.mask(expected.expect("a good key")), "[redacted]");
                    credential.header().await.map(|(_, value)| value.to_str().expect("a good key").to_owned())
                }
                Err(error) => {
                    assert_eq!(error.code(), "server.needs-key");
                    None
                }
            };
            assert_eq!(header.as_deref(), expected, "{user}");
            assert_eq!(again.holders().contains(user), expected.is_some(), "{user}");
        }
        assert!(again.delete("ann").await.expect("a good key"));
        assert!(!again.delete("ann").await.expect("a good key"), "there is nothing left to delete");
        assert_eq!(again.status("ann"), None);
        assert!(again.status("bob").is_some());
    }

    #[tokio::test]
    async fn a_key_is_bound_to_the_origin_it_was_given_for() {
        assert_eq!(UserKeys::origin_of(&entry()).as_deref(), Some("https://shop.example"));
        let vault = Arc::new(FlakyVault::default());
        keys_in(&vault, "https://shop.example").set("ann", "ann-key-1111").await.expect("a good key");
        let moved = keys_in(&vault, "https://elsewhere.example");
        moved.load().await;
        assert!(moved.credential("ann", &entry()).is_err());
    }

    #[tokio::test]
    async fn a_key_that_was_not_stored_is_an_error_and_is_not_used() {
        let vault = Arc::new(FlakyVault::default());
        let keys = keys_in(&vault, "https://shop.example");
        vault.is_full.store(true, std::sync::atomic::Ordering::Relaxed);
        let refused = keys.set("ann", "ann-key-1111").await.expect_err("refused");
        assert_eq!(refused.code(), "server.key-not-stored");
        assert!(keys.credential("ann", &entry()).is_err());
    }

    #[tokio::test]
    async fn without_its_turn_a_gateway_changes_no_key() {
        let vault = Arc::new(FlakyVault::default());
        let keys = keys_in(&vault, "https://shop.example");
        keys.set("ann", "ann-key-1111").await.expect("a good key");
        vault.is_taken.store(true, std::sync::atomic::Ordering::Relaxed);
        let refused = [keys.set("bob", "bob-key-2222").await.err(), keys.delete("ann").await.err()];
        let codes = refused.map(|error| error.map(|error| error.code()));
        assert_eq!(codes, [Some("server.key-not-stored"); 2]);
        assert!(keys.status("ann").is_some() && keys.status("bob").is_none());
    }

    #[tokio::test]
    async fn only_text_that_fits_in_a_header_is_a_key() {
        let keys = keys_in(&Arc::default(), "https://shop.example");
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        for bad in ["", "two words", "line\nbreak", "schlüssel", &long] {
            let refused = keys.set("ann", bad).await.expect_err("refused");
            assert_eq!(refused.code(), "server.bad-key", "{bad:?}");
        }
        keys.set("ann", &long[1..]).await.expect("a good key");
    }

    #[tokio::test]
    async fn refused_keys_are_tried_last_until_they_are_replaced() {
        let keys = keys_in(&Arc::default(), "https://shop.example");
        keys.set("ann", "ann-key-1111").await.expect("a good key");
        keys.set("bob", "bob-key-2222").await.expect("a good key");
        keys.note_outcome("bob", &refusal());
        assert_eq!(keys.listers(8), ["ann", "bob"]);
        assert_eq!(keys.listers(1), ["ann"]);
        let state = keys.state_for("bob", ServerState::Connected);
        assert_eq!(state.problem().map(|problem| problem.code), Some("server.needs-auth"));
        assert_eq!(keys.state_for("ann", ServerState::Connected), ServerState::Connected);
        assert_eq!(keys.state_for("eve", ServerState::Connected).as_str(), "needs_auth");
        keys.note_outcome("ann", &refusal());
        assert!(!keys.has_usable_key());
        keys.set("bob", "bob-key-3333").await.expect("a good key");
        assert!(keys.has_usable_key());
        assert_eq!(keys.state_for("bob", ServerState::Connected), ServerState::Connected);
    }
}
