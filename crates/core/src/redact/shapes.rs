//! Secrets that are recognized by their format, anywhere in a text.

use crate::secret::MASK;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Every text with such a secret contains one of these, apart from card numbers and URLs with a user.
pub(super) const WORDS: &[&str] = &[
    "glpat-",
    "gldt-",
    "glrt-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "xox",
    "sk-",
    "sk_",
    "rk_",
    "aiza",
    "akia",
    "asia",
    "ya29.",
    "npm_",
    "pypi-",
    "hf_",
    "sg.",
    "shpat_",
    "tb_",
    "eyj",
    "bearer",
    "basic",
    "-----begin",
    "token",
    "key",
    "secret",
    "passw",
    "passphrase",
    "sig",
    "code=",
    "auth",
    "credential",
];
/// A URL with a user.
pub(super) const USER_IN_URL: &str = r#"://[^/\s@"'<>]+@"#;

/// Texts longer than this are truncated here.
const MAX_LOOKED_AT: usize = 64 << 10;

/// All formats in one pattern. The groups `scheme` and `name` are kept; `digits` may be a card number.
static SHAPES: LazyLock<Regex> = LazyLock::new(|| {
    let shapes = [
        // Private keys, complete or truncated.
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?s:.)*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\z)",
        // Tokens with a known prefix.
        r"\b(?:glpat|gldt|glrt|xox[a-z]|pypi)-[A-Za-z0-9_-]{10,}",
        r"\b(?:gh[pousr]|github_pat|npm|hf|shpat|tb|sk_live|sk_test|rk_live)_[A-Za-z0-9_]{10,}",
        r"\bsk-[A-Za-z0-9_-]{12,}",
        r"\bAIza[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}",
        r"\b(?:ya29|SG)\.[A-Za-z0-9._-]{16,}",
        r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?",
        // Headers within a text.
        r"(?i:(?P<scheme>\bbearer\s+))[A-Za-z0-9._~+/=-]{6,}",
        r"(?i:(?P<basic>\bbasic\s+))[A-Za-z0-9+/]{12,}={0,2}",
        // URL parameters, and pairs of a name and a value.
        r#"(?i:(?P<name>[?&;#](?:[a-z0-9_.-]*(?:token|key|secret|signature|password|passwd|credential|auth)|sig|code)=))[^&#\s"'<>]+"#,
        r#"(?i:(?P<pair>\b(?:password|passwd|passphrase|secret|client_secret|api[_-]?key|(?:access_|refresh_|auth_)?token)["']?\s*[=:]\s*["']?))[^\s"',;&<>]{3,}"#,
        r#"(?P<at>[A-Za-z][A-Za-z0-9+.-]{0,20}://)[^/\s@"'<>]+@"#,
        // Card numbers, by their check digit.
        r"\b(?P<digits>[0-9](?:[ -]?[0-9]){12,18})\b",
    ];
    Regex::new(&shapes.join("|")).expect("the shapes make a pattern")
});

/// The text with every secret masked that is recognized by its format; borrowed if it contains no secret.
pub fn mask_text(text: &str) -> Cow<'_, str> {
    if text.len() > MAX_LOOKED_AT {
        let end = text.floor_char_boundary(MAX_LOOKED_AT);
        return Cow::Owned(format!("{}…", mask_text(&text[..end])));
    }
    let masked = SHAPES.replace_all(text, |found: &Captures<'_>| {
        if let Some(digits) = found.name("digits") {
            return if is_card(digits.as_str()) { MASK.to_owned() } else { digits.as_str().to_owned() };
        }
        if let Some(at) = found.name("at") {
            return format!("{}{MASK}@", at.as_str());
        }
        let kept = ["scheme", "basic", "name", "pair"].iter().find_map(|group| found.name(group));
        format!("{}{MASK}", kept.map_or("", |kept| kept.as_str()))
    });
    // Digits that are not a card number are kept.
    if masked == text { Cow::Borrowed(text) } else { masked }
}

/// Whether these digits are a card number: 13 to 19 digits in a valid range, with a correct check digit.
pub(super) fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(10)).collect();
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == ' ' || c == '-');
    if !is_plain || !(13..=19).contains(&digits.len()) || !(2..=6).contains(&digits[0]) {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => *digit,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    // audit: previews show `glpat-`, `AIza`, `AKIA`, `sk-`, card numbers, `Bearer` in mid-text.
    #[test]
    fn secrets_are_masked_within_a_text() {
        let cases = [
            ("use glpat-abcdefghij0123456789 now", "use [redacted] now"),
            ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "[redacted]"),
            ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."),
            ("key is sk-proj-abcdefghijklmnop", "key is [redacted]"),
            ("ghp_abcdefghijklmnopqrstuvwxyz012345 and more", "[redacted] and more"),
            ("github_pat_11ABCDEFG0abcdefghij_xyz", "[redacted]"),
            ("xoxb-123456789012-abcdef", "[redacted]"),
            ("jwt eyJhbGciOi.eyJzdWIiOi.sig-nature end", "jwt [redacted] end"),
            ("curl -H 'Authorization: Bearer abc.def-123' x", "curl -H 'Authorization: Bearer [redacted]' x"),
            ("basic dXNlcjpwYXNzd29yZA== ok", "basic [redacted] ok"),
            ("pay 4111 1111 1111 1111 today", "pay [redacted] today"),
            ("pay 5500-0000-0000-0004 today", "pay [redacted] today"),
            ("https://h/x?token=abc&y=1", "https://h/x?token=[redacted]&y=1"),
            ("https://h/x?a=1&access_token=abc#f", "https://h/x?a=1&access_token=[redacted]#f"),
            ("https://h/?X-Amz-Signature=0f&key=k", "https://h/?X-Amz-Signature=[redacted]&key=[redacted]"),
            ("https://ann:pw@h/p", "https://[redacted]@h/p"),
            ("postgres://u:p@db:5432/x", "postgres://[redacted]@db:5432/x"),
            ("password=hunter2, go", "password=[redacted], go"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- ok", "[redacted] ok"),
            ("-----BEGIN PRIVATE KEY-----\nMII", "[redacted]"),
        ];
        for (text, expected) in cases {
            assert_eq!(mask_text(text), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        let cases = [
            "hello",
            "1731859200000",
            "order 4111 1111 1111 1112",
            "phone +49 151 23456789",
            "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "https://example.com/a?page=2&sort=name",
            "write to ann@example.com about the basic plan",
            "the token count is 12",
            "a sk-eleton in the closet",
        ];
        for text in cases {
            assert!(matches!(mask_text(text), Cow::Borrowed(_)), "{text}: {}", mask_text(text));
        }
    }

    #[test]
    fn long_texts_cost_no_more_than_their_length() {
        let nasty =
            "-----BEGIN PRIVATE KEY-----".repeat(2_000) + &"1 ".repeat(20_000) + &"a://".repeat(10_000);
        let begun = std::time::Instant::now();
        let masked = mask_text(&nasty);
        assert!(masked.len() <= nasty.len());
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
