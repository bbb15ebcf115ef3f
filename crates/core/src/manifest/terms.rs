//! The terms of one tool: the settings of its calls, after all overrides.

use super::{ApprovalBy, AuthHints, ConsentTerm, Cost, Manifest, Overlay, ProviderSpec, SafetyLevel};
use super::{read_version, tags};
use crate::server::{ServerEntry, SideEffects};
use semver::Version;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// The settings of a tool's calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolTerms {
    /// Its version.
    pub version: Option<Version>,
    /// The operator's label of its side effects.
    pub side_effects: SideEffects,
    /// The timeout of a call.
    pub timeout: Duration,
    /// The delay after which the next provider is called as well, if calling twice does no harm.
    pub hedge_after: Option<Duration>,
    /// Whether its calls may overlap.
    pub parallel: Parallel,
    /// Whether a person must consent before the first use.
    pub requires_consent: ConsentTerm,
    /// Who must approve each call.
    pub approval: ApprovalBy,
    /// Whether calls carry an idempotency key, which makes retries harmless.
    pub idempotency_key: bool,
    /// Its capabilities: canonical tags, sorted.
    pub capabilities: Vec<String>,
    /// Only callers with one of these personas see it.
    pub persona_allowlist: Option<Vec<String>>,
    /// A caller must be in one of these groups, besides the server's; absent means that only the server's groups
    /// decide.
    pub groups: Option<Vec<String>>,
    /// The credentials it needs.
    pub auth: Option<AuthHints>,
    /// The operator's rating of its danger.
    pub safety_level: Option<SafetyLevel>,
    /// The cost of one call.
    pub cost: Option<Cost>,
    /// Its providers, best first; none means its own server.
    pub providers: Vec<ProviderSpec>,
    /// The manifest entry that describes it.
    pub origin: Option<String>,
}

/// Whether calls of one tool may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parallel {
    /// They may.
    Allowed,
    /// One at a time for each of its providers.
    OneAtATime,
    /// Not specified. Shown as not allowed, so that agents are careful, but left to the server to decide.
    Unspecified,
}

impl Parallel {
    /// The shown value of `allow_parallel`.
    pub fn is_shown_as_allowed(self) -> bool {
        self == Self::Allowed
    }

    fn of_setting(allow: bool) -> Self {
        if allow { Self::Allowed } else { Self::OneAtATime }
    }
}

impl ToolTerms {
    /// The terms of a server's tools without overrides.
    pub fn of_server(server: &ServerEntry) -> Self {
        let defaults = &server.defaults;
        Self {
            version: defaults.version.as_deref().and_then(read_version),
            side_effects: defaults.side_effects,
            timeout: defaults.default_timeout.unwrap_or(server.timeout),
            hedge_after: None,
            parallel: defaults.allow_parallel.map_or(Parallel::Unspecified, Parallel::of_setting),
            requires_consent: defaults.requires_consent,
            approval: defaults.approval,
            idempotency_key: defaults.idempotency_key,
            capabilities: Vec::new(),
            persona_allowlist: None,
            groups: None,
            auth: defaults.auth.as_ref().map(AuthHints::read),
            safety_level: None,
            cost: None,
            providers: Vec::new(),
            origin: None,
        }
    }

    /// These terms with a manifest entry applied.
    pub fn with_entry(self, entry: &Manifest) -> Self {
        let mut terms = self.with_overlay(&entry.overlay);
        terms.groups = entry.groups.clone().or(terms.groups);
        terms.origin = Some(entry.origin.clone());
        if !entry.providers.is_empty() {
            terms.providers = entry.providers.clone();
            terms.providers.sort_by_key(|provider| provider.priority);
        }
        terms
    }

    /// These terms with an overlay applied.
    pub fn with_overlay(mut self, overlay: &Overlay) -> Self {
        let Overlay {
            version,
            side_effects,
            timeout,
            hedge_after,
            auth,
            allow_parallel,
            requires_consent,
            approval,
            idempotency_key,
            capabilities,
            persona_allowlist,
            safety_level,
            cost,
        } = overlay;
        self.version = version.clone().or(self.version);
        self.side_effects = side_effects.unwrap_or(self.side_effects);
        self.timeout = timeout.unwrap_or(self.timeout);
        self.hedge_after = hedge_after.or(self.hedge_after);
        self.parallel = allow_parallel.map_or(self.parallel, Parallel::of_setting);
        self.requires_consent = requires_consent.map_or(self.requires_consent, ConsentTerm::written);
        self.approval = approval.unwrap_or(self.approval);
        self.idempotency_key = idempotency_key.unwrap_or(self.idempotency_key);
        self.safety_level = safety_level.or(self.safety_level);
        self.cost = cost.clone().or(self.cost);
        self.persona_allowlist = persona_allowlist.clone().or(self.persona_allowlist);
        if let Some(more) = capabilities {
            let all = self.capabilities.iter().chain(more).map(String::as_str);
            self.capabilities = tags(all);
        }
        if let Some(own) = auth {
            self.auth = Some(self.auth.as_ref().map_or_else(|| own.clone(), |server| own.over(server)));
        }
        self
    }

    /// Parses a server entry's `tools.overrides` for one tool. Values of a wrong type are ignored.
    pub fn read_override(fields: &Value) -> Overlay {
        let flag = |key: &str| fields.get(key).and_then(Value::as_bool);
        let texts = |key: &str| -> Option<Vec<String>> {
            let value = fields.get(key)?;
            let one = value.as_str().map(|text| vec![text.to_owned()]);
            one.or_else(|| {
                let many = value.as_array()?;
                Some(many.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            })
        };
        let cost = fields.get("cost_per_call").and_then(Value::as_f64).map(|per_call| Cost {
            per_call,
            unit: fields.get("cost_unit").and_then(Value::as_str).unwrap_or("USD").to_owned(),
        });
        let seconds = fields.get("default_timeout").and_then(Value::as_f64).filter(|s| *s > 0.0);
        Overlay {
            version: fields.get("version").and_then(Value::as_str).and_then(read_version),
            side_effects: fields.get("side_effects").and_then(|label| SideEffects::deserialize(label).ok()),
            timeout: seconds
                .and_then(|s| Duration::try_from_secs_f64(s).ok())
                .map(|t| t.min(super::MAX_TIMEOUT)),
            // A single server has no other provider to call.
            hedge_after: None,
            auth: fields.get("auth").map(AuthHints::read),
            allow_parallel: flag("allow_parallel"),
            requires_consent: flag("requires_consent"),
            approval: fields.get("approval").and_then(|who| ApprovalBy::deserialize(who).ok()),
            idempotency_key: flag("idempotency_key")
                .or_else(|| fields.get("idempotency_key")?.get("required")?.as_bool()),
            capabilities: texts("capabilities"),
            persona_allowlist: texts("persona_allowlist"),
            safety_level: fields.get("safety_level").and_then(|level| SafetyLevel::deserialize(level).ok()),
            cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::entry;
    use serde_json::json;

    #[test]
    fn the_last_override_wins_and_absent_fields_change_nothing() {
        let mut server = entry("s");
        server.defaults.auth = Some(json!({"scopes": ["a"]}));
        let terms = ToolTerms::of_server(&server);
        assert_eq!((terms.parallel, terms.requires_consent), (Parallel::Unspecified, ConsentTerm::ByDefault));
        let overlay = ToolTerms::read_override(&json!({
            "version": "1.2", "default_timeout": 2.5, "allow_parallel": false, "capabilities": "Web Search",
            "idempotency_key": {"required": true}, "auth": {"scopes": ["b"]}, "safety_level": "high",
            "requires_consent": "maybe"
        }));
        let terms = terms.with_overlay(&overlay);
        assert_eq!(terms.version.map(|version| version.to_string()).as_deref(), Some("1.2.0"));
        assert_eq!(terms.timeout, Duration::from_millis(2500));
        assert_eq!((terms.parallel, terms.requires_consent), (Parallel::OneAtATime, ConsentTerm::ByDefault));
        assert!(terms.idempotency_key);
        assert_eq!(terms.capabilities, ["web_search"]);
        assert_eq!(terms.auth.map(|auth| auth.scopes), Some(vec!["b".to_owned(), "a".to_owned()]));
        assert_eq!(terms.safety_level, Some(SafetyLevel::High));
    }
}
