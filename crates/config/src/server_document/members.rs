//! The members of one entry: reads them, and changes single ones in place, so that the rest of the entry keeps its text.

use super::{SERVER_KEYS, ServerListBody, ServerListDocument, json_entry, toml_servers, yaml_list};
use crate::written_values::{jsonc_of, toml_of};
use jsonc_parser::cst::CstObject;
use serde_json::{Map, Value};
use toml_edit::{Item, TableLike};

/// One change of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberChange {
    /// The key, or the key of a map and a key in it.
    pub path: Vec<String>,
    /// The new value; `None` removes the member, and the map if it is empty then.
    pub value: Option<Value>,
}

impl ServerListDocument {
    /// An entry as JSON; `None` if it does not exist, or has values that JSON does not have.
    pub fn entry(&self, name: &str) -> Option<Map<String, Value>> {
        let entry = match &self.body {
            ServerListBody::Json(root) => json_entry(root, name)?.1.to_serde_value(),
            ServerListBody::Toml(document) => {
                let maps = SERVER_KEYS.iter().filter_map(|key| toml_servers(document, key));
                let entry = maps.into_iter().find_map(|servers| servers.get(name))?;
                json_of(entry)
            }
            ServerListBody::Yaml(text) => yaml_list::entry(text, name),
        };
        match entry? {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Changes members of an entry. Returns whether there is such an entry, and every member could be changed.
    pub fn edit(&mut self, name: &str, changes: &[MemberChange]) -> bool {
        match &mut self.body {
            ServerListBody::Json(root) => {
                let Some((_, entry)) = json_entry(root, name) else { return false };
                changes.iter().all(|change| change_json(&entry, &change.path, change.value.as_ref()))
            }
            ServerListBody::Toml(document) => {
                let key = SERVER_KEYS
                    .iter()
                    .find(|key| toml_servers(document, key).is_some_and(|all| all.contains_key(name)));
                let servers = key.and_then(|key| document.get_mut(key)).and_then(Item::as_table_like_mut);
                let entry =
                    servers.and_then(|servers| servers.get_mut(name)).and_then(Item::as_table_like_mut);
                let Some(entry) = entry else { return false };
                changes.iter().all(|change| change_toml(entry, &change.path, change.value.as_ref()))
            }
            ServerListBody::Yaml(text) => changes
                .iter()
                .all(|change| yaml_list::change(text, name, &change.path, change.value.as_ref())),
        }
    }
}

fn change_json(entry: &CstObject, path: &[String], value: Option<&Value>) -> bool {
    match (path, value) {
        ([key], Some(value)) => match entry.get(key) {
            Some(member) => member.set_value(jsonc_of(value)),
            None => drop(entry.append(key, jsonc_of(value))),
        },
        ([key], None) => entry.get(key).into_iter().for_each(|member| member.remove()),
        ([key, inner @ ..], value) => {
            let map = match value {
                Some(_) => entry.object_value_or_create(key),
                None => entry.object_value(key),
            };
            let Some(map) = map else { return value.is_none() };
            if !change_json(&map, inner, value) {
                return false;
            }
            if super::is_vacant(&map) {
                entry.get(key).into_iter().for_each(|member| member.remove());
            }
        }
        ([], _) => return false,
    }
    true
}

fn change_toml(entry: &mut dyn TableLike, path: &[String], value: Option<&Value>) -> bool {
    match (path, value) {
        ([key], Some(value)) => {
            let mut written = toml_of(value);
            match entry.get_mut(key).and_then(Item::as_value_mut) {
                Some(before) => {
                    // The comment at the end of the line belongs to the value.
                    *written.decor_mut() = before.decor().clone();
                    *before = written;
                }
                None => insert(entry, key, written),
            }
        }
        ([key], None) => drop(entry.remove(key)),
        ([key, inner @ ..], value) => {
            if value.is_some() && !entry.contains_key(key) {
                insert(entry, key, toml_edit::InlineTable::new().into());
            }
            let Some(map) = entry.get_mut(key) else { return true };
            let Some(map) = map.as_table_like_mut() else { return false };
            if !change_toml(map, inner, value) {
                return false;
            }
            if map.is_empty() {
                entry.remove(key);
            }
        }
        ([], _) => return false,
    }
    true
}

fn insert(entry: &mut dyn TableLike, key: &str, mut value: toml_edit::Value) {
    // In an inline table the space before the brace belongs to the last value.
    let last = entry.iter_mut().last().and_then(|(_, item)| item.as_value_mut());
    if let Some(last) = last.filter(|last| is_padded(last)) {
        last.decor_mut().set_suffix("");
        value.decor_mut().set_suffix(" ");
    }
    entry.insert(key, Item::Value(value));
}

/// Whether there is only space after a value.
fn is_padded(value: &toml_edit::Value) -> bool {
    value.decor().suffix().and_then(|suffix| suffix.as_str()) == Some(" ")
}

/// A TOML value as JSON, which has no dates.
fn json_of(item: &Item) -> Option<Value> {
    if let Some(table) = item.as_table_like() {
        let members = table.iter().map(|(key, item)| Some((key.to_owned(), json_of(item)?)));
        return members.collect::<Option<Map<_, _>>>().map(Value::Object);
    }
    if let Some(tables) = item.as_array_of_tables() {
        let tables = tables.iter().map(|table| json_of(&Item::Table(table.clone())));
        return tables.collect::<Option<Vec<_>>>().map(Value::Array);
    }
    match item.as_value()? {
        toml_edit::Value::String(text) => Some(text.value().as_str().into()),
        toml_edit::Value::Integer(number) => Some((*number.value()).into()),
        toml_edit::Value::Float(number) => Some((*number.value()).into()),
        toml_edit::Value::Boolean(truth) => Some((*truth.value()).into()),
        toml_edit::Value::Array(list) => {
            let elements = list.iter().map(|value| json_of(&Item::Value(value.clone())));
            elements.collect::<Option<Vec<_>>>().map(Value::Array)
        }
        toml_edit::Value::Datetime(_) | toml_edit::Value::InlineTable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

    fn set(path: &[&str], value: Value) -> MemberChange {
        MemberChange { path: path.iter().map(|&step| step.to_owned()).collect(), value: Some(value) }
    }

    fn remove(path: &[&str]) -> MemberChange {
        MemberChange { path: path.iter().map(|&step| step.to_owned()).collect(), value: None }
    }

    #[test]
    fn only_the_changed_members_get_a_new_text() {
        let changes = [
            set(&["command"], json!("uvx")),
            set(&["args"], json!(["b"])),
            set(&["env", "NEW"], json!("${NEW}")),
            remove(&["env", "OLD"]),
            remove(&["cwd"]),
        ];
        let cases = [
            (
                "a.toml",
                "# mine\n[servers.x] # x\ncommand = \"npx\" # program\nargs = [\"a\"]\ncwd = \"/n\"\n# limits\ngroups = [\"g\"]\n\n[servers.x.env]\n# kept\nKEY = \"hunter2\"\nOLD = \"1\"\n",
                "# mine\n[servers.x] # x\ncommand = \"uvx\" # program\nargs = [\"b\"]\n# limits\ngroups = [\"g\"]\n\n[servers.x.env]\n# kept\nKEY = \"hunter2\"\nNEW = \"${NEW}\"\n",
            ),
            (
                "a.toml",
                "servers.x = { command = \"npx\", env = { OLD = \"1\" } }\n",
                "servers.x = { command = \"uvx\", env = { NEW = \"${NEW}\" }, args = [\"b\"] }\n",
            ),
            (
                "a.toml",
                "[servers.x]\ncommand = \"npx\"\n",
                "[servers.x]\ncommand = \"uvx\"\nargs = [\"b\"]\nenv = { NEW = \"${NEW}\" }\n",
            ),
            (
                "mcp.json",
                "{\n  \"mcpServers\": {\n    // mine\n    \"x\": {\n      \"command\": \"npx\", // program\n      \"args\": [\"a\"],\n      \"cwd\": \"/n\",\n      \"env\": { \"KEY\": \"hunter2\", \"OLD\": \"1\" }\n    }\n  }\n}\n",
                "{\n  \"mcpServers\": {\n    // mine\n    \"x\": {\n      \"command\": \"uvx\", // program\n      \"args\": [\"b\"],\n      \"env\": {\n        \"KEY\": \"hunter2\",\n        \"NEW\": \"${NEW}\"\n      }\n    }\n  }\n}\n",
            ),
        ];
        for (name, before, after) in cases {
            let mut document = ServerListDocument::parse(Path::new(name), before).expect("it parses");
            assert!(document.edit("x", &changes), "{before}");
            assert_eq!(document.text(), after);
            assert!(!document.edit("gone", &changes));
        }
    }

    #[test]
    fn an_empty_map_goes_with_its_last_member() {
        let cases = [
            (
                "a.toml",
                "[servers.x]\nurl = \"u\"\n\n[servers.x.headers]\nA = \"1\"\n",
                "[servers.x]\nurl = \"u\"\n",
            ),
            (
                "a.json",
                "{\"servers\":{\"x\":{\"url\":\"u\",\"headers\":{\"A\":\"1\"}}}}",
                "{\"servers\":{\"x\":{\"url\":\"u\"}}}",
            ),
        ];
        for (name, before, after) in cases {
            let mut document = ServerListDocument::parse(Path::new(name), before).expect("it parses");
            assert!(document.edit("x", &[remove(&["headers", "A"]), remove(&["headers", "B"])]));
            assert_eq!(document.text(), after);
        }
    }

    #[test]
    fn entries_are_read_as_json() {
        let entry = json!({ "command": "x", "args": ["a"], "n": 3, "on": true, "env": { "K": "v" } });
        let cases = [
            (
                "a.toml",
                "[servers.x]\ncommand = \"x\"\nargs = [\"a\"]\nn = 3\non = true\n[servers.x.env]\nK = \"v\"\n",
            ),
            ("a.toml", "servers.x = { command = \"x\", args = [\"a\"], n = 3, on = true, env.K = \"v\" }\n"),
            (
                "a.json",
                r#"{"x": {"command": "x", "args": ["a"], "n": 3, "on": true, "env": {"K": "v"}}} // end"#,
            ),
        ];
        for (name, text) in cases {
            let document = ServerListDocument::parse(Path::new(name), text).expect("it parses");
            assert_eq!(document.entry("x").map(Value::Object), Some(entry.clone()), "{text}");
            assert_eq!(document.entry("y"), None);
        }
        let dated = ServerListDocument::parse(Path::new("a.toml"), "[servers.x]\na = 2026-01-01\n")
            .expect("it parses");
        assert_eq!(dated.entry("x"), None);
    }
}
