//! All settings other than server entries, with their types and defaults.

mod access;
mod hooks;
mod limits;
mod outward;
mod policy;
mod shape;

pub use access::*;
pub use hooks::*;
pub use limits::*;
pub use outward::*;
pub use policy::*;
pub use shape::*;

use crate::fields::{one_or_many, seconds, secret_option, text_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// All settings, merged from every layer and completed with defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Toolbooth settings")]
pub struct Settings {
    /// The address the gateway listens on: `HOST:PORT`, or only a port.
    pub listen: Listen,
    /// The URL at which clients and tool servers reach the gateway. Default: derived from `listen`.
    pub public_url: Option<String>,
    /// The directory for the gateway's state. Loading always fills it in.
    #[schemars(with = "Option<String>")]
    pub data_dir: PathBuf,
    /// The database.
    pub store: StoreSettings,
    /// The storage for the content of files and artifacts.
    pub blobs: BlobSettings,
    /// How the gateway authenticates callers.
    pub auth: AuthSettings,
    /// The members of each group.
    pub groups: GroupSettings,
    /// Personas by name. A persona restricts which tools a caller sees and uses.
    pub personas: BTreeMap<String, PersonaSettings>,
    /// Prompts of your own, by name. Clients get them as MCP prompts.
    pub prompts: BTreeMap<String, PromptSettings>,
    /// Rules that allow, plan, ask about, deny or hide calls.
    pub policy: PolicySettings,
    /// Approval of held calls.
    pub approval: ApprovalSettings,
    /// Which tools `tools/list` returns, and in which form.
    pub exposure: ExposureSettings,
    /// Tool search.
    pub search: SearchSettings,
    /// The names under which clients see tools.
    pub naming: NamingSettings,
    /// Requirements of `toolbooth tools lint`.
    pub lint: LintSettings,
    /// Limits on calls, results and requests.
    pub limits: LimitSettings,
    /// How the gateway processes tool results.
    pub results: ResultSettings,
    /// Uploaded files and their temporary URLs.
    pub files: FileSettings,
    /// Limits on what tools may display in the canvas.
    pub display: DisplaySettings,
    /// Compliance levels, and which of them may be combined.
    pub compliance: ComplianceSettings,
    /// The language model that gateway features use.
    pub llm: LlmSettings,
    /// Delivery of events.
    pub events: EventSettings,
    /// Programs and services that are asked before and after calls.
    pub hooks: HookSettings,
    /// Which calls the audit log records, and how long it keeps them.
    pub audit: AuditSettings,
    /// A log of all HTTP requests.
    pub access_log: AccessLogSettings,
    /// Handling of calls that failed permanently.
    pub dead_letters: DeadLetterSettings,
    /// Export of traces.
    pub telemetry: TelemetrySettings,
    /// Folders of tool, persona, skill, job and task manifests.
    pub manifests: ManifestSettings,
    /// The registry that `toolbooth servers add` looks servers up in.
    pub registry: RegistrySettings,
    /// A `.env` file with variables. A relative path starts at the folder of this file.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub env_file: Option<SecretText>,
    /// Only matching tools enter the catalog; empty means all. Globs, matched against every form of a tool's name that
    /// includes the server's name.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub allow_tools: Vec<String>,
    /// Matching tools never enter the catalog, even if `allow_tools` matches them. Globs, matched against every form of
    /// a tool's name. The lists of all layers are combined.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub deny_tools: Vec<String>,
    /// Like `allow_tools`, for the tools of servers only: tools that manifests define are exempt. Also written as
    /// `tools.mcp.allow_tools`.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub allow_server_tools: Vec<String>,
    /// Like `deny_tools`, for the tools of servers only: tools that manifests define are exempt. Also written as
    /// `tools.mcp.deny_tools`.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub deny_server_tools: Vec<String>,
    /// Names of the environment variables that a child process inherits in addition to its own `env`. A name that ends
    /// in `*`, such as `LC_*`, matches by prefix.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub environment: Vec<String>,
    /// Folders that servers receive when they request roots.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub roots: Vec<String>,
    /// Host names that the gateway accepts in addition to loopback names and the host of `public_url`.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub allowed_hosts: Vec<String>,
    /// Web origins that may send requests to the gateway.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub allowed_origins: Vec<String>,
    /// Retries of failed calls.
    pub retry: RetrySettings,
    /// How long the gateway waits for running calls when it stops.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub drain_seconds: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Listen::default(),
            public_url: None,
            data_dir: PathBuf::new(),
            store: StoreSettings::default(),
            blobs: BlobSettings::default(),
            auth: AuthSettings::default(),
            groups: GroupSettings::default(),
            personas: BTreeMap::new(),
            prompts: BTreeMap::new(),
            policy: PolicySettings::default(),
            approval: ApprovalSettings::default(),
            exposure: ExposureSettings::default(),
            search: SearchSettings::default(),
            naming: NamingSettings::default(),
            lint: LintSettings::default(),
            limits: LimitSettings::default(),
            results: ResultSettings::default(),
            files: FileSettings::default(),
            display: DisplaySettings::default(),
            compliance: ComplianceSettings::default(),
            llm: LlmSettings::default(),
            events: EventSettings::default(),
            hooks: HookSettings::default(),
            audit: AuditSettings::default(),
            access_log: AccessLogSettings::default(),
            dead_letters: DeadLetterSettings::default(),
            telemetry: TelemetrySettings::default(),
            manifests: ManifestSettings::default(),
            registry: RegistrySettings::default(),
            env_file: None,
            allow_tools: Vec::new(),
            deny_tools: Vec::new(),
            allow_server_tools: Vec::new(),
            deny_server_tools: Vec::new(),
            environment: ["PATH", "HOME", "LANG", "LC_*", "TMPDIR", "USER"].map(str::to_owned).to_vec(),
            roots: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            retry: RetrySettings::default(),
            drain_seconds: Duration::from_secs(10),
        }
    }
}

/// Settings of the registry of servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Registry")]
pub struct RegistrySettings {
    /// The URL of an MCP registry that has the API version 0.1.
    pub url: String,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self { url: "https://registry.modelcontextprotocol.io".to_owned() }
    }
}

/// Settings of the database.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Store")]
pub struct StoreSettings {
    /// `sqlite:PATH`, `postgres://…` or `memory:`. Default: a SQLite file in the data directory.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretText>,
}

/// Settings of the storage for files and artifacts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Blobs")]
pub struct BlobSettings {
    /// `file:PATH` or `s3://bucket/prefix`. Default: a folder in the data directory.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretText>,
    /// The endpoint of an S3-compatible service other than Amazon's. Default: `AWS_ENDPOINT_URL`.
    pub endpoint: Option<String>,
    /// The region of the bucket. Default: `AWS_REGION`.
    pub region: Option<String>,
    /// The access key ID. Default: `AWS_ACCESS_KEY_ID`.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub access_key: Option<SecretText>,
    /// The secret access key. Default: `AWS_SECRET_ACCESS_KEY`.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub secret_key: Option<SecretText>,
}
