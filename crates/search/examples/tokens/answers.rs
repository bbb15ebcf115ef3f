//! The cost of searching: tokens of the answers of the product's own search.

use super::tool_lists::percentile;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;
use toolbooth_core::exposure::{AnswerHit, ExposureTerms, LEAST_HITS, search_answer};
use toolbooth_core::weigh;
use toolbooth_search::{Query, search};

/// The number of tools from which queries are made if none are given.
const MADE: usize = 200;
/// The most queries.
const MOST: usize = 1500;

/// Tokens of answers, sorted.
pub struct AnswerCosts(Vec<u32>);

impl AnswerCosts {
    /// Runs all queries, and counts the tokens of the answers.
    pub fn to(catalog: &Catalog, caller: &Caller, queries: &[String], terms: &ExposureTerms) -> Result<Self> {
        let mut each = Vec::with_capacity(queries.len());
        for text in queries.iter().take(MOST) {
            let query = Query::checked(vec![text.clone()], None, terms.search_limit)?;
            let found = search(catalog, caller, &query);
            let hits: Vec<AnswerHit<'_>> =
                found.iter().map(|hit| AnswerHit { tool: &hit.tool, score: hit.score }).collect();
            each.push(weigh::tokens(&search_answer(&hits, &[], terms.answer_tokens, LEAST_HITS).text));
        }
        each.sort_unstable();
        Ok(Self(each))
    }

    /// The number of answers.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The mean tokens of an answer.
    pub fn mean(&self) -> u64 {
        let count = u64::try_from(self.0.len()).unwrap_or(u64::MAX).max(1);
        (self.0.iter().map(|tokens| u64::from(*tokens)).sum::<u64>() + count / 2) / count
    }

    /// A percentile of the tokens.
    pub fn percentile(&self, percent: usize) -> u32 {
        percentile(&self.0, percent)
    }
}

/// Reads the queries of a file: lines of objects with a `query`.
pub fn read(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let queries = lines.map(|line| {
        let query: Value = serde_json::from_str(line)?;
        Ok(query["query"].as_str().context("a line has no `query`")?.to_owned())
    });
    queries.collect()
}

/// Makes queries from the first words of some tools' descriptions.
pub fn made(catalog: &Catalog, caller: &Caller) -> Vec<String> {
    let tools: Vec<_> = catalog.tools(caller).collect();
    let step = tools.len().div_ceil(MADE).max(1);
    let words = tools.iter().step_by(step).filter_map(|tool| {
        let description = tool.description()?;
        Some(description.split_whitespace().take(10).collect::<Vec<_>>().join(" "))
    });
    words.filter(|words| !words.is_empty()).collect()
}
