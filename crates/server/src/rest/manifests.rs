//! Manifests over REST: the state of each entry.

use super::RestState;
use super::auth::AdminCaller;
use super::extract::NoQuery;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};
use toolbooth_core::catalog::{EntryOutcome, EntryReport};
use toolbooth_core::manifest::ManifestScope;
use utoipa::ToSchema;

/// The entries of all manifests.
#[derive(Debug, Serialize, ToSchema)]
pub struct ManifestList {
    /// The revision of the catalog.
    revision: u64,
    /// The entries with their states.
    #[schema(value_type = Vec<Object>)]
    entries: Vec<Value>,
    /// Files that can no longer be parsed; their last good entries stay in force.
    kept: Vec<String>,
}

/// Lists the entries of manifests with their states. Administrators only.
#[utoipa::path(
    get,
    path = "/manifests",
    responses(
        (status = 200, description = "The entries.", body = ManifestList),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn list(
    State(rest): State<RestState>,
    AdminCaller(_): AdminCaller,
    _: NoQuery,
) -> Json<ManifestList> {
    let engine = rest.engine();
    let entries: Vec<Value> = engine.catalog().manifest_entries().iter().map(view).collect();
    let kept = engine.catalog().manifests().stale_files.clone();
    Json(ManifestList { revision: engine.catalog().load().revision, entries, kept })
}

fn view(entry: &EntryReport) -> Value {
    let EntryReport { name, scope, origin, outcome } = entry;
    let persona = match scope {
        ManifestScope::Shared => None,
        ManifestScope::Persona(name) => Some(name),
    };
    let (state, tool, reason) = match outcome {
        EntryOutcome::Overlay { tool } | EntryOutcome::Replacement { tool } => {
            ("overlay", Some(tool.clone()), None)
        }
        EntryOutcome::Virtual => ("virtual", Some(format!("tool.{name}")), None),
        EntryOutcome::Waiting => ("waiting", None, None),
        EntryOutcome::SetAside(reason) => ("set_aside", None, Some(reason)),
    };
    // The server's own tool can no longer be called, which operators should know.
    let replaces = matches!(outcome, EntryOutcome::Replacement { .. });
    json!({
        "name": name, "persona": persona, "state": state, "tool": tool, "reason": reason, "origin": origin,
        "replaces": replaces,
    })
}
