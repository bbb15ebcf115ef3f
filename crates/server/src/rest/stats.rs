//! Context statistics over REST: what a caller's tools take of a model's context, in full and as they were sent.

use super::Rest;
use super::asked::Asked;
use super::problem::ProblemDocument;
use super::who::Who;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::weigh::{Statistics, Weight};
use toolbooth_engine::shown::{LoadedCount, ShownTo};
use utoipa::{IntoParams, ToSchema};

/// How many tools are shown when nobody says.
const USUAL_TOOLS: usize = 20;
/// The most tools that are shown.
const MAX_TOOLS: usize = 1000;

/// Whose statistics, and how many tools of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StatsQuery {
    /// The client, as it names itself; of your clients the one that was heard last, if you say nothing.
    client: Option<String>,
    /// At most this many tools, the dearest first; brought into range (0 to 1000).
    limit: Option<u64>,
}

/// What tools take of a model's context, in tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct WeightView {
    /// Their definitions: name, description and schema.
    full: u64,
    /// Names, and descriptions cut at `exposure.summary_description_limit`.
    summary: u64,
    /// What the client was sent of them with its last list; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<u64>,
    /// How often they were in answers to searches and questions of the client.
    loaded: u64,
}

/// A server's part.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerWeightView {
    name: String,
    tools: u64,
    #[serde(flatten)]
    weight: WeightView,
}

/// A tool's part.
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
    /// Answers to searches and questions about tools.
    answers: u64,
    /// Their tokens together.
    tokens: u64,
    /// How many different tools were in them.
    tools: usize,
}

/// Context statistics.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatsView {
    /// How tokens are counted.
    tokenizer: &'static str,
    /// The catalog's revision.
    revision: u64,
    /// The client that this is about; absent where none of yours was heard.
    client: Option<String>,
    /// All of your clients that were heard, the last one first.
    clients: Vec<String>,
    /// When the client was last sent a list of tools.
    listed_at_ms: Option<i64>,
    /// How many tools you may use, the gateway's own included.
    tools: u64,
    /// Tokens of all definitions.
    full: u64,
    /// Tokens of all summaries.
    summary: u64,
    /// Tokens of what the client was sent; absent where it asked for no list, or the catalog has changed since.
    sent: Option<u64>,
    /// `full` less `sent`.
    saved: Option<i64>,
    /// The same less what was loaded on demand.
    saved_net: Option<i64>,
    loaded: LoadedView,
    servers: Vec<ServerWeightView>,
    /// Tools, the dearest first.
    dearest: Vec<ToolWeightView>,
}

/// Shows what your tools take of a model's context.
#[utoipa::path(
    get,
    path = "/stats",
    params(StatsQuery),
    responses(
        (status = 200, description = "The statistics.", body = StatsView),
        (status = 404, description = "`stats.unknown-client`: no client of yours goes by that name."),
    )
)]
pub async fn stats(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(StatsQuery { client, limit }): Asked<StatsQuery>,
) -> Result<Json<StatsView>, ProblemDocument> {
    let engine = &rest.door.engine;
    engine.gathered(&caller).await;
    let clients = engine.shown().clients_of(&caller.user);
    let shown = match &client {
        Some(client) => {
            Some(engine.shown().to(&caller.user, client).ok_or_else(|| unknown(client, &clients))?)
        }
        None => clients.first().and_then(|client| engine.shown().to(&caller.user, client)),
    };
    let catalog = engine.catalog_now();
    let cut_at = engine.terms().exposure.description_limit;
    let limit = limit.map_or(USUAL_TOOLS, |limit| usize::try_from(limit).unwrap_or(MAX_TOOLS).min(MAX_TOOLS));
    let whose = caller.clone();
    // Away from the threads that answer: somebody may have ten thousand tools.
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
    shown: Option<ShownTo>,
    clients: Vec<String>,
    limit: usize,
) -> StatsView {
    let Statistics { total, servers, mut tools } = statistics;
    let is_known = shown.as_ref().is_some_and(|shown| shown.list.is_some());
    let (client, listed_at_ms, loaded) = match shown {
        Some(ShownTo { client, listed_at_ms, loaded, .. }) => (Some(client), listed_at_ms, loaded),
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
        message: format!("no client of yours goes by the name `{shown}`"),
        hint: Some(match clients {
            [] => "none has asked for its tools since the gateway started".into(),
            clients => format!("those that were heard are {}", clients.join(", ")),
        }),
    }
}

fn lost() -> Problem {
    Problem {
        code: "stats.not-made",
        blame: Blame::Gateway,
        message: "the statistics could not be made".into(),
        hint: Some("ask again; the gateway's log says more".into()),
    }
}
