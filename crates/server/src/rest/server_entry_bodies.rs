//! The entry of a server in requests and answers: a new one, the present one, and what it should be.

use super::extract;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toolbooth_core::fault::Problem;
use utoipa::ToSchema;

/// The maximum number of words of a command, of variables and of headers.
const MAX_ITEMS: usize = 200;

/// A server to add: a local one with `command`, or a remote one with `url`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewServerEntry {
    /// The name of the server. For a remote server it is made from the URL if it is absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The program of a local server and its arguments.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// The URL of a remote server.
    #[serde(default)]
    pub url: Option<String>,
    /// The working folder of a local server.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The variables of a local server. `${NAME}` refers to a variable of the gateway.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The headers of every request to a remote server. `${NAME}` refers to a variable of the gateway.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// The entry of a server as its file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WrittenServerEntry {
    /// The name of the server.
    pub name: String,
    /// The file that has the entry.
    pub file: String,
    /// Identifies the entry as it is now.
    pub version: String,
    /// The program of a local server and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The URL of a remote server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The working folder of a local server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The variables of a local server. A value is `null` if it does not only refer to a variable of the gateway.
    pub env: BTreeMap<String, Option<String>>,
    /// The headers of a remote server. A value is `null` if it does not only refer to a variable of the gateway.
    pub headers: BTreeMap<String, Option<String>>,
    /// The other fields of the entry, which a change keeps.
    pub kept: Vec<String>,
}

/// An entry as it should be. Its other fields stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerEntryEdit {
    /// The `version` of the entry that was read.
    #[schema(min_length = 1)]
    pub version: String,
    /// The program of a local server and its arguments.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// The URL of a remote server.
    #[serde(default)]
    pub url: Option<String>,
    /// The working folder of a local server; without it the entry has none.
    #[serde(default)]
    pub cwd: Option<String>,
    /// All variables of a local server. `null` keeps the present value.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
    /// All headers of a remote server. `null` keeps the present value, if the new URL has the same scheme, host and port.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
}

impl NewServerEntry {
    /// Checks what does not depend on the configuration.
    pub(super) fn check(&self, example: &'static str) -> Result<(), Problem> {
        let bad = |message: &str| extract::bad_body(message.to_owned(), example);
        let Self { name: _, command, url, cwd, env, headers } = self;
        let is_local = match (command, url) {
            (Some(command), None) if command.first().is_some_and(|program| !program.trim().is_empty()) => {
                true
            }
            (None, Some(url)) if !url.is_empty() => false,
            _ => return Err(bad("give `command` (with a program) or `url`, and not both")),
        };
        if is_local && self.name.is_none() {
            return Err(bad("a local server needs a `name`"));
        }
        if is_local && !headers.is_empty() {
            return Err(bad("`headers` are for remote servers; a local one has `env`"));
        }
        if !is_local && (cwd.is_some() || !env.is_empty()) {
            return Err(bad("`cwd` and `env` are for local servers; a remote one has `headers`"));
        }
        let texts = command.iter().flatten().chain(cwd).chain(env.keys()).chain(env.values());
        let lines = url.iter().chain(headers.keys()).chain(headers.values());
        if texts.into_iter().any(|text| text.contains('\0'))
            || lines.into_iter().any(|text| text.chars().any(char::is_control))
        {
            return Err(bad("the values must not contain control characters"));
        }
        let longest = [command.as_ref().map_or(0, Vec::len), env.len(), headers.len()].into_iter().max();
        match longest {
            Some(longest) if longest > MAX_ITEMS => {
                Err(bad(&format!("`command`, `env` and `headers` may have at most {MAX_ITEMS} items")))
            }
            _ => Ok(()),
        }
    }
}

impl ServerEntryEdit {
    /// Checks what does not depend on the present entry.
    pub(super) fn check(&self, example: &'static str) -> Result<(), Problem> {
        let Self { version: _, command, url, cwd, env, headers } = self.clone();
        let written = |values: BTreeMap<String, Option<String>>| {
            values.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect()
        };
        let (env, headers) = (written(env), written(headers));
        // The name is in the path.
        NewServerEntry { name: Some(String::new()), command, url, cwd, env, headers }.check(example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_local_or_remote() {
        let cases = [
            (json!({ "name": "a", "command": ["x", "y"], "env": { "K": "v" }, "cwd": "/" }), true),
            (json!({ "url": "https://a.example/mcp", "headers": { "X": "y" } }), true),
            (json!({ "command": ["x"] }), false),
            (json!({ "name": "a" }), false),
            (json!({ "name": "a", "command": [] }), false),
            (json!({ "name": "a", "command": [" "] }), false),
            (json!({ "name": "a", "url": "" }), false),
            (json!({ "name": "a", "command": ["x"], "url": "https://a.example" }), false),
            (json!({ "name": "a", "command": ["x"], "headers": { "X": "y" } }), false),
            (json!({ "name": "a", "url": "https://a.example", "env": { "X": "y" } }), false),
            (json!({ "name": "a", "url": "https://a.example", "cwd": "/" }), false),
            (json!({ "name": "a", "command": vec!["x"; 201] }), false),
            (json!({ "name": "a", "command": ["x", "line\nbreak"] }), true),
            (json!({ "name": "a", "command": ["x", "\0"] }), false),
            (json!({ "name": "a", "command": ["x"], "env": { "K": "\0" } }), false),
            (json!({ "url": "https://a.example/\r\n" }), false),
            (json!({ "url": "https://a.example", "headers": { "X": "a\r\nY: b" } }), false),
        ];
        for (body, is_valid) in cases {
            let entry: NewServerEntry = serde_json::from_value(body.clone()).expect("an entry");
            assert_eq!(entry.check("").is_ok(), is_valid, "{body}");
        }
    }

    #[test]
    fn edits_have_the_same_rules_as_new_entries() {
        let cases = [
            (json!({ "version": "1", "command": ["x"], "env": { "K": null, "L": "v" }, "cwd": "/" }), true),
            (json!({ "version": "1", "url": "https://a.example/mcp", "headers": { "X": null } }), true),
            (json!({ "version": "1" }), false),
            (json!({ "version": "1", "command": [] }), false),
            (json!({ "version": "1", "command": ["x"], "headers": { "X": null } }), false),
            (json!({ "version": "1", "url": "https://a.example", "headers": { "X": "a\r\nY: b" } }), false),
        ];
        for (body, is_valid) in cases {
            let edit: ServerEntryEdit = serde_json::from_value(body.clone()).expect("an edit");
            assert_eq!(edit.check("").is_ok(), is_valid, "{body}");
        }
    }
}
