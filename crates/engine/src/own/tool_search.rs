//! `mcp_tool_search`: finds tools by what they do, within a token budget.

use super::{OwnToolResult, OwnTools, text_block};
use crate::search::SearchResults;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use toolbooth_core::call::Sealed;
use toolbooth_core::catalog::Tool;
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
    regex: Option<RegexArgument>,
    // `5.0` is an integer in JSON Schema.
    #[serde(default)]
    limit: Option<f64>,
}

/// `regex`: the pattern, or whether the query is the pattern.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RegexArgument {
    Flag(bool),
    Pattern(String),
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
        // A skill without a plan cannot be called, so it is not loaded.
        let is_callable = |tool: &&Arc<Tool>| tool.skill().is_none_or(|skill| skill.is_tool());
        let callable = || found.iter().map(|hit| &hit.tool).filter(is_callable);
        self.exposure.load(call.caller(), call.client(), callable());
        let names: Vec<&str> = callable().map(|tool| &*tool.exposed).collect();
        self.exposure.stats().loaded(call.caller(), call.client(), &names, weigh::tokens(&answer.text));
        let views: Vec<_> = found
            .iter()
            .map(|hit| {
                let mut view = json!({ "name": hit.tool.exposed, "server": hit.tool.server.name.as_str(),
                    "score": hit.score, "signature": signature(&hit.tool, 12) });
                if let Some(skill) = hit.tool.skill() {
                    view["kind"] = "skill".into();
                    view["uri"] = skill.uri().into();
                }
                view
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
    let texts: Vec<String> = query.into_iter().chain(queries).collect();
    match regex {
        None | Some(RegexArgument::Flag(false)) => Query::new(texts, limit),
        Some(RegexArgument::Pattern(pattern)) => {
            Query::checked(texts, Some(Pattern::parse(&pattern)?), limit)
        }
        Some(RegexArgument::Flag(true)) => match texts.as_slice() {
            [] => Err(QueryError::Blank),
            [pattern] => Query::by_pattern(pattern, limit),
            several => {
                // Each must be valid alone, so that an error names the place in it.
                several.iter().try_for_each(|pattern| Pattern::parse(pattern).map(drop))?;
                let parts: Vec<String> = several.iter().map(|pattern| format!("(?:{pattern})")).collect();
                Query::by_pattern(&parts.join("|"), limit)
            }
        },
    }
}

fn error_text(error: &QueryError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(arguments: Value) -> Result<Query, String> {
        let arguments: SearchToolsArguments =
            serde_json::from_value(arguments).map_err(|error| error.to_string())?;
        query_of(arguments, 5).map_err(|error| error.to_string())
    }

    #[test]
    fn the_query_may_be_the_pattern() {
        let cases = [
            (json!({ "query": "a b" }), 1, false),
            (json!({ "query": "a|b", "regex": true }), 0, true),
            (json!({ "query": "a|b", "regex": false }), 1, false),
            (json!({ "query": "a", "regex": "b" }), 1, true),
            (json!({ "regex": "b" }), 0, true),
            (json!({ "queries": ["a", "b"], "regex": true }), 0, true),
        ];
        for (arguments, texts, has_pattern) in cases {
            let query = read(arguments.clone()).expect("a query");
            assert_eq!((query.texts.len(), query.pattern.is_some()), (texts, has_pattern), "{arguments}");
        }
        for (arguments, expected) in [
            (json!({ "query": "[bad", "regex": true }), "at character 1"),
            (json!({ "queries": ["a", "b("], "regex": true }), "at character 2"),
            (json!({ "regex": true }), "the search is empty"),
        ] {
            let error = read(arguments.clone()).expect_err("not valid");
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }
}
