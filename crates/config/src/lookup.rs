//! Lookup of dotted keys in trees whose keys may contain dots, and masking of secrets in values.

use crate::expand::references;
use crate::node::{Node, Value};
use crate::secrets::{HIDDEN, looks_secret, masked_address, masked_args, sounds_secret};
use serde_json::Value as Json;

/// The value at a dotted key. If keys contain dots, the longest matching key wins.
pub(crate) fn in_tree<'a>(node: &'a Node, dotted: &str) -> Option<&'a Node> {
    if dotted.is_empty() {
        return Some(node);
    }
    match &node.value {
        Value::Map(members) => members
            .iter()
            .rev()
            .filter_map(|(key, inner)| Some((key, rest_after(dotted, &key.text)?, inner)))
            .max_by_key(|(key, ..)| key.text.len())
            .and_then(|(_, rest, inner)| in_tree(inner, rest)),
        Value::List(elements) => {
            let (index, rest) = dotted.split_once('.').unwrap_or((dotted, ""));
            in_tree(elements.get(index.parse::<usize>().ok()?)?, rest)
        }
        _ => None,
    }
}

/// The same for JSON values.
pub(crate) fn in_json<'a>(json: &'a Json, dotted: &str) -> Option<&'a Json> {
    if dotted.is_empty() {
        return Some(json);
    }
    match json {
        Json::Object(map) => map
            .iter()
            .filter_map(|(key, inner)| Some((key, rest_after(dotted, key)?, inner)))
            .max_by_key(|(key, ..)| key.len())
            .and_then(|(_, rest, inner)| in_json(inner, rest)),
        Json::Array(elements) => {
            let (index, rest) = dotted.split_once('.').unwrap_or((dotted, ""));
            in_json(elements.get(index.parse::<usize>().ok()?)?, rest)
        }
        _ => None,
    }
}

/// The rest of a dotted key after `first`, if the key starts with it.
pub(crate) fn rest_after<'a>(dotted: &'a str, first: &str) -> Option<&'a str> {
    let rest = dotted.strip_prefix(first)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }
}

/// Keys whose names look like secrets but whose values are not.
const HARMLESS: [&str; 4] = ["auth", "auth_type", "auth_header", "secret_header"];

/// Whether the name of a key suggests that its value is a secret.
pub(crate) fn is_secret_key(key: &str) -> bool {
    sounds_secret(key) && !HARMLESS.contains(&key)
}

/// A value for display: strings as written, and literal secrets masked.
pub(crate) fn masked(key: &str, node: &Node) -> Json {
    match &node.value {
        Value::Text(text) => {
            let literal = references(text.shown()).is_empty();
            let secret = is_secret_key(key) || looks_secret(text.shown());
            match masked_address(text.shown()) {
                _ if literal && secret => Json::from(HIDDEN),
                Some(address) => Json::from(address),
                None => Json::from(text.shown()),
            }
        }
        Value::List(elements) if matches!(key, "args" | "command") => {
            let texts: Option<Vec<&str>> = elements.iter().map(shown_text).collect();
            texts.map_or_else(|| node.shown(), |texts| Json::from(masked_args(texts)))
        }
        // The URL of a webhook usually contains its secret.
        Value::List(elements) if key == "webhooks" => elements
            .iter()
            .map(|element| match element.members() {
                Some(members) => members
                    .iter()
                    .map(|(key, node)| {
                        let name = if key.text == "url" { "secret" } else { &key.text };
                        (key.text.clone(), masked(name, node))
                    })
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
                None => masked("secret", element),
            })
            .collect(),
        Value::List(elements) => elements.iter().map(|element| masked(key, element)).collect(),
        Value::Map(members) => Json::Object(
            members.iter().map(|(key, node)| (key.text.clone(), masked(&key.text, node))).collect(),
        ),
        _ => node.shown(),
    }
}

fn shown_text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(text.shown()),
        _ => None,
    }
}
