//! Reads parts of a kept file, by character offset or by a pattern. Pure and bounded; `jq` filters run elsewhere.

use regex::RegexBuilder;

/// Default number of characters returned.
pub const DEFAULT_LIMIT: usize = 8_000;
/// Maximum size of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Maximum length of a pattern.
pub const MAX_PATTERN_CHARS: usize = 1_000;
/// Of a longer line only the part around its match is shown.
const MAX_LINE: usize = 400;

/// A slice of a text, by characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSlice {
    /// The text.
    pub text: String,
    /// Its start.
    pub offset: usize,
    /// The start of the next slice, if there is one.
    pub next: Option<usize>,
    /// The number of characters of the whole text.
    pub total: usize,
}

/// The slice of a text that starts at a character offset and has at most `limit` characters.
pub fn text_slice(text: &str, offset: usize, limit: usize) -> TextSlice {
    let total = text.chars().count();
    let part: String = text.chars().skip(offset).take(limit).collect();
    let end = offset.saturating_add(part.chars().count()).min(total.max(offset));
    TextSlice { text: part, offset, next: (end < total).then_some(end), total }
}

/// The matches of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matches {
    /// Lines that match, each with its number and the offset of the match in characters.
    pub text: String,
    /// Number of lines in `text`.
    pub shown: usize,
    /// The offset to continue the search at, if there are more matches.
    pub next: Option<usize>,
}

/// Errors of patterns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// The pattern is too long.
    #[error("`pattern` has more than {MAX_PATTERN_CHARS} characters")]
    TooLong,
    /// The pattern is not a valid regular expression, or is too large.
    #[error("`pattern` is not a usable regular expression: {0}")]
    Bad(String),
}

/// The lines that match, from a character offset on, in at most `limit` characters. Takes time linear in the text.
pub fn matches(text: &str, pattern: &str, offset: usize, limit: usize) -> Result<Matches, PatternFault> {
    if pattern.chars().count() > MAX_PATTERN_CHARS {
        return Err(PatternFault::TooLong);
    }
    let pattern = RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| PatternFault::Bad(last_line(&error.to_string())))?;
    let mut found = Matches::default();
    let mut left = limit;
    let mut place = 0;
    for (number, line) in text.split('\n').enumerate() {
        let start = place;
        let length = line.chars().count();
        place += length + 1;
        if start + length < offset {
            continue;
        }
        let Some(hit) = pattern.find(line) else { continue };
        let before = line[..hit.start()].chars().count();
        let shown = around(line, before, length);
        let row = format!("{}@{}: {shown}\n", number + 1, start + before);
        let cost = row.chars().count();
        if cost > left && found.shown > 0 {
            found.next = Some(start);
            break;
        }
        left = left.saturating_sub(cost);
        found.text.push_str(&row);
        found.shown += 1;
    }
    Ok(found)
}

/// A line, or the part of a long line around a match.
fn around(line: &str, at: usize, length: usize) -> String {
    if length <= MAX_LINE {
        return line.trim_end_matches('\r').to_owned();
    }
    let from = at.saturating_sub(MAX_LINE / 4);
    let part: String = line.chars().skip(from).take(MAX_LINE).collect();
    let (head, tail) = (if from > 0 { "…" } else { "" }, if from + MAX_LINE < length { "…" } else { "" });
    format!("{head}{part}{tail}")
}

fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_found_with_their_offsets() {
        let text = "alpha\nbéta 12\r\ngamma 7\n";
        let found = matches(text, r"\d+", 0, 1_000).expect("a pattern");
        assert_eq!(found.text, "2@11: béta 12\n3@21: gamma 7\n");
        assert_eq!(text_slice(text, 11, 2).text, "12");
        let first = matches(text, r"\d+", 0, 5).expect("a pattern");
        assert_eq!((first.shown, first.next), (1, Some(15)));
        let rest = matches(text, r"\d+", 15, 1_000).expect("a pattern");
        assert_eq!(rest.text, "3@21: gamma 7\n");
        let long = format!("{}needle{}", "x".repeat(10_000), "y".repeat(10_000));
        assert!(matches(&long, "needle", 0, 1_000).expect("a pattern").text.chars().count() < 500);
    }

    #[test]
    fn patterns_are_bounded() {
        for bad in ["(", "a{1000}{1000}{1000}", &"a".repeat(1_001), r"(?P<x>\w{500}){500}"] {
            assert!(matches("text", bad, 0, 10).is_err(), "{}", &bad[..bad.len().min(30)]);
        }
        let text = "a".repeat(200_000);
        assert_eq!(matches(&text, "(a*)*b", 0, 10).expect("linear").shown, 0);
    }

    proptest! {
        #[test]
        fn consecutive_slices_are_the_whole(text in "[a-zé\u{1f600}\n]{0,200}", limit in 1_usize..40) {
            let mut whole = String::new();
            let mut next = Some(0);
            while let Some(offset) = next {
                let part = text_slice(&text, offset, limit);
                prop_assert_eq!(part.total, text.chars().count());
                whole.push_str(&part.text);
                next = part.next;
            }
            prop_assert_eq!(whole, text);
        }
    }
}
