//! Search queries and their errors.

use regex::{Regex, RegexBuilder};
use toolbooth_core::fault::{Blame, Fault};

/// Maximum number of hits of one search.
pub const MAX_HITS: usize = 50;
/// Maximum number of texts of one search.
const MAX_TEXTS: usize = 16;
/// Maximum number of bytes read of a text.
const MAX_TEXT: usize = 4_000;
/// Maximum length of a pattern.
const MAX_PATTERN: usize = 1_000;
/// Maximum size of a compiled pattern.
const MAX_COMPILED: usize = 256 * 1024;

/// An invalid search query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is empty.
    #[error("the search is empty")]
    Blank,
    /// The query has too many texts.
    #[error("a search of {0} texts is over the limit of {MAX_TEXTS}")]
    Many(usize),
    /// The pattern is not a valid regular expression.
    #[error("the pattern is not valid: {reason}, at character {at}")]
    Pattern {
        /// The position in the pattern, counted from one.
        at: usize,
        /// The reason.
        reason: String,
    },
    /// The pattern is too long, or too large when compiled.
    #[error("the pattern is too large")]
    Large,
}

impl Fault for QueryError {
    fn code(&self) -> &'static str {
        match self {
            Self::Blank => "search.blank",
            Self::Many(_) => "search.too-many",
            Self::Pattern { .. } => "search.bad-pattern",
            Self::Large => "search.pattern-too-large",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Blank => "describe in a few words what the tool should do",
            Self::Many(_) => "search for fewer texts at a time",
            Self::Pattern { .. } => {
                "the syntax is that of the Rust crate `regex`; without `regex`, the text is searched as words"
            }
            Self::Large => "use a shorter pattern with smaller repetitions",
        };
        Some(hint.to_owned())
    }
}

/// A regular expression that a tool's name, description or parameter names must match, ignoring case.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern. Matching takes time linear in the length of the text.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.trim().is_empty() {
            return Err(QueryError::Blank);
        }
        if text.len() > MAX_PATTERN {
            return Err(QueryError::Large);
        }
        let mut builder = RegexBuilder::new(text);
        builder.case_insensitive(true).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).nest_limit(50);
        match builder.build() {
            Ok(regex) => Ok(Self(regex)),
            Err(regex::Error::CompiledTooBig(_)) => Err(QueryError::Large),
            Err(error) => Err(located(text, &error)),
        }
    }

    /// Whether a text matches the pattern.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The words of the pattern, which rank its hits.
    pub(crate) fn words(&self) -> String {
        let text = self.0.as_str();
        let mut words = String::with_capacity(text.len());
        let mut escaped = false;
        for c in text.chars() {
            // The letters of `\b`, `\w` and similar escapes are not part of a word.
            words.push(if escaped || !(c.is_alphanumeric() || c == '_') { ' ' } else { c });
            escaped = c == '\\' && !escaped;
        }
        words
    }
}

/// Reads the position of a syntax error from the parser's message, which marks it with a caret under the pattern.
fn located(pattern: &str, error: &regex::Error) -> QueryError {
    let text = error.to_string();
    let reason = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "))
        .unwrap_or("not a pattern")
        .to_owned();
    let caret = text.lines().find(|line| line.trim_start().starts_with('^')).and_then(|line| line.find('^'));
    let indent = text
        .lines()
        .find(|line| line.trim_start() == pattern.trim_start())
        .map_or(4, |line| line.len() - pattern.len());
    let at = caret.map_or(1, |caret| caret.saturating_sub(indent) + 1);
    QueryError::Pattern { at, reason }
}

/// A search query.
#[derive(Debug, Clone)]
pub struct Query {
    /// The requests, in words or as names; a tool that fits any of them is a hit.
    pub texts: Vec<String>,
    /// A pattern that a hit's name, description or parameter names must match.
    pub pattern: Option<Pattern>,
    /// Only tools of these servers are hits; empty means all servers. The order of the hits does not depend on it.
    pub servers: Vec<String>,
    /// Maximum number of hits.
    pub limit: usize,
}

impl Query {
    /// Default number of hits.
    pub const USUAL_HITS: usize = 5;

    /// A search for texts.
    pub fn new(texts: Vec<String>, limit: usize) -> Result<Self, QueryError> {
        Self::checked(texts, None, limit)
    }

    /// A search for tools that match a pattern.
    pub fn by_pattern(pattern: &str, limit: usize) -> Result<Self, QueryError> {
        Self::checked(Vec::new(), Some(Pattern::parse(pattern)?), limit)
    }

    /// A search for texts among the tools that match a pattern.
    pub fn checked(texts: Vec<String>, pattern: Option<Pattern>, limit: usize) -> Result<Self, QueryError> {
        let mut texts: Vec<String> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
        if texts.is_empty() && pattern.is_none() {
            return Err(QueryError::Blank);
        }
        if texts.len() > MAX_TEXTS {
            return Err(QueryError::Many(texts.len()));
        }
        for text in &mut texts {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
        }
        Ok(Self { texts, pattern, servers: Vec::new(), limit: limit.clamp(1, MAX_HITS) })
    }

    /// The same search among the tools of these servers; an empty list means all servers.
    pub fn on_servers(self, servers: Vec<String>) -> Self {
        Self { servers, ..self }
    }

    /// Whether tools of this server can be hits.
    pub(crate) fn covers_server(&self, name: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|server| server == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_queries_report_the_reason() {
        let cases = [
            ("", "search.blank the search is empty"),
            ("  ", "search.blank the search is empty"),
            ("a(b", "search.bad-pattern the pattern is not valid: unclosed group, at character 2"),
            (
                "ab[z-a]",
                "search.bad-pattern the pattern is not valid: invalid character class range, the start must be <= the end, at character 4",
            ),
            ("(a{1000}){1000}", "search.pattern-too-large the pattern is too large"),
        ];
        for (pattern, expected) in cases {
            let error = Query::by_pattern(pattern, 5).expect_err(pattern);
            assert_eq!(format!("{} {error}", error.code()), expected);
        }
        assert_eq!(Query::new(vec![" ".into()], 5).expect_err("blank"), QueryError::Blank);
        assert_eq!(Query::new(vec!["a".into(); 17], 5).expect_err("many"), QueryError::Many(17));
        assert_eq!(Query::new(vec!["a".into()], 900).expect("a query").limit, 50);
    }

    #[test]
    fn the_words_of_a_pattern_exclude_its_syntax() {
        let words = Pattern::parse(r"^get_\w+\b(file|image)s?$").expect("a pattern").words();
        assert_eq!(words.split_whitespace().collect::<Vec<_>>(), ["get_", "file", "image", "s"]);
    }
}
