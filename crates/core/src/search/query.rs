//! What is searched for.

use crate::fault::{Blame, Fault};
use regex::{Regex, RegexBuilder};

/// The most hits one search gives.
pub const MAX_HITS: usize = 50;
/// The most texts of one search.
const MAX_TEXTS: usize = 16;
/// A text is read as far as this.
const MAX_TEXT: usize = 4_000;
/// The longest pattern.
const MAX_PATTERN: usize = 1_000;
/// What a pattern may become when compiled.
const MAX_COMPILED: usize = 256 * 1024;

/// A search that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Nothing is searched for.
    #[error("the search is empty")]
    Blank,
    /// Too many texts.
    #[error("a search of {0} texts is over the limit of {MAX_TEXTS}")]
    Many(usize),
    /// The pattern is no regular expression.
    #[error("the pattern cannot be read: {reason}, at character {at}")]
    Pattern {
        /// Where in the pattern, counted from one.
        at: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The pattern is too long, or would grow too large.
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
            Self::Blank => "say in a few words what the tool should do",
            Self::Many(_) => "ask for less at a time",
            Self::Pattern { .. } => {
                "the syntax is that of Rust's `regex` crate; without `regex` the words are searched for"
            }
            Self::Large => "use a shorter pattern with smaller repetitions",
        };
        Some(hint.to_owned())
    }
}

/// A regular expression that a tool's name, description or parameter names must match, in any case.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Reads a pattern. It takes time linear in what it is held against.
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

    /// Whether a text has what the pattern describes.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The pattern's words, by which its hits are ranked.
    pub(super) fn words(&self) -> String {
        let text = self.0.as_str();
        let mut words = String::with_capacity(text.len());
        let mut escaped = false;
        for c in text.chars() {
            // `\b`, `\w` and their like are no letters of a word.
            words.push(if escaped || !(c.is_alphanumeric() || c == '_') { ' ' } else { c });
            escaped = c == '\\' && !escaped;
        }
        words
    }
}

/// The place of a mistake: the parser marks it with a caret under the pattern, or names a range.
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

/// What is searched for.
#[derive(Debug, Clone)]
pub struct Query {
    /// What is wanted, in words or as a name; a tool that fits any of them is a hit.
    pub texts: Vec<String>,
    /// What a hit's name, description or parameter names must match.
    pub pattern: Option<Pattern>,
    /// The most hits.
    pub limit: usize,
}

impl Query {
    /// How many hits are given to those who do not say.
    pub const USUAL_HITS: usize = 5;

    /// A search for these texts.
    pub fn new(texts: Vec<String>, limit: usize) -> Result<Self, QueryError> {
        Self::checked(texts, None, limit)
    }

    /// A search for what a pattern describes.
    pub fn by_pattern(pattern: &str, limit: usize) -> Result<Self, QueryError> {
        Self::checked(Vec::new(), Some(Pattern::parse(pattern)?), limit)
    }

    /// A search for these texts among what a pattern describes.
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
        Ok(Self { texts, pattern, limit: limit.clamp(1, MAX_HITS) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_that_cannot_be_done_say_why() {
        let cases = [
            ("", "search.blank the search is empty"),
            ("  ", "search.blank the search is empty"),
            ("a(b", "search.bad-pattern the pattern cannot be read: unclosed group, at character 2"),
            (
                "ab[z-a]",
                "search.bad-pattern the pattern cannot be read: invalid character class range, the start must be <= the end, at character 4",
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
    fn the_words_of_a_pattern_are_without_its_signs() {
        let words = Pattern::parse(r"^get_\w+\b(file|image)s?$").expect("a pattern").words();
        assert_eq!(words.split_whitespace().collect::<Vec<_>>(), ["get_", "file", "image", "s"]);
    }
}
