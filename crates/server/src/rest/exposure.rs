//! Exposure over REST: which tools a client is shown, why, and the cost of each mode.

use super::RestState;
use super::auth::{RestCaller, with_persona};
use super::extract::QueryParams;
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolbooth_core::exposure::Mode;
use toolbooth_engine::ExposureReport;
use utoipa::{IntoParams, ToSchema};

/// Maximum length of a client name.
const MAX_CLIENT: usize = 64;

/// The client and the persona to explain.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExposureQuery {
    /// The client's `clientInfo.name`; an unknown client if absent.
    client: Option<String>,
    /// The persona, besides that of the request.
    persona: Option<String>,
}

/// The cost of each mode, in tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct WeightsView {
    full: u64,
    summary: u64,
    search: u64,
}

/// What a client is shown, and why.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExposureView {
    /// The requested client.
    client: String,
    /// The gateway's name for the client, if it is a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_as: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    /// `full`, `summary` or `search`.
    mode: &'static str,
    /// Why this mode was chosen.
    reason: String,
    /// Number of tools that the caller may use.
    tools: usize,
    tokens: WeightsView,
    /// The token budget of `auto` mode.
    budget: u32,
    /// Savings over the full list, in percent.
    saved_percent: f64,
}

/// Explains what a client is shown, and what each mode would cost.
#[utoipa::path(
    get,
    path = "/exposure",
    params(ExposureQuery),
    responses((status = 200, description = "The explanation.", body = ExposureView))
)]
pub async fn explain(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(ExposureQuery { client, persona }): QueryParams<ExposureQuery>,
) -> Result<Json<ExposureView>, ProblemDocument> {
    let caller = with_persona(&rest, caller, persona.as_deref())?;
    let client: String = client.as_deref().unwrap_or("unknown").chars().take(MAX_CLIENT).collect();
    rest.engine().catalog().wait_for_servers(&caller).await;
    let (exposure, user, name) = (rest.engine().exposure().clone(), caller.clone(), client.clone());
    // Weighing thousands of tools takes a while and must not delay calls.
    let weighing = tokio::task::spawn_blocking(move || exposure.explain(&user, &name));
    let ExposureReport { choice, family, weights, budget } = match weighing.await {
        Ok(explained) => explained,
        Err(_) => rest.engine().exposure().explain(&caller, &client),
    };
    let sent = match choice.mode {
        Mode::Full => weights.full,
        Mode::Summary => weights.summary,
        Mode::Search => weights.search,
    };
    let saved = 100.0 - 100.0 * sent as f64 / weights.full.max(1) as f64;
    Ok(Json(ExposureView {
        client,
        known_as: family,
        persona: caller.persona_name().map(str::to_owned),
        mode: choice.mode.as_str(),
        reason: choice.reason.to_string(),
        tools: weights.tools,
        tokens: WeightsView { full: weights.full, summary: weights.summary, search: weights.search },
        budget,
        saved_percent: (saved.max(0.0) * 10.0).round() / 10.0,
    }))
}
