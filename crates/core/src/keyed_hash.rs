//! A hash that only the holder of a key can compute.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The HMAC-SHA256 of several parts. It covers their lengths, so that the same bytes in other parts have another hash.
pub fn keyed_hash(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyed_hash_depends_on_the_key_and_on_each_part() {
        let one = keyed_hash(&[7; 32], &[b"ab", b"c"]);
        assert_eq!(one, keyed_hash(&[7; 32], &[b"ab", b"c"]));
        assert_ne!(one, keyed_hash(&[8; 32], &[b"ab", b"c"]));
        assert_ne!(one, keyed_hash(&[7; 32], &[b"a", b"bc"]));
    }
}
