//! Sign-ins of console users at an identity provider that are under way.
//!
//! The browser keeps the sealed record of its sign-in in a cookie until the provider sends it back, so a sign-in needs
//! no memory on the gateway, and another gateway on the same store can finish it. A record opens only together with the
//! `state` of its request, for ten minutes, and completes one sign-in.

use crate::keys::sealing_key;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use toolbooth_core::clock::{Clock, milliseconds};
use toolbooth_core::fault::{Problem, no_randomness};
use toolbooth_store::{NonceUse, Store};
use toolbooth_wire::state::Sealer;

/// The operation that fails without random numbers.
const FAILED: &str = "the sign-in could not begin";

/// How long a user may take to sign in at the provider.
pub const LOGIN_LIFETIME: Duration = Duration::from_secs(600);
/// How long a completed sign-in is remembered after its expiry, for the case that the clock is set back.
const KEPT_FOR_MS: i64 = 24 * 3_600_000;
const KEY_NAME: &str = "console-login-key";

/// A sign-in that is under way.
#[derive(Clone, Serialize, Deserialize)]
pub struct PendingLogin {
    /// The PKCE verifier.
    pub verifier: String,
    /// The value that the ID token must contain.
    pub nonce: String,
    /// The URL to which the provider sends the browser back.
    pub redirect_uri: String,
    expires_ms: i64,
}

impl std::fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingLogin").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

/// A sign-in that begins.
#[derive(Debug)]
pub struct NewLogin {
    /// The record of the sign-in.
    pub login: PendingLogin,
    /// The `state` of the request to the provider.
    pub state: String,
    /// The sealed record, for the browser's cookie.
    pub sealed: String,
}

/// Why a sign-in cannot be completed.
#[derive(Debug)]
pub enum LoginFault {
    /// The browser has no record of it, or one of another sign-in.
    Foreign,
    /// It took too long, or was completed before.
    Over,
    /// The store failed.
    Failed(Problem),
}

impl PendingLogin {
    /// The PKCE challenge (S256).
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }
}

/// Begins and completes sign-ins at an identity provider.
pub struct ConsoleLogins {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    sealer: OnceCell<Sealer>,
}

impl std::fmt::Debug for ConsoleLogins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConsoleLogins")
    }
}

impl ConsoleLogins {
    /// Sign-ins whose records all gateways on the store can open.
    pub fn new(clock: Arc<Clock>, store: Arc<dyn Store>) -> Self {
        Self { clock, store, sealer: OnceCell::new() }
    }

    /// Begins a sign-in.
    pub async fn begin(&self, redirect_uri: String) -> Result<NewLogin, Problem> {
        let lifetime_ms = milliseconds(LOGIN_LIFETIME);
        let login = PendingLogin {
            verifier: random_text()?,
            nonce: random_text()?,
            redirect_uri,
            expires_ms: self.clock.now_ms().saturating_add(lifetime_ms),
        };
        let state = random_text()?;
        let text = serde_json::to_vec(&login).map_err(|_| no_randomness(FAILED))?;
        let sealed =
            self.sealer().await?.seal(&text, &context(&state)).ok_or_else(|| no_randomness(FAILED))?;
        Ok(NewLogin { login, state, sealed })
    }

    /// Opens the record of a sign-in with the `state` that the provider returned.
    pub async fn open(&self, sealed: &str, state: &str) -> Result<PendingLogin, LoginFault> {
        let sealer = self.sealer().await.map_err(LoginFault::Failed)?;
        let text = sealer.open(sealed, &context(state)).ok_or(LoginFault::Foreign)?;
        let login: PendingLogin = serde_json::from_slice(&text).map_err(|_| LoginFault::Foreign)?;
        if self.clock.now_ms() >= login.expires_ms { Err(LoginFault::Over) } else { Ok(login) }
    }

    /// Marks a sign-in as completed, once. Call it after the user is verified: requests without a user write nothing.
    pub async fn complete(&self, login: &PendingLogin) -> Result<(), LoginFault> {
        let kept_until_ms = login.expires_ms.saturating_add(KEPT_FOR_MS);
        let digest = Sha256::digest(format!("console login {}", login.nonce));
        match self.store.use_nonce(&digest, kept_until_ms).await {
            Ok(NonceUse::First) => Ok(()),
            Ok(NonceUse::Again) => Err(LoginFault::Over),
            Err(error) => Err(LoginFault::Failed(Problem::of(&error))),
        }
    }

    async fn sealer(&self) -> Result<&Sealer, Problem> {
        let made = self.sealer.get_or_try_init(|| async {
            sealing_key(&*self.store, KEY_NAME).await.map(|key| Sealer::new(&key))
        });
        made.await
    }
}

fn context(state: &str) -> Vec<u8> {
    format!("console login {state}").into_bytes()
}

/// 256 random bits in 43 characters, the minimum length of a PKCE verifier.
fn random_text() -> Result<String, Problem> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| no_randomness(FAILED))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use toolbooth_store::StoreUrl;

    #[tokio::test(start_paused = true)]
    async fn a_sign_in_opens_with_its_own_state_and_completes_once() {
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        let here = ConsoleLogins::new(system_clock(), store.clone());
        let there = ConsoleLogins::new(system_clock(), store);
        let first = here.begin("http://127.0.0.1/console/login/callback".into()).await.expect("begun");
        let second = here.begin("http://127.0.0.1/console/login/callback".into()).await.expect("begun");
        for (sealed, state) in [(&first.sealed, &second.state), (&first.state, &first.state)] {
            assert!(matches!(here.open(sealed, state).await, Err(LoginFault::Foreign)));
        }
        let login = there.open(&first.sealed, &first.state).await.expect("the other gateway opens it");
        assert_eq!((&login.verifier, &login.nonce), (&first.login.verifier, &first.login.nonce));
        there.complete(&login).await.expect("completed");
        assert!(matches!(here.complete(&first.login).await, Err(LoginFault::Over)), "completed before");
        tokio::time::advance(LOGIN_LIFETIME).await;
        assert!(matches!(here.open(&second.sealed, &second.state).await, Err(LoginFault::Over)));
    }
}
