//! Tools as REST shows them.

use super::super::terms::TermsView;
use super::query::Detail;
use serde::Serialize;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
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
    /// How its calls ended lately; absent where it was never called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub health: Option<HealthView>,
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
        health: engine.health().of_tool(tool, caller),
    }
}
