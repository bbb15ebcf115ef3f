//! Settings about what clients see: `exposure`, `search`, `naming`, `lint`, `display`, `manifests`.

use crate::fields::{one_or_many, seconds, secret_option, text_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// What clients are shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Exposure {
    /// The mode when no client or persona says otherwise.
    pub mode: ExposureMode,
    /// Modes by client name.
    pub clients: BTreeMap<String, ExposureMode>,
    /// Modes by persona.
    pub personas: BTreeMap<String, ExposureMode>,
    /// Globs of tools that are always listed in full.
    #[serde(alias = "alwaysLoadTools")]
    pub always_load_tools: Vec<String>,
    /// Characters of a description in a summary.
    #[serde(alias = "summaryDescriptionLimit")]
    #[schemars(range(min = 1, max = 10000))]
    pub summary_description_limit: u32,
    /// Hits of a search that names no limit.
    #[serde(alias = "maxToolsPerSearch")]
    #[schemars(range(min = 1, max = 50))]
    pub max_tools_per_search: u32,
    /// Tokens of tool definitions that `auto` may list before it turns to searching.
    pub tool_tokens: u32,
}

impl Default for Exposure {
    fn default() -> Self {
        Self {
            mode: ExposureMode::Auto,
            clients: BTreeMap::new(),
            personas: BTreeMap::new(),
            always_load_tools: Vec::new(),
            summary_description_limit: 100,
            max_tools_per_search: 5,
            tool_tokens: 10_000,
        }
    }
}

/// What `tools/list` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExposureMode {
    /// Chosen by client and catalog.
    Auto,
    /// Every permitted tool.
    Full,
    /// Every permitted tool, shortened.
    Summary,
    /// The meta tools and pinned ones.
    Search,
}

/// How tools are searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// Tokens of one answer.
    pub answer_tokens: u32,
    /// An endpoint whose embeddings are fused with the built-in ranking.
    pub embeddings: Option<Embeddings>,
}

impl Default for Search {
    fn default() -> Self {
        Self { answer_tokens: 500, embeddings: None }
    }
}

/// An OpenAI-compatible embeddings endpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Embeddings {
    /// Its address.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretText>,
    /// The model's name.
    pub model: Option<String>,
    /// The key.
    #[serde(with = "secret_option", alias = "api_key")]
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretText>,
}

/// How tools are named toward clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Naming {
    /// The form of exposed names.
    pub style: NamingStyle,
    /// The longest name a client takes; longer ones are cut and given a hash.
    #[schemars(range(min = 16, max = 256))]
    pub max_length: u16,
}

impl Default for Naming {
    fn default() -> Self {
        Self { style: NamingStyle::ServerTool, max_length: 64 }
    }
}

/// The form of exposed names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamingStyle {
    /// `server_tool`.
    #[serde(rename = "server_tool")]
    ServerTool,
    /// `mcp_server_tool`.
    #[serde(rename = "mcp_server_tool")]
    McpServerTool,
    /// `server__tool`.
    #[serde(rename = "server__tool")]
    ServerDoubleTool,
    /// `mcp.server.tool`.
    #[serde(rename = "mcp.server.tool")]
    McpDotted,
    /// `tool`, without a prefix.
    #[serde(rename = "tool")]
    Tool,
}

/// What a tool needs to pass the lint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lint {
    /// The pass mark, of 100.
    #[schemars(range(min = 0, max = 100))]
    pub min_score: u8,
}

impl Default for Lint {
    fn default() -> Self {
        Self { min_score: 40 }
    }
}

/// What tools may show in the canvas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Display {
    /// Hosts whose pages may stand in a frame.
    pub iframe_hosts: Vec<String>,
}

/// Folders of manifests. As written, they stand beside the file that names them; after loading, paths are whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Manifests {
    /// Shared tool manifests.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub tools: Vec<PathBuf>,
    /// Persona folders, each with its own `tools`.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub personas: Vec<PathBuf>,
    /// Skills.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub skills: Vec<PathBuf>,
    /// Jobs.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub jobs: Vec<PathBuf>,
    /// Tasks.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub tasks: Vec<PathBuf>,
}

impl Default for Manifests {
    fn default() -> Self {
        let folder = |name: &str| vec![PathBuf::from(name)];
        Self {
            tools: folder("tools/"),
            personas: folder("personas/"),
            skills: folder("skills/"),
            jobs: folder("jobs/"),
            tasks: folder("tasks/"),
        }
    }
}

/// How failed calls are tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Tries in all.
    #[schemars(range(min = 1, max = 20))]
    pub attempts: u32,
    /// The pause before the second try.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub base: Duration,
    /// By what each pause is longer than the last.
    pub factor: f64,
    /// The longest pause.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub max: Duration,
    /// How pauses are spread.
    pub jitter: Jitter,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(10),
            jitter: Jitter::Full,
        }
    }
}

/// How pauses are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Anywhere from zero to the pause.
    Full,
    /// Not at all.
    None,
}
