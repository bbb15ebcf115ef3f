//! The arguments of a call, as they stand on a command line.

use super::typed;
use crate::failure::Failure;
use serde_json::Value;
use std::io::Read;
use toolbooth_config::{Finding, Snippet, nearest, render};

/// The most that is read from a file or from standard input.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reads `--args`: a JSON object, from the text itself, a file or standard input.
pub fn read(args: &str) -> Result<String, Failure> {
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
                Value::String(_) => "a text",
                Value::Null => "null",
                _ => "a single value",
            };
            let message = format!("the arguments must be a JSON object, but {from} holds {found}");
            Err(Failure::misuse("usage.args", message, Some("for example --args '{\"text\": \"hello\"}'")))
        }
        Err(error) => Err(no_json(&text, &from, &error)),
    }
}

fn read_all(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    source.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| unreadable(name, &error))?;
    Ok(text)
}

fn unreadable(path: &str, error: &std::io::Error) -> Failure {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        std::io::ErrorKind::InvalidData => "it is no text".to_owned(),
        _ => error.to_string(),
    };
    Failure::misuse("usage.args", format!("`{path}` cannot be read: {why}"), None)
}

/// Draws the place where the JSON goes wrong.
fn no_json(text: &str, from: &str, error: &serde_json::Error) -> Failure {
    let whole = error.to_string();
    let why = whole.split(" at line ").next().unwrap_or(&whole);
    let message = format!("{from} is no JSON: {why}");
    let hint = if from == "--args" {
        "put the whole into '…', so that the shell leaves the quotes alone"
    } else {
        ""
    };
    let failure = Failure::misuse("usage.args", &message, (!hint.is_empty()).then_some(hint));
    let Some(line) = text.lines().nth(error.line().saturating_sub(1)) else { return failure };
    let before =
        line.bytes().take(error.column().saturating_sub(1)).filter(|byte| byte & 0xC0 != 0x80).count();
    let mut finding = Finding::error("usage.args", message);
    finding.hint = failure.trouble.hint.clone();
    finding.via = Some(format!("{from}:{}:{}", error.line(), before + 1));
    finding.line = u32::try_from(error.line()).unwrap_or(1);
    finding.snippet = Some(Snippet { line: line.to_owned(), before, width: 1 });
    Failure { drawn: Some(render(&finding)), ..failure }
}

/// Takes `KEY=VALUE` words apart.
pub fn pairs(words: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let parted = words.iter().map(|word| match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => {
            let hint = "arguments are written as name=value, or together as --args '{…}'";
            Err(Failure::misuse("usage.argument", format!("`{word}` is no KEY=VALUE"), Some(hint)))
        }
    });
    parted.collect()
}

/// Gives pairs the types that the tool's schema asks for; a JSON object.
pub fn typed(tool: &str, schema: &Value, pairs: &[(String, String)]) -> Result<String, Failure> {
    let mut members: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, text) in pairs {
        let property = property(tool, schema, key)?;
        let value = typed::value(schema, property, text).map_err(|wanted| {
            let message = format!("`{key}` of `{tool}` wants {wanted}, but `{text}` is none");
            let hint = format!("`toolbooth tools show {tool}` lists the arguments");
            Failure::misuse("usage.argument", message, Some(&hint))
        })?;
        match members.iter_mut().find(|(known, _)| known == key) {
            None => members.push((key, vec![value])),
            Some((_, values)) if typed::is_list(schema, property) => values.push(value),
            Some(_) => {
                return Err(Failure::misuse("usage.argument", format!("`{key}` is given twice"), None));
            }
        }
    }
    let members = members.into_iter().map(|(key, values)| {
        let value = match values.as_slice() {
            [one] => one.clone(),
            // Each came as a list of its own.
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

/// The schema of one argument; a name that the tool does not know is a slip.
fn property<'a>(tool: &str, schema: &'a Value, key: &str) -> Result<&'a Value, Failure> {
    let properties = schema["properties"].as_object();
    if let Some(property) = properties.and_then(|properties| properties.get(key)) {
        return Ok(property);
    }
    let open = match &schema["additionalProperties"] {
        Value::Bool(open) => *open,
        Value::Object(_) => return Ok(&schema["additionalProperties"]),
        // Strictly every name is allowed then; in practice a name beside the listed ones is a slip.
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
    Err(Failure::misuse("usage.argument", format!("`{tool}` takes no argument `{key}`"), Some(&hint)))
}
