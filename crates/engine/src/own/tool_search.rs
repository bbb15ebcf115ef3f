//! `mcp_tool_search`: finds tools by what they do, within a token budget.

use super::{OwnToolResult, OwnTools, text_block};
use crate::search::SearchResults;
use serde::Deserialize;
use serde_json::json;
use toolbooth_core::call::Sealed;
use toolbooth_core::exposure::{AnswerHit, LEAST_HITS, search_answer, signature};
use toolbooth_core::fault::Fault;
use toolbooth_core::json::RawJson;
use toolbooth_core::weigh;
use toolbooth_search::{MAX_HITS, Pattern, Query, QueryError};

#[derive(Debug, Deserialize)]
struct SearchToolsArguments {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    queries: Vec<String>,
    #[serde(default)]
    regex: Option<String>,
    // `5.0` is an integer in JSON Schema.
    #[serde(default)]
    limit: Option<f64>,
}

impl OwnTools {
    /// Searches, marks the results as loaded, and returns them within the token budget.
    pub(super) async fn search_tools(&self, call: &Sealed) -> OwnToolResult {
        let terms = self.terms.load().exposure.clone();
        let arguments: SearchToolsArguments = call.arguments().read().map_err(|error| error.to_string())?;
        // A limit in the request counts whatever the budget.
        let least = if arguments.limit.is_some() { MAX_HITS } else { LEAST_HITS };
        let query = query_of(arguments, terms.search_limit).map_err(|error| error_text(&error))?;
        let SearchResults { hits: mut found, notes } = self.search.find(call.caller(), &query).await;
        let notes: Vec<String> = notes.into_iter().map(|note| note.text).collect();
        let hits: Vec<AnswerHit<'_>> =
            found.iter().map(|hit| AnswerHit { tool: &hit.tool, score: hit.score }).collect();
        let answer = search_answer(&hits, &notes, terms.answer_tokens, least);
        found.truncate(answer.hits);
        self.exposure.load(call.caller(), call.client(), found.iter().map(|hit| &hit.tool));
        let names: Vec<&str> = found.iter().map(|hit| &*hit.tool.exposed).collect();
        self.exposure.stats().loaded(call.caller(), call.client(), &names, weigh::tokens(&answer.text));
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
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn query_of(arguments: SearchToolsArguments, default_limit: usize) -> Result<Query, QueryError> {
    let SearchToolsArguments { query, queries, regex, limit } = arguments;
    let limit = limit.map_or(default_limit, |limit| limit as usize).clamp(1, MAX_HITS);
    let pattern = regex.as_deref().map(Pattern::parse).transpose()?;
    Query::checked(query.into_iter().chain(queries).collect(), pattern, limit)
}

fn error_text(error: &QueryError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}
