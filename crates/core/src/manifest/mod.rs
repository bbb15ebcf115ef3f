//! Manifests: an operator's descriptions of tools, which override or replace those of servers.
//!
//! An entry is an *overlay* on a discovered tool, or a *virtual tool* that providers serve. `config` parses files into
//! these types; the terms in effect for one tool are its [`ToolTerms`].
//!
//! `catalog/assembly.rs` combines the entries with discovered tools. A persona's version of a tool and the shared
//! version have the same name; their bounds exclude each other, so a lookup finds the version for the caller.

mod auth;
mod provider;
mod skill_tool;
mod terms;
mod version;

pub use crate::answerer::{ApprovalBy, ConsentTerm};
pub use auth::{AuthHints, CredentialNeed, CredentialVariable};
pub use provider::{HttpMethod, HttpRequest, Mapping, ProviderKind, ProviderSpec};
pub use semver::Version;
pub use skill_tool::skill_tool_name;
pub use terms::{Parallel, ToolTerms};
pub use version::read_version;

use crate::answerer::Answerer;
use crate::json::RawJson;
use crate::names::ServerName;
use crate::server::SideEffects;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The maximum timeout a manifest may set.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// One entry of a manifest file.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The tool's name: a virtual tool's own, or that of the discovered tool it overrides.
    pub name: String,
    /// The callers it applies to.
    pub scope: ManifestScope,
    /// The file and position, for people.
    pub origin: String,
    /// The fields it overrides.
    pub overlay: Overlay,
    /// The description for models, in place of the server's.
    pub description: Option<String>,
    /// The schema of its arguments, in place of the server's.
    pub parameters: Option<RawJson>,
    /// A caller of a virtual tool must be in one of these groups; absent means everyone.
    pub groups: Option<Vec<String>>,
    /// The providers; none means an overlay.
    pub providers: Vec<ProviderSpec>,
}

impl Manifest {
    /// The tools of servers among its providers.
    pub fn served_by(&self) -> impl Iterator<Item = (&ServerName, &str)> {
        self.providers.iter().filter_map(|provider| match &provider.kind {
            ProviderKind::Mcp { server, tool } => Some((server, tool.as_str())),
            _ => None,
        })
    }

    /// The tool that it wraps: its only provider.
    pub fn wrapped(&self) -> Option<(&ServerName, &str)> {
        if self.providers.len() == 1 { self.served_by().next() } else { None }
    }

    /// Whether its name is the id of a server's tool, `mcp.<server>.<tool>`, and that tool is not among its
    /// providers. An id always means the tool itself: rules, consents and people rely on it.
    pub fn takes_foreign_id(&self) -> bool {
        let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let Some(id) = self.name.strip_prefix("mcp.").filter(|id| id.contains('.')) else { return false };
        !self.providers.is_empty()
            && !self.served_by().any(|(server, tool)| plain(&format!("{server}.{tool}")) == plain(id))
    }
}

/// The callers an entry applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManifestScope {
    /// Everyone.
    Shared,
    /// Callers with this persona; shadows the shared entry of the same name.
    Persona(String),
}

/// The fields that an entry overrides; absent ones stay as they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overlay {
    /// Its version.
    pub version: Option<Version>,
    /// Its side effects.
    pub side_effects: Option<SideEffects>,
    /// The timeout of a call.
    pub timeout: Option<Duration>,
    /// The delay after which the next provider is called as well.
    pub hedge_after: Option<Duration>,
    /// The credentials it needs.
    pub auth: Option<AuthHints>,
    /// Whether its calls may overlap.
    pub allow_parallel: Option<bool>,
    /// Whether a person must consent before the first use.
    pub requires_consent: Option<bool>,
    /// Who must approve each call.
    pub approval: Option<ApprovalBy>,
    /// Whether calls carry an idempotency key, which makes retries harmless.
    pub idempotency_key: Option<bool>,
    /// Tags of its capabilities.
    pub capabilities: Option<Vec<String>>,
    /// Only callers with one of these personas see it; absent means no restriction.
    pub persona_allowlist: Option<Vec<String>>,
    /// The operator's rating of its danger.
    pub safety_level: Option<SafetyLevel>,
    /// The cost of one call.
    pub cost: Option<Cost>,
}

/// An operator's rating of a tool's danger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SafetyLevel {
    /// Little can go wrong.
    Low,
    /// Occasional review is advised.
    Medium,
    /// The caller approves every call, in person.
    High,
    /// An approver other than the caller approves every call.
    Critical,
}

impl SafetyLevel {
    /// Who must approve each call of a tool with this level, if anyone.
    pub fn answerer(self) -> Option<Answerer> {
        match self {
            Self::Low | Self::Medium => None,
            Self::High => Some(Answerer::InPerson),
            Self::Critical => Some(Answerer::ApproverOnly),
        }
    }
}

/// The cost of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The amount.
    pub per_call: f64,
    /// The unit; `USD` by default.
    pub unit: String,
}

/// The canonical form of a tag: lower case, words joined by `_`.
pub fn tag(text: &str) -> String {
    text.trim().to_lowercase().replace(['-', ' '], "_")
}

/// Tags in canonical form, sorted, without duplicates.
pub fn tags<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut tags: Vec<String> = texts.into_iter().map(tag).filter(|tag| !tag.is_empty()).collect();
    tags.sort();
    tags.dedup();
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_plain_sorted_and_unique() {
        assert_eq!(tags(["Web Search", "web-search", " b ", "", "A"]), ["a", "b", "web_search"]);
    }
}
