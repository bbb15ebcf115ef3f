//! Request states we hand to modern clients: sealed, bound to one caller and one request, used once.

use crate::clock::now_ms;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_store::{NonceUse, Store};
use toolbooth_wire::state::Sealer;

/// How long a client may take to come back with answers.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// How much longer than it lasts a used state is remembered.
const KEPT_FOR_MS: i64 = 24 * 3_600_000;

/// What a state stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// A call that waits in this gateway, by its handle.
    Parked(String),
    /// A modern server waits for the client: its own state, wrapped.
    Upstream {
        /// The server's state as JSON text, if it gave one.
        state: Option<String>,
    },
}

#[derive(Serialize, Deserialize)]
struct Payload {
    meaning: Meaning,
    expires_ms: i64,
    nonce: String,
}

/// What a state is bound to: it opens for nobody else and on no other request. Hardly any request has a state, so
/// nothing is worked out before one is sealed or opened.
#[derive(Debug, Clone)]
pub struct Binding {
    user: Arc<str>,
    method: &'static str,
    name: Box<str>,
    arguments: Option<RawJson>,
}

impl Binding {
    /// Binds to a caller, a method, a name and the arguments.
    pub fn new(caller: &Caller, method: &'static str, name: &str, arguments: Option<&RawJson>) -> Self {
        Self { user: caller.user.clone(), method, name: name.into(), arguments: arguments.cloned() }
    }

    fn text(&self) -> Vec<u8> {
        let digest = Sha256::digest(self.arguments.as_ref().map_or(&b""[..], RawJson::as_bytes));
        let mut bound = Vec::with_capacity(128);
        for part in [self.user.as_bytes(), self.method.as_bytes(), self.name.as_bytes(), &digest] {
            bound.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bound.extend_from_slice(part);
        }
        bound
    }
}

/// Makes and reads states.
pub struct States {
    sealer: Sealer,
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}

impl States {
    /// States under one key. Those that were used are remembered in the store.
    pub fn new(key: &[u8; 32], store: Arc<dyn Store>) -> Self {
        Self { sealer: Sealer::new(key), store }
    }

    /// Seals a meaning; `None` only if the system has no randomness.
    pub fn seal(&self, meaning: Meaning, binding: &Binding) -> Option<String> {
        let mut nonce = [0_u8; 16];
        getrandom::fill(&mut nonce).ok()?;
        let lifetime = i64::try_from(LIFETIME.as_millis()).ok()?;
        let payload = Payload {
            meaning,
            expires_ms: now_ms().saturating_add(lifetime),
            nonce: nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        self.sealer.seal(&serde_json::to_vec(&payload).ok()?, &binding.text())
    }

    /// Opens a state, once: that it was used is on disk before anybody acts on it.
    pub async fn open(&self, state: &str, binding: &Binding) -> Result<Meaning, NotOpened> {
        let opened = self.sealer.open(state, &binding.text()).ok_or(NotOpened::Foreign)?;
        let payload: Payload = serde_json::from_slice(&opened).map_err(|_| NotOpened::Foreign)?;
        if payload.expires_ms < now_ms() {
            return Err(NotOpened::Over);
        }
        // Kept longer than the state lasts, by any clock: a clock that is set back finds it still used.
        let kept_until = payload.expires_ms.saturating_add(KEPT_FOR_MS);
        match self.store.use_nonce(payload.nonce.as_bytes(), kept_until).await {
            Ok(NonceUse::First) => Ok(payload.meaning),
            Ok(NonceUse::Again) => Err(NotOpened::Over),
            Err(error) => {
                tracing::error!("a request state could not be marked as used: {error}");
                Err(NotOpened::Over)
            }
        }
    }
}

/// Why a state is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOpened {
    /// Altered, somebody else's, or of another request.
    Foreign,
    /// Expired, or used before.
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_store::StoreUrl;

    #[tokio::test]
    async fn a_state_serves_one_caller_one_request_once() {
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        let states = States::new(&[1; 32], store.clone());
        let ann = Caller::owner("ann");
        let arguments = RawJson::trusted(r#"{"a":1}"#);
        let binding = Binding::new(&ann, "tools/call", "x", Some(&arguments));
        let meaning = Meaning::Upstream { state: Some("\"theirs\"".into()) };
        let seal = || states.seal(meaning.clone(), &binding).expect("sealed");

        let foreign = [
            Binding::new(&Caller::owner("bob"), "tools/call", "x", Some(&arguments)),
            Binding::new(&ann, "prompts/get", "x", Some(&arguments)),
            Binding::new(&ann, "tools/call", "y", Some(&arguments)),
            Binding::new(&ann, "tools/call", "x", None),
        ];
        for other in &foreign {
            assert_eq!(states.open(&seal(), other).await, Err(NotOpened::Foreign), "{other:?}");
        }
        let state = seal();
        assert_eq!(states.open(&state, &binding).await, Ok(meaning.clone()));
        assert_eq!(states.open(&state, &binding).await, Err(NotOpened::Over), "used before");
        assert_eq!(states.open("nonsense", &binding).await, Err(NotOpened::Foreign));
        // M9: the next life of the gateway has the same key and the same store.
        let states = States::new(&[1; 32], store);
        assert_eq!(states.open(&state, &binding).await, Err(NotOpened::Over), "used in an earlier life");
    }
}
