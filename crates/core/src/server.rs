//! A server as configured: the common form of all configuration formats.

mod entry_secrets;

use crate::answerer::{ApprovalBy, ConsentTerm};
use crate::key_holders::KeyHolders;
use crate::names::{EVERYONE, ServerName};
use crate::secret::SecretText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One server entry, checked and with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerEntry {
    /// Its configured name, which identifies everything that belongs to it.
    pub name: ServerName,
    /// Where it runs and how it is reached.
    pub transport: Transport,
    /// The gateway's credential for the server.
    pub auth: OutboundAuth,
    /// Headers of the caller's request that are forwarded, as (caller's name, upstream's name).
    pub forward_headers: Vec<(String, String)>,
    /// A caller must be in one of these groups; an empty list admits no caller.
    pub groups: Vec<String>,
    /// Personas its tools belong to; empty means shared.
    pub personas: Vec<String>,
    /// Only clients that work in this folder may use it; absent means all.
    pub folder: Option<Arc<str>>,
    /// Descriptions of the server for people.
    pub about: ServerDescription,
    /// Whether it is started and listed at all.
    pub enabled: bool,
    /// Whether it is connected when the gateway starts.
    pub auto_connect: bool,
    /// Whether it is started only on the first call, with its tools taken from the cached catalog.
    pub lazy: bool,
    /// Which callers share one process or connection.
    pub share: Share,
    /// Which of its tools enter the catalog, and how.
    pub tools: ToolRules,
    /// Defaults for the tools discovered on it.
    pub defaults: ToolDefaults,
    /// Which arguments the gateway supplies.
    pub inject: InjectionSettings,
    /// The timeout of a call, if nothing else sets one.
    pub timeout: Duration,
    /// The timeout of connecting, handshake and listing.
    pub connect_timeout: Duration,
    /// How often an idle connection is checked.
    pub health_check_interval: Duration,
    /// How often a server that does not announce changes is listed again; zero for never.
    pub discovery_interval: Duration,
    /// What happens when it disconnects.
    pub restart: Restart,
    /// Which era of the protocol is used with it.
    pub era: EraChoice,
    /// Its compliance level, which callers' compliance rules are compared with.
    pub compliance_level: Option<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process that communicates over standard input and output.
    Stdio {
        /// The program.
        command: SecretText,
        /// Its arguments.
        args: Vec<SecretText>,
        /// Its working folder; absent means the gateway's.
        cwd: Option<PathBuf>,
        /// Variables added to the clean base environment.
        env: BTreeMap<String, SecretText>,
    },
    /// Streamable HTTP.
    Http(RemoteEndpoint),
    /// The older HTTP+SSE transport with two endpoints.
    Sse(RemoteEndpoint),
    /// WebSocket.
    WebSocket(RemoteEndpoint),
    /// A server built into this binary, by its name.
    Bundled(String),
    /// The gateway itself: its own tools run in this process.
    Own,
    /// No transport: the tools of manifests, each served by its providers.
    Virtual,
}

/// The endpoint of a remote server.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteEndpoint {
    /// Its URL.
    pub url: SecretText,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, SecretText>,
}

/// The gateway's credential toward a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OutboundAuth {
    /// No credential.
    #[default]
    None,
    /// `Authorization: Bearer …`; also used for JWTs.
    Bearer(SecretText),
    /// A key in a separate header.
    ApiKey {
        /// The header's name.
        header: String,
        /// The key.
        key: SecretText,
    },
    /// OAuth: the gateway obtains and stores tokens.
    OAuth(OAuthEntry),
    /// Each user gives a key of their own.
    UserKey(UserKeyEntry),
}

/// A server whose users give their own keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserKeyEntry {
    /// The header with the key; absent for `Authorization: Bearer …`.
    pub header: Option<String>,
    /// The users who have given one.
    pub holders: KeyHolders,
}

impl UserKeyEntry {
    /// The credential that a key makes.
    pub fn with_key(&self, key: &str) -> OutboundAuth {
        // Printing must not show it.
        let key = SecretText::expanded("[redacted]", key);
        match &self.header {
            Some(header) => OutboundAuth::ApiKey { header: header.clone(), key },
            None => OutboundAuth::Bearer(key),
        }
    }
}

/// The OAuth settings of one server; the rest is discovered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuthEntry {
    /// A client registered beforehand.
    pub client_id: Option<SecretText>,
    /// Its secret.
    pub client_secret: Option<SecretText>,
    /// Scopes requested besides the discovered ones.
    pub scopes: Vec<String>,
}

/// Descriptions of a server for people.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerDescription {
    /// Shown in the console, `/servers` and `_mcp_data`.
    pub description: Option<String>,
    /// A one-line description.
    pub short_description: Option<String>,
    /// Its author.
    pub author: Option<String>,
    /// The address for help.
    pub help_email: Option<String>,
}

/// Which callers share one process or connection of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Depends on the server: shared by everyone in local mode and on stateless remote servers, otherwise per user,
    /// because a process or a session may hold that user's state.
    Auto,
    /// Shared by all callers.
    All,
    /// The calls of one user.
    User,
    /// The calls of one client session.
    Session,
}

/// Which tools of a server enter the catalog. Globs are matched with the server's own tool names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolRules {
    /// Only these; empty means all.
    pub allow: Vec<String>,
    /// Not these; wins over `allow`.
    pub deny: Vec<String>,
    /// These need approval before they run.
    pub require_approval: Vec<String>,
    /// Manifest fields that override individual tools, by the server's own tool name.
    pub overrides: BTreeMap<String, serde_json::Value>,
}

/// Defaults for the tools discovered on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefaults {
    /// The manifest label of the side effects of its tools.
    pub side_effects: SideEffects,
    /// The timeout of one call; absent means the server's `timeout`.
    pub default_timeout: Option<Duration>,
    /// Whether calls of one tool may overlap; absent means not specified.
    pub allow_parallel: Option<bool>,
    /// Whether a person must consent before the first use.
    pub requires_consent: ConsentTerm,
    /// Who must approve each call.
    pub approval: ApprovalBy,
    /// Whether calls carry an idempotency key and may be retried.
    pub idempotency_key: bool,
    /// Whether the server's own annotations are trusted; if absent, `readOnlyHint` counts only for retries.
    pub trust_annotations: Option<bool>,
    /// Default manifest `auth` hints (required, type, envs, scopes, docs); each tool's own hints take precedence.
    pub auth: Option<serde_json::Value>,
    /// The version of tools that do not declare one.
    pub version: Option<String>,
}

impl Default for ToolDefaults {
    fn default() -> Self {
        Self {
            side_effects: SideEffects::Network,
            default_timeout: None,
            allow_parallel: None,
            requires_consent: ConsentTerm::ByDefault,
            approval: ApprovalBy::None,
            idempotency_key: false,
            trust_annotations: None,
            auth: None,
            version: None,
        }
    }
}

/// The manifest label of a tool's side effects.
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
    /// The word used in manifests and in all interfaces.
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
pub struct InjectionSettings {
    /// Parameters that receive the caller's user.
    pub identity: Vec<String>,
    /// Whether `_mcp_data` is supplied.
    pub mcp_data: bool,
    /// Parameters whose value may name a file of the caller's session.
    pub files: Vec<String>,
}

impl Default for InjectionSettings {
    fn default() -> Self {
        Self { identity: vec!["_atlas_user".into()], mcp_data: true, files: Vec::new() }
    }
}

impl InjectionSettings {
    /// `inject: true`: all parameters that servers written for Atlas declare.
    pub fn all() -> Self {
        Self {
            identity: vec!["username".into(), "_atlas_user".into()],
            mcp_data: true,
            files: vec!["filename".into(), "file_names".into()],
        }
    }

    /// `inject: false`.
    pub fn none() -> Self {
        Self { identity: Vec::new(), mcp_data: false, files: Vec::new() }
    }
}

/// Which era of the protocol is used with a server that supports both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraChoice {
    /// The newest era that the server supports.
    #[default]
    Auto,
    /// Sessions (2025-11-25 and older), for servers whose tools ask questions only in this era.
    Legacy,
    /// Stateless (2026-07-28).
    Modern,
}

/// The restart policy: what happens when a server disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Reconnect with exponential backoff, without giving up.
    #[default]
    Backoff,
    /// Stay disconnected until a request to reconnect.
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
            groups: vec![EVERYONE.to_owned()],
            personas: Vec::new(),
            folder: None,
            about: ServerDescription::default(),
            enabled: true,
            auto_connect: true,
            lazy: false,
            share: Share::Auto,
            tools: ToolRules::default(),
            defaults: ToolDefaults::default(),
            inject: InjectionSettings::default(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            health_check_interval: Duration::from_secs(60),
            discovery_interval: Duration::from_secs(300),
            restart: Restart::Backoff,
            era: EraChoice::Auto,
            compliance_level: None,
        }
    }
}

impl ServerEntry {
    /// Decides by these users which callers have given a key.
    #[must_use]
    pub fn with_key_holders(mut self, holders: &KeyHolders) -> Self {
        if let OutboundAuth::UserKey(entry) = &mut self.auth {
            entry.holders = holders.clone();
        }
        self
    }

    /// Whether its users give their own keys, and this user has not given one.
    pub fn lacks_key_of(&self, user: &str) -> bool {
        matches!(&self.auth, OutboundAuth::UserKey(entry) if !entry.holders.contains(user))
    }

    /// Whether it is the gateway itself. Its tools only give a caller what the caller already has, so they need no
    /// approval and no persona removes them.
    pub fn is_own(&self) -> bool {
        self.transport == Transport::Own
    }

    /// Whether it is virtual: its tools come from manifests, and providers serve them.
    pub fn is_virtual(&self) -> bool {
        self.transport == Transport::Virtual
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A stdio entry for tests.
    pub(crate) fn entry(name: &str) -> ServerEntry {
        let command = SecretText::plain("true");
        let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
        ServerEntry::with_defaults(name.parse().expect("a name"), transport)
    }
}
