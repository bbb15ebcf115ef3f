//! REST: the gateway for programs that speak no MCP, the command line among them.

mod approvals;
mod asked;
mod audit;
mod calls;
mod consents;
mod dead_letters;
mod events;
mod files;
mod manifests;
mod metrics;
mod plans;
mod problem;
mod servers;
mod terms;
mod tokens;
mod tools;
mod who;

use crate::mcp::Door;
use axum::Router;
use axum::middleware;
use axum::routing::{delete, get, post};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use toolbooth_core::fault::Problem;

pub use servers::ServerView;
pub use tools::ToolView;

/// What a forced reload does; the binary knows where the configuration is.
pub type Reload =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<serde_json::Value, Problem>> + Send>> + Send + Sync>;

/// What the handlers share.
#[derive(Clone)]
pub struct Rest {
    /// The MCP door: engine and identity.
    pub door: Arc<Door>,
    /// Reads the configuration again.
    pub reload: Reload,
}

/// The routes.
pub fn router(rest: Rest) -> Router {
    let open = Router::new()
        .route("/health", get(servers::health))
        .route("/ready", get(servers::ready))
        .route("/files/download/{id}", get(files::download))
        .route("/.well-known/oauth-protected-resource", get(servers::described))
        .route("/.well-known/oauth-protected-resource/{*path}", get(servers::described));
    let known = Router::new()
        .route("/servers", get(servers::list))
        .route("/servers/reload", post(servers::reload))
        .route("/servers/{name}", get(servers::show))
        .route("/servers/{name}/{action}", post(servers::act))
        .route("/servers/{name}/logs", get(servers::logs))
        .route("/manifests", get(manifests::list))
        .route("/me", get(who::me))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{id}", delete(tokens::revoke))
        .route("/tools", get(tools::list))
        .route("/tools/{name}", get(tools::show))
        .route("/tools/{name}/call", post(calls::call))
        .route("/approvals", get(approvals::list))
        .route("/approvals/{id}", get(approvals::show))
        .route("/approvals/{id}/approve", post(approvals::approve))
        .route("/approvals/{id}/reject", post(approvals::reject))
        .route("/plans", get(plans::list).post(plans::on).delete(plans::off))
        .route("/plans/{id}", get(plans::show))
        .route("/plans/{id}/approve", post(plans::approve))
        .route("/plans/{id}/reject", post(plans::reject))
        .route("/consents", get(consents::list))
        .route("/dead-letters", get(dead_letters::list))
        .route("/dead-letters/{id}", get(dead_letters::show).delete(dead_letters::give_up))
        .route("/dead-letters/{id}/replay", post(dead_letters::replay))
        .route("/consents/{id}", delete(consents::revoke))
        .route("/files", get(files::list).post(files::put))
        .route("/files/{id}", get(files::show).delete(files::remove))
        .route("/files/{id}/content", get(files::content))
        .route("/events", get(events::follow))
        .route("/events/recent", get(events::recent))
        .route("/metrics", get(metrics::metrics))
        .route("/audit", get(audit::list))
        .route("/audit/verify", post(audit::verify))
        .route_layer(middleware::from_fn_with_state(rest.clone(), who::identified));
    open.merge(known).fallback(problem::not_found).with_state(rest)
}
