//! The terms of a tool as REST shows them: what holds for its calls, and whether it could be called.

use super::tools::Detail;
use serde::Serialize;
use serde_json::{Value, json};
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::{Backing, Tool};
use toolbooth_core::effects::Effect;
use toolbooth_core::manifest::{AuthHints, Cost, Credential, Need, ProviderKind, ProviderSpec, SafetyLevel};
use toolbooth_core::permission::on_backing;
use toolbooth_core::server::SideEffects;
use toolbooth_engine::{Engine, ProviderReport, instance_key};
use utoipa::ToSchema;

/// What holds for the calls of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct TermsView {
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// What it does to the world, as its operator or server labels it.
    #[schema(value_type = String, example = "network")]
    side_effects: SideEffects,
    /// The rung on the ladder that follows, and who says so.
    #[schema(value_type = Object)]
    effect: Effect,
    /// How many seconds a call may take.
    default_timeout: f64,
    /// Whether its calls may overlap.
    allow_parallel: bool,
    /// Whether a person must agree before its first use.
    requires_consent: bool,
    /// Whether a person must agree to every call.
    requires_approval: bool,
    /// Whether its calls carry a key that makes repeating them harmless.
    idempotency_key: bool,
    /// What it can do: plain tags, sorted.
    capabilities: Vec<String>,
    /// The personas that it is kept for.
    #[serde(skip_serializing_if = "Option::is_none")]
    persona_allowlist: Option<Vec<String>>,
    /// How dangerous its operator thinks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    safety_level: Option<SafetyLevel>,
    /// What one call costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    cost: Option<Cost>,
    /// What its credentials must allow.
    auth_scopes: Vec<String>,
    /// Whether everything that it cannot do without is there; never what it is.
    credentials_configured: bool,
    /// What credentials it needs; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<AuthView>,
    /// What serves it, best first, and how each stands; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    providers: Option<Vec<Value>>,
    /// Where a manifest speaks of it, for those who look after the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

/// What credentials a tool needs, never their values.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuthView {
    /// Whether it cannot do without.
    required: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    docs: Option<String>,
    /// Whether everything is there that cannot be done without.
    configured: bool,
    /// The variables, for those who look after the gateway; empty for others.
    credentials: Vec<CredentialView>,
}

/// One variable that holds a credential.
#[derive(Debug, Serialize, ToSchema)]
pub struct CredentialView {
    name: String,
    required: bool,
    configured: bool,
}

impl TermsView {
    /// What this caller may know of a tool's terms.
    pub fn of(engine: &Engine, tool: &Tool, caller: &Caller, detail: Detail) -> Self {
        let terms = &tool.terms;
        let is_set = |name: &str| engine.has_variable(name);
        let is_keeper = caller.admin == Admin::Yes;
        let auth = terms.auth.as_ref();
        let full = detail == Detail::Full;
        Self {
            version: terms.version.as_ref().map(ToString::to_string),
            side_effects: terms.side_effects,
            effect: tool.effect(),
            default_timeout: terms.timeout.as_secs_f64(),
            allow_parallel: terms.parallel.is_shown_as_allowed(),
            requires_consent: terms.requires_consent,
            requires_approval: tool.needs_approval || tool.asks().is_some(),
            idempotency_key: terms.idempotency_key,
            capabilities: terms.capabilities.clone(),
            persona_allowlist: terms.persona_allowlist.clone(),
            safety_level: terms.safety_level,
            cost: terms.cost.clone(),
            auth_scopes: auth.map(|auth| auth.scopes.clone()).unwrap_or_default(),
            credentials_configured: auth.is_none_or(|auth| auth.is_met(is_set)),
            auth: auth.filter(|_| full).map(|auth| auth_view(auth, &is_set, caller)),
            providers: full.then(|| standing(providers(tool, caller, &is_set), engine, tool, caller)),
            origin: terms.origin.clone().filter(|_| is_keeper && full),
        }
    }
}

/// The same providers, with how each stands now.
fn standing(mut providers: Vec<Value>, engine: &Engine, tool: &Tool, caller: &Caller) -> Vec<Value> {
    let reports: Vec<ProviderReport> = engine.providers_of(tool, caller);
    for view in &mut providers {
        let key = view["id"].as_str().map(|id| match tool.terms.providers.is_empty() {
            true => id.to_owned(),
            false => instance_key(tool, id),
        });
        let health = key.and_then(|key| engine.health().of_provider(&key, caller));
        if let Some(Ok(health)) = health.map(serde_json::to_value) {
            view["health"] = health;
        }
        let report = reports.iter().find(|report| view["id"] == report.id.as_str());
        if let Some(Value::Object(more)) = report.and_then(|report| serde_json::to_value(report).ok()) {
            for (key, value) in more.into_iter().filter(|(key, _)| key != "kind") {
                view[key] = value;
            }
        }
    }
    providers
}

fn auth_view(auth: &AuthHints, is_set: &dyn Fn(&str) -> bool, caller: &Caller) -> AuthView {
    let credential = |env: &Credential| CredentialView {
        name: env.name.clone(),
        required: env.need == Need::Required,
        configured: is_set(&env.name),
    };
    AuthView {
        required: auth.required,
        kind: auth.kind.clone(),
        scopes: auth.scopes.clone(),
        docs: auth.docs.clone(),
        configured: auth.is_met(is_set),
        credentials: match caller.admin {
            Admin::Yes => auth.envs.iter().map(credential).collect(),
            Admin::No => Vec::new(),
        },
    }
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
