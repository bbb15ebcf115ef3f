//! Manifests over REST: what became of each entry.

use super::Rest;
use super::asked::Nothing;
use super::who::Keeper;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};
use toolbooth_core::catalog::{EntryPlace, EntryStanding};
use toolbooth_core::manifest::Scope;
use utoipa::ToSchema;

/// What manifests say, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ManifestList {
    /// The catalog's revision.
    revision: u64,
    /// Each entry, with where it stands.
    #[schema(value_type = Vec<Object>)]
    entries: Vec<Value>,
    /// Files that no longer parse, and whose last good entries hold.
    kept: Vec<String>,
}

/// Lists the entries of manifests, and what became of each.
#[utoipa::path(
    get,
    path = "/manifests",
    responses(
        (status = 200, description = "The entries.", body = ManifestList),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn list(State(rest): State<Rest>, Keeper(_): Keeper, _: Nothing) -> Json<ManifestList> {
    let engine = &rest.door.engine;
    let entries: Vec<Value> = engine.manifest_entries().iter().map(view).collect();
    let kept = engine.manifests().kept.clone();
    Json(ManifestList { revision: engine.catalog().revision, entries, kept })
}

fn view(entry: &EntryStanding) -> Value {
    let EntryStanding { name, scope, origin, place } = entry;
    let persona = match scope {
        Scope::Shared => None,
        Scope::Persona(name) => Some(name),
    };
    let (state, tool, reason) = match place {
        EntryPlace::Over { tool } | EntryPlace::Instead { tool } => ("overlay", Some(tool.clone()), None),
        EntryPlace::Virtual => ("virtual", Some(format!("tool.{name}")), None),
        EntryPlace::Waiting => ("waiting", None, None),
        EntryPlace::SetAside(reason) => ("set_aside", None, Some(reason)),
    };
    // The server's own tool cannot be called any more, which an operator should know.
    let replaces = matches!(place, EntryPlace::Instead { .. });
    json!({
        "name": name, "persona": persona, "state": state, "tool": tool, "reason": reason, "origin": origin,
        "replaces": replaces,
    })
}
