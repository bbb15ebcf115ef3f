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
mod chat;
mod configuration;
mod consents;
mod dead_letters;
mod detail;
mod endpoint;
mod etag;
mod events;
mod exposure;
mod extract;
mod files;
mod inquiries;
mod item_request;
mod job_requests;
mod job_runs;
mod job_view;
mod jobs;
mod manifests;
mod metrics;
mod openapi;
mod owner_request;
mod pages;
mod parts;
mod plans;
mod problem;
mod prompts;
mod registry;
mod resources;
mod server_entries;
mod server_entry_bodies;
mod server_entry_edits;
mod server_output;
mod servers;
mod session_renewal;
mod sign_in;
mod skill_runs;
mod skills;
mod stats;
mod stats_series;
mod tasks;
mod terms;
mod tokens;
mod tools;
mod trust;
mod user_keys;
mod work_items;

use crate::access_log::AccessLog;
use crate::mcp::FrontEndState;
use crate::owner_browsers::OwnerBrowsers;
use axum::Router;
use axum::middleware;
use calls::RunningCalls;
use chat::ChatTurns;
use endpoint::{Access, Endpoint, endpoints, routes};
use serde::Serialize;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::fault::Problem;
use toolbooth_engine::{ConsoleLogins, ConsoleSessions, Engine};
use utoipa::ToSchema;

pub(crate) use auth::{refuse, with_bearer};
pub use configuration::{OverriddenView, SettingView};
pub(crate) use extract::{JsonBody, NoQuery, body, run_to_completion};
pub(crate) use problem::{ProblemDocument, bad_method, not_found};
pub use server_entries::{ServerEntries, ServerEntryChange, local_only as server_entries_local_only};
pub use server_entry_bodies::{NewServerEntry, ServerEntryEdit, WrittenServerEntry};
pub use servers::ServerView;
pub(crate) use session_renewal::session_credential;
pub use tools::ToolView;
pub use trust::{FieldChange, ProjectTrust, TrustRequest, WaitingEntry, local_only as trust_local_only};

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
    /// A client began or ended to work in a folder with servers of its own.
    ClientFolder,
}

impl ReloadCause {
    /// The name in the audit log.
    pub fn by(&self) -> &str {
        match self {
            Self::Asked(user) => user,
            Self::FileChanged => "(file change)",
            Self::Signal => "(signal)",
            Self::ClientFolder => "(client folder)",
        }
    }

    /// Whether a person requested it, so that the current files are intended.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Asked(_) | Self::Signal)
    }
}

/// The state that all handlers share.
#[derive(Clone)]
pub struct RestState {
    /// The MCP endpoint, with the engine and the authenticator.
    pub front_end: Arc<FrontEndState>,
    /// Reloads the configuration.
    pub reload: Reload,
    /// The configuration files and the latest reload error.
    config: Arc<ConfigStatus>,
    /// A random id of this run of the gateway.
    run_id: Arc<str>,
    /// The sessions of browsers that use the console.
    pub(crate) console_sessions: ConsoleSessions,
    /// Sign-ins of console users at the identity provider.
    pub(crate) console_logins: Arc<ConsoleLogins>,
    /// Browsers that the owner of a gateway in `local` mode opened.
    pub(crate) owner_browsers: Arc<OwnerBrowsers>,
    /// Calls over REST that have not ended.
    running_calls: Arc<RunningCalls>,
    /// Turns of the console's chat that users wait for.
    chat_turns: Arc<ChatTurns>,
    /// The log of requests, if it is configured.
    access_log: Option<Arc<AccessLog>>,
    /// The project files that wait for trust, if they can be trusted over REST.
    project_trust: Option<Arc<dyn ProjectTrust>>,
    /// The configuration file that servers are added to, if that is possible over REST.
    server_entries: Option<Arc<dyn ServerEntries>>,
}

/// The configuration files in use, and the result of the latest reload.
#[derive(Debug, Default)]
pub struct ConfigStatus {
    view: Mutex<ConfigView>,
    settings: Mutex<Arc<[SettingView]>>,
}

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

    /// Sets the settings that `GET /config` shows.
    pub fn set_settings(&self, settings: Vec<SettingView>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings.into();
    }

    fn settings(&self) -> Arc<[SettingView]> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RestState {
    /// The state for one run of a gateway.
    pub fn new(front_end: Arc<FrontEndState>, reload: Reload) -> Self {
        let run_id = uuid::Uuid::new_v4().to_string().into();
        let (running_calls, chat_turns) = Default::default();
        let (clock, store) = (front_end.engine.clock(), front_end.engine.store());
        let console_sessions = ConsoleSessions::new(clock.clone(), store.clone());
        let console_logins = Arc::new(ConsoleLogins::new(clock.clone(), store.clone()));
        let owner_browsers = Arc::new(OwnerBrowsers::new(clock.clone()));
        Self {
            front_end,
            reload,
            config: Arc::default(),
            run_id,
            console_sessions,
            console_logins,
            owner_browsers,
            running_calls,
            chat_turns,
            access_log: None,
            project_trust: None,
            server_entries: None,
        }
    }

    /// The engine that runs the requests.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.front_end.engine
    }

    /// Sets the configuration status that administrators can see.
    #[must_use]
    pub fn reporting(self, config: Arc<ConfigStatus>) -> Self {
        Self { config, ..self }
    }

    /// Sets the access log whose counts the metrics show.
    #[must_use]
    pub fn counting(self, access_log: Option<Arc<AccessLog>>) -> Self {
        Self { access_log, ..self }
    }

    /// Sets the project files that the owner can trust.
    #[must_use]
    pub fn trusting(self, project_trust: Arc<dyn ProjectTrust>) -> Self {
        Self { project_trust: Some(project_trust), ..self }
    }

    /// Sets the configuration file that the owner can add servers to.
    #[must_use]
    pub fn editing(self, server_entries: Arc<dyn ServerEntries>) -> Self {
        Self { server_entries: Some(server_entries), ..self }
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
    job_requests::start,
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
    calls::draft,
    calls::list,
    calls::running,
    calls::show,
    calls::cancel,
    chat::models,
    chat::turn,
    registry::show,
    registry::personas,
    prompts::list,
    prompts::get,
    prompts::complete,
    resources::read,
    skills::list,
    skills::changes,
    skills::show,
    skills::validate,
    skills::run,
    skill_runs::list,
    skill_runs::show,
    stats::stats,
    stats::series,
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
    jobs::list,
    jobs::create,
    jobs::show,
    jobs::patch,
    jobs::delete,
    jobs::transition,
    jobs::pause,
    jobs::resume,
    jobs::run,
    jobs::rerun,
    jobs::follow,
    job_runs::list,
    job_runs::show,
    job_runs::decide,
    job_runs::confirm,
    tasks::list,
    tasks::create,
    tasks::search,
    tasks::show,
    tasks::patch,
    tasks::delete,
    tasks::transition,
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
    server_entries::add,
    server_entries::remove,
    server_entry_edits::show,
    server_entry_edits::replace,
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
    configuration::settings,
    manifests::list,
    metrics::metrics,
    trust::waiting,
    trust::trust,
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
