//! Clauses: a long request often asks for several things, and each of them has a tool of its own.

/// More clauses than this are not looked at on their own.
const MAX_CLAUSES: usize = 5;
/// A clause has at least so many words.
const LEAST_WORDS: usize = 2;
/// A request with fewer words than this asks for one thing.
const LEAST_ASKED: usize = 12;
/// Words that begin another thing to do.
const TURNS: &[&str] = &["and", "then", "also", "after", "before", "plus", "or"];

/// The clauses of a request, where it has several.
pub(super) fn clauses(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    if text.split_whitespace().take(LEAST_ASKED).count() < LEAST_ASKED {
        return found;
    }
    let mut rest = text;
    while !rest.is_empty() && found.len() < MAX_CLAUSES {
        let (clause, after) = cut(rest);
        let clause = clause.trim(); // As they are looked for among an encoder's vectors.
        rest = after;
        if clause.split_whitespace().count() >= LEAST_WORDS {
            found.push(clause);
        }
    }
    if found.len() > 1 { found } else { Vec::new() }
}

/// The first clause and what follows it. A cut that would leave too short a clause is not made.
fn cut(text: &str) -> (&str, &str) {
    let mut words = 0;
    let mut from = 0;
    for (at, c) in text.char_indices() {
        let ends = matches!(c, ',' | ';' | '\n' | '。' | '，' | '；' | '、')
            || (matches!(c, '.' | '?' | '!' | '+' | '&') && text[at + 1..].starts_with(char::is_whitespace));
        if ends && (words >= LEAST_WORDS - 1 || matches!(c, '.' | '?' | '!' | '\n')) {
            return (&text[..at], &text[at + c.len_utf8()..]);
        }
        if !c.is_whitespace() {
            continue;
        }
        let word = text[from..at].trim();
        if words >= LEAST_WORDS && TURNS.iter().any(|turn| word.eq_ignore_ascii_case(turn)) {
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
    fn requests_are_cut_where_another_begins() {
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
}
