//! Every setting that is not a server entry, typed, with its default.

mod access;
mod limits;
mod outward;
mod policy;
mod shape;

pub use access::*;
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

/// All settings, merged from every layer, defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Toolbooth settings")]
pub struct Settings {
    /// Where the gateway listens: `HOST:PORT`, or a port alone.
    pub listen: Listen,
    /// The address that clients and tool servers reach it by; from `listen` when absent.
    pub public_url: Option<String>,
    /// Where state is kept; absent only before loading has filled it in.
    #[schemars(with = "Option<String>")]
    pub data_dir: PathBuf,
    /// The database.
    pub store: Store,
    /// Where files and artifacts are kept.
    pub blobs: Blobs,
    /// How callers are recognised.
    pub auth: Auth,
    /// Who is in which group.
    pub groups: Groups,
    /// Named views of the catalog.
    pub personas: BTreeMap<String, Persona>,
    /// What may be done, and what is asked first.
    pub policy: Policy,
    /// How held calls are asked about.
    pub approval: Approval,
    /// What clients are shown.
    pub exposure: Exposure,
    /// How tools are searched.
    pub search: Search,
    /// How tools are named toward clients.
    pub naming: Naming,
    /// What a tool needs to pass the lint.
    pub lint: Lint,
    /// Bounds on calls, results and requests.
    pub limits: Limits,
    /// What becomes of results.
    pub results: Results,
    /// Uploaded files and temporary addresses.
    pub files: Files,
    /// What tools may show in the canvas.
    pub display: Display,
    /// Which levels of data may meet.
    pub compliance: Compliance,
    /// The language model that gateway features use.
    pub llm: Llm,
    /// Where events are sent.
    pub events: Events,
    /// How long calls are remembered.
    pub audit: Audit,
    /// What becomes of calls that failed for good.
    pub dead_letters: DeadLetters,
    /// Where traces are sent.
    pub telemetry: Telemetry,
    /// Folders of tool, persona, skill, job and task manifests.
    pub manifests: Manifests,
    /// A file of variables, beside the file that names it.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub env_file: Option<SecretText>,
    /// Only these tools enter the catalog; empty means all. Globs on any form of a tool's name with its server's in it.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub allow_tools: Vec<String>,
    /// These tools enter nothing; wins over `allow_tools`. Globs on any form of a tool's name. Every layer adds to it.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub deny_tools: Vec<String>,
    /// Names of the variables that a child process gets besides its own `env`; `LC_*` means every name so beginning.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub environment: Vec<String>,
    /// Folders told to servers that ask for roots.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub roots: Vec<String>,
    /// Host names the gateway answers to besides loopback and `public_url`.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub allowed_hosts: Vec<String>,
    /// Web origins that may call it.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub allowed_origins: Vec<String>,
    /// How failed calls are tried again.
    pub retry: Retry,
    /// How long a stopping gateway waits for running calls.
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
            store: Store::default(),
            blobs: Blobs::default(),
            auth: Auth::default(),
            groups: Groups::default(),
            personas: BTreeMap::new(),
            policy: Policy::default(),
            approval: Approval::default(),
            exposure: Exposure::default(),
            search: Search::default(),
            naming: Naming::default(),
            lint: Lint::default(),
            limits: Limits::default(),
            results: Results::default(),
            files: Files::default(),
            display: Display::default(),
            compliance: Compliance::default(),
            llm: Llm::default(),
            events: Events::default(),
            audit: Audit::default(),
            dead_letters: DeadLetters::default(),
            telemetry: Telemetry::default(),
            manifests: Manifests::default(),
            env_file: None,
            allow_tools: Vec::new(),
            deny_tools: Vec::new(),
            environment: ["PATH", "HOME", "LANG", "LC_*", "TMPDIR", "USER"].map(str::to_owned).to_vec(),
            roots: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            retry: Retry::default(),
            drain_seconds: Duration::from_secs(10),
        }
    }
}

/// The database.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// `sqlite:PATH`, `postgres://…` or `memory:`; a file in the data directory when absent.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretText>,
}

/// Where files and artifacts are kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Blobs {
    /// `file:PATH` or `s3://bucket/prefix`; a folder in the data directory when absent.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretText>,
    /// Where the bucket is, unless it is Amazon's; `AWS_ENDPOINT_URL` when absent.
    pub endpoint: Option<String>,
    /// The bucket's region; `AWS_REGION` when absent.
    pub region: Option<String>,
    /// The id of the key that opens the bucket; `AWS_ACCESS_KEY_ID` when absent.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub access_key: Option<SecretText>,
    /// The key itself; `AWS_SECRET_ACCESS_KEY` when absent.
    #[serde(with = "secret_option")]
    #[schemars(with = "Option<String>")]
    pub secret_key: Option<SecretText>,
}
