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
pub use query::{Detail, Narrowing};
pub use search::{__path_search, search};
pub use view::{ToolView, view};
pub use weighing::weighed;

use super::Rest;
use super::asked::{At, Nothing, bad_query};
use super::etag;
use super::problem::ProblemDocument;
use super::who::{Who, through};
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
use toolbooth_core::permission::{Permission, on_server, on_tool};
use toolbooth_core::registry::{self, Cursor, Lens, Order, Record};
use toolbooth_engine::Engine;
use utoipa::ToSchema;

/// The most personas of one query.
const MAX_PERSONAS: usize = 16;

/// A page of tools.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolPage {
    /// The catalog's revision.
    revision: u64,
    /// How many tools are on this page.
    count: usize,
    tools: Vec<ToolView>,
    /// What to give as `cursor` for the next page.
    next_cursor: Option<String>,
}

/// Lists the tools that the caller may use.
///
/// The `ETag` stands for the catalog as this caller sees it; queries that look at how tools did lately have none.
#[utoipa::path(
    get,
    path = "/tools",
    params(ToolParameters, ("if-none-match" = Option<String>, Header, description = "The `ETag` of a page that is there already.")),
    responses(
        (status = 200, description = "A page of tools.", body = ToolPage, headers(("ETag" = String, description = "The catalog as this caller sees it."))),
        (status = 304, description = "Nothing has changed."),
    )
)]
pub async fn list(
    State(rest): State<Rest>,
    Who(caller): Who,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    let narrowing = Narrowing::read(uri.query().unwrap_or_default())?;
    let callers = views(&rest, &caller, &narrowing.personas)?;
    rest.door.engine.gathered(&caller).await;
    let catalog = rest.door.engine.catalog_now();
    let tag = match narrowing.looks_at_records() {
        true => None,
        false => Some(etag::of(&rest, &catalog, &callers, uri.query())),
    };
    if etag::is_known(&headers, tag.as_deref()) {
        return Ok(etag::not_modified(tag));
    }
    let page = page(&rest, &catalog, &callers, &narrowing).await;
    Ok(etag::stamped(Json(page).into_response(), tag))
}

/// The caller through each of these personas; as they are where none is named.
fn views(
    rest: &Rest,
    caller: &Arc<Caller>,
    personas: &[String],
) -> Result<Vec<Arc<Caller>>, ProblemDocument> {
    if personas.is_empty() {
        return Ok(vec![caller.clone()]);
    }
    if personas.len() > MAX_PERSONAS {
        return Err(bad_query(format!("a query names at most {MAX_PERSONAS} personas")).into());
    }
    personas.iter().map(|name| through(rest, caller.clone(), Some(name))).collect()
}

/// A page as these callers, who are one, see it.
pub async fn page(
    rest: &Rest,
    catalog: &Catalog,
    callers: &[Arc<Caller>],
    narrowing: &Narrowing,
) -> ToolPage {
    if matches!(narrowing.query.order.0, Order::TokenCost | Order::Quality) {
        weighed(catalog.roll(callers)).await;
    }
    let found = found(rest, catalog, callers, narrowing);
    weighed(found.tools.iter().copied()).await;
    let engine = &rest.door.engine;
    // What may be told of a tool goes by the view that it is seen through.
    let may_use = |caller: &&Arc<Caller>, tool: &Tool| on_tool(caller, tool) == Permission::Granted;
    let seen_by = |tool: &Tool| callers.iter().find(|caller| may_use(caller, tool));
    let show = |tool: &Arc<Tool>| seen_by(tool).map(|caller| view(engine, tool, narrowing.detail, caller));
    let tools: Vec<ToolView> = found.tools.into_iter().filter_map(show).collect();
    let next_cursor = found.next.as_ref().map(Cursor::write);
    ToolPage { revision: catalog.revision, count: tools.len(), tools, next_cursor }
}

/// The tools of a page.
fn found<'a>(
    rest: &Rest,
    catalog: &'a Catalog,
    callers: &[Arc<Caller>],
    narrowing: &Narrowing,
) -> registry::ToolPage<'a> {
    let sees = sees(catalog, callers);
    let engine = &rest.door.engine;
    let record = |tool: &Tool| record(engine, tool);
    let lens = Lens { record: &record, sees: &sees };
    narrowing.query.page(catalog.roll(callers), &lens)
}

/// How a tool did lately.
fn record(engine: &Engine, tool: &Tool) -> Option<Record> {
    let (calls, success_rate) = engine.health().record_of(tool)?;
    Some(Record { calls: calls.into(), success_rate })
}

fn sees<'a>(catalog: &'a Catalog, callers: &'a [Arc<Caller>]) -> impl Fn(&ServerName) -> bool + 'a {
    move |name| {
        let part = catalog.servers().get(name);
        part.is_some_and(|part| {
            callers.iter().any(|caller| on_server(caller, &part.entry) == Permission::Granted)
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
    State(rest): State<Rest>,
    Who(caller): Who,
    At(name): At<String>,
    _: Nothing,
) -> Result<Json<ToolView>, ProblemDocument> {
    match find(&rest, &name, &caller).await {
        Ok(tool) => {
            weighed(std::iter::once(&tool)).await;
            Ok(Json(view(&rest.door.engine, &tool, Detail::Full, &caller)))
        }
        // Only those who can do something about it learn that it is there.
        Err(problem) if problem.code == "tool.unknown" && caller.admin == Admin::Yes => {
            match rest.door.engine.quarantined_as(&name) {
                Ok(apart) => Ok(Json(view::view_apart(&rest.door.engine, &apart, &caller))),
                Err(_) => Err(problem.into()),
            }
        }
        Err(problem) => Err(problem.into()),
    }
}

/// The tool of a name, as far as the caller may use one.
async fn find(rest: &Rest, name: &str, caller: &Caller) -> Result<Arc<Tool>, Problem> {
    let gathered = rest.door.engine.gathered_for_tool(name, caller).await;
    let catalog = rest.door.engine.catalog_now();
    match catalog.tool(name, caller) {
        Lookup::Found(tool) => Ok(tool.clone()),
        Lookup::Unknown => Err(gathered.explain(Problem {
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
