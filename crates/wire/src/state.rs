//! Sealed request state: encrypted state that a client holds, and that is accepted only unaltered.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{Key, KeyInit, XChaCha20Poly1305, XNonce};

const NONCE_BYTES: usize = 24;
/// The longest state that is accepted; it may contain the state of a server.
const MAX_STATE_CHARS: usize = 1 << 20;

/// Seals and opens states with one key.
#[derive(Clone)]
pub struct Sealer {
    cipher: XChaCha20Poly1305,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(..)")
    }
}

impl Sealer {
    /// Creates a sealer with this key.
    pub fn new(key: &[u8; 32]) -> Self {
        Self { cipher: XChaCha20Poly1305::new(Key::from_slice(key)) }
    }

    /// Seals `payload`, bound to `context`: it opens only with the same key and context.
    pub fn seal(&self, payload: &[u8], context: &[u8]) -> Option<String> {
        let mut nonce = [0_u8; NONCE_BYTES];
        getrandom::fill(&mut nonce).ok()?;
        let sealed =
            self.cipher.encrypt(XNonce::from_slice(&nonce), Payload { msg: payload, aad: context }).ok()?;
        let mut whole = nonce.to_vec();
        whole.extend_from_slice(&sealed);
        Some(URL_SAFE_NO_PAD.encode(whole))
    }

    /// Opens a state made by `seal`; `None` for any other text.
    pub fn open(&self, state: &str, context: &[u8]) -> Option<Vec<u8>> {
        if state.len() > MAX_STATE_CHARS {
            return None;
        }
        let whole = URL_SAFE_NO_PAD.decode(state).ok()?;
        let (nonce, sealed) = whole.split_at_checked(NONCE_BYTES)?;
        self.cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: context }).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_opens_only_unaltered_and_in_its_context() {
        let sealer = Sealer::new(&[7; 32]);
        let state = sealer.seal(b"payload", b"ann tools/call x").expect("sealed");
        assert_eq!(sealer.open(&state, b"ann tools/call x").as_deref(), Some(&b"payload"[..]));
        assert_eq!(sealer.open(&state, b"bob tools/call x"), None);
        assert_eq!(Sealer::new(&[8; 32]).open(&state, b"ann tools/call x"), None);
        for place in 0..state.len() {
            let mut altered = state.clone().into_bytes();
            altered[place] = if altered[place] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).expect("ASCII");
            assert_eq!(sealer.open(&altered, b"ann tools/call x"), None, "character {place}");
        }
        assert_eq!(sealer.open("", b""), None);
        assert_eq!(sealer.open("short", b""), None);
    }
}
