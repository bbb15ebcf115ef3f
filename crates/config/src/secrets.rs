//! Secrets that were written into a file itself: recognised by their names, and never shown.

use crate::fields::HIDDEN;
use toolbooth_core::secret::SecretText;

/// Whether a variable or header of that name usually holds a secret.
pub fn sounds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let whole = ["key", "token", "secret", "password", "passwd", "pass", "pat", "auth", "authorization", "cookie"];
    words.iter().any(|word| whole.contains(word))
        || ["apikey", "token", "secret", "password", "credential", "accesskey", "privatekey"]
            .iter()
            .any(|part| lower.contains(part))
}

/// Whether a value itself looks like a key, whatever it is called.
pub fn looks_secret(value: &str) -> bool {
    let known = ["sk-", "sk_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "AIza", "ya29.", "eyJ", "hf_", "npm_", "Bearer "];
    known.iter().any(|prefix| value.starts_with(prefix)) && value.len() >= 16
}

/// A secret that was written out is shown as hidden; one that came from a variable is shown by its name.
pub(crate) fn hide(text: SecretText) -> SecretText {
    if text.shown() == text.expose() && !text.expose().contains("${") {
        return SecretText::expanded(HIDDEN, text.expose());
    }
    text
}

/// Hides a literal value when its name or its look says that it is a secret.
pub(crate) fn hide_literal(name: &str, text: SecretText) -> SecretText {
    if sounds_secret(name) || looks_secret(text.expose()) { hide(text) } else { text }
}
