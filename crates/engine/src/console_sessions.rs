//! Sessions of the web console. They are rows of the store, so all gateways on the store accept them, and the end of a
//! session on one gateway is its end on all.
//!
//! The store has a digest of the secret in the browser's cookie, and the user's credential sealed with a key that is
//! derived from that secret. So neither the database nor a backup of it is enough to use a session.

use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use toolbooth_core::clock::{Clock, milliseconds, unix_ms};
use toolbooth_core::fault::{Problem, no_randomness};
use toolbooth_core::hex;
use toolbooth_core::secret::SecretText;
use toolbooth_store::{ConsoleSessionRecord, Store};
use toolbooth_wire::state::Sealer;
use uuid::Uuid;

/// The operation that fails without random numbers.
const FAILED: &str = "the session could not be opened";

/// How long a session lasts without a request.
pub const SESSION_IDLE: Duration = Duration::from_secs(8 * 3600);
/// How long a session lasts at most.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The length of the secret in a cookie: 256 bits in hexadecimal.
const SECRET_CHARS: usize = 64;
/// A use of a session is stored if it extends the session by at least this much, so that most requests write nothing.
const EXTENDED_BY_MS: i64 = 60_000;
/// How long a renewal of a credential is reserved for one request. After a failure the others wait as long.
/// It is longer than the requests to the provider and the writes of a renewal usually take together.
const RENEWAL_MS: i64 = 30_000;

/// How the requests of a session are identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCredential {
    /// By the token that the session was opened with.
    Token(SecretText),
    /// By the ID token of the identity provider at which the user signed in.
    IdToken(SecretText),
    /// By an ID token that the identity provider replaces by a new one.
    Renewable(RenewableIdToken),
    /// By the proxy that names the user of each request.
    Proxy,
}

/// An ID token, and the refresh token for which the identity provider gives the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewableIdToken {
    /// The ID token.
    pub id_token: SecretText,
    /// The refresh token.
    pub refresh_token: SecretText,
    /// When the ID token expires, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// The right to renew the credential of a session, which one request at a time has.
#[derive(Debug)]
pub struct SessionRenewal {
    lease: String,
    holder: String,
}

/// What a session is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionUse {
    /// A request that only reads.
    Read,
    /// A request that may change something.
    Change,
    /// A stream that is still open. It does not keep the session alive.
    Recheck,
}

/// A session of the console.
#[derive(Debug, Clone)]
pub struct ConsoleSession {
    /// The user who opened it.
    pub user: Arc<str>,
    /// The secret of its cookie.
    pub secret: SecretText,
    /// The CSRF token.
    pub csrf: SecretText,
    /// How its requests are identified.
    pub credential: SessionCredential,
    /// How long it lasts if it is not used again.
    pub left: Duration,
    /// How long it lasts at most.
    pub left_at_most: Duration,
}

/// The sessions of all gateways on one store.
#[derive(Clone)]
pub struct ConsoleSessions {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for ConsoleSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConsoleSessions")
    }
}

impl ConsoleSessions {
    /// The sessions in this store.
    pub fn new(clock: Arc<Clock>, store: Arc<dyn Store>) -> Self {
        Self { clock, store }
    }

    /// Opens a session that ends no later than the credential; returns it with the secret of its cookie.
    pub async fn open(
        &self,
        user: &Arc<str>,
        credential: SessionCredential,
        credential_ends: Option<SystemTime>,
    ) -> Result<(SecretText, ConsoleSession), Problem> {
        let mut bytes = [0_u8; SECRET_CHARS / 2];
        getrandom::fill(&mut bytes).map_err(|_| no_randomness(FAILED))?;
        let secret = hex::encode(&bytes);
        let now_ms = self.clock.now_ms();
        let latest_ms = now_ms.saturating_add(milliseconds(SESSION_LIFETIME));
        let credential_ends_ms = credential_ends.map(unix_ms);
        let ends_ms = credential_ends_ms.map_or(latest_ms, |ends_ms| ends_ms.min(latest_ms));
        let sealed = sealer(&secret)
            .seal(&written(&credential), user.as_bytes())
            .ok_or_else(|| no_randomness(FAILED))?;
        let record = ConsoleSessionRecord {
            digest: derive(&secret, "digest"),
            user: user.to_string(),
            credential: sealed.into_bytes(),
            until_ms: now_ms.saturating_add(milliseconds(SESSION_IDLE)).min(ends_ms),
            ends_ms,
        };
        self.store.add_console_session(record.clone()).await.map_err(|error| Problem::of(&error))?;
        let session = shown(&secret, &record, credential, now_ms);
        Ok((SecretText::expanded("${session}", secret), session))
    }

    /// The session with this secret, if it is not over.
    pub async fn find(
        &self,
        secret: &str,
        session_use: SessionUse,
    ) -> Result<Option<ConsoleSession>, Problem> {
        if !is_secret(secret) {
            return Ok(None);
        }
        let digest = derive(secret, "digest");
        let found = self.store.console_session(&digest).await.map_err(|error| Problem::of(&error))?;
        let Some(mut record) = found else { return Ok(None) };
        let now_ms = self.clock.now_ms();
        if now_ms >= record.until_ms || now_ms >= record.ends_ms {
            return Ok(None);
        }
        let sealed = std::str::from_utf8(&record.credential).ok();
        let opened = sealed.and_then(|sealed| sealer(secret).open(sealed, record.user.as_bytes()));
        let Some(credential) = opened.and_then(|bytes| read(&bytes)) else {
            tracing::warn!("a session of the console is not readable and is ignored");
            return Ok(None);
        };
        let until_ms = now_ms.saturating_add(milliseconds(SESSION_IDLE)).min(record.ends_ms);
        let is_worth_a_write = until_ms.saturating_sub(record.until_ms) >= EXTENDED_BY_MS;
        if session_use != SessionUse::Recheck && is_worth_a_write {
            let extended = self.store.extend_console_session(&digest, until_ms).await;
            extended.map_err(|error| Problem::of(&error))?;
            record.until_ms = until_ms;
        }
        Ok(Some(shown(secret, &record, credential, now_ms)))
    }

    /// Reserves the renewal of a session's credential for this request; `None` if another one, on any gateway, has it.
    pub async fn begin_renewal(&self, session: &ConsoleSession) -> Result<Option<SessionRenewal>, Problem> {
        let digest = derive(session.secret.expose(), "digest");
        let renewal = SessionRenewal {
            lease: format!("console session {}", hex::encode(&digest)),
            holder: Uuid::new_v4().to_string(),
        };
        let now_ms = self.clock.now_ms();
        let until_ms = now_ms.saturating_add(RENEWAL_MS);
        let taken = self.store.take_lease(&renewal.lease, &renewal.holder, now_ms, until_ms).await;
        let is_taken = taken.map_err(|error| Problem::of(&error))?;
        Ok(is_taken.then_some(renewal))
    }

    /// Replaces the credential of a session. A session that has ended meanwhile stays ended.
    pub async fn replace_credential(
        &self,
        session: &ConsoleSession,
        credential: &SessionCredential,
    ) -> Result<(), Problem> {
        let secret = session.secret.expose();
        let sealed = sealer(secret).seal(&written(credential), session.user.as_bytes());
        let sealed = sealed.ok_or_else(|| no_randomness(FAILED))?.into_bytes();
        let replaced = self.store.replace_console_credential(&derive(secret, "digest"), sealed).await;
        replaced.map_err(|error| Problem::of(&error))
    }

    /// Lets the next request renew the credential.
    pub async fn end_renewal(&self, renewal: SessionRenewal) {
        if let Err(error) = self.store.end_lease(&renewal.lease, &renewal.holder).await {
            tracing::warn!("a lease of a session of the console could not be ended: {error}");
        }
    }

    /// Ends the session with this secret, on all gateways.
    pub async fn end(&self, secret: &str) -> Result<(), Problem> {
        if !is_secret(secret) {
            return Ok(());
        }
        let digest = derive(secret, "digest");
        self.store.end_console_session(&digest).await.map_err(|error| Problem::of(&error))
    }
}

fn shown(
    secret: &str,
    record: &ConsoleSessionRecord,
    credential: SessionCredential,
    now_ms: i64,
) -> ConsoleSession {
    let left =
        |at_ms: i64| Duration::from_millis(u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or_default());
    ConsoleSession {
        user: record.user.as_str().into(),
        secret: SecretText::expanded("${session}", secret),
        csrf: SecretText::expanded("${csrf}", hex::encode(&derive(secret, "csrf"))),
        credential,
        left: left(record.until_ms),
        left_at_most: left(record.ends_ms),
    }
}

/// Whether a text can be the secret of a session. Other texts are not looked up.
fn is_secret(text: &str) -> bool {
    text.len() == SECRET_CHARS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A value that only a holder of the secret can compute, one for each purpose. The secret has 256 random bits, so one
/// pass of the hash is enough.
fn derive(secret: &str, purpose: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(format!("toolbooth console {purpose}\0"));
    hash.update(secret);
    hash.finalize().into()
}

fn sealer(secret: &str) -> Sealer {
    Sealer::new(&derive(secret, "credential"))
}

fn written(credential: &SessionCredential) -> Vec<u8> {
    let renewable;
    let (kind, text) = match credential {
        SessionCredential::Token(token) => (b't', token.expose()),
        SessionCredential::IdToken(token) => (b'i', token.expose()),
        SessionCredential::Renewable(RenewableIdToken { id_token, refresh_token, expires_ms }) => {
            renewable = json!([id_token.expose(), refresh_token.expose(), expires_ms]).to_string();
            (b'r', renewable.as_str())
        }
        SessionCredential::Proxy => (b'p', ""),
    };
    [&[kind], text.as_bytes()].concat()
}

fn read(bytes: &[u8]) -> Option<SessionCredential> {
    let (kind, text) = bytes.split_first()?;
    let text = std::str::from_utf8(text).ok()?;
    let token = || SecretText::expanded("${token}", text);
    let renewable = || {
        let (id_token, refresh_token, expires_ms) =
            serde_json::from_str::<(String, String, i64)>(text).ok()?;
        Some(SessionCredential::Renewable(RenewableIdToken {
            id_token: SecretText::expanded("${id_token}", id_token),
            refresh_token: SecretText::expanded("${refresh_token}", refresh_token),
            expires_ms,
        }))
    };
    match kind {
        b't' => Some(SessionCredential::Token(token())),
        b'i' => Some(SessionCredential::IdToken(token())),
        b'r' => renewable(),
        b'p' => Some(SessionCredential::Proxy),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use toolbooth_store::StoreUrl;

    async fn sessions() -> ConsoleSessions {
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        ConsoleSessions::new(system_clock(), store)
    }

    fn token() -> SessionCredential {
        SessionCredential::Token(SecretText::expanded("${token}", "tb_secret"))
    }

    async fn opened(sessions: &ConsoleSessions, ends: Option<SystemTime>) -> String {
        let (secret, _) = sessions.open(&"ann".into(), token(), ends).await.expect("opened");
        secret.expose().to_owned()
    }

    async fn is_open(sessions: &ConsoleSessions, secret: &str, session_use: SessionUse) -> bool {
        sessions.find(secret, session_use).await.expect("looked up").is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_not_used_and_at_the_latest_after_a_day() {
        let sessions = sessions().await;
        let (idle, busy) = (opened(&sessions, None).await, opened(&sessions, None).await);
        for _ in 0..5 {
            tokio::time::advance(SESSION_IDLE / 2).await;
            assert!(is_open(&sessions, &busy, SessionUse::Read).await);
            // An open stream alone does not keep a session alive.
            is_open(&sessions, &idle, SessionUse::Recheck).await;
        }
        assert!(!is_open(&sessions, &idle, SessionUse::Read).await);
        tokio::time::advance(SESSION_IDLE / 2).await;
        assert!(!is_open(&sessions, &busy, SessionUse::Read).await, "a day has passed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_no_later_than_its_credential() {
        let sessions = sessions().await;
        let ends = sessions.clock.now() + Duration::from_secs(300);
        let (secret, session) = sessions.open(&"ann".into(), token(), Some(ends)).await.expect("opened");
        assert!(session.left_at_most <= Duration::from_secs(300) && session.left <= session.left_at_most);
        assert!(is_open(&sessions, secret.expose(), SessionUse::Change).await);
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(!is_open(&sessions, secret.expose(), SessionUse::Change).await);
    }

    #[tokio::test]
    async fn another_gateway_on_the_store_has_the_same_sessions() {
        let here = sessions().await;
        let there = ConsoleSessions::new(system_clock(), here.store.clone());
        let (secret, session) = here.open(&"ann".into(), token(), None).await.expect("opened");
        let found = there.find(secret.expose(), SessionUse::Read).await.expect("looked up").expect("open");
        assert_eq!((&*found.user, found.credential), ("ann", token()));
        assert_eq!(found.csrf.expose(), session.csrf.expose());
        there.end(secret.expose()).await.expect("ended");
        assert!(!is_open(&here, secret.expose(), SessionUse::Read).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_credential_is_renewed_by_one_request_at_a_time() {
        let sessions = sessions().await;
        let there = ConsoleSessions::new(sessions.clock.clone(), sessions.store.clone());
        let renewable = |id_token: &str| {
            SessionCredential::Renewable(RenewableIdToken {
                id_token: SecretText::expanded("${id_token}", id_token),
                refresh_token: SecretText::expanded("${refresh_token}", "refresh \" 1"),
                expires_ms: 5,
            })
        };
        let (secret, session) = sessions.open(&"ann".into(), renewable("one"), None).await.expect("opened");
        let renewal = sessions.begin_renewal(&session).await.expect("asked").expect("no other renews it");
        assert!(there.begin_renewal(&session).await.expect("asked").is_none());
        sessions.replace_credential(&session, &renewable("two")).await.expect("replaced");
        sessions.end_renewal(renewal).await;
        let found = there.find(secret.expose(), SessionUse::Read).await.expect("looked up").expect("open");
        assert_eq!(found.credential, renewable("two"));
        // A request that fails to end its renewal blocks the others for some seconds only.
        let _lost = there.begin_renewal(&session).await.expect("asked").expect("no other renews it");
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(sessions.begin_renewal(&session).await.expect("asked").is_some());
        // A session that ended meanwhile does not come back.
        sessions.end(secret.expose()).await.expect("ended");
        sessions.replace_credential(&session, &renewable("three")).await.expect("nothing to replace");
        assert!(!is_open(&sessions, secret.expose(), SessionUse::Read).await);
    }

    #[tokio::test]
    async fn the_store_alone_does_not_open_a_session() {
        let sessions = sessions().await;
        let secret = opened(&sessions, None).await;
        let row =
            sessions.store.console_session(&derive(&secret, "digest")).await.expect("read").expect("a row");
        let text = String::from_utf8(row.credential.clone()).expect("text");
        assert!(!text.contains("tb_secret") && !text.contains(&secret));
        for guess in [hex::encode(&row.digest), secret[1..].to_owned(), secret.to_uppercase(), String::new()]
        {
            assert!(!is_open(&sessions, &guess, SessionUse::Read).await, "{guess}");
        }
        // A row that was changed to name another user does not open.
        sessions.store.end_console_session(&row.digest).await.expect("ended");
        let forged = ConsoleSessionRecord { user: "root".into(), ..row };
        sessions.store.add_console_session(forged).await.expect("added");
        assert!(!is_open(&sessions, &secret, SessionUse::Read).await);
    }
}
