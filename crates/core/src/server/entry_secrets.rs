//! The secrets that a server is given by its entry: the values to mask in its messages.

use super::{OutboundAuth, ServerEntry, Transport};
use crate::credential::is_credential;
use crate::redact;
use crate::secret::{KnownSecrets, SecretText};

impl ServerEntry {
    /// The values handed to this server that may be secret, for masking its error output and other logs, where masking
    /// a harmless word does no damage.
    pub fn secrets(&self) -> KnownSecrets {
        self.given(SecretRule::Possible, None)
    }

    /// The values handed to this server that are secret by their position, name or format, and must not appear in its
    /// results. Results are data, so plain words and numbers are not masked.
    pub fn credentials(&self) -> KnownSecrets {
        self.given(SecretRule::Certain, None)
    }

    /// Like [`Self::credentials`], with the key of one user.
    pub fn credentials_with(&self, key: &str) -> KnownSecrets {
        self.given(SecretRule::Certain, Some(key))
    }

    fn given(&self, rule: SecretRule, key: Option<&str>) -> KnownSecrets {
        let mut found: Vec<&str> = Vec::new();
        match &self.transport {
            Transport::Stdio { command, args, env, .. } => {
                found.extend(rule.secrets_of("", command));
                let before = std::iter::once(command).chain(args);
                found.extend(before.zip(args).flat_map(|(before, text)| {
                    let name = option_before(before.shown(), text.shown());
                    rule.secrets_of(name, text)
                }));
                found.extend(env.iter().flat_map(|(name, text)| rule.secrets_of(name, text)));
            }
            Transport::Http(remote) | Transport::Sse(remote) | Transport::WebSocket(remote) => {
                found.extend(rule.secrets_of("", &remote.url));
                // Any header may be a credential.
                let headers = remote.headers.iter();
                found.extend(headers.flat_map(|(name, text)| SecretRule::Possible.secrets_of(name, text)));
            }
            Transport::Bundled(_) | Transport::Own | Transport::Virtual => {}
        }
        match &self.auth {
            OutboundAuth::None => {}
            OutboundAuth::Bearer(key) | OutboundAuth::ApiKey { key, .. } => found.push(key.expose()),
            OutboundAuth::OAuth(entry) => found.extend(entry.client_secret.iter().map(SecretText::expose)),
            OutboundAuth::UserKey(_) => {}
        }
        found.extend(key);
        let mut parts: Vec<&str> = found.iter().filter_map(|text| password_of(text)).collect();
        if rule == SecretRule::Possible {
            // Logs are masked line by line.
            parts.extend(found.iter().filter(|text| text.contains('\n')).flat_map(|text| text.lines()));
        }
        KnownSecrets::new(found.into_iter().chain(parts))
    }
}

/// Which of the values handed to a server count as secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretRule {
    /// Values that may be secret.
    Possible,
    /// Values that are secret by their position, name or format.
    Certain,
}

impl SecretRule {
    /// The secrets in a text that is handed over under this name.
    fn secrets_of<'a>(self, name: &str, text: &'a SecretText) -> Vec<&'a str> {
        let value = text.expose();
        let (mut found, is_secret) = match self {
            Self::Possible => (text.secrets(), redact::is_secret(name, value)),
            Self::Certain if is_credential(name, "") => (text.secrets(), true),
            // In a whole script, the last word is not the part that looks like a secret.
            Self::Certain => {
                (text.credentials(), is_credential(name, value) && value.split_whitespace().count() <= 3)
            }
        };
        if is_secret {
            // Servers repeat `Bearer …` with and without its first word.
            found.extend(value.rsplit(' ').next());
        }
        found
    }
}

/// The option of an argument's value, as in `--token VALUE`; empty if no option precedes it.
fn option_before<'a>(before: &'a str, argument: &str) -> &'a str {
    if before.starts_with('-') && !before.contains('=') && !argument.starts_with('-') { before } else { "" }
}

/// The password in a URL such as `postgres://user:password@host/`.
fn password_of(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let (user, _) = rest.split_once('/').unwrap_or((rest, "")).0.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

#[cfg(test)]
mod tests {
    use super::super::tests::entry;
    use super::super::{RemoteEndpoint, UserKeyEntry};
    use super::*;

    #[test]
    fn values_handed_to_a_server_are_its_secrets() {
        let mut entry = entry("db");
        if let Transport::Stdio { env, .. } = &mut entry.transport {
            let address = "postgres://app:correct-horse@db/main";
            env.insert("DATABASE_URL".into(), SecretText::expanded("${DATABASE_URL}", address));
            env.insert("API_TOKEN".into(), SecretText::plain("literal-token"));
            env.insert("MODE".into(), SecretText::plain("production"));
        }
        entry.auth = OutboundAuth::Bearer(SecretText::plain("bearer-credential"));
        for secrets in [entry.secrets(), entry.credentials()] {
            let shown = secrets.mask("correct-horse literal-token production bearer-credential");
            assert_eq!(shown, "[redacted] [redacted] production [redacted]");
        }
    }

    #[test]
    fn each_line_of_a_long_secret_is_masked_in_logs() {
        let mut entry = entry("db");
        if let Transport::Stdio { env, .. } = &mut entry.transport {
            let key = "-----BEGIN KEY-----\nAAAAline1secret\nBBBBline2secret\n-----END KEY-----";
            env.insert("PRIVATE_KEY".into(), SecretText::expanded("${PEM}", key));
        }
        assert_eq!(entry.secrets().mask("key: AAAAline1secret"), "key: [redacted]");
        assert_eq!(
            entry.credentials().mask("AAAAline1secret\nBBBBline2secret"),
            "AAAAline1secret\nBBBBline2secret"
        );
    }

    // Otherwise `customers_list` would become `_redacted__list` if a variable is set to `customers`.
    #[test]
    fn plain_values_are_not_credentials() {
        let mut entry = entry("db");
        if let Transport::Stdio { args, env, .. } = &mut entry.transport {
            args.push(SecretText::plain("--api-key"));
            args.push(SecretText::expanded("${K}", "option-value"));
            args.push(SecretText::expanded("--table=${T}", "--table=warehouse"));
            env.insert("DB_NAME".into(), SecretText::expanded("${DBN}", "customers"));
            env.insert("ACCOUNT".into(), SecretText::expanded("${ACCOUNT}", "123456789012"));
            env.insert("API_TOKEN".into(), SecretText::expanded("${T}", "plain-words"));
        }
        let text = "customers 123456789012 warehouse option-value plain-words";
        let shown = entry.credentials().mask(text).into_owned();
        assert_eq!(shown, "customers 123456789012 warehouse [redacted] [redacted]");
        let shown = entry.secrets().mask(text).into_owned();
        assert_eq!(shown, "[redacted] [redacted] [redacted] [redacted] [redacted]");
    }

    #[test]
    fn a_users_key_is_masked_and_never_printed() {
        let (entry, auth) = (entry("shop"), UserKeyEntry::default());
        assert_eq!(entry.credentials_with("ann-key-1111").mask("ann-key-1111"), "[redacted]");
        assert!(!format!("{:?}", auth.with_key("ann-key-1111")).contains("1111"));
    }

    #[test]
    fn every_variable_in_a_header_is_a_credential() {
        let headers = [("x-org".to_owned(), SecretText::expanded("${ORG}", "customers"))].into();
        let url = SecretText::expanded("https://${HOST}/mcp", "https://warehouse/mcp");
        let transport = Transport::Http(RemoteEndpoint { url, headers });
        let entry = ServerEntry::with_defaults("db".parse().expect("a name"), transport);
        assert_eq!(entry.credentials().mask("customers warehouse"), "[redacted] warehouse");
    }
}
