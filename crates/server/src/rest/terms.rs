//! The terms of a tool over REST: rules for its calls, credentials and providers.

use super::detail::Detail;
use serde::Serialize;
use serde_json::{Value, json};
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::{Backing, Tool};
use toolbooth_core::effects::Effect;
use toolbooth_core::manifest::{
    AuthHints, Cost, CredentialNeed, CredentialVariable, Parallel, ProviderKind, ProviderSpec, SafetyLevel,
};
use toolbooth_core::permission::on_backing;
use toolbooth_core::registry::owner_of;
use toolbooth_core::server::SideEffects;
use toolbooth_engine::{Engine, ProviderReport, instance_key};
use utoipa::ToSchema;

/// The rules for calls of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct TermsView {
    /// The version of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The side effects that its operator or server declares.
    #[schema(value_type = String, example = "network")]
    side_effects: SideEffects,
    /// The resulting side-effect level and its source.
    #[schema(value_type = Object)]
    effect: Effect,
    /// The call timeout, in seconds.
    default_timeout: f64,
    /// Whether a file confirms that calls may run concurrently. Calls of a tool without this setting do so too; see
    /// `one_at_a_time`.
    allow_parallel: bool,
    /// Whether the gateway makes one call at a time; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    one_at_a_time: bool,
    /// Whether the first use needs a person's consent. The client may be the one to ask; see `asks_consent`.
    requires_consent: bool,
    /// Whether the gateway asks for consent before the first use; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    asks_consent: bool,
    /// Whether every call needs an approval.
    requires_approval: bool,
    /// Whether calls carry an idempotency key.
    idempotency_key: bool,
    /// Its capabilities: sorted tags.
    capabilities: Vec<String>,
    /// The persona that owns it; absent if it is shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    /// The personas that may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    persona_allowlist: Option<Vec<String>>,
    /// The operator's rating of how dangerous it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    safety_level: Option<SafetyLevel>,
    /// The cost of one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    cost: Option<Cost>,
    /// The scopes that its credentials need.
    auth_scopes: Vec<String>,
    /// Whether all required credentials are configured. Never shows the credentials.
    credentials_configured: bool,
    /// The credentials that it needs; only in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<AuthView>,
    /// Its providers in order of preference, with their states; only in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    providers: Option<Vec<Value>>,
    /// The manifest that defines it; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

/// The credentials that a tool needs, without their values.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuthView {
    /// Whether the tool needs credentials to work.
    required: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    docs: Option<String>,
    /// Whether all required credentials are configured.
    configured: bool,
    /// The environment variables; for administrators, empty for others.
    credentials: Vec<CredentialView>,
}

/// One environment variable with a credential.
#[derive(Debug, Serialize, ToSchema)]
pub struct CredentialView {
    name: String,
    required: bool,
    configured: bool,
}

impl TermsView {
    /// The terms that this caller may see.
    pub fn of(engine: &Engine, tool: &Tool, caller: &Caller, detail: Detail) -> Self {
        let terms = &tool.terms;
        let is_set = |name: &str| engine.catalog().has_variable(name);
        let is_admin = caller.admin == Admin::Yes;
        let auth = terms.auth.as_ref();
        let full = detail == Detail::Full;
        Self {
            version: terms.version.as_ref().map(ToString::to_string),
            side_effects: terms.side_effects,
            effect: tool.effect(),
            default_timeout: terms.timeout.as_secs_f64(),
            allow_parallel: terms.parallel.is_shown_as_allowed(),
            one_at_a_time: terms.parallel == Parallel::OneAtATime,
            requires_consent: terms.requires_consent.is_required(),
            asks_consent: engine.terms().policies.iter().any(|policy| policy.asks_consent(tool)),
            requires_approval: tool.needs_approval || tool.asks().is_some(),
            idempotency_key: terms.idempotency_key,
            capabilities: terms.capabilities.clone(),
            persona: owner_of(tool).map(str::to_owned),
            persona_allowlist: terms.persona_allowlist.clone(),
            safety_level: terms.safety_level,
            cost: terms.cost.clone(),
            auth_scopes: auth.map(|auth| auth.scopes.clone()).unwrap_or_default(),
            credentials_configured: auth.is_none_or(|auth| auth.is_met(is_set)),
            auth: auth.filter(|_| full).map(|auth| auth_view(auth, &is_set, caller)),
            providers: full.then(|| with_status(providers(tool, caller, &is_set), engine, tool, caller)),
            origin: terms.origin.clone().filter(|_| is_admin && full),
        }
    }
}

/// Adds the current state and health to each provider.
fn with_status(mut providers: Vec<Value>, engine: &Engine, tool: &Tool, caller: &Caller) -> Vec<Value> {
    let reports: Vec<ProviderReport> = engine.routing().report(tool, caller);
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
    let credential = |env: &CredentialVariable| CredentialView {
        name: env.name.clone(),
        required: env.need == CredentialNeed::Required,
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

/// The providers of a tool. Providers backed by tools that the caller may not use are left out.
fn providers(tool: &Tool, caller: &Caller, is_set: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let backing = tool.bounds.as_deref().map(|bounds| bounds.backing.as_slice()).unwrap_or_default();
    let specs = tool.terms.providers.iter().enumerate();
    let may_know = |index: usize| match backing.get(index) {
        Some(Backing::Open | Backing::Itself) => true,
        Some(tools @ Backing::Tools(_)) => on_backing(caller, tools).is_some(),
        Some(Backing::Undiscovered(_) | Backing::Missing) | None => false,
    };
    let shown = specs.filter(|(index, _)| caller.admin == Admin::Yes || may_know(*index));
    let mut shown: Vec<Value> =
        shown.map(|(_, spec)| provider(spec, tool.terms.auth.as_ref(), is_set)).collect();
    if tool.terms.providers.is_empty() && !tool.server.is_virtual() {
        let (server, name) = (tool.server.name.as_str(), &*tool.name);
        shown.push(json!({ "id": format!("mcp:{server}"), "name": "mcp", "priority": 0, "server": server, "tool": name }));
    }
    shown
}

fn provider(spec: &ProviderSpec, of_tool: Option<&AuthHints>, is_set: &dyn Fn(&str) -> bool) -> Value {
    let mut view = json!({
        "id": spec.id,
        "priority": spec.priority,
        "health_check_interval": spec.health_check_interval.as_secs_f64(),
        "credentials_configured": spec.credentials(of_tool).is_none_or(|auth| auth.is_met(is_set)),
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
        ProviderKind::Skill(skill) => {
            view["skill"] = skill.name.as_str().into();
            "skill"
        }
        ProviderKind::Unknown(name) => name,
    });
    view
}
