//! How providers stand, for people and programs.

use super::Instance;
use crate::engine::Engine;
use serde::Serialize;
use std::sync::Arc;
use std::time::SystemTime;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::manifest::ProviderKind;
use toolbooth_core::provider::{BreakerState, Skip};

/// How one provider of a tool stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderReport {
    /// Tells it from the tool's others.
    pub id: String,
    /// What it is: `mcp`, `http`, `builtin`, `openai`, or a word that this gateway does not know.
    pub kind: String,
    /// Lower goes first.
    pub priority: i64,
    /// Whether a call would be sent there now, as far as anybody knows.
    pub healthy: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the credentials that it cannot do without are set.
    pub credentials_configured: bool,
    /// Its breaker.
    pub router: RouterReport,
}

/// How the breaker of a provider stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RouterReport {
    /// Where it stands.
    pub state: BreakerState,
    /// How many calls failed in a row.
    pub consecutive_failures: u32,
    /// Until when calls go elsewhere, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<f64>,
}

impl Engine {
    /// How the providers of a tool stand, in the order to try them, as far as the caller may know; none where its own
    /// server serves it.
    pub fn providers_of(&self, tool: &Tool, caller: &Caller) -> Vec<ProviderReport> {
        if tool.terms.providers.is_empty() {
            return Vec::new();
        }
        let providers = self.routing().of(tool);
        providers.ordered.iter().map(|(_, one)| self.report(tool, one, caller)).collect()
    }

    /// The same as one caller may see it: without providers that are tools which do not exist for them.
    pub fn providers_for(&self, tool: &Arc<Tool>, caller: &Caller) -> Vec<ProviderReport> {
        if tool.terms.providers.is_empty() {
            return Vec::new();
        }
        let providers = self.routing().of(tool);
        let seen = providers
            .ordered
            .iter()
            .filter(|(index, one)| !matches!(self.backing(tool, *index, one, caller), Err(Skip::Hidden)));
        seen.map(|(_, one)| self.report(tool, one, caller)).collect()
    }

    fn report(&self, tool: &Tool, one: &Instance, caller: &Caller) -> ProviderReport {
        let now_ms = self.routing().now_ms();
        let breaker = one.breaker();
        let missing = self.missing(&tool.terms, one);
        let credentials_configured = missing.is_empty();
        let lacking = (!credentials_configured).then_some(Skip::NoCredentials { missing });
        let skip = lacking.or_else(|| self.down(one)).or_else(|| one.standing(now_ms));
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let until = breaker.backoff_until_ms().filter(|until| *until > now_ms);
        ProviderReport {
            id: one.spec.id.clone(),
            kind: match &one.spec.kind {
                ProviderKind::Mcp { .. } => "mcp".into(),
                ProviderKind::Http(_) => "http".into(),
                ProviderKind::Builtin(_) => "builtin".into(),
                ProviderKind::OpenAi { .. } => "openai".into(),
                ProviderKind::Unknown(word) => word.clone(),
            },
            priority: one.spec.priority,
            healthy: skip.is_none(),
            reason: skip.map(|skip| skip.told_to(caller).to_string()),
            credentials_configured,
            router: RouterReport {
                state: breaker.state(),
                consecutive_failures: breaker.consecutive_failures(),
                backoff_until: until.map(|until| wall.as_secs_f64() + (until - now_ms) as f64 / 1000.0),
            },
        }
    }
}
