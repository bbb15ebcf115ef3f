//! Echoes: a file token that a tool sends back is removed before the result is kept or shown.
//!
//! A token has only characters that no encoder escapes, so it is found anywhere: in a URL, in a string inside a string,
//! with slashes escaped or not.

use crate::json::RawJson;
use memchr::memmem;

/// The beginning of the payload of every file token: `{"u":"` in base64url.
pub(super) const TOKEN_SIGN: &str = "eyJ1Ijoi";
/// The replacement for a token.
const MASK: &[u8] = b"[redacted]";
/// The length of a MAC in base64url, and the maximum length of a payload.
const MAC_CHARS: usize = 43;
const MAX_PAYLOAD: usize = 4096;

/// The text without file tokens; `None` if it has none.
pub fn redacted(text: &RawJson) -> Option<RawJson> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut from = 0;
    for sign in memmem::find_iter(bytes, TOKEN_SIGN) {
        let Some((start, end)) = token_around(bytes, sign) else { continue };
        if start < from {
            continue;
        }
        out.extend_from_slice(&bytes[from..start]);
        out.extend_from_slice(MASK);
        from = end;
    }
    if from == 0 {
        return None;
    }
    out.extend_from_slice(&bytes[from..]);
    Some(RawJson::trusted(out))
}

/// The range of the token around a payload. Older tokens have no version and key id before the payload.
fn token_around(bytes: &[u8], sign: usize) -> Option<(usize, usize)> {
    let run = |from: usize| bytes[from..].iter().take_while(|byte| is_url_safe(**byte)).count();
    let payload = run(sign);
    let dot = sign + payload;
    if payload > MAX_PAYLOAD || bytes.get(dot) != Some(&b'.') || run(dot + 1) < MAC_CHARS {
        return None;
    }
    let mut start = sign;
    if sign > 0 && bytes[sign - 1] == b'.' {
        let before = &bytes[..sign - 1];
        let id = before.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).take(16).count();
        let head = &before[..before.len() - id];
        start = if head.ends_with(b"v1.") { head.len() - 3 } else { sign };
    }
    Some((start, dot + 1 + MAC_CHARS))
}

fn is_url_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::inject::{FileTokenClaims, TokenKey, TokenKeys, Uses};

    fn token() -> String {
        let key = TokenKey::new("k1", (0..32).collect::<Vec<u8>>()).expect("a key");
        let claims = FileTokenClaims {
            user: "ann".into(),
            file: "f".into(),
            server: "s".into(),
            call: "c".into(),
            expires_s: 1,
            uses: Uses::Many,
        };
        TokenKeys::new(key, Vec::new()).sign(&claims).expect("signed")
    }

    #[test]
    fn tokens_are_removed_everywhere() {
        let token = token();
        let url = format!("https://gw.example/files/download/7?token={token}");
        let named = format!("https://gw.example/files/download/7/report%201.pdf?token={token}");
        let object = serde_json::json!({ "url": url, "named": named, "also": [token] }).to_string();
        let nested = serde_json::json!({ "text": object }).to_string();
        let slashes = nested.replace('/', "\\/");
        let gson = format!(r#"{{"u":"a?token\u003d{token}\u0026x"}}"#);
        for text in [object, nested, slashes, gson] {
            let given = RawJson::parse(text.clone()).expect("JSON");
            let clean = redacted(&given).expect("an echo");
            assert!(!clean.as_str().contains("eyJ1"), "{clean}");
            assert!(clean.as_str().contains("[redacted]"), "{clean}");
            assert!(!clean.as_str().contains("v1.k1"), "{clean}");
            assert_eq!(redacted(&clean), None);
        }
    }

    #[test]
    fn similar_texts_stay() {
        for text in [r#""eyJ1Ijoi""#, r#""eyJ1IjoiYW5uIn0.short""#, r#""a.eyJ1Ijoi.b""#] {
            assert_eq!(redacted(&RawJson::parse(text).expect("JSON")), None, "{text}");
        }
    }
}
