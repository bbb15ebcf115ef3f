//! Settings about bounds and keeping: `limits`, `files`, `audit`, `dead_letters`.

use crate::fields::{seconds, seconds_option, secret_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// Bounds on calls, results and requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tokens of a result that reach the model; a longer one becomes an artifact. 0 means any.
    pub result_tokens: u32,
    /// The longest a call may take, progress included.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub max_call_seconds: Duration,
    /// The largest request body.
    pub body_bytes: u64,
    /// The largest message from a server.
    pub upstream_bytes: u64,
    /// Calls per caller and minute.
    pub calls_per_minute: Option<u32>,
    /// Seconds of tool time of one user per day (UTC).
    #[serde(with = "seconds_option")]
    #[schemars(with = "Option<crate::fields::Time>")]
    pub runtime_seconds: Option<Duration>,
    /// Cost of one user per day (UTC), in the units of manifests.
    pub cost: Option<f64>,
    /// Artifacts of one call.
    pub artifacts: u32,
    /// Bytes of artifacts of one call.
    pub artifact_bytes: u64,
    /// Bytes of `_mcp_data`.
    pub mcp_data_bytes: u64,
    /// Calls that may wait for one tool.
    pub queue: u32,
    /// Tools taken from one server; those beyond are set aside.
    pub tools_per_server: u32,
    /// Client sessions held at once.
    pub sessions: u32,
}

impl Default for Limits {
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

/// What becomes of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Results {
    /// Whether they are looked into: files in them are kept, and what the contract keeps from models is taken out.
    pub inspect: bool,
}

impl Default for Results {
    fn default() -> Self {
        Self { inspect: true }
    }
}

/// Uploaded files and temporary addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Files {
    /// The key that signs temporary addresses; made in the data directory when absent.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretText>,
    /// How long a temporary address lives.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub url_seconds: Duration,
    /// How long it outlives its call.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub grace_seconds: Duration,
    /// The largest upload.
    pub max_upload_bytes: u64,
    /// How many bytes of files one user may keep, older versions included.
    pub user_bytes: u64,
    /// How many files one user may keep, older versions included; 10,000 at the most.
    pub user_files: u64,
    /// How many days files are kept; for good when absent.
    pub keep_days: Option<u32>,
    /// Whether an address works once only.
    pub single_use: bool,
    /// How often an address works at the most.
    pub max_uses: u32,
    /// What happens to a file name that names no file of the session.
    pub unknown: UnknownFile,
}

impl Default for Files {
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
            unknown: UnknownFile::Refuse,
        }
    }
}

/// What happens to a file name that names no file of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFile {
    /// The model is told.
    Refuse,
    /// It is handed on as it is.
    PassThrough,
}

/// Which calls are remembered, and for how long. Decisions always are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Which calls leave a row.
    pub calls: AuditedCalls,
    /// Days; absent means a year.
    pub keep_days: Option<u32>,
    /// Bytes; absent means 2 GiB. The oldest rows go first.
    pub keep_bytes: Option<u64>,
}

/// Which calls leave a row in the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditedCalls {
    /// Every call.
    #[default]
    All,
    /// Those that may change something.
    Writes,
    /// None.
    None,
}

/// What becomes of calls that failed for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeadLetters {
    /// How often a safe call is tried again by itself.
    pub max_replays: u32,
    /// After how many seconds, by how often that was done before; further ones wait as long as the last.
    #[schemars(length(max = 32))]
    pub schedule_seconds: Vec<u32>,
    /// The key that kept arguments are encrypted with; made in the store when absent.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretText>,
}

impl Default for DeadLetters {
    fn default() -> Self {
        Self { max_replays: 3, schedule_seconds: vec![60, 300, 900, 1800, 3600], key: None }
    }
}
