//! Which configuration values are secrets: by their position, name or format.

use crate::redact;
use crate::secret::SecretText;
use std::borrow::Cow;

/// Words of a name that make its value a secret.
const SECRET_WORDS: &[&str] = &[
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "creds",
    "cvv",
    "jwt",
    "key",
    "keys",
    "otp",
    "pass",
    "passwords",
    "pat",
    "pin",
    "pw",
    "pwd",
    "secrets",
    "session",
    "ssn",
];
/// Words that also count at the end of a longer word, as in `PGPASSWORD`.
const SECRET_ENDS: &[&str] = &["password", "passwd", "passphrase", "secret", "token", "apikey"];
/// Last words of names such as `AUTH_URL` and `KEY_FILE`: the value describes a secret but is not one.
const DESCRIBING_WORDS: &[&str] = &[
    "algorithm",
    "audience",
    "count",
    "dir",
    "directory",
    "domain",
    "enabled",
    "endpoint",
    "file",
    "filename",
    "header",
    "host",
    "hostname",
    "issuer",
    "length",
    "limit",
    "mode",
    "name",
    "path",
    "port",
    "prefix",
    "region",
    "scope",
    "scopes",
    "size",
    "timeout",
    "ttl",
    "type",
    "uri",
    "url",
    "user",
    "username",
];
/// Shorter values are not secrets by their format.
const MIN_RANDOM_CHARS: usize = 20;

/// One `${VAR}` of a text, with the literal text around it.
struct Variable<'a> {
    name: &'a str,
    default: &'a str,
    value: &'a str,
    /// The text since the previous variable.
    before: &'a str,
    /// The text up to the next variable.
    after: &'a str,
}

impl SecretText {
    /// The values of its variables that may be secret. Excluded are defaults written in the template, paths and plain
    /// URLs under a harmless name, and variables that every process gets.
    pub fn secrets(&self) -> Vec<&str> {
        // Treating the whole text as secret is the safe choice.
        let Some(variables) = self.variables() else { return vec![self.expose()] };
        let may_be = |one: &Variable<'_>| one.value != one.default && is_secret(one.name, one.value);
        variables.into_iter().filter(may_be).map(|one| one.value).collect()
    }

    /// The values of its variables that are secret by their name, format or position, as in `Bearer ${VAR}`. Unlike
    /// [`SecretText::secrets`], it excludes plain words and numbers.
    pub fn credentials(&self) -> Vec<&str> {
        let Some(variables) = self.variables() else {
            let is_named = words_of(self.shown()).iter().any(|word| is_secret_word(word));
            let is_sure = is_named || has_secret_shape(self.expose());
            return if is_sure { vec![self.expose()] } else { Vec::new() };
        };
        let is_sure = |one: &Variable<'_>| one.value != one.default && one.is_credential();
        variables.into_iter().filter(is_sure).map(|one| one.value).collect()
    }

    /// Its variables in order; `None` if the positions of their values are ambiguous.
    fn variables(&self) -> Option<Vec<Variable<'_>>> {
        let (template, value) = (self.shown(), self.expose());
        if template == value {
            return Some(Vec::new());
        }
        // An escaped dollar sign, or two adjacent variables, make the positions ambiguous.
        if template.contains("${") && (template.contains("$$") || template.contains("}${")) {
            return None;
        }
        let mut found = Vec::new();
        let (mut rest, mut pattern) = (value, template);
        while let Some((before, behind)) = pattern.split_once("${") {
            let Some((inside, behind)) = behind.split_once('}') else { break };
            let tail = rest.strip_prefix(before)?;
            let after = behind.split("${").next().unwrap_or_default();
            let end = if after.is_empty() { tail.len() } else { tail.rfind(after).unwrap_or(tail.len()) };
            let (name, default) = inside.split_once(":-").unwrap_or((inside, ""));
            found.push(Variable { name, default, value: &tail[..end], before, after });
            rest = &tail[end..];
            pattern = behind;
        }
        Some(found)
    }
}

impl Variable<'_> {
    fn is_credential(&self) -> bool {
        is_credential(self.name, self.value) || self.is_password_in_address() || self.is_labelled()
    }

    /// Whether it is the password in a URL such as `postgres://user:password@host`.
    fn is_password_in_address(&self) -> bool {
        self.after.starts_with('@') && (self.before.ends_with(':') || self.before.ends_with("://"))
    }

    /// Whether the text before it names a secret, as in `?key=`, `--token=` and `Authorization: Bearer `.
    fn is_labelled(&self) -> bool {
        let label = self.before.trim_end_matches([' ', '=', ':', '"', '\'']);
        if label.len() == self.before.len() {
            return false;
        }
        let is_separator = |c: char| !c.is_alphanumeric() && c != '_' && c != '-';
        let label = label.rsplit(is_separator).next().unwrap_or_default();
        label.eq_ignore_ascii_case("basic") || is_credential(label, "")
    }
}

/// Whether the value of a variable may be a secret.
fn is_secret(name: &str, value: &str) -> bool {
    const HARMLESS: [&str; 8] = ["HOME", "USER", "LOGNAME", "PATH", "PWD", "TMPDIR", "LANG", "SHELL"];
    let name = name.strip_prefix("env:").unwrap_or(name);
    if redact::is_secret(name, value) {
        return true;
    }
    let is_address =
        ["http://", "https://", "ws://", "wss://"].iter().any(|scheme| value.starts_with(scheme));
    let is_plain_address = is_address && !value.contains(['@', '?']);
    !HARMLESS.contains(&name) && !value.starts_with('/') && !is_plain_address
}

/// Whether a value is a secret because of a word in its name, or because of its format.
pub(crate) fn is_credential(name: &str, value: &str) -> bool {
    let name = name.strip_prefix("env:").unwrap_or(name);
    let words = words_of(name);
    // `PWD` alone is the working directory.
    let is_named = name != "PWD" && words.iter().any(|word| is_secret_word(word));
    let describes = words.last().is_some_and(|word| DESCRIBING_WORDS.contains(&word.as_str()));
    // The URL of a webhook may contain its secret in the path.
    let is_named = is_named && (!describes || value.split('/').any(is_random));
    is_named || has_secret_shape(value)
}

fn is_secret_word(word: &str) -> bool {
    SECRET_WORDS.contains(&word) || SECRET_ENDS.iter().any(|end| word.ends_with(*end))
}

/// The words of a name such as `API_KEY2`, `x-api-key` or `apiKey`, in lower case and without numbers.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for letter in name.chars() {
        let begins = !letter.is_alphabetic() || (previous.is_lowercase() && letter.is_uppercase());
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphabetic()) {
            word.extend(letter.to_lowercase());
        }
        previous = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a value looks like a key, a token, a URL with a password or similar. Plain words and plain numbers do not.
fn has_secret_shape(value: &str) -> bool {
    let is_of_words = |c: char| c.is_lowercase() || matches!(c, '_' | '-' | '.' | ' ');
    if value.chars().all(is_of_words) || !value.chars().any(char::is_alphabetic) {
        return false;
    }
    matches!(redact::mask_text(value), Cow::Owned(_)) || is_random(value)
}

/// Whether letters and digits alternate in a long value as in random text, unlike in `node-12.example`, dates and
/// version names.
fn is_random(value: &str) -> bool {
    let is_path = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    let is_place = is_path || value.contains("://");
    if value.len() < MIN_RANDOM_CHARS || value.contains(char::is_whitespace) || is_place || is_uuid(value) {
        return false;
    }
    let mut alternations = 0;
    for run in value.split(|c: char| !c.is_ascii_alphanumeric()) {
        let differs = |pair: &&[u8]| pair[0].is_ascii_digit() != pair[1].is_ascii_digit();
        let changes = run.as_bytes().windows(2).filter(differs).count();
        if run.len() >= MIN_RANDOM_CHARS && changes >= 2 {
            return true;
        }
        // A word with a number at its end alternates once.
        alternations += changes.saturating_sub(1);
    }
    alternations >= 3
}

/// Whether a value is a UUID: those identify tenants, projects and pages far more often than they are keys.
fn is_uuid(value: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    value.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && value.split('-').all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_may_be_secret_unless_they_are_plain() {
        let cases = [
            ("Bearer ${T}", "Bearer hunter2", vec!["hunter2"]),
            ("https://h/?key=${K}&x=${Y}", "https://h/?key=abc&x=d", vec!["abc", "d"]),
            ("plain", "plain", vec![]),
            ("${env:A}", "everything", vec!["everything"]),
            ("${HOST:-localhost}", "localhost", vec![]),
            ("${HOST:-localhost}", "db.internal", vec!["db.internal"]),
            ("${HOME}/notes", "/home/ann/notes", vec![]),
            ("${ROOT}", "/srv/data", vec![]),
            ("${SIGNING_SECRET}", "/abc+d/efg==", vec!["/abc+d/efg=="]),
            ("${API}", "https://api.example.com", vec![]),
            ("${API}", "https://u:p@example.com", vec!["https://u:p@example.com"]),
            ("$${X}${Y}", "${X}secret", vec!["${X}secret"]),
            ("${X}${Y}", "onetwo", vec!["onetwo"]),
        ];
        for (template, value, expected) in cases {
            assert_eq!(SecretText::expanded(template, value).secrets(), expected, "{template}");
        }
    }

    // Other values, such as names of tools, must not be masked.
    #[test]
    fn credentials_are_recognized_by_position_name_or_format() {
        let cases = [
            ("${DBN}", "customers", vec![]),
            ("${ACCOUNT}", "123456789012", vec![]),
            ("${CARD}", "4111111111111111", vec![]),
            ("${API_KEY}", "customers", vec!["customers"]),
            ("${env:GITHUB_TOKEN}", "customers", vec!["customers"]),
            ("${T}", "ghp_abcdefghij0123456789", vec!["ghp_abcdefghij0123456789"]),
            ("Bearer ${T}", "Bearer customers", vec!["customers"]),
            ("X-API-Key: ${T}", "X-API-Key: customers", vec!["customers"]),
            ("https://${H}/?key=${K}&x=${Y}", "https://customers/?key=abc&x=d", vec!["abc"]),
            ("postgres://app:${P}@${H}/main", "postgres://app:orange@customers/main", vec!["orange"]),
            ("${KEY:-customers}", "customers", vec![]),
            ("$${X}${Y}", "${X}customers", vec![]),
            ("$${X}${TOKEN}", "${X}customers", vec!["${X}customers"]),
        ];
        for (template, value, expected) in cases {
            assert_eq!(SecretText::expanded(template, value).credentials(), expected, "{template} {value}");
        }
    }

    #[test]
    fn names_are_secret_by_whole_words() {
        let cases = [
            ("API_KEY", true),
            ("apiKey", true),
            ("x-api-key", true),
            ("PGPASSWORD", true),
            ("MYSQL_PWD", true),
            ("DB_PASS", true),
            ("TOKEN2", true),
            ("SESSION_COOKIE", true),
            ("MONKEY", false),
            ("KEYSPACE", false),
            ("AUTHOR", false),
            ("MAX_TOKENS", false),
            ("TOKENIZER", false),
            ("AUTH_URL", false),
            ("KEY_FILE", false),
            ("PWD", false),
            ("DB_NAME", false),
        ];
        for (name, expected) in cases {
            assert_eq!(is_credential(name, "customers"), expected, "{name}");
        }
        let webhook = "https://hooks.example.com/services/T1/a8Kd03mQz71LpX5sYw2VbN4c";
        assert!(is_credential("WEBHOOK_SECRET_URL", webhook));
    }

    #[test]
    fn values_are_secret_by_their_format() {
        let cases = [
            ("AKIAIOSFODNN7EXAMPLE", true),
            ("sk-proj-abcdefgh1234", true),
            ("9f86d081884c7d659a2feaa0c55ad015", true),
            ("a8Kd03mQz71LpX5sYw2VbN4c", true),
            ("q7Xz+3Kd0/mQ9w-L1pX5s_Yw2==", true),
            ("postgres://app:orange@db/main", true),
            ("customers", false),
            ("tb_customers_list", false),
            ("customersdatabaseversion2024", false),
            ("1234567890123456789012", false),
            ("claude-3-5-sonnet-20241022", false),
            ("2024-01-01T00:00:00Z", false),
            ("db1.eu2.internal7.example.com", false),
            ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", false),
            ("/srv/a8Kd03mQz71LpX5sYw2VbN4c", false),
            ("https://example.com/a8Kd03mQz71LpX5sYw2VbN4c", false),
            ("Customers of the northern region 2024", false),
        ];
        for (value, expected) in cases {
            assert_eq!(is_credential("", value), expected, "{value}");
        }
    }
}
