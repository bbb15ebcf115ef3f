//! Redaction: previews of arguments without secrets, for audit rows, dead letters and events.
//!
//! A value is a secret by the name of its key, by its format anywhere in a text (`shapes`), or because it is the value
//! of a configuration variable (`KnownSecrets`).

mod shapes;

use crate::audit::MAX_PREVIEW_BYTES;
use crate::json::RawJson;
use crate::secret::{KnownSecrets, MASK};
use regex::Regex;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

pub use shapes::mask_text;
/// Words in a key that make its value a secret.
const SECRET_KEYS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "credential",
    "cookie",
    "private_key",
    "privatekey",
    "otp",
    "pin_code",
    "card_number",
    "cardnumber",
    "cvv",
    "ssn",
];
/// Prefixes of texts that are secrets as a whole.
const SECRET_STARTS: &[&str] = &[
    "bearer ",
    "basic ",
    "tb_",
    "sk-",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "akia",
    "aiza",
    "eyj",
    "-----begin",
];
/// Longer texts are truncated.
const MAX_TEXT: usize = 120;
/// Longer arguments are not parsed.
const MAX_LOOKED_AT: usize = 64 << 10;

/// The beginning of arguments with secrets masked, at most `MAX_PREVIEW_BYTES` long.
pub fn preview(arguments: &RawJson) -> String {
    preview_without(arguments, &KnownSecrets::default())
}

/// Like [`preview`], with these values masked as well.
pub fn preview_without(arguments: &RawJson, known: &KnownSecrets) -> String {
    let text = arguments.as_str();
    if text.len() > MAX_LOOKED_AT {
        return format!("{{…}} ({} bytes)", arguments.as_bytes().len());
    }
    let text = known.mask(text);
    if is_plainly_harmless(&text) {
        return text.into_owned();
    }
    // Masking a number makes the JSON invalid.
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return "{…}".into() };
    mask(&mut value);
    let mut text = value.to_string();
    if text.len() > MAX_PREVIEW_BYTES {
        let mut end = MAX_PREVIEW_BYTES - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Text from outside, with known secrets and texts that look like secrets masked.
pub fn masked<'a>(text: &'a str, known: &KnownSecrets) -> Cow<'a, str> {
    match known.mask(text) {
        Cow::Borrowed(text) => mask_text(text),
        Cow::Owned(text) => Cow::Owned(mask_text(&text).into_owned()),
    }
}

/// Whether arguments are short and contain none of the words that indicate a secret, as most do.
fn is_plainly_harmless(text: &str) -> bool {
    if text.len() > MAX_TEXT || text.bytes().filter(u8::is_ascii_digit).count() >= 13 || text.contains('\\') {
        return false;
    }
    !SECRET_WORDS.is_match(text)
}

/// All words of the lists in one pattern, because it runs on every call with an audit row.
static SECRET_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let lists = [SECRET_KEYS, SECRET_STARTS, shapes::WORDS];
    let words: Vec<String> = lists.iter().copied().flatten().map(|word| regex::escape(word)).collect();
    Regex::new(&format!("(?i-u:{})|{}", words.join("|"), shapes::USER_IN_URL)).expect("words make a pattern")
});

fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if is_secret_key(key) && !member.is_boolean() && !member.is_null() {
                    *member = MASK.into();
                } else {
                    mask(member);
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(mask),
        Value::String(text) => {
            if is_secret_text(text) {
                *text = MASK.into();
                return;
            }
            if let Cow::Owned(masked) = mask_text(text) {
                *text = masked;
            }
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Number(number) => {
            if shapes::is_card(&number.to_string()) {
                *value = MASK.into();
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Whether a value is a secret, by its name or format.
pub fn is_secret(key: &str, value: &str) -> bool {
    is_secret_key(key) || is_secret_text(value) || matches!(mask_text(value), Cow::Owned(_))
}

/// Whether arguments contain a secret anywhere. Arguments that are too long to check count as one.
pub fn holds_secret(arguments: &RawJson) -> bool {
    if arguments.as_bytes().len() > MAX_LOOKED_AT {
        return true;
    }
    let Ok(value) = arguments.read::<Value>() else { return true };
    let mut masked = value.clone();
    mask(&mut masked);
    masked.to_string().matches(MASK).count() > value.to_string().matches(MASK).count()
}

fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_KEYS.iter().any(|word| key.contains(word))
}

fn is_secret_text(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(16).collect::<String>().to_ascii_lowercase();
    SECRET_STARTS.iter().any(|secret| start.starts_with(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_everywhere() {
        let shown = |text: &str| preview(&RawJson::parse(text.to_owned()).expect("JSON"));
        let cases = [
            (r#"{"q":"x"}"#, r#"{"q":"x"}"#),
            (
                r#"{"password":"hunter2","a":{"apiKey":"k"}}"#,
                r#"{"a":{"apiKey":"[redacted]"},"password":"[redacted]"}"#,
            ),
            (r#"{"h":["Bearer abc"],"n":"4111 1111 1111 1111"}"#, r#"{"h":["[redacted]"],"n":"[redacted]"}"#),
            (r#"{"token":null,"secret":true}"#, r#"{"secret":true,"token":null}"#),
        ];
        for (given, expected) in cases {
            let given: Value = serde_json::from_str(&shown(given)).expect("JSON");
            assert_eq!(given, serde_json::from_str::<Value>(expected).expect("JSON"));
        }
        let known = KnownSecrets::new(["correct-horse-battery", "4711471147"]);
        let json = r#"{"note":"it is correct-horse-battery, you know","n":"4711471147","ok":1}"#;
        let shown_without = preview_without(&RawJson::parse(json.to_owned()).expect("JSON"), &known);
        assert_eq!(shown_without, r#"{"note":"it is [redacted], you know","n":"[redacted]","ok":1}"#);
        let number = RawJson::parse(r#"{"n":4711471147}"#.to_owned()).expect("JSON");
        assert!(!preview_without(&number, &known).contains("4711471147"));
        let long = format!(r#"{{"a":["{}"]}}"#, vec!["ä".repeat(100); 20].join("\",\""));
        assert!(shown(&long).len() <= MAX_PREVIEW_BYTES);
        assert!(shown(&format!(r#"{{"a":"{}"}}"#, "y".repeat(1 << 17))).contains("bytes"));
    }

    #[test]
    fn texts_with_secret_words_are_not_skipped() {
        for word in SECRET_KEYS.iter().chain(SECRET_STARTS).chain(shapes::WORDS) {
            for word in [(*word).to_owned(), word.to_uppercase()] {
                assert!(!is_plainly_harmless(&format!(r#"{{"a{word}b":1}}"#)), "{word}");
            }
        }
        for harmless in [r#"{"text":"hello"}"#, "{}", r#"{"pass":"word"}"#] {
            assert!(is_plainly_harmless(harmless), "{harmless}");
        }
    }
}
