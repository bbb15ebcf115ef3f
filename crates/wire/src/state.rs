//! Sealed request state: encrypted state that a client holds, and that is accepted only unaltered.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{Key, KeyInit, XChaCha20Poly1305, XNonce};

/// The size of a nonce.
pub const NONCE_BYTES: usize = 24;
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
        self.seal_with_nonce(nonce, payload, context)
    }

    /// Seals like `seal`, with a nonce of the caller. It must differ for each payload and context.
    pub fn seal_with_nonce(
        &self,
        nonce: [u8; NONCE_BYTES],
        payload: &[u8],
        context: &[u8],
    ) -> Option<String> {
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
        self.open_stored(state, context)
    }

    /// Opens a text of any length that `seal` made. For texts from the gateway's own storage, which limits their length.
    pub fn open_stored(&self, state: &str, context: &[u8]) -> Option<Vec<u8>> {
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
        let long = sealer.seal(&vec![b'x'; MAX_STATE_CHARS], b"").expect("sealed");
        assert_eq!(sealer.open(&long, b""), None, "too long for a state of a client");
        assert_eq!(sealer.open_stored(&long, b"").map(|opened| opened.len()), Some(MAX_STATE_CHARS));
        let fixed = sealer.seal_with_nonce([1; NONCE_BYTES], b"payload", b"");
        assert_eq!(fixed, sealer.seal_with_nonce([1; NONCE_BYTES], b"payload", b""));
        assert_eq!(sealer.open(&fixed.expect("sealed"), b"").as_deref(), Some(&b"payload"[..]));
        assert_eq!(sealer.open("", b""), None);
        assert_eq!(sealer.open("short", b""), None);
    }
}
