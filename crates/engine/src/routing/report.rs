//! Reports on the state of providers.

use super::Routing;
use crate::providers::Instance;
use serde::Serialize;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::manifest::ProviderKind;
use toolbooth_core::provider::{BreakerState, Skip};

/// The state of one provider of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderReport {
    /// The provider's id, unique within its tool.
    pub id: String,
    /// The kind: `mcp`, `http`, `builtin`, `openai`, or a word that this gateway does not know.
    pub kind: String,
    /// Lower numbers are tried first.
    pub priority: i64,
    /// Whether a call would be sent to it now, as far as is known.
    pub healthy: bool,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether its required credentials are set.
    pub credentials_configured: bool,
    /// Its circuit breaker.
    pub router: RouterReport,
}

/// The state of a provider's circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RouterReport {
    /// Closed, open or half-open.
    pub state: BreakerState,
    /// The number of consecutive failures.
    pub consecutive_failures: u32,
    /// Until when calls skip the provider, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<f64>,
}

impl Routing {
    /// The state of a tool's providers, in the order in which they are tried, as far as the caller may know it. Empty
    /// if the tool's own server serves it.
    pub fn report(&self, tool: &Tool, caller: &Caller) -> Vec<ProviderReport> {
        if tool.terms.providers.is_empty() {
            return Vec::new();
        }
        let providers = self.providers.of(tool);
        providers.ordered.iter().map(|(_, one)| self.report_of(tool, one, caller)).collect()
    }

    fn report_of(&self, tool: &Tool, one: &Instance, caller: &Caller) -> ProviderReport {
        let now_ms = self.providers.now_ms();
        let breaker = one.breaker();
        let missing = self.missing(&tool.terms, one);
        let credentials_configured = missing.is_empty();
        let lacking = (!credentials_configured).then_some(Skip::NoCredentials { missing });
        let skip = lacking.or_else(|| self.down(one)).or_else(|| one.skip_reason(now_ms));
        let wall = self.clock.wall();
        let until = breaker.backoff_until_ms().filter(|until| *until > now_ms);
        ProviderReport {
            id: one.spec.id.clone(),
            kind: match &one.spec.kind {
                ProviderKind::Mcp { .. } => "mcp".into(),
                ProviderKind::Http(_) => "http".into(),
                ProviderKind::Builtin(_) => "builtin".into(),
                ProviderKind::OpenAi { .. } => "openai".into(),
                ProviderKind::Skill(_) => "skill".into(),
                ProviderKind::Unknown(word) => word.clone(),
            },
            priority: one.spec.priority,
            healthy: skip.is_none(),
            reason: skip.map(|skip| skip.visible_to(caller).to_string()),
            credentials_configured,
            router: RouterReport {
                state: breaker.state(),
                consecutive_failures: breaker.consecutive_failures(),
                backoff_until: until.map(|until| wall.as_secs_f64() + (until - now_ms) as f64 / 1000.0),
            },
        }
    }
}

/// The key of a provider's health window: provider ids are unique only within their tool.
pub fn instance_key(tool: &Tool, provider: &str) -> String {
    format!("{}/{provider}", tool.canonical())
}
