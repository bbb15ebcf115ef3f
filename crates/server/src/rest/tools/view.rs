//! The views of tools.

use super::super::detail::Detail;
use super::super::extract::hex;
use super::super::terms::TermsView;
use serde::Serialize;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Quarantined, Tool};
use toolbooth_core::exposure::cut;
use toolbooth_core::health::HealthReport;
use toolbooth_core::json::RawJson;
use toolbooth_engine::Engine;
use utoipa::ToSchema;

/// A tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolView {
    /// The name of the tool for clients.
    pub name: String,
    /// The canonical id.
    pub id: String,
    /// The server of the tool.
    pub server: String,
    /// The server's own name for it.
    pub tool: String,
    /// The description of the tool; in the summary view, its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Tokens (o200k) of name, description and schema: the size of the full definition in a model's context.
    pub token_cost: u32,
    /// The rules for its calls.
    #[serde(flatten)]
    pub terms: TermsView,
    /// The schema of its arguments; only in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<RawJson>,
    /// The whole definition that clients see; only in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub definition: Option<RawJson>,
    /// The quality of its definition, from 0 to 100.
    #[schema(maximum = 100)]
    pub quality: u8,
    /// Set if the definition differs from the accepted one; only in the full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<ChangedView>,
    /// Why it is in quarantine. Only administrators see quarantined tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<QuarantinedView>,
    /// Outcomes of recent calls; absent if it was never called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub health: Option<HealthReport>,
}

/// A definition that differs from the accepted one.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedView {
    /// The SHA-256 of the accepted definition.
    pub accepted: String,
    /// The SHA-256 of the current definition.
    pub now: String,
}

/// Why a tool is in quarantine.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuarantinedView {
    /// The reason.
    #[schema(example = "hidden characters: U+202E (bidirectional) in `/description`")]
    pub reason: String,
    /// The first hidden character: a JSON pointer into the definition.
    pub pointer: String,
    /// The kind of the character.
    pub kind: &'static str,
    /// Number of hidden characters.
    pub count: usize,
    /// The SHA-256 of the definition that a release would cover.
    pub digest: String,
}

/// The full view of a quarantined tool.
pub fn view_quarantined(engine: &Engine, apart: &Quarantined, caller: &Caller) -> ToolView {
    let quarantined = QuarantinedView {
        reason: apart.why.to_string(),
        pointer: apart.why.pointer.clone(),
        kind: apart.why.kind.as_str(),
        count: apart.why.count,
        digest: hex(apart.tool.digest()),
    };
    ToolView { quarantined: Some(quarantined), ..view(engine, &apart.tool, Detail::Full, caller) }
}

/// The view of a tool.
pub fn view(engine: &Engine, tool: &Tool, detail: Detail, caller: &Caller) -> ToolView {
    let full = detail == Detail::Full;
    ToolView {
        name: tool.exposed.to_string(),
        id: tool.canonical(),
        server: tool.server.name.to_string(),
        tool: tool.name.to_string(),
        description: match detail {
            Detail::Full => tool.description(),
            Detail::Summary => {
                let limit = engine.terms().exposure.description_limit;
                tool.description().map(|description| cut(&description, limit))
            }
        },
        token_cost: tool.token_cost(),
        terms: TermsView::of(engine, tool, caller, detail),
        parameters: full.then(|| tool.input_schema()),
        definition: full.then(|| tool.definition.clone()),
        quality: tool.quality(),
        changed: full
            .then(|| engine.catalog().pinned_before(tool))
            .flatten()
            .map(|accepted| ChangedView { accepted: hex(&accepted), now: hex(tool.digest()) }),
        quarantined: None,
        health: engine.health().of_tool(tool, caller),
    }
}
