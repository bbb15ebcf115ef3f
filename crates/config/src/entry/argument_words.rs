//! Splits `args` that is written as one string, as a shell would.

use crate::node::{Node, TemplateText, Typing, Value};

/// Replaces `args` as one string by a list. It is split before variables are expanded, so the value of a variable is
/// always one argument or a part of one. Returns the spelling of the key if a quote is not closed.
pub(super) fn split_args(node: &mut Node) -> Result<(), &'static str> {
    let Some(members) = node.members_mut() else { return Ok(()) };
    for name in ["args", "command_args"] {
        let Some((_, args)) = members.iter_mut().find(|(key, _)| key.text == name) else { continue };
        let Value::Text(text) = &args.value else { continue };
        // Variables of the environment and options of the command line separate list elements with commas.
        if text.typing() == Typing::Loose {
            continue;
        }
        let mark = args.mark;
        let words = split(text.shown()).ok_or(name)?;
        let node = |word| Node { value: Value::Text(TemplateText::written(word)), mark };
        args.value = Value::List(words.into_iter().map(node).collect());
    }
    Ok(())
}

/// The words of a line; `None` if a quote is not closed. `${NAME:-a default}` is never split.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let variable = rest.strip_prefix("${").and_then(|inside| inside.find('}')).map(|end| end + 3);
        let length = variable.unwrap_or(c.len_utf8());
        let (taken, after) = rest.split_at(length);
        rest = after;
        match (quote, c) {
            _ if variable.is_some() => word.get_or_insert_default().push_str(taken),
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = rest.chars().next();
                // In double quotes, a backslash is literal before any other character.
                let escapes = quote.is_none() || matches!(next, Some('"' | '\\' | '$' | '`'));
                match next.filter(|_| escapes) {
                    Some(next) => {
                        word.get_or_insert_default().push(next);
                        rest = &rest[next.len_utf8()..];
                    }
                    None => word.get_or_insert_default().push('\\'),
                }
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_line_is_split_as_a_shell_would() {
        let cases: [(&str, Option<&[&str]>); 9] = [
            ("", Some(&[])),
            ("-y server", Some(&["-y", "server"])),
            (
                "servers/browser.py --name 'browser server'",
                Some(&["servers/browser.py", "--name", "browser server"]),
            ),
            (r#"a "b \"c\" \d" e\ f"#, Some(&["a", r#"b "c" \d"#, "e f"])),
            ("--x=''  ''", Some(&["--x=", ""])),
            ("--key ${KEY:-two words} ${A}b", Some(&["--key", "${KEY:-two words}", "${A}b"])),
            ("$HOME ${", Some(&["$HOME", "${"])),
            ("it's", None),
            ("\u{e9} \u{1f600}", Some(&["\u{e9}", "\u{1f600}"])),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(split(line), expected, "{line}");
        }
    }
}
