//! Parses the arguments of a call from the command line.

use super::argument_kind;
use crate::failure::CommandFailure;
use serde_json::Value;
use std::io::Read;
use toolbooth_config::{Finding, Snippet, nearest, render};

/// The maximum size of a file or of standard input.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reads `--args`: a JSON object, from the text itself, a file or standard input.
pub fn read(args: &str) -> Result<String, CommandFailure> {
    let (text, from) = match (args, args.strip_prefix('@')) {
        ("-", _) => (read_all(std::io::stdin(), "standard input")?, "standard input".to_owned()),
        (_, Some(path)) => {
            let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
            (read_all(file, path)?, path.to_owned())
        }
        _ => (args.to_owned(), "--args".to_owned()),
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(_)) => Ok(text),
        Ok(other) => {
            let found = match other {
                Value::Array(_) => "a list",
                Value::String(_) => "a string",
                Value::Null => "null",
                _ => "a single value",
            };
            let message = format!("the arguments must be a JSON object, but {from} is {found}");
            Err(CommandFailure::misuse(
                "usage.args",
                message,
                Some("for example --args '{\"text\": \"hello\"}'"),
            ))
        }
        Err(error) => Err(not_json(&text, &from, &error)),
    }
}

/// Reads a file, or standard input for `-`.
pub fn read_source(path: &str) -> Result<String, CommandFailure> {
    if path == "-" {
        return read_all(std::io::stdin(), "standard input");
    }
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    read_all(file, path)
}

fn read_all(source: impl Read, name: &str) -> Result<String, CommandFailure> {
    let mut text = String::new();
    source.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| unreadable(name, &error))?;
    Ok(text)
}

fn unreadable(path: &str, error: &std::io::Error) -> CommandFailure {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    };
    CommandFailure::misuse("usage.args", format!("`{path}` cannot be read: {why}"), None)
}

/// A failure that shows the place of a JSON syntax error.
fn not_json(text: &str, from: &str, error: &serde_json::Error) -> CommandFailure {
    let whole = error.to_string();
    let why = whole.split(" at line ").next().unwrap_or(&whole);
    let message = format!("{from} is not valid JSON: {why}");
    let hint =
        if from == "--args" { "put the object into '…', so that the shell keeps the quotes" } else { "" };
    let failure = CommandFailure::misuse("usage.args", &message, (!hint.is_empty()).then_some(hint));
    let Some(line) = text.lines().nth(error.line().saturating_sub(1)) else { return failure };
    let before =
        line.bytes().take(error.column().saturating_sub(1)).filter(|byte| byte & 0xC0 != 0x80).count();
    let mut finding = Finding::error("usage.args", message);
    finding.hint = failure.fault.hint.clone();
    finding.via = Some(format!("{from}:{}:{}", error.line(), before + 1));
    finding.line = u32::try_from(error.line()).unwrap_or(1);
    finding.snippet = Some(Snippet { line: line.to_owned(), before, width: 1 });
    CommandFailure { drawn: Some(render(&finding)), ..failure }
}

/// Splits `KEY=VALUE` words.
pub fn pairs(words: &[String]) -> Result<Vec<(String, String)>, CommandFailure> {
    let parted = words.iter().map(|word| match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => {
            let hint = "arguments are written as name=value, or together as --args '{…}'";
            Err(CommandFailure::misuse("usage.argument", format!("`{word}` is not KEY=VALUE"), Some(hint)))
        }
    });
    parted.collect()
}

/// Converts pairs to a JSON object, with the types of the tool's schema.
pub fn typed(tool: &str, schema: &Value, pairs: &[(String, String)]) -> Result<String, CommandFailure> {
    let mut members: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, text) in pairs {
        let property = property(tool, schema, key)?;
        let value = argument_kind::value(schema, property, text).map_err(|expected| {
            let message = format!("`{key}` of `{tool}` must be {expected}, not `{text}`");
            let hint = format!("`toolbooth tools show {tool}` lists the arguments");
            CommandFailure::misuse("usage.argument", message, Some(&hint))
        })?;
        match members.iter_mut().find(|(known, _)| known == key) {
            None => members.push((key, vec![value])),
            Some((_, values)) if argument_kind::is_list(schema, property) => values.push(value),
            Some(_) => {
                return Err(CommandFailure::misuse(
                    "usage.argument",
                    format!("`{key}` is given twice"),
                    None,
                ));
            }
        }
    }
    let members = members.into_iter().map(|(key, values)| {
        let value = match values.as_slice() {
            [one] => one.clone(),
            // Each value is a list itself.
            many => format!(
                "[{}]",
                many.iter()
                    .map(|list| inside(list))
                    .filter(|list| !list.is_empty())
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        };
        format!("{}:{value}", Value::from(key))
    });
    Ok(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
}

/// The elements of a list, without its brackets.
fn inside(list: &str) -> &str {
    list.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(list).trim()
}

/// The schema of one argument, or a failure if the tool does not declare it.
fn property<'a>(tool: &str, schema: &'a Value, key: &str) -> Result<&'a Value, CommandFailure> {
    let properties = schema["properties"].as_object();
    if let Some(property) = properties.and_then(|properties| properties.get(key)) {
        return Ok(property);
    }
    let open = match &schema["additionalProperties"] {
        Value::Bool(open) => *open,
        Value::Object(_) => return Ok(&schema["additionalProperties"]),
        // JSON Schema allows every name in this case, but an undeclared name is almost always a typo.
        _ => properties.is_none_or(|properties| properties.is_empty()),
    };
    if open || schema["patternProperties"].is_object() {
        return Ok(&Value::Null);
    }
    let known: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let hint = match (nearest(key, known.iter().copied()), known.is_empty()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, true) => "it takes no arguments".to_owned(),
        (None, false) => format!("known: {}", known.join(", ")),
    };
    Err(CommandFailure::misuse("usage.argument", format!("`{tool}` takes no argument `{key}`"), Some(&hint)))
}
