//! A server as configured: what every dialect of configuration normalises into.

use crate::manifest::ApprovalBy;
use crate::names::ServerName;
use crate::redact;
use crate::secret::{KnownSecrets, SecretText, is_credential};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// One server entry, checked and complete: every default is filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerEntry {
    /// Its configured name; the key of everything that belongs to it.
    pub name: ServerName,
    /// Where it runs and how it is reached.
    pub transport: Transport,
    /// What the gateway shows to the server as its own credential.
    pub auth: OutboundAuth,
    /// Headers of the caller's request that are passed on, as (caller's name, upstream's name).
    pub forward_headers: Vec<(String, String)>,
    /// Any of these groups admits a caller; empty admits nobody.
    pub groups: Vec<String>,
    /// Personas its tools belong to; empty means shared.
    pub personas: Vec<String>,
    /// Texts about the server for people.
    pub about: About,
    /// False: never started, never listed.
    pub enabled: bool,
    /// Whether it is connected when the gateway starts.
    pub auto_connect: bool,
    /// Whether it is started on the first call only, its tools coming from the cached catalog.
    pub lazy: bool,
    /// Which callers share one process or connection.
    pub share: Share,
    /// Which of its tools enter the catalog, and how.
    pub tools: ToolRules,
    /// Defaults for the tools discovered on it.
    pub defaults: ToolDefaults,
    /// Which arguments the gateway supplies.
    pub inject: Inject,
    /// How long a call may take when nothing else says.
    pub timeout: Duration,
    /// How long connecting, handshake and listing may take.
    pub connect_timeout: Duration,
    /// How often a quiet connection is probed.
    pub health_check_interval: Duration,
    /// What happens when it goes away.
    pub restart: Restart,
    /// Which era of the protocol is spoken with it.
    pub era: EraChoice,
    /// The level that callers' compliance rules are held against.
    pub compliance_level: Option<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process that speaks on its standard input and output.
    Stdio {
        /// The program.
        command: SecretText,
        /// Its arguments.
        args: Vec<SecretText>,
        /// Its working folder; absent means the gateway's.
        cwd: Option<PathBuf>,
        /// Variables set for it besides the clean base environment.
        env: BTreeMap<String, SecretText>,
    },
    /// Streamable HTTP.
    Http(Remote),
    /// The older HTTP+SSE transport with two endpoints.
    Sse(Remote),
    /// WebSocket.
    WebSocket(Remote),
    /// A server built into this binary, by its name.
    Bundled(String),
    /// The gateway itself: its own tools run in this process.
    Own,
    /// None: the tools of manifests, each served by its providers.
    Virtual,
}

/// Where a remote server is.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// Its address.
    pub url: SecretText,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, SecretText>,
}

/// The gateway's credential toward a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OutboundAuth {
    /// None.
    #[default]
    None,
    /// `Authorization: Bearer …`; also used for JWTs.
    Bearer(SecretText),
    /// A key in a header of its own.
    ApiKey {
        /// The header's name.
        header: String,
        /// The key.
        key: SecretText,
    },
    /// OAuth: tokens obtained and kept by the gateway.
    OAuth(OAuthEntry),
}

/// What is configured about OAuth for one server; the rest is discovered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuthEntry {
    /// A client registered beforehand.
    pub client_id: Option<SecretText>,
    /// Its secret.
    pub client_secret: Option<SecretText>,
    /// Scopes asked for besides the discovered ones.
    pub scopes: Vec<String>,
}

/// Texts about a server for people.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// Shown in the console, `/servers` and `_mcp_data`.
    pub description: Option<String>,
    /// One line of it.
    pub short_description: Option<String>,
    /// Who made it.
    pub author: Option<String>,
    /// Whom to ask.
    pub help_email: Option<String>,
}

/// Which callers share one process or connection of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// By what the server is: everybody in local mode and on stateless remote servers, else the calls of one user, as
    /// a process or a session may hold that user's state.
    Auto,
    /// Everybody.
    All,
    /// The calls of one user.
    User,
    /// The calls of one client session.
    Session,
}

/// Which tools of a server enter the catalog. Globs are matched on the server's own tool names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolRules {
    /// Only these; empty means all.
    pub allow: Vec<String>,
    /// Not these; wins over `allow`.
    pub deny: Vec<String>,
    /// These are asked about before they run.
    pub require_approval: Vec<String>,
    /// Manifest fields laid over single tools, by the server's own tool name.
    pub overrides: BTreeMap<String, serde_json::Value>,
}

/// Defaults for the tools discovered on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefaults {
    /// The manifest label of what its tools do to the world.
    pub side_effects: SideEffects,
    /// Seconds one call may take; absent means the server's `timeout`.
    pub default_timeout: Option<Duration>,
    /// Whether calls of one tool may overlap; absent means that nobody said.
    pub allow_parallel: Option<bool>,
    /// Whether a person must agree before its first use.
    pub requires_consent: bool,
    /// Who must agree to each call.
    pub approval: ApprovalBy,
    /// Whether calls carry an idempotency key and may be repeated.
    pub idempotency_key: bool,
    /// Whether the server's own annotations are believed.
    pub trust_annotations: bool,
    /// Manifest `auth` hints (required, type, envs, scopes, docs) laid under what each tool says itself.
    pub auth: Option<serde_json::Value>,
    /// The version its tools carry when they name none.
    pub version: Option<String>,
}

impl Default for ToolDefaults {
    fn default() -> Self {
        Self {
            side_effects: SideEffects::Network,
            default_timeout: None,
            allow_parallel: None,
            requires_consent: true,
            approval: ApprovalBy::None,
            idempotency_key: false,
            trust_annotations: false,
            auth: None,
            version: None,
        }
    }
}

/// The manifest label of what a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the labels are the documentation")]
pub enum SideEffects {
    None,
    ReadExternalService,
    Network,
    Filesystem,
    Write,
    Database,
    Compute,
    System,
}

impl SideEffects {
    /// The word used in manifests and on every door.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ReadExternalService => "read_external_service",
            Self::Network => "network",
            Self::Filesystem => "filesystem",
            Self::Write => "write",
            Self::Database => "database",
            Self::Compute => "compute",
            Self::System => "system",
        }
    }
}

/// Which arguments the gateway supplies to tools that declare them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inject {
    /// Parameters that receive the caller's user.
    pub identity: Vec<String>,
    /// Whether `_mcp_data` is supplied.
    pub mcp_data: bool,
    /// Parameters whose value may name a file of the caller's session.
    pub files: Vec<String>,
}

impl Default for Inject {
    fn default() -> Self {
        Self { identity: vec!["_atlas_user".into()], mcp_data: true, files: Vec::new() }
    }
}

impl Inject {
    /// `inject: true`, the whole contract of Atlas servers.
    pub fn contract() -> Self {
        Self {
            identity: vec!["username".into(), "_atlas_user".into()],
            mcp_data: true,
            files: vec!["filename".into(), "file_names".into()],
        }
    }

    /// `inject: false`.
    pub fn nothing() -> Self {
        Self { identity: Vec::new(), mcp_data: false, files: Vec::new() }
    }
}

/// Which era of the protocol is spoken with a server that knows both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraChoice {
    /// The newest that the server speaks.
    #[default]
    Auto,
    /// Sessions (2025-11-25 and older), for servers whose tools ask only there.
    Legacy,
    /// Stateless (2026-07-28).
    Modern,
}

/// What happens when a server goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Connect again, with growing pauses, and never give up.
    #[default]
    Backoff,
    /// Stay away until somebody asks.
    Never,
}

impl ServerEntry {
    /// An entry with every default filled in.
    pub fn with_defaults(name: ServerName, transport: Transport) -> Self {
        Self {
            name,
            transport,
            auth: OutboundAuth::None,
            forward_headers: Vec::new(),
            groups: vec![crate::caller::EVERYONE.to_owned()],
            personas: Vec::new(),
            about: About::default(),
            enabled: true,
            auto_connect: true,
            lazy: false,
            share: Share::Auto,
            tools: ToolRules::default(),
            defaults: ToolDefaults::default(),
            inject: Inject::default(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            health_check_interval: Duration::from_secs(60),
            restart: Restart::Backoff,
            era: EraChoice::Auto,
            compliance_level: None,
        }
    }
}

impl ServerEntry {
    /// The values handed to this server that may be secret, for its error output and other logs: a word too many
    /// that is masked there does no harm.
    pub fn secrets(&self) -> KnownSecrets {
        self.given(SecretRule::Possible)
    }

    /// The values handed to this server that are secret by their place, their name or their shape: they must not come
    /// back in its answers. Answers are data, so plain words and numbers are left out.
    pub fn credentials(&self) -> KnownSecrets {
        self.given(SecretRule::Certain)
    }

    fn given(&self, rule: SecretRule) -> KnownSecrets {
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
        }
        let passwords: Vec<&str> = found.iter().filter_map(|text| password_of(text)).collect();
        KnownSecrets::new(found.into_iter().chain(passwords))
    }

    /// Whether it is the gateway itself. Its tools give a caller nothing but what is the caller's already, so
    /// nobody is asked about them and no persona takes them away.
    pub fn is_own(&self) -> bool {
        self.transport == Transport::Own
    }

    /// Whether nothing runs behind it: its tools are those of manifests, and their providers serve them.
    pub fn is_virtual(&self) -> bool {
        self.transport == Transport::Virtual
    }
}

/// Which of the values handed to a server count as secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretRule {
    /// Those that may be secret.
    Possible,
    /// Those that are secret by their place, their name or their shape.
    Certain,
}

impl SecretRule {
    /// The secrets in a text that is handed over under this name.
    fn secrets_of<'a>(self, name: &str, text: &'a SecretText) -> Vec<&'a str> {
        let value = text.expose();
        let (mut found, is_secret) = match self {
            Self::Possible => (text.secrets(), redact::is_secret(name, value)),
            Self::Certain if is_credential(name, "") => (text.secrets(), true),
            // In a whole script, the last word is not the one that looks like a secret.
            Self::Certain => {
                (text.credentials(), is_credential(name, value) && value.split_whitespace().count() <= 3)
            }
        };
        if is_secret {
            // `Bearer …` is repeated with and without its first word.
            found.extend(value.rsplit(' ').next());
        }
        found
    }
}

/// The option whose value an argument is, as in `--token VALUE`; empty if there is none.
fn option_before<'a>(before: &'a str, argument: &str) -> &'a str {
    if before.starts_with('-') && !before.contains('=') && !argument.starts_with('-') { before } else { "" }
}

/// The password in an address such as `postgres://user:password@host/`.
fn password_of(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let (user, _) = rest.split_once('/').unwrap_or((rest, "")).0.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_hands_to_a_server_is_its_secret() {
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

    // Audit: `customers_list` became `_redacted__list` because a variable was `customers`.
    #[test]
    fn plain_values_are_no_credentials() {
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
    fn every_variable_in_a_header_is_a_credential() {
        let headers = [("x-org".to_owned(), SecretText::expanded("${ORG}", "customers"))].into();
        let url = SecretText::expanded("https://${HOST}/mcp", "https://warehouse/mcp");
        let transport = Transport::Http(Remote { url, headers });
        let entry = ServerEntry::with_defaults("db".parse().expect("a name"), transport);
        assert_eq!(entry.credentials().mask("customers warehouse"), "[redacted] warehouse");
    }

    /// A stdio entry for tests.
    pub(crate) fn entry(name: &str) -> ServerEntry {
        let command = SecretText::plain("true");
        let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
        ServerEntry::with_defaults(name.parse().expect("a name"), transport)
    }
}
