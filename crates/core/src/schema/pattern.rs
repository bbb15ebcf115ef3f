//! Patterns, in an engine that cannot run away. What it cannot do, such as looking around, is not checked.

use super::MAX_PATTERN_BYTES;
use std::collections::HashMap;

/// How many patterns are tried while a catalog is admitted; more are tried when their tool is called.
const MAX_TRIED: usize = 512;

/// Patterns that have been tried, so that a catalog full of the same ones compiles each once.
#[derive(Debug, Default)]
pub struct Patterns(HashMap<Box<str>, bool>);

impl Patterns {
    /// Whether a pattern compiles, as far as there is room to find out.
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

/// A pattern, compiled by itself.
pub(super) fn matcher(pattern: &str) -> Option<jsonschema::Validator> {
    options().build(&serde_json::json!({ "pattern": pattern })).ok()
}

/// How every schema is compiled: nothing is fetched, no pattern can run away, formats are notes.
pub(super) fn options() -> jsonschema::ValidationOptions<'static> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
    jsonschema::options().offline().should_validate_formats(false).with_pattern_options(patterns)
}
