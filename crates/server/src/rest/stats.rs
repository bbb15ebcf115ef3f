//! Context statistics over REST: how many tokens a caller's tools use, in full and as sent.

pub use super::stats_series::{__path_series, series};

use super::RestState;
use super::auth::RestCaller;
use super::extract::QueryParams;
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use toolbooth_core::catalog::Tool;
use toolbooth_core::exposure::{Statistics, Weight};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::exposure::{ClientExposure, LoadedCount};
use utoipa::{IntoParams, ToSchema};

/// Default number of tools.
const DEFAULT_TOOLS: usize = 20;
/// Maximum number of tools.
const MAX_TOOLS: usize = 1000;

/// The client and the number of tools to show.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StatsQuery {
    /// The client's `clientInfo.name`; your most recent client if absent.
    client: Option<String>,
    /// Maximum number of tools, the most expensive first. Values out of range are clamped (0 to 1000).
    limit: Option<u64>,
}

/// The size of tools in a model's context, in tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct WeightView {
    /// Tokens of name, description and schema.
    full: u64,
    /// Names, and descriptions cut at `exposure.summary_description_limit`.
    summary: u64,
    /// Tokens that the client was sent in its last list; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<u64>,
    /// How often the tools were in answers to searches and lookups of the client.
    loaded: u64,
}

/// The share of a server.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerWeightView {
    name: String,
    tools: u64,
    #[serde(flatten)]
    weight: WeightView,
}

/// The share of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolWeightView {
    name: String,
    server: String,
    #[serde(flatten)]
    weight: WeightView,
}

/// What was loaded on demand since the gateway started.
#[derive(Debug, Serialize, ToSchema)]
pub struct LoadedView {
    /// Number of answers to searches and lookups.
    answers: u64,
    /// Tokens of these answers.
    tokens: u64,
    /// Number of different tools in them.
    tools: usize,
}

/// Context statistics.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatsView {
    /// The tokenizer used for counting.
    tokenizer: &'static str,
    /// The revision of the catalog.
    revision: u64,
    /// The client of these statistics; absent if you have no known client.
    client: Option<String>,
    /// Your known clients, most recent first.
    clients: Vec<String>,
    /// When the client was last sent a list of tools.
    listed_at_ms: Option<i64>,
    /// Number of tools that you may use, including the gateway's own.
    tools: u64,
    /// Tokens of all definitions.
    full: u64,
    /// Tokens of all summaries.
    summary: u64,
    /// Tokens that the client was sent; absent if it has not requested a list or the catalog has changed since.
    sent: Option<u64>,
    /// `full` minus `sent`.
    saved: Option<i64>,
    /// `full` minus `sent` and minus what was loaded on demand.
    saved_net: Option<i64>,
    loaded: LoadedView,
    servers: Vec<ServerWeightView>,
    /// Tools, most expensive first.
    dearest: Vec<ToolWeightView>,
}

/// Shows how many tokens your tools use in a model's context.
#[utoipa::path(
    get,
    path = "/stats",
    params(StatsQuery),
    responses(
        (status = 200, description = "The statistics.", body = StatsView),
        (status = 404, description = "`stats.unknown-client`: you have no client of that name."),
    )
)]
pub async fn stats(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(StatsQuery { client, limit }): QueryParams<StatsQuery>,
) -> Result<Json<StatsView>, ProblemDocument> {
    let engine = rest.engine();
    engine.catalog().wait_for_servers(&caller).await;
    let clients = engine.exposure().stats().clients_of(&caller.user);
    let shown = match &client {
        Some(client) => Some(
            engine
                .exposure()
                .stats()
                .of_client(&caller.user, client)
                .ok_or_else(|| unknown(client, &clients))?,
        ),
        None => clients.first().and_then(|client| engine.exposure().stats().of_client(&caller.user, client)),
    };
    let catalog = engine.catalog().snapshot();
    let cut_at = engine.terms().exposure.description_limit;
    let limit =
        limit.map_or(DEFAULT_TOOLS, |limit| usize::try_from(limit).unwrap_or(MAX_TOOLS).min(MAX_TOOLS));
    let whose = caller.clone();
    // On a blocking thread: a caller may have ten thousand tools.
    let made = tokio::task::spawn_blocking(move || {
        let list = shown.as_ref().and_then(|shown| shown.list.as_deref());
        let statistics = Statistics::of(&catalog, &whose, list, cut_at);
        view(catalog.revision, statistics, shown, clients, limit)
    });
    made.await.map(Json).map_err(|_| lost().into())
}

fn view(
    revision: u64,
    statistics: Statistics,
    shown: Option<ClientExposure>,
    clients: Vec<String>,
    limit: usize,
) -> StatsView {
    let Statistics { total, servers, mut tools } = statistics;
    let is_known = shown.as_ref().is_some_and(|shown| shown.list.is_some());
    let (client, listed_at_ms, loaded) = match shown {
        Some(ClientExposure { client, listed_at_ms, loaded, .. }) => (Some(client), listed_at_ms, loaded),
        None => (None, None, LoadedCount::default()),
    };
    let times = |tool: &Tool| loaded.tools.get(&tool.exposed).copied().map_or(0, u64::from);
    let parts = |weight: Weight, loaded: u64| WeightView {
        full: weight.full,
        summary: weight.summary,
        sent: is_known.then_some(weight.sent),
        loaded,
    };
    let mut by_server: HashMap<&str, u64> = HashMap::new();
    for (tool, _) in &tools {
        *by_server.entry(tool.server.name.as_str()).or_default() += times(tool);
    }
    let servers = servers.into_iter().map(|(name, weight)| ServerWeightView {
        tools: weight.tools,
        weight: parts(weight, by_server.get(name.as_str()).copied().unwrap_or(0)),
        name: name.to_string(),
    });
    let servers: Vec<_> = servers.collect();
    tools.sort_by(|(a, one), (b, other)| other.full.cmp(&one.full).then_with(|| a.exposed.cmp(&b.exposed)));
    let dearest = tools.iter().take(limit).map(|(tool, weight)| ToolWeightView {
        name: tool.exposed.to_string(),
        server: tool.server.name.to_string(),
        weight: parts(*weight, times(tool)),
    });
    let less =
        |what: u64| i64::try_from(total.full).unwrap_or(i64::MAX) - i64::try_from(what).unwrap_or(i64::MAX);
    StatsView {
        tokenizer: "o200k_base",
        revision,
        client,
        clients,
        listed_at_ms,
        tools: total.tools,
        full: total.full,
        summary: total.summary,
        sent: is_known.then_some(total.sent),
        saved: is_known.then(|| less(total.sent)),
        saved_net: is_known.then(|| less(total.sent.saturating_add(loaded.tokens))),
        dearest: dearest.collect(),
        servers,
        loaded: LoadedView { answers: loaded.answers, tokens: loaded.tokens, tools: loaded.tools.len() },
    }
}

fn unknown(client: &str, clients: &[String]) -> Problem {
    let shown: String = client.chars().take(64).collect();
    Problem {
        code: "stats.unknown-client",
        blame: Blame::Caller,
        message: format!("you have no client named `{shown}`"),
        hint: Some(match clients {
            [] => "no client of yours has requested a tool list since the gateway started".into(),
            clients => format!("your clients are {}", clients.join(", ")),
        }),
    }
}

fn lost() -> Problem {
    Problem {
        code: "stats.not-made",
        blame: Blame::Gateway,
        message: "the statistics could not be computed".into(),
        hint: Some("try again; the gateway's log has the reason".into()),
    }
}
