//! Search for callers: the catalog's ranking, with an encoder if one is configured, and notes on servers that could
//! not be searched.

use crate::catalog::LiveCatalog;
use crate::events::EventRing;
use crate::server_table::{ManagedServer, ServerTable};
use crate::shared_state::SharedState;
use crate::terms::SharedTerms;
use std::sync::Arc;
use tokio::time::Instant;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, on_server};
use toolbooth_search::{Hit, Query, mentions_server, search_with};
use toolbooth_upstream::ServerState;

/// The maximum number of notes in one answer.
const MAX_NOTES: usize = 5;

/// The results of a search, and notes on servers that could not be searched.
#[derive(Debug, Clone, Default)]
pub struct SearchResults {
    /// The best matches, best first.
    pub hits: Vec<Hit>,
    /// Servers that are relevant to the query and not available.
    pub notes: Vec<SearchNote>,
}

/// A server that is relevant to a query and not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchNote {
    /// The server.
    pub server: ServerName,
    /// The word for its state.
    pub state: &'static str,
    /// The problem, and what to do about it.
    pub text: String,
}

/// Searches the catalog for callers.
pub struct ToolSearch {
    catalog: Arc<LiveCatalog>,
    servers: Arc<ServerTable>,
    terms: SharedTerms,
    events: Arc<EventRing>,
}

impl std::fmt::Debug for ToolSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSearch").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl ToolSearch {
    pub(crate) fn new(shared: &SharedState, catalog: Arc<LiveCatalog>) -> Self {
        Self {
            catalog,
            servers: shared.servers.clone(),
            terms: shared.terms.clone(),
            events: shared.events.clone(),
        }
    }

    /// Finds the tools that match a query best among those that this caller may use.
    pub async fn find(&self, caller: &Caller, query: &Query) -> SearchResults {
        let started = Instant::now();
        let catalog = self.catalog.snapshot();
        let encoder = self.terms.load().encoder.clone();
        let encoded = match &encoder {
            Some(encoder) => encoder.encode_query(&catalog, query).await,
            None => None,
        };
        let work = {
            let (caller, query, catalog) = (caller.clone(), query.clone(), catalog.clone());
            move || search_with(&catalog, &caller, &query, encoded.as_ref())
        };
        // On a blocking thread: the first search of a snapshot builds its index, and a pattern is matched against
        // every text.
        let hits = tokio::task::spawn_blocking(work).await.unwrap_or_default();
        let notes = self.notes(caller, query, &hits, &catalog);
        let mut event = Event::new(EventKind::ToolSearch).user(caller.user.clone()).took(started.elapsed());
        event = event.with("hits", hits.len());
        for text in query.texts.iter().take(3) {
            event = event.with("query", text.as_str());
        }
        self.events.emit(event);
        SearchResults { hits, notes }
    }

    /// Servers of hits that are down, and servers that might have had hits if they were up.
    fn notes(&self, caller: &Caller, query: &Query, hits: &[Hit], catalog: &Arc<Catalog>) -> Vec<SearchNote> {
        let found = |name: &ServerName| hits.iter().any(|hit| hit.tool.server.name == *name);
        let servers = self.servers.all();
        let mut notes = Vec::new();
        for (name, managed) in servers.iter() {
            let ManagedServer::Running { server, .. } = managed else { continue };
            let Some((state, remedy)) = unavailable(&server.state_for(caller)) else { continue };
            if notes.len() >= MAX_NOTES || on_server(caller, &server.entry) != Permission::Granted {
                continue;
            }
            let listed = !server.entry.lacks_key_of(&caller.user)
                && catalog.servers().get(name).is_some_and(|part| !part.tools.is_empty());
            let text = match (found(name), listed) {
                (true, _) => format!("server `{name}` {remedy}; until then these tools cannot be called"),
                (false, false) if mentions_server(query, &server.entry) => {
                    format!("server `{name}` may have a match, but {remedy}")
                }
                _ => continue,
            };
            notes.push(SearchNote { server: name.clone(), state, text });
        }
        notes
    }
}

/// The word for a state in which a server's tools cannot be called, and the remedy.
fn unavailable(state: &ServerState) -> Option<(&'static str, &'static str)> {
    match state {
        ServerState::NeedsAuth(problem) if problem.code == "server.needs-key" => {
            Some(("needs_auth", "needs your own key"))
        }
        ServerState::NeedsAuth(_) => Some(("needs_auth", "needs a sign-in")),
        ServerState::NeedsTrust => Some(("needs_trust", "must be trusted first")),
        ServerState::Error { .. } => Some(("error", "cannot be reached now and is being retried")),
        ServerState::ConfigError(_) => Some(("config_error", "has an error in its configuration")),
        ServerState::Disabled
        | ServerState::Disconnected
        | ServerState::Connecting
        | ServerState::Connected => None,
    }
}
