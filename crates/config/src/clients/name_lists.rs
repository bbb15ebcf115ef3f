//! The lists of allowed and disabled servers that some clients keep beside their servers.

use super::place::{ClientFilePlace, GATEWAY_NAME};
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// A list of servers that a client keeps beside its servers.
#[derive(Debug, PartialEq, Eq)]
pub struct NameList {
    /// The file; `None` if it is the file of the servers.
    pub file: Option<ClientFilePlace>,
    /// The keys from the top of the file to the list. `*` stands for the path of every project.
    pub keys: &'static [&'static str],
    /// What the list does to the servers that it names.
    pub effect: ListEffect,
    /// How it names servers.
    pub form: ListForm,
}

/// What a list does to the servers that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListEffect {
    /// The client ignores all other servers.
    Allows,
    /// The client does not use them.
    Disables,
}

/// How a list names servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListForm {
    /// `["name"]`.
    Names,
    /// `["name", "with-*"]`.
    Patterns,
    /// `[{"serverName": "name"}, {"serverCommand": ["program", "argument"]}, {"serverUrl": "https://*"}]`.
    Rules,
    /// `{"name": {"enabled": false}}`, with names in lower case.
    Switches,
}

/// The key in `NameList::keys` that stands for every project.
const ANY_PROJECT: &str = "*";

/// A list in the file of the servers.
pub(super) const fn own_list(keys: &'static [&'static str], effect: ListEffect, form: ListForm) -> NameList {
    NameList { file: None, keys, effect, form }
}

/// A list in another file.
pub(super) const fn list_in(
    file: ClientFilePlace,
    keys: &'static [&'static str],
    effect: ListEffect,
    form: ListForm,
) -> NameList {
    NameList { file: Some(file), keys, effect, form }
}

/// A change of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListEdit {
    /// Adds an element.
    Append(Json),
    /// Removes the element at this index.
    Remove(usize),
    /// Removes the member with this key.
    RemoveKey(String),
}

impl ListEdit {
    /// Makes the change in a list.
    pub(super) fn apply(&self, list: &mut Json) {
        match (self, list) {
            (Self::Append(element), Json::Array(elements)) => elements.push(element.clone()),
            (Self::Remove(index), Json::Array(elements)) if *index < elements.len() => {
                elements.remove(*index);
            }
            (Self::RemoveKey(key), Json::Object(members)) => drop(members.shift_remove(key)),
            _ => {}
        }
    }
}

impl NameList {
    /// The list as a guide names it.
    pub fn shown(&self) -> String {
        let after_project = self.keys.iter().position(|key| *key == ANY_PROJECT).map_or(0, |at| at + 1);
        let keys = &self.keys[after_project..];
        match (keys.is_empty(), &self.file) {
            (true, Some(file)) => file.shown(),
            _ => keys.join("."),
        }
    }

    /// Whether a client has one list of this kind for each project.
    pub fn is_per_project(&self) -> bool {
        self.keys.contains(&ANY_PROJECT)
    }

    /// The lists of this kind in a file, each with the project that it belongs to.
    pub(crate) fn find<'a>(&self, file: &'a Json) -> Vec<(&'a Json, Option<&'a str>)> {
        let mut found = vec![(file, None)];
        for key in self.keys {
            found = match *key {
                ANY_PROJECT => found
                    .into_iter()
                    .flat_map(|(value, _)| value.as_object().into_iter().flatten())
                    .map(|(project, value)| (value, Some(project.as_str())))
                    .collect(),
                key => found
                    .into_iter()
                    .filter_map(|(value, project)| Some((value.get(key)?, project)))
                    .collect(),
            };
        }
        found
    }

    /// Whether a list makes the client ignore a server. The entry has `command`, `args` and `url`.
    pub(crate) fn turns_off(&self, list: &Json, name: &str, entry: &Map<String, Json>) -> bool {
        match (self.effect, self.form) {
            (ListEffect::Disables, _) => self.names(list, name, entry),
            // An empty list of names allows every server; an empty list of rules allows none.
            (ListEffect::Allows, ListForm::Rules) => list.is_array() && !self.names(list, name, entry),
            (ListEffect::Allows, _) => {
                list.as_array().is_some_and(|names| !names.is_empty()) && !self.names(list, name, entry)
            }
        }
    }

    fn names(&self, list: &Json, name: &str, entry: &Map<String, Json>) -> bool {
        let mut texts = list.as_array().into_iter().flatten().filter_map(Json::as_str);
        match self.form {
            ListForm::Names => texts.any(|text| text == name),
            ListForm::Patterns => texts.any(|text| fits(text, name)),
            ListForm::Rules => rules_name(self.effect, list, name, entry),
            ListForm::Switches => {
                list.get(name.trim().to_lowercase()).is_some_and(|switch| switch["enabled"] == false)
            }
        }
    }

    /// The changes after which the client uses the gateway, whose entry is given.
    pub(super) fn admission(&self, list: &Json, entry: &Json) -> Vec<ListEdit> {
        let Some(fields) = entry.as_object().filter(|_| !self.is_per_project()) else { return Vec::new() };
        if !self.turns_off(list, GATEWAY_NAME, fields) {
            return Vec::new();
        }
        match (self.effect, self.form) {
            (ListEffect::Allows, ListForm::Rules) => vec![ListEdit::Append(rule(list, fields))],
            (ListEffect::Allows, _) => vec![ListEdit::Append(GATEWAY_NAME.into())],
            // A rule or pattern that the user wrote may be about other servers, too.
            (ListEffect::Disables, ListForm::Names | ListForm::Patterns) => {
                let elements = list.as_array().into_iter().flatten().enumerate();
                let ours = elements.filter(|(_, element)| **element == GATEWAY_NAME);
                descending(ours.map(|(index, _)| index)).into_iter().map(ListEdit::Remove).collect()
            }
            (ListEffect::Disables, ListForm::Switches) => vec![ListEdit::RemoveKey(GATEWAY_NAME.to_owned())],
            (ListEffect::Disables, ListForm::Rules) => Vec::new(),
        }
    }

    /// The changes that take the gateway out of a list that allows it, unless an earlier version of the list named it.
    pub(super) fn withdrawal(&self, list: &Json, earlier: Option<&Json>) -> Vec<ListEdit> {
        if self.effect == ListEffect::Disables || self.is_per_project() {
            return Vec::new();
        }
        let before: Vec<&Json> = earlier.and_then(Json::as_array).into_iter().flatten().collect();
        let added = list.as_array().into_iter().flatten().enumerate().filter(|(_, element)| {
            let is_ours = match self.form {
                ListForm::Rules => is_rule_of_gateway(element),
                _ => **element == GATEWAY_NAME,
            };
            is_ours && !before.contains(element)
        });
        descending(added.map(|(index, _)| index)).into_iter().map(ListEdit::Remove).collect()
    }
}

/// Positions from the end, so that each stays valid after those before it are removed.
fn descending(positions: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut all: Vec<usize> = positions.collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all
}

/// Whether a pattern with `*` fits a whole text.
fn fits(pattern: &str, text: &str) -> bool {
    globset::GlobBuilder::new(pattern).build().is_ok_and(|glob| glob.compile_matcher().is_match(text))
}

/// The command line of a local server.
fn command_line(entry: &Map<String, Json>) -> Option<Vec<&str>> {
    let program = entry.get("command")?.as_str()?;
    let arguments = entry.get("args").and_then(Json::as_array).into_iter().flatten();
    Some(std::iter::once(program).chain(arguments.filter_map(Json::as_str)).collect())
}

/// Whether rules name a server. If a list that allows servers has rules for commands, the name of a local server does not
/// count; URLs likewise.
fn rules_name(effect: ListEffect, list: &Json, name: &str, entry: &Map<String, Json>) -> bool {
    let rules: Vec<&Json> = list.as_array().into_iter().flatten().collect();
    let command = command_line(entry);
    let key = if command.is_some() { "serverCommand" } else { "serverUrl" };
    let by_content = rules.iter().filter_map(|rule| rule.get(key)).any(|rule| match &command {
        Some(words) => rule.as_array().is_some_and(|rule| {
            rule.iter().filter_map(Json::as_str).collect::<Vec<_>>() == *words && rule.len() == words.len()
        }),
        None => {
            let url = entry.get("url").and_then(Json::as_str).unwrap_or_default();
            rule.as_str().is_some_and(|pattern| fits(pattern, url))
        }
    });
    let by_name = rules.iter().any(|rule| rule.get("serverName").and_then(Json::as_str) == Some(name));
    let is_by_content_only = effect == ListEffect::Allows && rules.iter().any(|rule| rule.get(key).is_some());
    by_content || (by_name && !is_by_content_only)
}

/// The rule that allows the gateway in a list of rules.
fn rule(list: &Json, entry: &Map<String, Json>) -> Json {
    let has = |key: &str| list.as_array().into_iter().flatten().any(|rule| rule.get(key).is_some());
    match (command_line(entry), entry.get("url")) {
        (Some(words), _) if has("serverCommand") => json!({ "serverCommand": words }),
        (None, Some(url)) if has("serverUrl") => json!({ "serverUrl": url }),
        _ => json!({ "serverName": GATEWAY_NAME }),
    }
}

fn is_rule_of_gateway(rule: &Json) -> bool {
    let words = rule.get("serverCommand").and_then(Json::as_array);
    let program = words.and_then(|words| words.first()).and_then(Json::as_str).map(Path::new);
    let runs_us = program.and_then(Path::file_stem).is_some_and(|name| name == GATEWAY_NAME);
    rule.get("serverName").is_some_and(|name| name == GATEWAY_NAME)
        || (runs_us && words.is_some_and(|words| words.iter().any(|word| word == "stdio")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(effect: ListEffect, form: ListForm) -> NameList {
        own_list(&[], effect, form)
    }

    #[test]
    fn lists_turn_servers_off() {
        use ListEffect::{Allows, Disables};
        use ListForm::{Names, Patterns, Rules, Switches};
        let local = json!({ "command": "npx", "args": ["-y", "fs"] });
        let remote = json!({ "url": "https://mcp.example/fs" });
        let cases = [
            (Disables, Names, json!(["fs"]), true),
            (Disables, Names, json!(["f*"]), false),
            (Disables, Names, json!("fs"), false),
            (Allows, Names, json!([]), false),
            (Allows, Names, json!(["fs", "other"]), false),
            (Allows, Names, json!(["other"]), true),
            (Disables, Patterns, json!(["f*"]), true),
            (Allows, Patterns, json!(["g*"]), true),
            (Disables, Switches, json!({ "fs": { "enabled": false } }), true),
            (Disables, Switches, json!({ "fs": { "enabled": true } }), false),
            (Allows, Rules, json!([]), true),
            (Allows, Rules, json!([{ "serverName": "fs" }]), false),
            (Disables, Rules, json!([{ "serverName": "fs" }]), true),
        ];
        for (effect, form, value, expected) in cases {
            for entry in [&local, &remote] {
                let off = list(effect, form).turns_off(&value, "fs", entry.as_object().expect("a map"));
                assert_eq!(off, expected, "{effect:?} {form:?} {value}");
            }
        }
        let by_command = json!([{ "serverName": "fs" }, { "serverCommand": ["npx", "-y", "other"] }]);
        let by_url = json!([{ "serverUrl": "https://mcp.example/*" }]);
        let off = |value: &Json, entry: &Json| {
            list(Allows, Rules).turns_off(value, "fs", entry.as_object().expect("a map"))
        };
        assert!(off(&by_command, &local), "the name does not count beside a rule for commands");
        assert!(!off(&by_command, &remote));
        assert!(!off(&by_url, &remote) && off(&by_url, &local));
    }

    #[test]
    fn the_gateway_is_admitted_and_withdrawn() {
        use ListEffect::{Allows, Disables};
        use ListForm::{Names, Rules, Switches};
        let entry = json!({ "command": "/bin/toolbooth", "args": ["stdio"] });
        let cases = [
            (Allows, Names, json!(["fs"]), json!(["fs", "toolbooth"])),
            (Allows, Names, json!([]), json!([])),
            (Allows, Names, json!(["toolbooth"]), json!(["toolbooth"])),
            (Disables, Names, json!(["toolbooth", "fs", "toolbooth"]), json!(["fs"])),
            (Disables, Switches, json!({ "toolbooth": { "enabled": false }, "fs": {} }), json!({ "fs": {} })),
            (
                Allows,
                Rules,
                json!([{ "serverName": "fs" }]),
                json!([{ "serverName": "fs" }, { "serverName": "toolbooth" }]),
            ),
            (
                Allows,
                Rules,
                json!([{ "serverCommand": ["fs"] }]),
                json!([{ "serverCommand": ["fs"] }, { "serverCommand": ["/bin/toolbooth", "stdio"] }]),
            ),
        ];
        for (effect, form, before, expected) in cases {
            let list = list(effect, form);
            let mut after = before.clone();
            list.admission(&before, &entry).iter().for_each(|edit| edit.apply(&mut after));
            assert_eq!(after, expected, "{before}");
            assert!(list.admission(&after, &entry).is_empty(), "{after}");
            if effect == Allows {
                let edits = list.withdrawal(&after, Some(&before));
                edits.iter().for_each(|edit| edit.apply(&mut after));
                assert_eq!(after, before);
            }
        }
    }
}
