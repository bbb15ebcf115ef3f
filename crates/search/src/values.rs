//! Values: the parts of a request that are arguments for a tool and do not describe it. The tool that adds two numbers
//! is the same for all numbers, so values do not count towards the meaning of a request.

use crate::pieces::PieceVocabulary;

/// Longer quotations are not values but part of the request.
const MAX_QUOTED: usize = 120;
/// A word with digits and more pieces than this is an identifier; `mp3` and `ec2` are words.
const MAX_PIECES: usize = 2;

/// Whether a passage of a request is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// Ordinary text.
    Unquoted,
    /// In quotes: most likely a value.
    Quoted,
}

/// Calls `visit` with each passage of a request in order: quoted ones and the text between them.
pub(crate) fn each_passage<'a>(request: &'a str, visit: &mut impl FnMut(Quoting, &'a str)) {
    let (mut from, mut at, mut before) = (0, 0, None);
    while let Some(c) = request[at..].chars().next() {
        let after = at + c.len_utf8();
        let length = quote_length(c, before, &request[after..]);
        before = Some(c);
        at = after + length.unwrap_or_default();
        if length.is_some() {
            let start = after - c.len_utf8();
            visit(Quoting::Unquoted, &request[from..start]);
            visit(Quoting::Quoted, &request[start..at]);
            from = at;
        }
    }
    visit(Quoting::Unquoted, &request[from..]);
}

/// The length of the quotation that `c` begins, without `c` and with its closing mark; `None` if `c` begins none.
fn quote_length(c: char, before: Option<char>, after: &str) -> Option<usize> {
    let closing = match c {
        '"' | '`' => c,
        '\u{201c}' => '\u{201d}',
        // Inside a word it is an apostrophe.
        '\'' if !before.is_some_and(char::is_alphanumeric) && !after.starts_with(char::is_whitespace) => c,
        _ => return None,
    };
    let near = &after[..after.floor_char_boundary(MAX_QUOTED + closing.len_utf8())];
    let length = near.find([closing, '\n']).filter(|length| *length > 0)?;
    let rest = after[length..].strip_prefix(closing)?;
    let is_apostrophe = c == '\'' && rest.starts_with(char::is_alphanumeric);
    (!is_apostrophe).then_some(length + closing.len_utf8())
}

/// Whether a lower-case word is a number or an identifier.
pub(crate) fn is_value(word: &str) -> bool {
    if !word.contains(|c: char| c.is_numeric()) {
        return false;
    }
    let mut rows = Vec::new();
    PieceVocabulary::get().rows(word, &mut rows);
    rows.len() > MAX_PIECES || !word.contains(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_distinguished_from_apostrophes() {
        let cases = [
            ("send \"see you\" to Ann", "send |[\"see you\"]| to Ann"),
            ("Ann's file 'a b' isn't Bob's", "Ann's file |['a b']| isn't Bob's"),
            ("say \u{201c}hé\u{201d} and `x`", "say |[\u{201c}hé\u{201d}]| and |[`x`]|"),
            ("a 5\" disk", "a 5\" disk"),
            ("one \" here\nand \" there", "one \" here\nand \" there"),
            ("\"\"", "\"\""),
            ("", ""),
        ];
        for (request, expected) in cases {
            let mut found = Vec::new();
            each_passage(request, &mut |quoting, passage| {
                found.push(if quoting == Quoting::Quoted {
                    format!("[{passage}]")
                } else {
                    passage.to_owned()
                });
            });
            assert_eq!(found.join("|"), expected, "{request}");
        }
        let long = format!("\"{}\"", "a ".repeat(MAX_QUOTED));
        each_passage(&long, &mut |quoting, _| assert_eq!(quoting, Quoting::Unquoted, "too long for a value"));
    }

    #[test]
    fn numbers_and_identifiers_are_values() {
        for word in ["42", "2024", "a1b2c3d4e5", "x99z77q"] {
            assert!(is_value(word), "{word}");
        }
        for word in ["mp3", "ec2", "s3", "issue", "", "\u{6f22}"] {
            assert!(!is_value(word), "{word}");
        }
    }
}
