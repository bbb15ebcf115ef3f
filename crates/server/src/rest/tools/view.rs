//! Tools as REST shows them.

use super::query::Detail;
use serde::Serialize;
use toolbooth_core::catalog::Tool;
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::{Cost, Need, SafetyLevel};
use toolbooth_core::registry::{Lens, kind_of, shown_id};
use toolbooth_core::server::SideEffects;
use toolbooth_engine::Engine;
use utoipa::ToSchema;

/// A tool as REST shows it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolView {
    /// The name clients see.
    pub name: String,
    /// Its canonical id.
    pub id: String,
    /// The server it is on.
    pub server: String,
    /// The server's own name for it.
    pub tool: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it does to the world, as its operator or server labels it.
    #[schema(value_type = String, example = "network")]
    pub side_effects: SideEffects,
    /// How many seconds a call may take.
    pub default_timeout: f64,
    /// Whether its calls may overlap.
    pub allow_parallel: bool,
    /// Whether a person must agree before its first use.
    pub requires_consent: bool,
    /// Whether its calls carry a key that makes repeating them harmless.
    pub idempotency_key: bool,
    /// What it can do: plain tags, sorted.
    pub capabilities: Vec<String>,
    /// How dangerous its operator thinks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub safety_level: Option<SafetyLevel>,
    /// What one call costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostView>,
    /// The schema of its arguments; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<RawJson>,
    /// The whole definition clients see; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub definition: Option<RawJson>,
    /// What credentials it needs, never their values; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthView>,
    /// What serves it, best first; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub providers: Option<Vec<ProviderView>>,
    /// How it did lately; in the full view, once it was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<RecordView>,
}

/// What one call costs.
#[derive(Debug, Serialize, ToSchema)]
pub struct CostView {
    per_call: f64,
    unit: String,
}

/// What credentials a tool needs.
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
    credentials: Vec<CredentialView>,
}

/// One variable that holds a credential.
#[derive(Debug, Serialize, ToSchema)]
pub struct CredentialView {
    name: String,
    required: bool,
    configured: bool,
}

/// One of a tool's providers.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProviderView {
    /// Its name, where the caller may know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// `mcp`, `http`, `builtin` or `openai`.
    kind: String,
    /// Lower goes first.
    priority: i64,
}

/// How a tool did lately.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordView {
    calls: u64,
    /// From 0 to 1.
    success_rate: f64,
}

/// A tool in this detail.
pub fn view(engine: &Engine, tool: &Tool, detail: Detail, lens: &Lens<'_>) -> ToolView {
    let terms = &tool.terms;
    let full = detail == Detail::Full;
    ToolView {
        name: tool.exposed.to_string(),
        id: tool.canonical(),
        server: tool.server.name.to_string(),
        tool: tool.name.to_string(),
        description: tool.description(),
        version: terms.version.as_ref().map(ToString::to_string),
        side_effects: terms.side_effects,
        default_timeout: terms.timeout.as_secs_f64(),
        allow_parallel: terms.parallel.is_shown_as_allowed(),
        requires_consent: terms.requires_consent,
        idempotency_key: terms.idempotency_key,
        capabilities: terms.capabilities.clone(),
        safety_level: terms.safety_level,
        cost: terms.cost.clone().map(|Cost { per_call, unit }| CostView { per_call, unit }),
        parameters: full.then(|| tool.input_schema()),
        definition: full.then(|| tool.definition.clone()),
        auth: if full { auth(engine, tool) } else { None },
        providers: full.then(|| providers(tool, lens)),
        health: (lens.record)(tool)
            .filter(|_| full)
            .map(|record| RecordView { calls: record.calls, success_rate: record.success_rate }),
    }
}

fn auth(engine: &Engine, tool: &Tool) -> Option<AuthView> {
    let hints = tool.terms.auth.as_ref()?;
    let is_set = |name: &str| engine.credential_is_set(name);
    Some(AuthView {
        required: hints.required,
        kind: hints.kind.clone(),
        scopes: hints.scopes.clone(),
        docs: hints.docs.clone(),
        configured: hints.is_met(is_set),
        credentials: hints
            .envs
            .iter()
            .map(|env| CredentialView {
                name: env.name.clone(),
                required: env.need == Need::Required,
                configured: is_set(&env.name),
            })
            .collect(),
    })
}

fn providers(tool: &Tool, lens: &Lens<'_>) -> Vec<ProviderView> {
    let own =
        || ProviderView { id: Some(format!("mcp:{}", tool.server.name)), kind: "mcp".into(), priority: 0 };
    let listed = tool.terms.providers.iter().map(|spec| ProviderView {
        id: shown_id(spec, lens.sees).map(str::to_owned),
        kind: kind_of(spec).to_owned(),
        priority: spec.priority,
    });
    let listed: Vec<ProviderView> = listed.collect();
    if listed.is_empty() { vec![own()] } else { listed }
}
