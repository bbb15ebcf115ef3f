//! Recognises secrets that are written literally in a file, and masks them.

use crate::expand::references;
use toolbooth_core::secret::SecretText;

/// The text shown in place of a literal secret.
pub(crate) const HIDDEN: &str = "(hidden)";

/// Whether a variable or header with this name usually contains a secret.
pub fn sounds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let whole = [
        "key",
        "token",
        "secret",
        "password",
        "passwd",
        "pwd",
        "pass",
        "pat",
        "auth",
        "authorization",
        "cookie",
    ];
    // The variable `PWD` alone is the working folder.
    name != "PWD" && words.iter().any(|word| whole.contains(word))
        || ["apikey", "token", "secret", "password", "passphrase", "credential", "accesskey", "privatekey"]
            .iter()
            .any(|part| lower.contains(part))
}

/// Whether a value has the form of a well-known kind of key.
pub fn looks_secret(value: &str) -> bool {
    let known = [
        "sk-",
        "sk_",
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "AIza",
        "ya29.",
        "eyJ",
        "hf_",
        "npm_",
        "Bearer ",
    ];
    value.len() >= 16 && (known.iter().any(|prefix| value.starts_with(prefix)) || is_connection_string(value))
}

/// Whether a value is like `Server=x;AccountKey=...`: parts with names, one of which is the name of a secret.
fn is_connection_string(value: &str) -> bool {
    let mut parts = value.split(';').filter_map(|part| part.split_once('='));
    value.contains(';') && parts.any(|(name, secret)| !secret.trim().is_empty() && sounds_secret(name.trim()))
}

/// Masks a literal secret. A secret from a variable is shown by the variable's name.
pub(crate) fn hide(text: SecretText) -> SecretText {
    if is_literal(&text) { SecretText::expanded(HIDDEN, text.expose()) } else { text }
}

fn is_literal(text: &SecretText) -> bool {
    text.shown() == text.expose() && references(text.shown()).is_empty()
}

/// Masks a literal value if its name or its form indicates a secret.
pub(crate) fn hide_literal(name: &str, text: SecretText) -> SecretText {
    if sounds_secret(name) || looks_secret(text.expose()) { hide(text) } else { text }
}

/// Masks the password and the secret parameters of a literal URL.
pub(crate) fn hide_in_address(text: SecretText) -> SecretText {
    match masked_address(text.shown()) {
        Some(masked) if is_literal(&text) => SecretText::expanded(masked, text.expose()),
        _ => text,
    }
}

/// A URL with its literal password and secret parameters masked, or `None` if it has none.
pub(crate) fn masked_address(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let plain = |value: &str| !value.is_empty() && references(value).is_empty();
    let mut changed = false;
    let authority =
        match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?, host))) {
            Some(((user, password), host)) if plain(password) => {
                changed = true;
                format!("{user}:{HIDDEN}@{host}")
            }
            _ => authority.to_owned(),
        };
    let tail = match tail.split_once('?') {
        Some((path, query)) => {
            let parts: Vec<String> = query
                .split('&')
                .map(|part| match part.split_once('=') {
                    Some((name, value)) if plain(value) && (sounds_secret(name) || looks_secret(value)) => {
                        changed = true;
                        format!("{name}={HIDDEN}")
                    }
                    _ => part.to_owned(),
                })
                .collect();
            format!("{path}?{}", parts.join("&"))
        }
        None => tail.to_owned(),
    };
    changed.then(|| format!("{scheme}://{authority}{tail}"))
}

/// Arguments with secrets masked: `--token=…`, the argument after `--token`, and anything that looks like a key.
pub(crate) fn masked_args<'a>(args: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut after_flag = false;
    let mut shown = Vec::new();
    for arg in args {
        let literal = references(arg).is_empty();
        let flag = arg.starts_with('-');
        shown.push(match arg.split_once('=') {
            Some((name, value)) if flag && literal && (sounds_secret(name) || looks_secret(value)) => {
                format!("{name}={HIDDEN}")
            }
            _ if literal && !flag && (after_flag || looks_secret(arg)) => HIDDEN.to_owned(),
            _ => masked_address(arg).unwrap_or_else(|| arg.to_owned()),
        });
        after_flag = flag && !arg.contains('=') && sounds_secret(arg);
    }
    shown
}

/// Masks secrets in arguments, but keeps their values for use.
pub(crate) fn hide_in_args(args: Vec<SecretText>) -> Vec<SecretText> {
    let masked = masked_args(args.iter().map(SecretText::shown));
    let hidden = args.into_iter().zip(masked);
    hidden
        .map(
            |(arg, shown)| if shown == arg.shown() { arg } else { SecretText::expanded(shown, arg.expose()) },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_name_or_form() {
        let cases = [
            ("GITHUB_TOKEN", true),
            ("apiKey", true),
            ("X-API-Key", true),
            ("Authorization", true),
            ("DB_PASSWORD", true),
            ("MYSQL_PWD", true),
            ("PASSPHRASE", true),
            ("PWD", false),
            ("KEYBOARD", false),
            ("PATH", false),
            ("MONKEY", false),
            ("PATTERN", false),
        ];
        for (name, secret) in cases {
            assert_eq!(sounds_secret(name), secret, "{name}");
        }
        assert!(looks_secret("ghp_0123456789abcdef") && !looks_secret("sk-short") && !looks_secret("hello"));
        assert!(looks_secret("Server=db;User Id=me;Pwd=hunter2"));
        assert!(!looks_secret("Server=db;User Id=me;Port=5432") && !looks_secret("a=b;password=;c=dddddd"));
    }

    #[test]
    fn secrets_in_urls_and_arguments_are_masked() {
        let cases = [
            ("postgres://u:pw@db/x", Some("postgres://u:(hidden)@db/x")),
            ("postgres://u:${PW}@db/x", None),
            ("https://h/mcp?api_key=abc&x=1", Some("https://h/mcp?api_key=(hidden)&x=1")),
            ("https://h/mcp?x=1", None),
            ("sqlite:x.db", None),
        ];
        for (address, masked) in cases {
            assert_eq!(masked_address(address).as_deref(), masked, "{address}");
        }
        let args = [
            "-y",
            "x",
            "--token",
            "abc",
            "--key=abc",
            "--key=${K}",
            "ghp_0123456789abcdef",
            "--verbose",
            "y",
        ];
        let shown = ["-y", "x", "--token", HIDDEN, "--key=(hidden)", "--key=${K}", HIDDEN, "--verbose", "y"];
        assert_eq!(masked_args(args), shown);
    }
}
