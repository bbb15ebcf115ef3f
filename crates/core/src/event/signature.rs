//! Signatures of webhook requests: a receiver with the key can verify the sender and the time.

use crate::hex;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The value of the signature header of a body: `t=SECONDS,v1=HEX`. It covers the seconds, a dot and the body, so that
/// an old message cannot be replayed as a new one.
pub fn signature(key: &[u8], seconds: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(seconds.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let hex = hex::encode(&mac.finalize().into_bytes());
    format!("t={seconds},v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_depends_on_key_time_and_body() {
        let one = signature(b"key", 1, b"body");
        // echo -n '1.body' | openssl dgst -sha256 -hmac key
        assert_eq!(one, "t=1,v1=91b5374b153842ad05b2c4eab9349b8321b14703165bd3fb8b034dfb8be98ae5");
        for other in
            [signature(b"kez", 1, b"body"), signature(b"key", 2, b"body"), signature(b"key", 1, b"bodz")]
        {
            assert_ne!(one, other);
        }
    }
}
