//! REST: the gateway for programs that speak no MCP, the command line among them.

#![allow(
    unused_qualifications,
    reason = "`#[utoipa::path]` writes the parameters it is given with their paths"
)]

mod about;
mod approvals;
mod asked;
mod audit;
mod calls;
mod consents;
mod dead_letters;
mod endpoint;
mod etag;
mod events;
mod exposure;
mod files;
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
mod who;

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

pub(crate) use problem::ProblemDocument;
pub use servers::ServerView;
pub use tools::ToolView;

/// The outcome of a reload, in the making.
type Reloading = Pin<Box<dyn Future<Output = Result<serde_json::Value, Problem>> + Send>>;

/// Reads the configuration again; the binary knows where it is.
pub type Reload = Arc<dyn Fn(ReloadCause) -> Reloading + Send + Sync>;

/// Why the configuration is read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadCause {
    /// This user asked for it.
    Asked(Arc<str>),
    /// One of its files changed.
    FileChanged,
    /// The process got SIGHUP.
    Signal,
}

impl ReloadCause {
    /// Who is named in the audit.
    pub fn by(&self) -> &str {
        match self {
            Self::Asked(user) => user,
            Self::FileChanged => "(file change)",
            Self::Signal => "(signal)",
        }
    }
}

/// What the handlers share.
#[derive(Clone)]
pub struct Rest {
    /// The MCP door: engine and identity.
    pub door: Arc<Door>,
    /// Reads the configuration again.
    pub reload: Reload,
    /// What it reads its configuration from.
    config: Arc<ConfigStatus>,
    /// Tells one life of a gateway from another.
    life: Arc<str>,
}

/// Which files a gateway goes by, and what came of reading them last.
#[derive(Debug, Default)]
pub struct ConfigStatus(Mutex<ConfigView>);

/// The same as REST shows it.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct ConfigView {
    /// The files that were read.
    pub files: Vec<String>,
    /// Settings that changed since and are fixed until the gateway is started again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart_needed: Vec<String>,
    /// Why they could not be read again; the last good configuration is in force then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_error: Option<ReloadError>,
}

/// Why a configuration could not be read again.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ReloadError {
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl ConfigStatus {
    /// The configuration was read from these files.
    pub fn read_from(&self, files: Vec<String>) {
        *self.view() = ConfigView { files, ..ConfigView::default() };
    }

    /// It was read, but these settings wait for the next start.
    pub fn needs_restart(&self, settings: Vec<String>) {
        self.view().restart_needed = settings;
    }

    /// It could not be read again.
    pub fn failed(&self, problem: &Problem) {
        let Problem { code, message, hint, .. } = problem.clone();
        self.view().reload_error = Some(ReloadError { code, message, hint });
    }

    fn view(&self) -> MutexGuard<'_, ConfigView> {
        // A view is replaced as a whole; a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rest {
    /// What the handlers share, for one life of a gateway.
    pub fn new(door: Arc<Door>, reload: Reload) -> Self {
        let config = Arc::default();
        Self { door, reload, config, life: uuid::Uuid::new_v4().to_string().into() }
    }

    /// The same, with a word to those who look after it about where its configuration comes from.
    #[must_use]
    pub fn reporting(self, config: Arc<ConfigStatus>) -> Self {
        Self { config, ..self }
    }
}

/// Endpoints that anybody may call, without a credential.
const OPEN: &[Endpoint] = endpoints![
    about::health,
    about::ready,
    about::described,
    about::endpoint_described,
    openapi::document,
    pages::docs,
    pages::docs_file,
    files::download,
];

/// Endpoints for identified callers: a line here and `#[utoipa::path]` make a handler an endpoint.
const KNOWN: &[Endpoint] = endpoints![
    about::me,
    servers::list,
    servers::show,
    tools::list,
    tools::search,
    tools::show,
    tools::diff,
    tools::changes,
    tools::lint,
    calls::call,
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
    audit::list,
    events::follow,
    events::recent,
    exposure::explain,
];

/// Endpoints for administrators. The table is what enforces it: its routes lie behind [`who::administrators_only`].
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

/// Every endpoint, with who may call it.
const ENDPOINTS: &[(Access, &[Endpoint])] =
    &[(Access::Anybody, OPEN), (Access::Caller, KNOWN), (Access::Administrator, ADMINISTRATORS)];

/// The routes.
pub fn router(rest: Rest) -> Router {
    let identified = || middleware::from_fn_with_state(rest.clone(), who::identified);
    let known = routes(KNOWN).route_layer(identified());
    // The layer that is added last is asked first.
    let administrators = routes(ADMINISTRATORS)
        .route_layer(middleware::from_fn(who::administrators_only))
        .route_layer(identified());
    routes(OPEN)
        .merge(known)
        .merge(administrators)
        .method_not_allowed_fallback(problem::bad_method)
        .fallback(problem::not_found)
        .with_state(rest)
}
