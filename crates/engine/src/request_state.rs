//! Request states for modern clients: sealed, bound to one caller and one request, and usable once.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::caller::Caller;
use toolbooth_core::clock::Clock;
use toolbooth_core::json::RawJson;
use toolbooth_store::{NonceUse, Store};
use toolbooth_wire::state::Sealer;
use uuid::Uuid;

/// How long a client may take to answer.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// How long a used state is remembered after its expiry.
const KEPT_FOR_MS: i64 = 24 * 3_600_000;

/// The target of a request state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateTarget {
    /// A parked call of this gateway, by its handle.
    Parked(String),
    /// A parked call of one of several gateways.
    ParkedAt {
        /// The handle of the parked call.
        handle: String,
        /// The gateway.
        replica: String,
    },
    /// A parked call whose client was asked about a held call. Another gateway on the same store can take the answer.
    Approval {
        /// The handle of the parked call.
        handle: String,
        /// The held call.
        held: Uuid,
        /// The key of the question.
        key: String,
    },
    /// A modern server that waits for the client: its own state.
    Upstream {
        /// The server's state as JSON text, if it sent one.
        state: Option<String>,
    },
}

#[derive(Serialize, Deserialize)]
struct SealedState {
    meaning: StateTarget,
    expires_ms: i64,
    nonce: String,
}

/// The caller and request that a state is bound to; it cannot be opened by others or for another request. Most
/// requests have no state, so digests are computed only when one is sealed or opened.
#[derive(Debug, Clone)]
pub struct StateBinding {
    user: Arc<str>,
    method: &'static str,
    name: Box<str>,
    arguments: Option<RawJson>,
}

impl StateBinding {
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

/// Seals and opens request states.
pub struct RequestStates {
    clock: Arc<Clock>,
    sealer: Sealer,
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for RequestStates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestStates").finish_non_exhaustive()
    }
}

impl RequestStates {
    /// Seals with this key. Used states are remembered in the store.
    pub fn new(key: &[u8; 32], store: Arc<dyn Store>, clock: Arc<Clock>) -> Self {
        Self { clock, sealer: Sealer::new(key), store }
    }

    /// Seals a target; `None` only if the system has no randomness.
    pub fn seal(&self, meaning: StateTarget, binding: &StateBinding) -> Option<String> {
        let mut nonce = [0_u8; 16];
        getrandom::fill(&mut nonce).ok()?;
        let lifetime = i64::try_from(LIFETIME.as_millis()).ok()?;
        let payload = SealedState {
            meaning,
            expires_ms: self.clock.now_ms().saturating_add(lifetime),
            nonce: nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        self.sealer.seal(&serde_json::to_vec(&payload).ok()?, &binding.text())
    }

    /// Opens a state once. Its use is on disk before this returns.
    pub async fn open(&self, state: &str, binding: &StateBinding) -> Result<StateTarget, OpenStateError> {
        let opened = self.sealer.open(state, &binding.text()).ok_or(OpenStateError::Foreign)?;
        let payload: SealedState = serde_json::from_slice(&opened).map_err(|_| OpenStateError::Foreign)?;
        if payload.expires_ms < self.clock.now_ms() {
            return Err(OpenStateError::Over);
        }
        // Remembered for longer than the state is valid, so that it is still known as used if the clock is set back.
        let kept_until = payload.expires_ms.saturating_add(KEPT_FOR_MS);
        match self.store.use_nonce(payload.nonce.as_bytes(), kept_until).await {
            Ok(NonceUse::First) => Ok(payload.meaning),
            Ok(NonceUse::Again) => Err(OpenStateError::Over),
            Err(error) => {
                tracing::error!("a request state could not be marked as used: {error}");
                Err(OpenStateError::Over)
            }
        }
    }
}

/// Why a state cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenStateError {
    /// It was altered, or belongs to another caller or request.
    Foreign,
    /// It has expired, or was used before.
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use toolbooth_store::StoreUrl;

    #[tokio::test]
    async fn a_state_opens_once_for_one_caller_and_one_request() {
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        let states = RequestStates::new(&[1; 32], store.clone(), system_clock());
        let ann = Caller::owner("ann");
        let arguments = RawJson::trusted(r#"{"a":1}"#);
        let binding = StateBinding::new(&ann, "tools/call", "x", Some(&arguments));
        let meaning = StateTarget::Upstream { state: Some("\"theirs\"".into()) };
        let seal = || states.seal(meaning.clone(), &binding).expect("sealed");

        let foreign = [
            StateBinding::new(&Caller::owner("bob"), "tools/call", "x", Some(&arguments)),
            StateBinding::new(&ann, "prompts/get", "x", Some(&arguments)),
            StateBinding::new(&ann, "tools/call", "y", Some(&arguments)),
            StateBinding::new(&ann, "tools/call", "x", None),
        ];
        for other in &foreign {
            assert_eq!(states.open(&seal(), other).await, Err(OpenStateError::Foreign), "{other:?}");
        }
        let state = seal();
        assert_eq!(states.open(&state, &binding).await, Ok(meaning.clone()));
        assert_eq!(states.open(&state, &binding).await, Err(OpenStateError::Over), "used before");
        assert_eq!(states.open("nonsense", &binding).await, Err(OpenStateError::Foreign));
        // M9: after a restart the gateway has the same key and the same store.
        let states = RequestStates::new(&[1; 32], store, system_clock());
        assert_eq!(states.open(&state, &binding).await, Err(OpenStateError::Over), "used before the restart");
    }
}
