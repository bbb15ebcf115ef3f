//! The fields of a server's entry that can be changed over REST: how it is started or reached, and with what. Values that may
//! be secrets are not shown; a change keeps them without knowing them.

use crate::failure::CommandFailure;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use toolbooth_config::MemberChange;
use toolbooth_core::hex;

/// The spellings of each field; the first one is written into an entry that has none of them.
const COMMAND: &[&str] = &["command", "cmd"];
const ARGS: &[&str] = &["args", "command_args"];
const CWD: &[&str] = &["cwd", "working_directory"];
const URL: &[&str] = &["url", "uri", "endpoint", "serverUrl", "httpUrl"];
const ENV: &[&str] = &["env"];
const HEADERS: &[&str] = &["headers", "http_headers"];
/// Fields that cannot be changed here and may have a credential for the host of the URL. Sign-ins (`oauth`) are stored with
/// their host.
const CREDENTIALS: &[&str] = &["auth", "auth_token"];
/// What may stand before a variable in a value that is shown.
const AUTH_SCHEMES: [&str; 4] = ["Bearer", "Basic", "Token", "ApiKey"];

/// What an entry may be changed to. A value of `None` in a map keeps the present one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WantedFields {
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// The URL.
    pub url: Option<String>,
    /// The working folder.
    pub cwd: Option<String>,
    /// The variables.
    pub env: BTreeMap<String, Option<String>>,
    /// The headers.
    pub headers: BTreeMap<String, Option<String>>,
}

/// The fields of an entry in a file.
#[derive(Debug)]
pub struct EntryFields {
    name: String,
    members: Map<String, Value>,
    words: Option<Vec<String>>,
    url: Option<String>,
    cwd: Option<String>,
    env: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
}

impl EntryFields {
    /// Reads the members of an entry. The error says why only a person can change it.
    pub fn read(name: &str, members: Map<String, Value>) -> Result<Self, String> {
        let cannot = |key: &str| format!("its `{key}` is in a form that is not known here");
        let text = |spellings: &'static [&'static str]| match member(&members, spellings) {
            None => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text.clone())),
            Some((key, _)) => Err(cannot(key)),
        };
        let texts = |spellings| match member(&members, spellings) {
            None => Ok(BTreeMap::new()),
            Some((key, Value::Object(map))) => {
                let pairs = map.iter().map(|(key, value)| Some((key.clone(), scalar(value)?)));
                pairs.collect::<Option<BTreeMap<_, _>>>().ok_or_else(|| cannot(key))
            }
            Some((key, _)) => Err(cannot(key)),
        };
        let words = match member(&members, COMMAND) {
            None => None,
            Some((_, Value::String(program))) => Some(vec![program.clone()]),
            Some((key, value)) => Some(list(value).ok_or_else(|| cannot(key))?),
        };
        let args = match member(&members, ARGS) {
            None => Vec::new(),
            Some((key, value)) => list(value).ok_or_else(|| cannot(key))?,
        };
        let words = words.map(|words| words.into_iter().chain(args).collect());
        let (url, cwd, env, headers) = (text(URL)?, text(CWD)?, texts(ENV)?, texts(HEADERS)?);
        let known = [COMMAND, ARGS, CWD, URL, ENV, HEADERS];
        let repeated = known
            .iter()
            .find(|spellings| spellings.iter().filter(|key| members.contains_key(**key)).count() > 1);
        match (repeated, &words, &url) {
            (Some(spellings), ..) => Err(cannot(spellings[0])),
            (None, Some(_), None) | (None, None, Some(_)) => {
                Ok(Self { name: name.to_owned(), members, words, url, cwd, env, headers })
            }
            (None, ..) => Err("its entry has no `command` and no `url`, or both".to_owned()),
        }
    }

    /// The fields without values that may be secrets.
    pub fn shown(&self) -> WantedFields {
        let without = |values: &BTreeMap<String, String>| {
            let shown = |value: &String| Some(value.clone()).filter(|value| is_shown(value));
            values.iter().map(|(key, value)| (key.clone(), shown(value))).collect()
        };
        WantedFields {
            command: self.words.clone(),
            url: self.url.clone(),
            cwd: self.cwd.clone(),
            env: without(&self.env),
            headers: without(&self.headers),
        }
    }

    /// The other fields of the entry.
    pub fn kept(&self) -> Vec<String> {
        let known = [COMMAND, ARGS, CWD, URL, ENV, HEADERS].concat();
        self.members.keys().filter(|key| !known.contains(&key.as_str())).cloned().collect()
    }

    /// Identifies what is shown. It does not depend on the values that are not shown.
    pub fn version(&self) -> String {
        let WantedFields { command, url, cwd, env, headers } = self.shown();
        let shown = json!([command, url, cwd, env, headers, self.kept()]);
        hex::encode(&Sha256::digest(shown.to_string().as_bytes()))
    }

    /// The changes that lead to other fields.
    pub fn changes_to(&self, wanted: &WantedFields) -> Result<Vec<MemberChange>, CommandFailure> {
        let WantedFields { command, url, cwd, env, headers } = wanted;
        if command.is_some() != self.words.is_some() || url.is_some() != self.url.is_some() {
            let hint = "remove it, and add the other server";
            return Err(refused("a local server cannot become a remote one, or the reverse", hint));
        }
        let is_elsewhere = self.url.as_deref().map(place_of) != url.as_deref().map(place_of);
        if let Some(kept) = headers.iter().find_map(|(key, value)| value.is_none().then_some(key))
            && is_elsewhere
        {
            let message = format!("the value of `{kept}` is not sent to another host than the present one");
            return Err(refused(&message, "write the value for the new host, or leave out the header"));
        }
        let credential = |key: &&&str| self.members.get(**key).is_some_and(|value| value != "oauth");
        if let Some(key) = CREDENTIALS.iter().find(credential)
            && is_elsewhere
        {
            let message =
                format!("the credential in `{key}` is not sent to another host than the present one");
            let hint = "change the entry in its file, or remove it and add the other server";
            return Err(refused(&message, hint));
        }
        let mut changes = Vec::new();
        if let Some(words) = command.as_ref().filter(|words| Some(*words) != self.words.as_ref()) {
            changes.extend(self.command_changes(words));
        }
        for (spellings, before, after) in [(URL, &self.url, url), (CWD, &self.cwd, cwd)] {
            if before != after {
                changes.push(self.change(spellings, None, after.clone().map(Value::from)));
            }
        }
        changes.extend(self.map_changes(ENV, &self.env, env)?);
        changes.extend(self.map_changes(HEADERS, &self.headers, headers)?);
        Ok(changes)
    }

    fn command_changes(&self, words: &[String]) -> Vec<MemberChange> {
        let is_list = matches!(member(&self.members, COMMAND), Some((_, Value::Array(_))));
        let (program, args) = match words.split_first() {
            Some((program, args)) if !is_list => (json!(program), args),
            _ => (json!(words), &[][..]),
        };
        let args = (!args.is_empty()).then(|| json!(args));
        let wanted = [(COMMAND, Some(program)), (ARGS, args)];
        let differs = |spellings, value: &Option<Value>| {
            member(&self.members, spellings).map(|(_, before)| before) != value.as_ref()
        };
        let wanted = wanted.into_iter().filter(|(spellings, value)| differs(*spellings, value));
        wanted.map(|(spellings, value)| self.change(spellings, None, value)).collect()
    }

    fn map_changes(
        &self,
        spellings: &'static [&'static str],
        before: &BTreeMap<String, String>,
        after: &BTreeMap<String, Option<String>>,
    ) -> Result<Vec<MemberChange>, CommandFailure> {
        let mut changes = Vec::new();
        for (key, value) in after {
            match (before.get(key), value) {
                (None, None) => {
                    let message = format!("`{key}` has no value that could be kept");
                    return Err(refused(&message, "give it a value"));
                }
                (Some(_), None) => {}
                (Some(before), Some(after)) if before == after => {}
                (_, Some(after)) => {
                    changes.push(self.change(spellings, Some(key), Some(after.as_str().into())))
                }
            }
        }
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        changes.extend(gone.map(|key| self.change(spellings, Some(key), None)));
        Ok(changes)
    }

    /// A change of a field, by the name that the entry uses for it.
    fn change(&self, spellings: &[&str], inner: Option<&str>, value: Option<Value>) -> MemberChange {
        let key = member(&self.members, spellings).map_or(spellings[0], |(key, _)| key);
        let path = std::iter::once(key).chain(inner).map(str::to_owned).collect();
        MemberChange { path, value }
    }

    /// The name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn member<'a>(members: &'a Map<String, Value>, spellings: &[&str]) -> Option<(&'a str, &'a Value)> {
    spellings.iter().find_map(|key| members.get_key_value(*key)).map(|(key, value)| (key.as_str(), value))
}

fn list(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(scalar).collect()
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Whether a value has no secret: it is empty, or one variable of the gateway, perhaps after the scheme of a credential.
fn is_shown(value: &str) -> bool {
    let rest = match value.split_once(' ') {
        Some((scheme, rest)) if AUTH_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) => rest,
        _ => value,
    };
    let name = rest.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let name = name.map(|name| name.strip_prefix("env:").unwrap_or(name));
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    value.is_empty() || name.is_some_and(is_name)
}

/// The scheme, host and port of a URL. A variable in them is compared as text.
fn place_of(url: &str) -> String {
    url.split('/').take(3).collect::<Vec<_>>().join("/").to_ascii_lowercase()
}

fn refused(message: &str, hint: &str) -> CommandFailure {
    CommandFailure::misuse("request.bad-body", message, Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(entry: &Value) -> EntryFields {
        EntryFields::read("x", entry.as_object().cloned().unwrap_or_default()).expect("readable")
    }

    #[test]
    fn only_values_without_secrets_are_shown() {
        let cases = [
            ("${TOKEN}", true),
            ("${env:TOKEN}", true),
            ("Bearer ${TOKEN}", true),
            ("bearer ${TOKEN}", true),
            ("", true),
            ("hunter2", false),
            ("debug", false),
            ("hunter2 ${TOKEN}", false),
            ("Bearer hunter2", false),
            ("${TOKEN:-hunter2}", false),
            ("${TOKEN}hunter2", false),
            ("${A}hunter2${B}", false),
            ("$TOKEN", false),
            ("Bearer ", false),
        ];
        for (value, expected) in cases {
            assert_eq!(is_shown(value), expected, "{value}");
        }
    }

    #[test]
    fn what_is_shown_can_be_sent_back_and_changes_nothing() {
        let cases = [
            json!({ "command": "npx", "args": ["-y", "x"], "env": { "A": "hunter2", "B": "${B}", "N": 3 }, "groups": ["g"] }),
            json!({ "command": ["npx", "-y", "x"], "cwd": "/n" }),
            json!({ "cmd": "x", "command_args": ["y"] }),
            json!({ "serverUrl": "https://a.example/mcp", "http_headers": { "Authorization": "Bearer hunter2" } }),
        ];
        for entry in cases {
            let fields = fields(&entry);
            let shown = fields.shown();
            assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
            assert_eq!(fields.changes_to(&shown).expect("valid"), [], "{entry}");
        }
        assert_eq!(fields(&json!({ "url": "u", "groups": ["g"] })).kept(), ["groups"]);
    }

    #[test]
    fn changes_use_the_names_and_the_form_of_the_entry() {
        let change = |path: &[&str], value: Option<Value>| MemberChange {
            path: path.iter().map(|&step| step.to_owned()).collect(),
            value,
        };
        let local = |words: &[&str]| WantedFields {
            command: Some(words.iter().map(|&word| word.to_owned()).collect()),
            ..WantedFields::default()
        };
        let cases = [
            (
                json!({ "command": "npx", "args": ["a"] }),
                local(&["npx", "b"]),
                vec![change(&["args"], Some(json!(["b"])))],
            ),
            (json!({ "command": "npx", "args": ["a"] }), local(&["npx"]), vec![change(&["args"], None)]),
            (
                json!({ "command": ["npx", "a"] }),
                local(&["npx", "b"]),
                vec![change(&["command"], Some(json!(["npx", "b"])))],
            ),
            (
                json!({ "cmd": "npx", "cwd": "/n" }),
                local(&["uvx"]),
                vec![change(&["cmd"], Some(json!("uvx"))), change(&["cwd"], None)],
            ),
            (
                json!({ "command": "x", "env": { "A": "1", "B": "2" } }),
                WantedFields {
                    env: BTreeMap::from([("A".to_owned(), None), ("C".to_owned(), Some("3".to_owned()))]),
                    ..local(&["x"])
                },
                vec![change(&["env", "C"], Some(json!("3"))), change(&["env", "B"], None)],
            ),
        ];
        for (entry, wanted, changes) in cases {
            assert_eq!(fields(&entry).changes_to(&wanted).expect("valid"), changes, "{entry}");
        }
    }

    #[test]
    fn a_kept_header_is_not_sent_to_another_host() {
        let entry = json!({ "url": "https://a.example/mcp", "headers": { "Key": "hunter2" } });
        let wanted = |url: &str, value: Option<&str>| WantedFields {
            url: Some(url.to_owned()),
            headers: BTreeMap::from([("Key".to_owned(), value.map(str::to_owned))]),
            ..WantedFields::default()
        };
        let cases = [
            (wanted("https://a.example/other", None), true),
            (wanted("https://b.example/mcp", None), false),
            (wanted("http://a.example/mcp", None), false),
            (wanted("https://a.example:444/mcp", None), false),
            (wanted("https://a.example@b.example/mcp", None), false),
            (wanted("https://b.example/mcp", Some("${KEY}")), true),
        ];
        for (wanted, is_valid) in cases {
            assert_eq!(fields(&entry).changes_to(&wanted).is_ok(), is_valid, "{wanted:?}");
        }
        for (auth, is_valid) in
            [(json!({ "type": "bearer", "token": "hunter2" }), false), (json!("oauth"), true)]
        {
            let entry = json!({ "url": "https://a.example/mcp", "auth": auth });
            let fields = fields(&entry);
            assert!(
                fields
                    .changes_to(&WantedFields {
                        headers: BTreeMap::new(),
                        ..wanted("https://a.example/b", None)
                    })
                    .is_ok()
            );
            let moved = WantedFields { headers: BTreeMap::new(), ..wanted("https://b.example/mcp", None) };
            assert_eq!(fields.changes_to(&moved).is_ok(), is_valid, "{entry}");
        }
        let other_kind = WantedFields { command: Some(vec!["x".to_owned()]), ..WantedFields::default() };
        assert!(fields(&entry).changes_to(&other_kind).is_err());
    }

    #[test]
    fn entries_in_other_forms_are_left_to_people() {
        let cases = [
            json!({ "bundled": "demo" }),
            json!({ "command": "x", "url": "u" }),
            json!({ "command": "x", "args": "a 'b c'" }),
            json!({ "command": "x", "env": { "A": ["b"] } }),
            json!({ "url": "u", "serverUrl": "u" }),
        ];
        for entry in cases {
            let members = entry.as_object().cloned().unwrap_or_default();
            assert!(EntryFields::read("x", members).is_err(), "{entry}");
        }
    }

    #[test]
    fn the_version_follows_what_is_shown() {
        let of = |entry: Value| fields(&entry).version();
        let entry = json!({ "command": "x", "env": { "A": "hunter2" } });
        assert_eq!(of(entry.clone()), of(json!({ "command": "x", "env": { "A": "hunter3" } })));
        for other in [
            json!({ "command": "y", "env": { "A": "hunter2" } }),
            json!({ "command": "x" }),
            json!({ "command": "x", "env": { "A": "hunter2" }, "groups": [] }),
        ] {
            assert_ne!(of(entry.clone()), of(other));
        }
    }
}
