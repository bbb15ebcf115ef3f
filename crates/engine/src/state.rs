//! Request states we hand to modern clients: sealed, bound to one caller and one request, used once.

use crate::clock;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_wire::state::Sealer;

/// How long a client may take to come back with answers.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// How many used states are remembered at the least before old ones are swept.
const SWEEP_AT: usize = 4096;

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
    expires_ms: u64,
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
#[derive(Debug)]
pub struct States {
    sealer: Sealer,
    used: Mutex<HashMap<String, u64>>,
}

impl States {
    /// States under one key.
    pub fn new(key: &[u8; 32]) -> Self {
        Self { sealer: Sealer::new(key), used: Mutex::default() }
    }

    /// Seals a meaning; `None` only if the system has no randomness.
    pub fn seal(&self, meaning: Meaning, binding: &Binding) -> Option<String> {
        let mut nonce = [0_u8; 16];
        getrandom::fill(&mut nonce).ok()?;
        let lifetime = u64::try_from(LIFETIME.as_millis()).ok()?;
        let payload = Payload {
            meaning,
            expires_ms: now_ms() + lifetime,
            nonce: nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        self.sealer.seal(&serde_json::to_vec(&payload).ok()?, &binding.text())
    }

    /// Opens a state, once. `None`: altered, foreign, of another request, too old, or used before.
    pub fn open(&self, state: &str, binding: &Binding) -> Option<Meaning> {
        let payload: Payload = serde_json::from_slice(&self.sealer.open(state, &binding.text())?).ok()?;
        let now = now_ms();
        if payload.expires_ms < now {
            return None;
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= SWEEP_AT {
            used.retain(|_, expires| *expires >= now);
        }
        match used.insert(payload.nonce, payload.expires_ms) {
            None => Some(payload.meaning),
            Some(_) => None,
        }
    }
}

fn now_ms() -> u64 {
    u64::try_from(clock::now_ms()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_serves_one_caller_one_request_once() {
        let states = States::new(&[1; 32]);
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
            assert_eq!(states.open(&seal(), other), None, "{other:?}");
        }
        let state = seal();
        assert_eq!(states.open(&state, &binding), Some(meaning.clone()));
        assert_eq!(states.open(&state, &binding), None, "used before");
        assert_eq!(states.open("nonsense", &binding), None);
    }
}
