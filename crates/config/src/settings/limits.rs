//! Settings of limits and retention: `limits`, `results`, `files`, `audit`, `access_log`, `dead_letters`.

use crate::fields::{seconds, seconds_option, secret_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// Limits on calls, results and requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub struct LimitSettings {
    /// The maximum number of tokens of a result that reaches the model; a longer result becomes an artifact. 0 means no
    /// limit.
    pub result_tokens: u32,
    /// The maximum duration of a call, even if the server reports progress.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub max_call_seconds: Duration,
    /// The maximum size of a request body.
    #[schemars(range(min = 1024, max = 4_294_967_296_u64))]
    pub body_bytes: u64,
    /// The maximum size of a message from a server.
    #[schemars(range(min = 1024, max = 4_294_967_296_u64))]
    pub upstream_bytes: u64,
    /// The maximum number of calls per caller and minute. Default: no limit.
    pub calls_per_minute: Option<u32>,
    /// The maximum tool run time per user and day (UTC), in seconds. Default: no limit.
    #[serde(with = "seconds_option")]
    #[schemars(with = "Option<crate::fields::Time>")]
    pub runtime_seconds: Option<Duration>,
    /// The maximum cost per user and day (UTC), in the unit that manifests use. Default: no limit.
    pub cost: Option<f64>,
    /// The maximum number of artifacts of one call.
    pub artifacts: u32,
    /// The maximum total size of the artifacts of one call, in bytes.
    pub artifact_bytes: u64,
    /// The maximum size of `_mcp_data`, in bytes.
    pub mcp_data_bytes: u64,
    /// The maximum number of calls that wait for one tool.
    pub queue: u32,
    /// The maximum number of tools of one server; the gateway ignores the rest.
    pub tools_per_server: u32,
    /// The maximum number of concurrent client sessions.
    pub sessions: u32,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            result_tokens: 25_000,
            max_call_seconds: Duration::from_secs(3600),
            body_bytes: 4 * 1024 * 1024,
            upstream_bytes: 32 * 1024 * 1024,
            calls_per_minute: None,
            runtime_seconds: None,
            cost: None,
            artifacts: 50,
            artifact_bytes: 100 * 1024 * 1024,
            mcp_data_bytes: 256 * 1024,
            queue: 256,
            tools_per_server: 10_000,
            sessions: 10_000,
        }
    }
}

/// Settings of result processing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Results")]
pub struct ResultSettings {
    /// Whether the gateway inspects results: it stores the files in them, and models get the names of the files
    /// instead of their content.
    pub inspect: bool,
    /// The maximum size of all results of recent calls that stay in memory, so that their callers can look at them again
    /// in the console and with `GET /calls/{id}`. They are never written to disk. 0 keeps none.
    #[schemars(range(max = 1_073_741_824_u64))]
    pub recent_bytes: u64,
}

impl Default for ResultSettings {
    fn default() -> Self {
        Self { inspect: true, recent_bytes: 8 << 20 }
    }
}

/// Settings of uploaded files and their temporary URLs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Files")]
pub struct FileSettings {
    /// The key that signs temporary URLs. Default: generated in the data directory.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretText>,
    /// The lifetime of a temporary URL.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub url_seconds: Duration,
    /// How long a temporary URL remains valid after its call has ended.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub grace_seconds: Duration,
    /// The maximum size of an upload.
    pub max_upload_bytes: u64,
    /// The maximum total size of a user's files, older versions included.
    pub user_bytes: u64,
    /// The maximum number of a user's files, older versions included; at most 10,000.
    pub user_files: u64,
    /// The number of days that files are kept. Default: forever.
    pub keep_days: Option<u32>,
    /// Whether a temporary URL can be used only once.
    pub single_use: bool,
    /// How many times a temporary URL can be used.
    pub max_uses: u32,
    /// What happens if the value of a file argument is not the name of one of the session's files.
    pub unknown: UnknownFile,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            key: None,
            url_seconds: Duration::from_secs(3600),
            grace_seconds: Duration::from_secs(60),
            max_upload_bytes: 250 * 1024 * 1024,
            user_bytes: 10 * 1024 * 1024 * 1024,
            user_files: 10_000,
            keep_days: None,
            single_use: false,
            max_uses: 100,
            unknown: UnknownFile::PassThrough,
        }
    }
}

/// The handling of values that do not name a file of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFile {
    /// Pass the value on to the tool unchanged, with a warning.
    PassThrough,
    /// Refuse the call with an error.
    #[serde(alias = "refuse")]
    Error,
}

/// Settings of the audit log. Decisions are always recorded.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Audit")]
pub struct AuditSettings {
    /// Which calls are recorded.
    pub calls: AuditedCalls,
    /// The number of days that records are kept. Default: one year.
    pub keep_days: Option<u32>,
    /// The maximum size of the audit log, in bytes; the oldest records are deleted first. Default: 2 GiB.
    pub keep_bytes: Option<u64>,
}

/// Which calls the audit log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditedCalls {
    /// Every call.
    #[default]
    All,
    /// Calls that may change something.
    Writes,
    /// No call.
    None,
}

/// Settings of the access log: one JSON line per HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AccessLog")]
pub struct AccessLogSettings {
    /// The file that HTTP requests are logged to. A relative path starts at the data directory. Default: no log.
    pub path: Option<String>,
    /// The maximum size of the file, in bytes. Before it grows larger, it is renamed to `PATH.1`, which replaces the
    /// file of the last time.
    #[schemars(range(min = 65_536, max = 1_099_511_627_776_u64))]
    pub max_bytes: u64,
}

impl Default for AccessLogSettings {
    fn default() -> Self {
        Self { path: None, max_bytes: 64 << 20 }
    }
}

/// Settings of dead letters: calls that failed permanently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "DeadLetters")]
pub struct DeadLetterSettings {
    /// How many times the gateway replays a safe call automatically.
    pub max_replays: u32,
    /// The delays before each automatic replay, in seconds; the last one applies to all further replays.
    #[schemars(length(max = 32))]
    pub schedule_seconds: Vec<u32>,
    /// The key that encrypts stored arguments. Default: generated in the store.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretText>,
}

impl Default for DeadLetterSettings {
    fn default() -> Self {
        Self { max_replays: 3, schedule_seconds: vec![60, 300, 900, 1800, 3600], key: None }
    }
}
