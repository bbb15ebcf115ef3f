//! Clauses: a long request often asks for several things, and each of them may need a different tool.

/// Maximum number of clauses that are searched separately.
const MAX_CLAUSES: usize = 12;
/// Minimum number of words in a clause.
const MIN_CLAUSE_WORDS: usize = 2;
/// A request with fewer words than this counts as one clause.
const MIN_REQUEST_WORDS: usize = 12;
/// Words that begin another clause.
const CONJUNCTIONS: &[&str] = &["and", "then", "also", "after", "before", "plus", "or"];

/// The clauses of a request; empty if it has only one.
pub(crate) fn clauses(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    if text.split_whitespace().take(MIN_REQUEST_WORDS).count() < MIN_REQUEST_WORDS {
        return found;
    }
    let mut rest = text;
    while !rest.is_empty() && found.len() < MAX_CLAUSES {
        let (clause, after) = cut(rest);
        let clause = clause.trim(); // An encoder's vectors are looked up by the trimmed text.
        rest = after;
        if clause.split_whitespace().count() >= MIN_CLAUSE_WORDS {
            found.push(clause);
        }
    }
    if found.len() > 1 { found } else { Vec::new() }
}

/// The first clause and the rest of the text. Does not cut if the clause would be too short.
fn cut(text: &str) -> (&str, &str) {
    let mut words = 0;
    let mut from = 0;
    for (at, c) in text.char_indices() {
        let ends = matches!(c, ',' | ';' | '\n' | '。' | '，' | '；' | '、')
            || (matches!(c, '.' | '?' | '!' | '+' | '&') && text[at + 1..].starts_with(char::is_whitespace));
        if ends && (words >= MIN_CLAUSE_WORDS - 1 || matches!(c, '.' | '?' | '!' | '\n')) {
            return (&text[..at], &text[at + c.len_utf8()..]);
        }
        if !c.is_whitespace() {
            continue;
        }
        let word = text[from..at].trim();
        if words >= MIN_CLAUSE_WORDS
            && CONJUNCTIONS.iter().any(|conjunction| word.eq_ignore_ascii_case(conjunction))
        {
            return (&text[..from], &text[at..]);
        }
        words += usize::from(!word.is_empty());
        from = at;
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_cut_at_the_start_of_each_clause() {
        let cases = [
            ("send an email", ""),
            (
                "search and replace text in the file and in all of its copies",
                "search and replace text in the file|in all of its copies",
            ),
            (
                "find the weather in Rome for me today and then book a cheap flight",
                "find the weather in Rome for me today|then book a cheap flight",
            ),
            (
                "Read the report of last week. Save it as a PDF to my folder, please",
                "Read the report of last week|Save it as a PDF to my folder",
            ),
            ("search and replace text", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(clauses(text).join("|"), expected, "{text}");
        }
    }

    #[test]
    fn at_most_twelve_clauses_are_searched_separately() {
        for count in [12, 13] {
            let text: Vec<String> = (1..=count).map(|number| format!("find thing {number}")).collect();
            let text = text.join(", ");
            let found = clauses(&text);
            assert_eq!((found.len(), found.last()), (12, Some(&"find thing 12")), "{count} clauses");
        }
    }
}
