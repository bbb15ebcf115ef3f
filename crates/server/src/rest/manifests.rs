//! Manifests over REST: what became of each entry.

use super::Rest;
use super::who::Keeper;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use toolbooth_core::catalog::{EntryPlace, EntryStanding};
use toolbooth_core::manifest::Scope;

/// `GET /manifests`.
pub async fn list(State(rest): State<Rest>, Keeper(_): Keeper) -> Json<Value> {
    let engine = &rest.door.engine;
    let standing = engine.manifest_entries();
    let entries: Vec<Value> = standing.iter().map(view).collect();
    let said = engine.manifests();
    Json(json!({ "revision": engine.catalog().revision, "entries": entries, "kept": said.kept }))
}

fn view(entry: &EntryStanding) -> Value {
    let EntryStanding { name, scope, origin, place } = entry;
    let persona = match scope {
        Scope::Shared => None,
        Scope::Persona(name) => Some(name),
    };
    let (state, tool, reason) = match place {
        EntryPlace::Over { tool } => ("overlay", Some(tool.clone()), None),
        EntryPlace::Virtual => ("virtual", Some(format!("tool.{name}")), None),
        EntryPlace::Waiting => ("waiting", None, None),
        EntryPlace::SetAside(reason) => ("set_aside", None, Some(reason)),
    };
    json!({ "name": name, "persona": persona, "state": state, "tool": tool, "reason": reason, "origin": origin })
}
