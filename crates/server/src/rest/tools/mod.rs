//! Tools over REST.

mod change;
mod lint;
mod quarantine;
mod query;
mod search;
mod view;
mod weighing;

pub use change::{__path_accept, __path_changes, __path_diff, accept, changes, diff};
pub use lint::{__path_lint, lint};
pub use quarantine::{__path_quarantined, __path_release, quarantined, release};
pub use query::ToolListQuery;
pub use search::{__path_search, search};
pub use view::{ToolView, view};
pub use weighing::ensure_weighed;

use super::RestState;
use super::auth::{RestCaller, with_persona};
use super::detail::Detail;
use super::etag;
use super::extract::{NoQuery, PathParam, bad_query};
use super::problem::{ProblemDocument, unknown_server};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use query::ToolParameters;
use serde::Serialize;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::{Catalog, Lookup, Tool};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, ServerVisibility, extent, on_tool};
use toolbooth_core::registry::{self, CallStatistics, PageCursor, QueryContext, ToolOrder};
use toolbooth_engine::HealthMonitor;
use utoipa::ToSchema;

/// Maximum number of personas in a query.
const MAX_PERSONAS: usize = 16;

/// A page of tools.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolPage)]
pub struct ToolPageView {
    /// The revision of the catalog.
    revision: u64,
    /// Number of tools on this page.
    count: usize,
    tools: Vec<ToolView>,
    /// The value of `cursor` for the next page, if there is one.
    next_cursor: Option<String>,
}

/// Lists the tools that the caller may use.
///
/// The `ETag` covers the catalog as this caller sees it. Queries that depend on recent calls have no `ETag`.
#[utoipa::path(
    get,
    path = "/tools",
    params(ToolParameters, ("if-none-match" = Option<String>, Header, description = "The `ETag` of a cached page.")),
    responses(
        (status = 200, description = "A page of tools.", body = ToolPageView, headers(("ETag" = String, description = "The version of the catalog for this caller."))),
        (status = 304, description = "The cached page is current."),
        (status = 404, description = "`server.unknown`."),
    )
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    let query = ToolListQuery::read(uri.query().unwrap_or_default())?;
    let callers = views(&rest, &caller, &query.personas)?;
    rest.engine().catalog().wait_for_servers(&caller).await;
    let catalog = rest.engine().catalog().snapshot();
    check_servers(&rest, &catalog, &callers, &query)?;
    let tag = match query.looks_at_records() {
        true => None,
        false => Some(etag::of(&rest, &catalog, &callers, uri.query())),
    };
    if etag::is_known(&headers, tag.as_deref()) {
        return Ok(etag::not_modified(tag));
    }
    let page = page(&rest, &catalog, &callers, &query).await;
    Ok(etag::stamped(Json(page).into_response(), tag))
}

/// Refuses a filter with a server that none of these callers may see, so that a typo does not give an empty list.
fn check_servers(
    rest: &RestState,
    catalog: &Catalog,
    callers: &[Arc<Caller>],
    query: &ToolListQuery,
) -> Result<(), ProblemDocument> {
    let sees = sees(catalog, callers);
    // Servers without a list of tools are not in the catalog, and manifest tools belong to no configured server.
    let is_known = |name: &str| {
        catalog.servers().keys().any(|known| known.as_str() == name && sees(known))
            || callers.iter().any(|caller| super::servers::is_known(rest, caller, name))
    };
    match query.query.servers.iter().find(|name| !is_known(name)) {
        Some(name) => Err(unknown_server(name)),
        None => Ok(()),
    }
}

/// The caller with each of these personas, or unchanged if there are none.
pub fn views(
    rest: &RestState,
    caller: &Arc<Caller>,
    personas: &[String],
) -> Result<Vec<Arc<Caller>>, ProblemDocument> {
    if personas.is_empty() {
        return Ok(vec![caller.clone()]);
    }
    if personas.len() > MAX_PERSONAS {
        return Err(bad_query(format!("a query may have at most {MAX_PERSONAS} personas")).into());
    }
    personas.iter().map(|name| with_persona(rest, caller.clone(), Some(name))).collect()
}

/// A page of the tools that any of these callers may use. They are one user with different personas.
pub async fn page(
    rest: &RestState,
    catalog: &Catalog,
    callers: &[Arc<Caller>],
    query: &ToolListQuery,
) -> ToolPageView {
    if matches!(query.query.order.0, ToolOrder::TokenCost | ToolOrder::Quality) {
        ensure_weighed(catalog.tools_by_name(callers)).await;
    }
    let found = matching_tools(rest, catalog, callers, query);
    ensure_weighed(found.tools.iter().copied()).await;
    let engine = rest.engine();
    // The view of a tool depends on the persona through which it is visible.
    let may_use = |caller: &&Arc<Caller>, tool: &Tool| on_tool(caller, tool) == Permission::Granted;
    let seen_by = |tool: &Tool| callers.iter().find(|caller| may_use(caller, tool));
    let show = |tool: &Arc<Tool>| seen_by(tool).map(|caller| view(engine, tool, query.detail, caller));
    let tools: Vec<ToolView> = found.tools.into_iter().filter_map(show).collect();
    let next_cursor = found.next.as_ref().map(PageCursor::write);
    ToolPageView { revision: catalog.revision, count: tools.len(), tools, next_cursor }
}

/// The tools on a page.
fn matching_tools<'a>(
    rest: &RestState,
    catalog: &'a Catalog,
    callers: &[Arc<Caller>],
    query: &ToolListQuery,
) -> registry::QueryPage<'a> {
    let sees = sees(catalog, callers);
    let health = rest.engine().health();
    let record = |tool: &Tool| record(health, tool);
    let context = QueryContext { record: &record, sees: &sees };
    query.query.page(catalog.tools_by_name(callers), &context)
}

/// The recent calls of a tool.
fn record(health: &HealthMonitor, tool: &Tool) -> Option<CallStatistics> {
    let (calls, success_rate) = health.record_of(tool)?;
    Some(CallStatistics { calls: calls.into(), success_rate })
}

fn sees<'a>(catalog: &'a Catalog, callers: &'a [Arc<Caller>]) -> impl Fn(&ServerName) -> bool + 'a {
    move |name| {
        let part = catalog.servers().get(name);
        part.is_some_and(|part| {
            callers.iter().any(|caller| extent(caller, &part.entry) != ServerVisibility::Nothing)
        })
    }
}

/// Shows a tool.
#[utoipa::path(
    get,
    path = "/tools/{name}",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    responses(
        (status = 200, description = "The tool.", body = ToolView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 404, description = "`tool.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<ToolView>, ProblemDocument> {
    match find(&rest, &name, &caller).await {
        Ok(tool) => {
            ensure_weighed(std::iter::once(&tool)).await;
            Ok(Json(view(rest.engine(), &tool, Detail::Full, &caller)))
        }
        // Only administrators learn that a quarantined tool exists.
        Err(problem) if problem.code == "tool.unknown" && caller.admin == Admin::Yes => {
            match rest.engine().catalog().quarantined_as(&name) {
                Ok(tool) => Ok(Json(view::view_quarantined(rest.engine(), &tool, &caller))),
                Err(_) => Err(problem.into()),
            }
        }
        Err(problem) => Err(problem.into()),
    }
}

/// The tool with this name, if the caller may use it.
async fn find(rest: &RestState, name: &str, caller: &Caller) -> Result<Arc<Tool>, Problem> {
    let readiness = rest.engine().catalog().wait_for_tool(name, caller).await;
    let catalog = rest.engine().catalog().snapshot();
    match catalog.tool(name, caller) {
        Lookup::Found(tool) => Ok(tool.clone()),
        Lookup::Unknown => Err(readiness.mention_starting_servers(Problem {
            code: "tool.unknown",
            blame: Blame::Caller,
            message: format!("there is no tool `{name}`"),
            hint: Some("`toolbooth tools list` shows the tools you may use".into()),
        })),
        Lookup::Ambiguous(tools) => {
            let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.exposed).collect();
            names.sort_unstable();
            Err(Problem {
                code: "call.ambiguous-name",
                blame: Blame::Caller,
                message: format!("`{name}` names several tools: {}", names.join(", ")),
                hint: Some("use one of the exposed names".into()),
            })
        }
    }
}
