//! Manifests: what an operator says of a tool, laid over what a server says of it, or in place of it.
//!
//! An entry is an *overlay* on a discovered tool, or a *virtual tool* that providers serve. Files become
//! these types in `config`; what holds for one tool in the end is its [`ToolTerms`].

mod auth;
mod provider;
mod terms;
mod version;

pub use auth::{AuthHints, Credential, Need};
pub use provider::{HttpMethod, HttpRequest, Mapping, ProviderKind, ProviderSpec};
pub use semver::Version;
pub use terms::{Parallel, ToolTerms};
pub use version::read_version;

use crate::held::Answerer;
use crate::json::RawJson;
use crate::names::ServerName;
use crate::server::SideEffects;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest a manifest may let one call take.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// One entry of a manifest file.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The tool's name: a virtual tool's own, or that of the discovered tool it is laid over.
    pub name: String,
    /// Whom it is for.
    pub scope: Scope,
    /// Where it is written, for people.
    pub origin: String,
    /// What it says of the tool.
    pub overlay: Overlay,
    /// What models are told, in place of the server's words.
    pub description: Option<String>,
    /// The schema of its arguments, in place of the server's.
    pub parameters: Option<RawJson>,
    /// Any of these groups admits a caller to a virtual tool; absent means everybody.
    pub groups: Option<Vec<String>>,
    /// What serves it; none means an overlay.
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

    /// The tool that it wraps: the only one that serves it.
    pub fn wrapped(&self) -> Option<(&ServerName, &str)> {
        if self.providers.len() == 1 { self.served_by().next() } else { None }
    }

    /// Whether its name is the id of a server's tool, `mcp.<server>.<tool>`, and only others serve it. An id always
    /// means the tool itself: rules, consents and people go by it.
    pub fn takes_foreign_id(&self) -> bool {
        let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let Some(id) = self.name.strip_prefix("mcp.").filter(|id| id.contains('.')) else { return false };
        !self.providers.is_empty()
            && !self.served_by().any(|(server, tool)| plain(&format!("{server}.{tool}")) == plain(id))
    }
}

/// Whom an entry is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everybody.
    Shared,
    /// Callers who took up this persona; shadows the shared entry of the same name.
    Persona(String),
}

/// What an entry says of a tool; what it is silent about stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overlay {
    /// Its version.
    pub version: Option<Version>,
    /// What it does to the world.
    pub side_effects: Option<SideEffects>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// How long a provider has before the next is asked, too.
    pub hedge_after: Option<Duration>,
    /// What credentials it needs.
    pub auth: Option<AuthHints>,
    /// Whether its calls may overlap.
    pub allow_parallel: Option<bool>,
    /// Whether a person must agree before its first use.
    pub requires_consent: Option<bool>,
    /// Who must agree to each of its calls.
    pub approval: Option<ApprovalBy>,
    /// Whether its calls carry a key that makes repeating them harmless.
    pub idempotency_key: Option<bool>,
    /// Tags of what it can do.
    pub capabilities: Option<Vec<String>>,
    /// Only callers with one of these personas see it; absent means no such bound.
    pub persona_allowlist: Option<Vec<String>>,
    /// How dangerous the operator thinks it.
    pub safety_level: Option<SafetyLevel>,
    /// What one call costs.
    pub cost: Option<Cost>,
}

/// Who must agree to each call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalBy {
    /// No one; this setting asks for no approval.
    #[default]
    None,
    /// The caller, each time and in person.
    Caller,
    /// An approver other than the caller.
    Approver,
}

impl ApprovalBy {
    /// Who may answer, where anybody is asked.
    pub fn answerer(self) -> Option<Answerer> {
        match self {
            Self::None => None,
            Self::Caller => Some(Answerer::InPerson),
            Self::Approver => Some(Answerer::ApproverOnly),
        }
    }
}

/// How dangerous an operator thinks a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SafetyLevel {
    /// Little can go wrong.
    Low,
    /// Somebody should look now and then.
    Medium,
    /// Somebody should look every time.
    High,
}

/// What one call costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How much.
    pub per_call: f64,
    /// Of what; `USD` unless said.
    pub unit: String,
}

/// A tag as it is compared and shown: lower case, words joined by `_`.
pub fn tag(text: &str) -> String {
    text.trim().to_lowercase().replace(['-', ' '], "_")
}

/// Tags as they are shown: plain, sorted, each once.
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
