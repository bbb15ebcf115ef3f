//! Search for callers: the catalog's ranking, an encoder's word on it where one is configured, and what could not
//! be searched.

mod encoder;

pub use encoder::Encoder;

use crate::engine::{Engine, Managed};
use std::sync::Arc;
use std::time::Instant;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, on_server};
use toolbooth_core::search::{Hit, Query, speaks_of};
use toolbooth_upstream::ServerState;

/// The most notes of one answer.
const MAX_NOTES: usize = 5;

/// What a search found, and what it could not look at.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The tools that fit best, best first.
    pub hits: Vec<Hit>,
    /// Servers that matter to the query and are not well.
    pub notes: Vec<Note>,
}

/// A server that matters to a query and is not well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The server.
    pub server: ServerName,
    /// The word for its state.
    pub state: &'static str,
    /// What is so, and what can be done.
    pub text: String,
}

impl Engine {
    /// Finds the tools this caller may use that fit a query best.
    pub async fn search(&self, caller: &Caller, query: &Query) -> Found {
        let started = Instant::now();
        let catalog = self.catalog_now();
        let encoder = self.terms().encoder.clone();
        let given = match &encoder {
            Some(encoder) => encoder.given(&catalog, query).await,
            None => None,
        };
        let (view, wanted, searched) = (caller.clone(), query.clone(), catalog.clone());
        let work = move || searched.search_with(&view, &wanted, given.as_ref());
        // The first search of a snapshot makes its index, and a pattern is held against every text: calls must not
        // wait for either.
        let hits = tokio::task::spawn_blocking(work).await.unwrap_or_default();
        let notes = self.notes(caller, query, &hits, &catalog);
        let mut event = Event::new(EventKind::ToolSearch).user(caller.user.clone()).took(started.elapsed());
        event = event.with("hits", hits.len());
        for text in query.texts.iter().take(3) {
            event = event.with("query", text.as_str());
        }
        self.emit(event);
        Found { hits, notes }
    }

    /// Servers of hits that are down, and servers that may have had hits if they were up.
    fn notes(&self, caller: &Caller, query: &Query, hits: &[Hit], catalog: &Arc<Catalog>) -> Vec<Note> {
        let found = |name: &ServerName| hits.iter().any(|hit| hit.tool.server.name == *name);
        let servers = self.servers();
        let mut notes = Vec::new();
        for (name, managed) in servers.iter() {
            let Managed::Running { server, .. } = managed else { continue };
            let Some(trouble) = trouble(&server.state()) else { continue };
            if notes.len() >= MAX_NOTES || on_server(caller, &server.entry) != Permission::Granted {
                continue;
            }
            let listed = catalog.servers().get(name).is_some_and(|part| !part.tools.is_empty());
            let (state, remedy) = trouble;
            let text = match (found(name), listed) {
                (true, _) => format!("server `{name}` {remedy}; until then its tools here cannot be called"),
                (false, false) if speaks_of(query, &server.entry) => {
                    format!("server `{name}` may have a match, but {remedy}")
                }
                _ => continue,
            };
            notes.push(Note { server: name.clone(), state, text });
        }
        notes
    }
}

/// The word for a state in which nothing can be called, and what is to be done.
fn trouble(state: &ServerState) -> Option<(&'static str, &'static str)> {
    match state {
        ServerState::NeedsAuth(_) => Some(("needs_auth", "needs somebody to sign in")),
        ServerState::NeedsTrust => Some(("needs_trust", "must be trusted first")),
        ServerState::Error { .. } => Some(("error", "cannot be reached now and is tried again")),
        ServerState::ConfigError(_) => Some(("config_error", "has a mistake in its configuration")),
        ServerState::Disabled
        | ServerState::Disconnected
        | ServerState::Connecting
        | ServerState::Connected => None,
    }
}
