//! Patterns, with a regex engine that runs in linear time. Patterns that it does not support, such as lookaround, are
//! not checked.

use super::MAX_PATTERN_BYTES;
use std::collections::HashMap;

/// Maximum number of patterns compiled while a catalog is admitted; more are compiled when their tool is called.
const MAX_TRIED: usize = 512;

/// Cache of compiled patterns, so that a catalog with many equal patterns compiles each once.
#[derive(Debug, Default)]
pub struct Patterns(HashMap<Box<str>, bool>);

impl Patterns {
    /// Whether a pattern compiles; true if the cache is full.
    pub(super) fn compiles(&mut self, pattern: &str) -> bool {
        if let Some(known) = self.0.get(pattern) {
            return *known;
        }
        if self.0.len() >= MAX_TRIED {
            return true;
        }
        let compiles = matcher(pattern).is_some();
        self.0.insert(pattern.into(), compiles);
        compiles
    }
}

/// Compiles a single pattern.
pub(super) fn matcher(pattern: &str) -> Option<jsonschema::Validator> {
    options().build(&serde_json::json!({ "pattern": pattern })).ok()
}

/// The options for every schema: nothing is fetched, patterns run in linear time, formats are annotations.
pub(super) fn options() -> jsonschema::ValidationOptions<'static> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
    jsonschema::options().offline().should_validate_formats(false).with_pattern_options(patterns)
}
