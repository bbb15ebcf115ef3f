//! The terms of a tool as REST shows them: what holds for its calls, and whether it could be called.

use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::{Backing, Tool};
use toolbooth_core::effects::Effect;
use toolbooth_core::manifest::{AuthHints, Cost, Need, ProviderKind, ProviderSpec, SafetyLevel};
use toolbooth_core::permission::on_backing;
use toolbooth_core::server::SideEffects;
use toolbooth_engine::ProviderReport;

/// What holds for the calls of a tool.
#[derive(Debug, Serialize)]
pub struct TermsView {
    version: Option<String>,
    side_effects: SideEffects,
    effect: Effect,
    default_timeout: f64,
    allow_parallel: bool,
    requires_consent: bool,
    requires_approval: bool,
    idempotency_key: bool,
    capabilities: Vec<String>,
    persona_allowlist: Option<Vec<String>>,
    safety_level: Option<SafetyLevel>,
    cost: Option<Cost>,
    auth: Option<Value>,
    auth_scopes: Vec<String>,
    /// Whether everything that it cannot do without is there; never what it is.
    credentials_configured: bool,
    providers: Vec<Value>,
    /// Where a manifest speaks of it, for those who look after the gateway.
    origin: Option<String>,
}

impl TermsView {
    /// What this caller may know of a tool's terms.
    pub fn of(tool: &Tool, caller: &Caller, variables: &BTreeSet<String>) -> Self {
        let terms = &tool.terms;
        let is_set = |name: &str| variables.contains(name);
        let is_keeper = caller.admin == Admin::Yes;
        Self {
            version: terms.version.as_ref().map(ToString::to_string),
            side_effects: terms.side_effects,
            effect: tool.effect(),
            default_timeout: terms.timeout.as_secs_f64(),
            allow_parallel: terms.parallel.is_shown_as_allowed(),
            requires_consent: terms.requires_consent,
            requires_approval: tool.needs_approval,
            idempotency_key: terms.idempotency_key,
            capabilities: terms.capabilities.clone(),
            persona_allowlist: terms.persona_allowlist.clone(),
            safety_level: terms.safety_level,
            cost: terms.cost.clone(),
            auth: terms.auth.as_ref().map(|auth| auth_view(auth, &is_set)),
            auth_scopes: terms.auth.as_ref().map(|auth| auth.scopes.clone()).unwrap_or_default(),
            credentials_configured: terms.auth.as_ref().is_none_or(|auth| auth.is_met(is_set)),
            providers: providers(tool, caller, &is_set),
            origin: terms.origin.clone().filter(|_| is_keeper),
        }
    }
}

impl TermsView {
    /// The same, with how each provider stands now.
    pub fn standing(mut self, reports: &[ProviderReport]) -> Self {
        for view in &mut self.providers {
            let report = reports.iter().find(|report| view["id"] == report.id.as_str());
            if let Some(Value::Object(more)) = report.and_then(|report| serde_json::to_value(report).ok()) {
                for (key, value) in more.into_iter().filter(|(key, _)| key != "kind") {
                    view[key] = value;
                }
            }
        }
        self
    }
}

fn auth_view(auth: &AuthHints, is_set: &dyn Fn(&str) -> bool) -> Value {
    let credentials = auth.envs.iter().map(|env| {
        json!({ "name": env.name, "required": env.need == Need::Required, "configured": is_set(&env.name) })
    });
    json!({
        "required": auth.required,
        "type": auth.kind,
        "scopes": auth.scopes,
        "docs": auth.docs,
        "credentials": credentials.collect::<Vec<_>>(),
    })
}

/// Who serves a tool. A provider behind which stands what the caller may not use does not exist for them.
fn providers(tool: &Tool, caller: &Caller, is_set: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let backing = tool.bounds.as_deref().map(|bounds| bounds.backing.as_slice()).unwrap_or_default();
    let specs = tool.terms.providers.iter().enumerate();
    let may_know = |index: usize| match backing.get(index) {
        Some(Backing::Open | Backing::Itself) => true,
        Some(tools @ Backing::Tools(_)) => on_backing(caller, tools).is_some(),
        Some(Backing::Unheard(_) | Backing::Nobody) | None => false,
    };
    let shown = specs.filter(|(index, _)| caller.admin == Admin::Yes || may_know(*index));
    let mut shown: Vec<Value> = shown.map(|(_, spec)| provider(spec, is_set)).collect();
    if tool.terms.providers.is_empty() && !tool.server.is_virtual() {
        let (server, name) = (tool.server.name.as_str(), &*tool.name);
        shown.push(json!({ "id": format!("mcp:{server}"), "name": "mcp", "priority": 0, "server": server, "tool": name }));
    }
    shown
}

fn provider(spec: &ProviderSpec, is_set: &dyn Fn(&str) -> bool) -> Value {
    let mut view = json!({
        "id": spec.id,
        "priority": spec.priority,
        "health_check_interval": spec.health_check_interval.as_secs_f64(),
        "credentials_configured": spec.auth.as_ref().is_none_or(|auth| auth.is_met(is_set)),
    });
    view["name"] = Value::from(match &spec.kind {
        ProviderKind::Mcp { server, tool } => {
            view["server"] = server.as_str().into();
            view["tool"] = tool.as_str().into();
            "mcp"
        }
        ProviderKind::Http(_) => "http",
        ProviderKind::Builtin(tool) => {
            view["tool"] = tool.as_str().into();
            "builtin"
        }
        ProviderKind::OpenAi { model, .. } => {
            view["model"] = model.as_deref().into();
            "openai"
        }
        ProviderKind::Unknown(name) => name,
    });
    view
}
