//! `mcp_tool_search`: finding tools by what they do, answered within a budget of tokens.

use super::{Told, text_block};
use crate::engine::{Engine, Managed};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use toolbooth_core::call::Sealed;
use toolbooth_core::caller::Caller;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::exposure::{AnswerHit, search_answer, signature};
use toolbooth_core::fault::Fault;
use toolbooth_core::json::RawJson;
use toolbooth_core::permission::{Permission, on_server};
use toolbooth_core::search::{Hit, MAX_HITS, Pattern, Query, QueryError};
use toolbooth_upstream::ServerState;

#[derive(Debug, Deserialize)]
struct Wanted {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    queries: Vec<String>,
    #[serde(default)]
    regex: Option<String>,
    // `5.0` is a whole number to a schema.
    #[serde(default)]
    limit: Option<f64>,
}

impl Engine {
    /// Searches, marks what was found as loaded, and writes it down in as few tokens as it may take.
    pub(super) async fn search_tools(&self, call: &Sealed) -> Told {
        let terms = self.terms().exposure.clone();
        let wanted: Wanted = call.arguments().read().map_err(|error| error.to_string())?;
        let query = read(wanted, terms.search_limit).map_err(|error| told(&error))?;
        let found = self.find_tools(call.caller(), query).await?;
        let notes = self.notes_on(call.caller(), &found);
        self.load(call.caller(), call.client(), found.iter().map(|hit| &hit.tool));
        let hits: Vec<AnswerHit<'_>> =
            found.iter().map(|hit| AnswerHit { tool: &hit.tool, score: hit.score }).collect();
        let answer = search_answer(&hits, &notes, terms.answer_tokens);
        let views: Vec<_> = found
            .iter()
            .map(|hit| {
                json!({ "name": hit.tool.exposed, "server": hit.tool.server.name.as_str(),
                    "score": hit.score, "signature": signature(&hit.tool, 12) })
            })
            .collect();
        let about = json!({ "hits": views, "best_in_full": answer.has_definition, "notes": notes });
        Ok((vec![text_block(&answer.text)], RawJson::from_value(&about)))
    }

    /// The tools that fit best. A large catalog's first search takes a moment: it runs beside the calls.
    async fn find_tools(&self, caller: &Arc<Caller>, query: Query) -> Result<Vec<Hit>, String> {
        let (catalog, searcher) = (Arc::clone(&self.catalog()), caller.clone());
        let searching = tokio::task::spawn_blocking(move || catalog.search(&searcher, &query));
        let found = searching.await.map_err(|_| "the search failed".to_owned())?;
        let event = Event::new(EventKind::ToolSearch).user(caller.user.clone());
        self.emit(event.with("hits", found.len()));
        Ok(found)
    }

    /// What the caller should know of servers: those of hits that are away, and those that need somebody to sign in.
    fn notes_on(&self, caller: &Caller, found: &[Hit]) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, managed) in self.servers().iter() {
            let Managed::Running { server, .. } = managed else { continue };
            if on_server(caller, &server.entry) != Permission::Granted {
                continue;
            }
            let is_of_hit = || found.iter().any(|hit| hit.tool.server.name == *name);
            match server.state() {
                ServerState::NeedsAuth(_) => {
                    notes.push(format!("`{name}` needs a sign-in first; tools of it may be missing here"));
                }
                // One that nobody has asked for yet connects when it is called.
                ServerState::Connected | ServerState::Disconnected | ServerState::Connecting => {}
                state if is_of_hit() => notes.push(format!("`{name}` cannot be reached now ({})", state.as_str())),
                _ => {}
            }
        }
        notes
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast ends at the bounds")]
fn read(wanted: Wanted, usual: usize) -> Result<Query, QueryError> {
    let Wanted { query, queries, regex, limit } = wanted;
    let limit = limit.map_or(usual, |limit| limit as usize).clamp(1, MAX_HITS);
    let pattern = regex.as_deref().map(Pattern::parse).transpose()?;
    Query::checked(query.into_iter().chain(queries).collect(), pattern, limit)
}

fn told(error: &QueryError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}
