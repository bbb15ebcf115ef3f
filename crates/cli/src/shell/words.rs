//! Splits a line into words like other shells: '…' and "…" keep spaces, and \ quotes the next character.
//! Inside "…", \ quotes only special characters, so that paths and patterns stay unchanged.

use serde::de::IgnoredAny;

/// The words of a line; `None` if a quote is not closed.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (Some('"'), '\\') => {
                let word = word.get_or_insert_default();
                let next = letters.next()?;
                if !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push(letter);
                }
                word.push(next);
            }
            // A backslash at the end is literal.
            (None, '\\') => word.get_or_insert_default().push(letters.next().unwrap_or(letter)),
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// `/call TOOL {…} [OPTIONS]`: a call whose arguments are JSON without quotes.
#[derive(Debug, PartialEq)]
pub struct ObjectCall<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// The JSON object, or the rest of the line if the object is not valid.
    pub object: &'a str,
    /// The options after the object.
    pub options: &'a str,
}

/// Parses such a call.
pub fn object_call(line: &str) -> Option<ObjectCall<'_>> {
    let rest = line.trim().strip_prefix("/call")?;
    let (tool, object) =
        rest.strip_prefix(char::is_whitespace)?.trim_start().split_once(char::is_whitespace)?;
    let whole = object.trim_start();
    if !whole.starts_with('{') || tool.starts_with('-') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(whole).into_iter::<IgnoredAny>();
    let is_read = matches!(values.next(), Some(Ok(_)));
    let (object, after) = whole.split_at(if is_read { values.byte_offset() } else { whole.len() });
    let options = after.trim_start();
    let are_options = options.starts_with('-') && options.len() < after.len();
    let (object, options) = if are_options { (object, options) } else { (whole, "") };
    Some(ObjectCall { tool, object, options })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_spaces() {
        let cases: [(&str, Option<&[&str]>); 14] = [
            ("", Some(&[])),
            ("/call  a b=1 ", Some(&["/call", "a", "b=1"])),
            ("/call a text='two words'", Some(&["/call", "a", "text=two words"])),
            ("/call a text=\"it's \\\"so\\\"\"", Some(&["/call", "a", "text=it's \"so\""])),
            ("/call a text=''", Some(&["/call", "a", "text="])),
            ("a ''", Some(&["a", ""])),
            ("a\\ b 'c\\d'", Some(&["a b", "c\\d"])),
            ("it's", None),
            ("end\\", Some(&["end\\"])),
            ("\"end\\", None),
            ("\"end\\\"", None),
            (r#""C:\new\table" "a\\b" "\$x \`y\` \"z\"""#, Some(&[r"C:\new\table", r"a\b", "$x `y` \"z\""])),
            (r#"pattern="\d+\.\w""#, Some(&[r"pattern=\d+\.\w"])),
            (r"C:\\new \$x", Some(&[r"C:\new", "$x"])),
        ];
        for (line, expected) in cases {
            let found = words(line);
            assert_eq!(
                found.as_ref().map(|words| words.iter().map(String::as_str).collect::<Vec<_>>()),
                expected.map(<[_]>::to_vec),
                "{line}"
            );
        }
    }

    #[test]
    fn an_object_needs_no_quotes() {
        let cases = [
            ("/call a {\"b\": \"it's\"}", Some(("a", "{\"b\": \"it's\"}", ""))),
            (" /call  a   {}", Some(("a", "{}", ""))),
            ("/call a {\"b\": \"} --json\"} --json  -y ", Some(("a", "{\"b\": \"} --json\"}", "--json  -y"))),
            ("/call a {}--json", Some(("a", "{}--json", ""))),
            ("/call a {} }", Some(("a", "{} }", ""))),
            ("/call a {\"b\": --json", Some(("a", "{\"b\": --json", ""))),
            ("/call a b={}", None),
            ("/call a", None),
            ("/calla b {}", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|(tool, object, options)| ObjectCall { tool, object, options });
            assert_eq!(object_call(line), expected, "{line}");
        }
    }
}
