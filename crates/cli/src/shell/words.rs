//! A typed line, taken apart into words as other shells do it: '…' and "…" keep spaces, \ takes what follows as it is.

/// The words of a line; nothing if a quote is left open.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().push(letters.next()?),
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

/// `/call TOOL {…}`: the tool and the object, which is JSON to the end of the line and needs no quotes.
pub fn object_call(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim().strip_prefix("/call")?;
    let (tool, object) =
        rest.strip_prefix(char::is_whitespace)?.trim_start().split_once(char::is_whitespace)?;
    let object = object.trim_start();
    (object.starts_with('{') && !tool.starts_with('-')).then_some((tool, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_spaces() {
        let cases: [(&str, Option<&[&str]>); 9] = [
            ("", Some(&[])),
            ("/call  a b=1 ", Some(&["/call", "a", "b=1"])),
            ("/call a text='two words'", Some(&["/call", "a", "text=two words"])),
            ("/call a text=\"it's \\\"so\\\"\"", Some(&["/call", "a", "text=it's \"so\""])),
            ("/call a text=''", Some(&["/call", "a", "text="])),
            ("a ''", Some(&["a", ""])),
            ("a\\ b 'c\\d'", Some(&["a b", "c\\d"])),
            ("it's", None),
            ("end\\", None),
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
            ("/call a {\"b\": \"it's\"}", Some(("a", "{\"b\": \"it's\"}"))),
            (" /call  a   {}", Some(("a", "{}"))),
            ("/call a b={}", None),
            ("/call a", None),
            ("/calla b {}", None),
        ];
        for (line, expected) in cases {
            assert_eq!(object_call(line), expected, "{line}");
        }
    }
}
