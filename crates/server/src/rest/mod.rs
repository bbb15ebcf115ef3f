//! The REST API, for programs that do not use MCP, including the command line.

#![allow(
    unused_qualifications,
    reason = "`#[utoipa::path]` writes the parameters it is given with their paths"
)]

mod about;
mod approvals;
mod audit;
mod auth;
mod calls;
mod consents;
mod dead_letters;
mod detail;
mod endpoint;
mod etag;
mod events;
mod exposure;
mod extract;
mod files;
mod item_request;
mod manifests;
mod metrics;
mod openapi;
mod pages;
mod plans;
mod problem;
mod registry;
mod servers;
mod sign_in;
mod stats;
mod terms;
mod tokens;
mod tools;
mod user_keys;

use crate::mcp::Door;
use axum::Router;
use axum::middleware;
use endpoint::{Access, Endpoint, endpoints, routes};
use serde::Serialize;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::fault::Problem;
use utoipa::ToSchema;

pub(crate) use problem::{ProblemDocument, bad_method, not_found};
pub use servers::ServerView;
pub use tools::ToolView;

/// A running reload.
type Reloading = Pin<Box<dyn Future<Output = Result<serde_json::Value, Problem>> + Send>>;

/// Reloads the configuration. The binary provides it, because it knows the files.
pub type Reload = Arc<dyn Fn(ReloadCause) -> Reloading + Send + Sync>;

/// Why the configuration is reloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadCause {
    /// A user requested it.
    Asked(Arc<str>),
    /// One of its files changed.
    FileChanged,
    /// The process received SIGHUP.
    Signal,
}

impl ReloadCause {
    /// The name in the audit log.
    pub fn by(&self) -> &str {
        match self {
            Self::Asked(user) => user,
            Self::FileChanged => "(file change)",
            Self::Signal => "(signal)",
        }
    }
}

/// The state that all handlers share.
#[derive(Clone)]
pub struct RestState {
    /// The MCP endpoint, with the engine and the authenticator.
    pub door: Arc<Door>,
    /// Reloads the configuration.
    pub reload: Reload,
    /// The configuration files and the latest reload error.
    config: Arc<ConfigStatus>,
    /// A random id of this run of the gateway.
    run_id: Arc<str>,
}

/// The configuration files in use, and the result of the latest reload.
#[derive(Debug, Default)]
pub struct ConfigStatus(Mutex<ConfigView>);

/// The configuration files in use, and the result of the latest reload.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct ConfigView {
    /// The configuration files.
    pub files: Vec<String>,
    /// Changed settings that take effect only after a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart_needed: Vec<String>,
    /// Why the latest reload failed. The last good configuration stays in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_error: Option<ReloadError>,
}

/// Why a reload failed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ReloadError {
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl ConfigStatus {
    /// Records that the configuration was loaded from these files.
    pub fn read_from(&self, files: Vec<String>) {
        *self.view() = ConfigView { files, ..ConfigView::default() };
    }

    /// Records settings that take effect only after a restart.
    pub fn needs_restart(&self, settings: Vec<String>) {
        self.view().restart_needed = settings;
    }

    /// Records that a reload failed.
    pub fn failed(&self, problem: &Problem) {
        let Problem { code, message, hint, .. } = problem.clone();
        self.view().reload_error = Some(ReloadError { code, message, hint });
    }

    fn view(&self) -> MutexGuard<'_, ConfigView> {
        // The view is replaced as a whole, so a panic cannot leave it half updated.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RestState {
    /// The state for one run of a gateway.
    pub fn new(door: Arc<Door>, reload: Reload) -> Self {
        let config = Arc::default();
        Self { door, reload, config, run_id: uuid::Uuid::new_v4().to_string().into() }
    }

    /// Sets the configuration status that administrators can see.
    #[must_use]
    pub fn reporting(self, config: Arc<ConfigStatus>) -> Self {
        Self { config, ..self }
    }
}

/// Endpoints that need no credential.
const OPEN: &[Endpoint] = endpoints![
    about::health,
    about::ready,
    about::described,
    about::endpoint_described,
    openapi::document,
    pages::docs,
    pages::docs_file,
    files::download,
    files::download_named,
];

/// Endpoints for identified callers. A handler needs a line here and `#[utoipa::path]`.
const KNOWN: &[Endpoint] = endpoints![
    about::me,
    servers::list,
    servers::show,
    user_keys::show,
    user_keys::set,
    user_keys::delete,
    tools::list,
    tools::search,
    tools::show,
    tools::diff,
    tools::changes,
    tools::lint,
    calls::call,
    calls::batch,
    calls::answer,
    calls::list,
    calls::show,
    registry::show,
    registry::personas,
    stats::stats,
    approvals::list,
    approvals::show,
    approvals::approve,
    approvals::reject,
    plans::list,
    plans::on,
    plans::off,
    plans::show,
    plans::approve,
    plans::reject,
    consents::list,
    consents::revoke,
    dead_letters::list,
    dead_letters::show,
    dead_letters::replay,
    dead_letters::give_up,
    files::list,
    files::put,
    files::show,
    files::remove,
    files::content,
    files::frame,
    audit::list,
    events::follow,
    events::recent,
    exposure::explain,
];

/// Endpoints for administrators. Being in this table enforces it: its routes are behind [`auth::administrators_only`].
const ADMINISTRATORS: &[Endpoint] = endpoints![
    servers::reload,
    servers::act,
    servers::logs,
    sign_in::begin,
    sign_in::finish,
    sign_in::forget,
    tokens::list,
    tokens::create,
    tokens::revoke,
    tools::accept,
    tools::release,
    tools::quarantined,
    registry::refresh,
    audit::verify,
    manifests::list,
    metrics::metrics,
];

/// All endpoints with their access level.
const ENDPOINTS: &[(Access, &[Endpoint])] =
    &[(Access::Public, OPEN), (Access::Caller, KNOWN), (Access::Administrator, ADMINISTRATORS)];

/// Builds the router.
pub fn router(rest: RestState) -> Router {
    let identified = || middleware::from_fn_with_state(rest.clone(), auth::identified);
    let known = routes(KNOWN).route_layer(identified());
    // The layer added last runs first.
    let administrators = routes(ADMINISTRATORS)
        .route_layer(middleware::from_fn(auth::administrators_only))
        .route_layer(identified());
    routes(OPEN)
        .merge(known)
        .merge(administrators)
        .method_not_allowed_fallback(problem::bad_method)
        .fallback(problem::not_found)
        .with_state(rest)
}
