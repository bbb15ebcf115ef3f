//! Tools as REST shows them.

use super::super::asked::hex;
use super::super::terms::TermsView;
use super::query::Detail;
use serde::Serialize;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Quarantined, Tool};
use toolbooth_core::health::HealthView;
use toolbooth_core::json::RawJson;
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
    /// The tokens (o200k) of its name, description and schema: what it takes of a model's context, in full.
    pub token_cost: u32,
    /// What holds for its calls.
    #[serde(flatten)]
    pub terms: TermsView,
    /// The schema of its arguments; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<RawJson>,
    /// The whole definition clients see; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub definition: Option<RawJson>,
    /// How well it tells a model what it is for, from 0 to 100.
    #[schema(maximum = 100)]
    pub quality: u8,
    /// That its definition is another than the one that was accepted; in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<ChangedView>,
    /// Why it is in quarantine; only those who look after the gateway see such a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<QuarantinedView>,
    /// How its calls ended lately; absent where it was never called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub health: Option<HealthView>,
}

/// A definition that is no longer the accepted one.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedView {
    /// The SHA-256 of the definition that was accepted.
    pub accepted: String,
    /// The SHA-256 of the definition now.
    pub now: String,
}

/// Why a tool is in quarantine.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuarantinedView {
    /// Why.
    #[schema(example = "hidden characters: U+202E (bidirectional) in `/description`")]
    pub reason: String,
    /// Where the first such character stands: a JSON pointer into the definition.
    pub pointer: String,
    /// What kind of character it is.
    pub kind: &'static str,
    /// How many there are.
    pub count: usize,
    /// The SHA-256 of the definition that a release would be for.
    pub digest: String,
}

/// A tool in quarantine, with everything that is known of it.
pub fn view_apart(engine: &Engine, apart: &Quarantined, caller: &Caller) -> ToolView {
    let quarantined = QuarantinedView {
        reason: apart.why.to_string(),
        pointer: apart.why.pointer.clone(),
        kind: apart.why.trick.as_str(),
        count: apart.why.count,
        digest: hex(apart.tool.digest()),
    };
    ToolView { quarantined: Some(quarantined), ..view(engine, &apart.tool, Detail::Full, caller) }
}

/// A tool in this detail.
pub fn view(engine: &Engine, tool: &Tool, detail: Detail, caller: &Caller) -> ToolView {
    let full = detail == Detail::Full;
    ToolView {
        name: tool.exposed.to_string(),
        id: tool.canonical(),
        server: tool.server.name.to_string(),
        tool: tool.name.to_string(),
        description: tool.description(),
        token_cost: tool.token_cost(),
        terms: TermsView::of(engine, tool, caller, detail),
        parameters: full.then(|| tool.input_schema()),
        definition: full.then(|| tool.definition.clone()),
        quality: tool.quality(),
        changed: full
            .then(|| engine.pinned_before(tool))
            .flatten()
            .map(|accepted| ChangedView { accepted: hex(&accepted), now: hex(tool.digest()) }),
        quarantined: None,
        health: engine.health().of_tool(tool, caller),
    }
}
