//! Exposure over REST: what a client is shown, why, and what it would cost otherwise.

use super::Rest;
use super::asked::Asked;
use super::problem::ProblemDocument;
use super::who::{Who, through};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolbooth_core::exposure::Mode;
use toolbooth_engine::Explained;
use utoipa::{IntoParams, ToSchema};

/// The longest name of a client.
const MAX_CLIENT: usize = 64;

/// Which client, and through which persona.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExposureQuery {
    /// The client, by the name it gives in `clientInfo.name`; one that nobody knows, where absent.
    client: Option<String>,
    /// The persona to look through, besides the request's own.
    persona: Option<String>,
}

/// What each mode would cost, in tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct WeightsView {
    full: u64,
    summary: u64,
    search: u64,
}

/// What a client is shown, and why.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExposureView {
    /// The client that was asked about.
    client: String,
    /// The gateway's word for it, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_as: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    /// `full`, `summary` or `search`.
    mode: &'static str,
    /// Why it is that.
    reason: String,
    /// How many tools the caller may use.
    tools: usize,
    tokens: WeightsView,
    /// Tokens of definitions that `auto` lists.
    budget: u32,
    /// What the list saves over listing everything, in percent.
    saved_percent: f64,
}

/// Says what a client is shown, why, and what each mode would cost it.
#[utoipa::path(
    get,
    path = "/exposure",
    params(ExposureQuery),
    responses((status = 200, description = "What the client is shown.", body = ExposureView))
)]
pub async fn explain(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(ExposureQuery { client, persona }): Asked<ExposureQuery>,
) -> Result<Json<ExposureView>, ProblemDocument> {
    let caller = through(&rest, caller, persona.as_deref())?;
    let client: String = client.as_deref().unwrap_or("unknown").chars().take(MAX_CLIENT).collect();
    rest.door.engine.gathered(&caller).await;
    let (engine, asker, name) = (rest.door.engine.clone(), caller.clone(), client.clone());
    // Thousands of tools take a while to weigh; calls must not wait for it.
    let weighing = tokio::task::spawn_blocking(move || engine.explain_exposure(&asker, &name));
    let Explained { choice, family, weights, budget } = match weighing.await {
        Ok(explained) => explained,
        Err(_) => rest.door.engine.explain_exposure(&caller, &client),
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
