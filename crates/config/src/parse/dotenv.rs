//! A parser for `.env` files: one `NAME=value` per line.

use super::MAX_BYTES;
use crate::finding::Finding;
use crate::node::Mark;
use crate::texts::{SourceTexts, TextName};
use std::collections::BTreeMap;
use std::path::Path;

/// Parses the variables of a file; the first invalid line is the error.
pub fn parse(
    texts: &mut SourceTexts,
    path: &Path,
    bytes: &[u8],
) -> Result<BTreeMap<String, String>, Box<Finding>> {
    if bytes.len() > MAX_BYTES {
        let finding = Finding::error("config.too-large", "the env file is too large").in_file(path);
        return Err(Box::new(finding));
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut variables = BTreeMap::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let parsed = assignment(line.trim());
        match parsed {
            Ok(Some((name, value))) => {
                variables.insert(name, value);
            }
            Ok(None) => {}
            Err(message) => {
                // Values may be secrets, so the finding does not quote the line.
                let id = texts.add(TextName::File(path.to_owned()), text);
                let mut finding = Finding::error("config.env-file", message)
                    .at(texts, Mark::new(id, start, start))
                    .hint("write one NAME=value per line");
                finding.snippet = None;
                return Err(Box::new(finding));
            }
        }
        start += line.len();
    }
    Ok(variables)
}

/// Whether a text is a valid variable name.
pub fn is_variable_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The variable that a line sets; `None` for an empty line and a comment.
pub(crate) fn assignment(line: &str) -> Result<Option<(String, String)>, &'static str> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let Some((name, value)) = line.split_once('=') else { return Err("this line has no `=`") };
    let name = name.trim();
    if !is_variable_name(name) {
        return Err("a variable name consists of letters, digits and `_`, and does not start with a digit");
    }
    Ok(Some((name.to_owned(), unquote(value.trim())?)))
}

/// The line that sets a variable. A value is quoted unless it is one word.
pub(crate) fn line(name: &str, value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/+=@%,".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return format!("{name}={value}");
    }
    let mut quoted = String::with_capacity(value.len() + 2);
    for character in value.chars() {
        match character {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '"' | '\\' => quoted.extend(['\\', character]),
            other => quoted.push(other),
        }
    }
    format!("{name}=\"{quoted}\"")
}

fn unquote(value: &str) -> Result<String, &'static str> {
    match value.chars().next() {
        Some('\'') => {
            let inner = &value[1..];
            let end = inner.find('\'').ok_or("the value has no closing quote")?;
            Ok(inner[..end].to_owned())
        }
        Some('"') => double_quoted(&value[1..]),
        // A comment after an unquoted value needs a space before it, so that `pass#word` is one value.
        _ => Ok(value.find(" #").map_or(value, |at| &value[..at]).trim_end().to_owned()),
    }
}

fn double_quoted(inner: &str) -> Result<String, &'static str> {
    let mut out = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Ok(out),
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => break,
            },
            other => out.push(other),
        }
    }
    Err("the value has no closing quote")
}
