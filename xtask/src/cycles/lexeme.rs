//! Splits Rust source into words and signs, without comments and the content of literals.

/// A word or sign, and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lexeme<'a> {
    pub text: &'a str,
    pub line: usize,
}

impl Lexeme<'_> {
    /// Whether it is a name or keyword.
    pub fn is_word(self) -> bool {
        self.text.starts_with(is_start)
    }
}

/// Returns the words and signs in order. `::` is one sign; a literal is the sign `"`; numbers and lifetimes are
/// left out.
pub fn lexemes(text: &str) -> Vec<Lexeme<'_>> {
    let (mut found, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let (length, kept) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), None),
            '/' if rest.starts_with("/*") => (block_comment(rest), None),
            '"' => (string(rest), Some("\"")),
            '\'' => quote(rest),
            ':' if rest.starts_with("::") => (2, Some("::")),
            _ if is_start(first) => word(rest),
            _ if first.is_ascii_digit() => (word_length(rest), None),
            _ if first.is_whitespace() => (first.len_utf8(), None),
            _ => (first.len_utf8(), Some(&rest[..first.len_utf8()])),
        };
        found.extend(kept.map(|text| Lexeme { text, line }));
        let (passed, after) = rest.split_at(length.min(rest.len()));
        line += passed.matches('\n').count();
        rest = after;
    }
    found
}

fn is_start(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn word_length(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len())
}

/// A name, or a literal that starts with a letter: `r"…"`, `b'…'`, `br#"…"#`.
fn word(text: &str) -> (usize, Option<&str>) {
    let length = word_length(text);
    let (name, after) = text.split_at(length);
    let hashes = after.len() - after.trim_start_matches('#').len();
    match name {
        "r" | "br" | "cr" if after[hashes..].starts_with('"') => {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = length + hashes + 1;
            let content = text[start..].find(&end).map_or(text.len(), |at| start + at + end.len());
            (content, Some("\""))
        }
        "r" if hashes == 1 => {
            let raw = word_length(&after[1..]);
            (length + 1 + raw, Some(&after[1..=raw]))
        }
        "b" | "c" if after.starts_with('"') => (length + string(after), Some("\"")),
        "b" if after.starts_with('\'') => (length + quote(after).0, Some("\"")),
        _ => (length, Some(name)),
    }
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a literal in double quotes.
fn string(text: &str) -> usize {
    literal_end(text, b'"')
}

/// The length of a literal that ends with its first character; a backslash escapes the next one.
fn literal_end(text: &str, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// A character literal, or a lifetime.
fn quote(text: &str) -> (usize, Option<&'static str>) {
    let mut letters = text.chars().skip(1);
    let is_literal = letters.next() == Some('\\') || letters.next() == Some('\'');
    if is_literal { (literal_end(text, b'\''), Some("\"")) } else { (1 + word_length(&text[1..]), None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_literals_and_lifetimes_are_left_out() {
        let cases = [
            ("use a::b; // c::d", "use a :: b ;"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"a("b \" c", 'd', '\'', b'e', '"')"#, r#"a ( " , " , " , " , " )"#),
            (r###"r#"a "b" c"# d r"e" br"f""###, r#"" d " ""#),
            ("fn a<'b>(c: &'b str)", "fn a < > ( c : & str )"),
            ("r#type::x1 0x1f 1.5", "type :: x1 ."),
        ];
        for (text, expected) in cases {
            let found: Vec<&str> = lexemes(text).iter().map(|lexeme| lexeme.text).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let lines: Vec<usize> =
            lexemes("a\n/* \n */ b \"\n\n\" c").iter().map(|lexeme| lexeme.line).collect();
        assert_eq!(lines, [1, 3, 3, 5]);
    }
}
