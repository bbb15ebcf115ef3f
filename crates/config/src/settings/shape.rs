//! Settings of the tools that clients see, and of retries: `exposure`, `search`, `naming`, `lint`, `display`,
//! `manifests`, `retry`.

use crate::fields::{one_or_many, seconds, secret_option, text_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// Settings of tool exposure: which tools `tools/list` returns, and in which form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Exposure")]
pub struct ExposureSettings {
    /// The mode for clients and personas that are not listed below.
    pub mode: ExposureMode,
    /// Modes by client name.
    pub clients: BTreeMap<String, ExposureMode>,
    /// Modes by persona.
    pub personas: BTreeMap<String, ExposureMode>,
    /// Globs of the tools that are always listed in full.
    #[serde(alias = "alwaysLoadTools")]
    pub always_load_tools: Vec<String>,
    /// The maximum number of characters of a description in a summary.
    #[serde(alias = "summaryDescriptionLimit")]
    #[schemars(range(min = 1, max = 10000))]
    pub summary_description_limit: u32,
    /// The maximum number of search results if the request sets no limit; `search.answer_tokens` may allow fewer.
    #[serde(alias = "maxToolsPerSearch")]
    #[schemars(range(min = 1, max = 50))]
    pub max_tools_per_search: u32,
    /// The number of tokens of tool definitions above which `auto` switches to `search`.
    pub tool_tokens: u32,
    /// The same for programs that were built with an SDK and set no name of their own, such as those of the Python SDK.
    pub sdk_tokens: u32,
}

impl Default for ExposureSettings {
    fn default() -> Self {
        Self {
            mode: ExposureMode::Auto,
            clients: BTreeMap::new(),
            personas: BTreeMap::new(),
            always_load_tools: Vec::new(),
            summary_description_limit: 100,
            max_tools_per_search: 10,
            tool_tokens: 10_000,
            sdk_tokens: 100_000,
        }
    }
}

/// The exposure mode: what `tools/list` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExposureMode {
    /// Chosen by the client and the size of the catalog.
    Auto,
    /// Every permitted tool, with its full definition.
    Full,
    /// Every permitted tool, with a shortened definition.
    Summary,
    /// Only the meta tools and the tools that are always loaded.
    Search,
}

/// Settings of tool search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Search")]
pub struct SearchSettings {
    /// The maximum number of tokens of one search answer.
    pub answer_tokens: u32,
    /// An embeddings endpoint whose ranking is combined with the built-in one.
    pub embeddings: Option<EmbeddingSettings>,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { answer_tokens: 500, embeddings: None }
    }
}

/// An OpenAI-compatible embeddings endpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Embeddings")]
pub struct EmbeddingSettings {
    /// The URL of the endpoint.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretText>,
    /// The name of the model.
    pub model: Option<String>,
    /// The API key.
    #[serde(with = "secret_option", alias = "api_key")]
    #[schemars(with = "Option<String>")]
    pub key: Option<SecretText>,
}

/// Settings of the names under which clients see tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Naming")]
pub struct NamingSettings {
    /// The form of tool names.
    pub style: NamingStyleSetting,
    /// The maximum length of a tool name; longer names are truncated and end in a hash.
    #[schemars(range(min = 16, max = 256))]
    pub max_length: u16,
}

impl Default for NamingSettings {
    fn default() -> Self {
        Self { style: NamingStyleSetting::ServerTool, max_length: 64 }
    }
}

/// The form of tool names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamingStyle")]
pub enum NamingStyleSetting {
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

/// Settings of `toolbooth tools lint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Lint")]
pub struct LintSettings {
    /// The minimum score, from 0 to 100, with which a tool passes.
    #[schemars(range(min = 0, max = 100))]
    pub min_score: u8,
}

impl Default for LintSettings {
    fn default() -> Self {
        Self { min_score: 40 }
    }
}

/// Limits on what tools may display in the canvas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Display")]
pub struct DisplaySettings {
    /// Hosts whose pages may be embedded in a frame.
    pub iframe_hosts: Vec<String>,
}

/// Folders of manifests. A relative path starts at the folder of the file that contains it. Loading makes all paths
/// absolute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Manifests")]
pub struct ManifestSettings {
    /// Folders of shared tool manifests.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub tools: Vec<PathBuf>,
    /// Folders of personas, each of which has a `tools` folder and may have a `skills` folder.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub personas: Vec<PathBuf>,
    /// Folders of skills: folders with a `SKILL.md`, and files with lists of skills.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub skills: Vec<PathBuf>,
    /// Folders of jobs.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub jobs: Vec<PathBuf>,
    /// Folders of tasks.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub tasks: Vec<PathBuf>,
}

impl Default for ManifestSettings {
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

/// Settings of the retries of failed calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Retry")]
pub struct RetrySettings {
    /// The maximum number of attempts, the first one included.
    #[schemars(range(min = 1, max = 20))]
    pub attempts: u32,
    /// The delay before the second attempt.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub base: Duration,
    /// The factor by which the delay grows after each attempt.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub factor: f64,
    /// The maximum delay.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub max: Duration,
    /// How delays are randomised.
    pub jitter: JitterSetting,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(10),
            jitter: JitterSetting::Full,
        }
    }
}

/// How retry delays are randomised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Jitter")]
pub enum JitterSetting {
    /// A random delay between zero and the computed one.
    Full,
    /// The computed delay.
    None,
}
