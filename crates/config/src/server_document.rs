//! The text of a configuration file with servers: changes single entries and keeps comments and order.

mod members;
mod yaml_list;

pub use members::MemberChange;

use crate::parse::Syntax;
use crate::toml_removal::{lead_with_comments, remove_empty_table, remove_entry};
use crate::written_values::{jsonc_of, toml_of};
use crate::yaml_edit;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstContainerNode, CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// Keys that contain servers, in all dialects.
const SERVER_KEYS: [&str; 3] = ["servers", "mcpServers", "mcp_servers"];

/// A parsed configuration file.
pub struct ServerListDocument {
    path: PathBuf,
    body: ServerListBody,
}

enum ServerListBody {
    Json(CstRootNode),
    Toml(Box<DocumentMut>),
    Yaml(String),
}

impl ServerListDocument {
    /// Parses the text of a file; an empty text is a file without servers. The error describes the problem.
    pub fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let body = match Syntax::of(path) {
            Syntax::Yaml => {
                yaml_edit::value(text)?;
                ServerListBody::Yaml(text.to_owned())
            }
            Syntax::Toml => {
                let parsed = text.parse::<DocumentMut>().map_err(|error| {
                    let start = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                    format!("it is not valid TOML (line {})", start.matches('\n').count() + 1)
                });
                ServerListBody::Toml(Box::new(parsed?))
            }
            Syntax::Json => {
                let text = if text.trim().is_empty() { "{}\n" } else { text };
                let parsed = CstRootNode::parse(text, &ParseOptions::default())
                    .map_err(|error| format!("it is not valid JSON (line {})", error.line_display()));
                ServerListBody::Json(parsed?)
            }
        };
        Ok(Self { path: path.to_owned(), body })
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        match &self.body {
            ServerListBody::Json(root) => root.to_string(),
            ServerListBody::Toml(document) => document.to_string(),
            ServerListBody::Yaml(text) => text.clone(),
        }
    }

    /// Whether the file has an entry of this name.
    pub fn contains(&self, name: &str) -> bool {
        match &self.body {
            ServerListBody::Json(root) => json_entry(root, name).is_some(),
            ServerListBody::Toml(document) => SERVER_KEYS
                .iter()
                .any(|key| toml_servers(document, key).is_some_and(|all| all.contains_key(name))),
            ServerListBody::Yaml(text) => yaml_list::key_of(text, name).is_some(),
        }
    }

    /// Adds an entry.
    pub fn add(&mut self, name: &str, entry: &Value) -> Result<(), String> {
        let key = self.servers_key();
        match &mut self.body {
            ServerListBody::Json(root) => {
                let keyed =
                    || root.object_value_or_create().and_then(|root| root.object_value_or_create(key));
                // A new key would take the other servers of a flat map out of use.
                let servers = unkeyed_servers(root).or_else(keyed);
                let servers = servers.ok_or_else(|| format!("its `{key}` is not a map"))?;
                servers.append(name, jsonc_of(entry));
            }
            ServerListBody::Toml(document) => {
                let mut added = table_of(entry);
                lead_with_comments(document, &mut added);
                let servers = document.entry(key).or_insert_with(|| {
                    let mut table = Table::new();
                    table.set_implicit(true);
                    Item::Table(table)
                });
                let servers = servers.as_table_like_mut();
                let servers = servers.ok_or_else(|| format!("its `{key}` is not a table"))?;
                servers.insert(name, Item::Table(added));
            }
            ServerListBody::Yaml(text) => *text = yaml_list::add(text, key, name, entry)?,
        }
        Ok(())
    }

    /// Adds an empty map of servers to a file that has none.
    pub fn add_servers_key(&mut self) {
        let key = self.servers_key();
        match &mut self.body {
            ServerListBody::Json(root) => {
                let _ = root.object_value_or_create().and_then(|root| root.object_value_or_create(key));
            }
            ServerListBody::Toml(document) => {
                document.entry(key).or_insert_with(|| Item::Table(Table::new()));
            }
            ServerListBody::Yaml(text) => yaml_list::add_key(text, key),
        }
    }

    /// Removes a map of servers that has neither entries nor comments.
    pub fn remove_empty_map(&mut self) {
        match &mut self.body {
            ServerListBody::Json(root) => {
                let Some(root) = root.object_value() else { return };
                for key in SERVER_KEYS {
                    let is_empty = root.object_value(key).is_some_and(|servers| is_vacant(&servers));
                    if let Some(map) = root.get(key).filter(|_| is_empty) {
                        map.remove();
                    }
                }
            }
            ServerListBody::Toml(document) => {
                SERVER_KEYS.iter().for_each(|key| remove_empty_table(document, key));
            }
            ServerListBody::Yaml(text) => {
                SERVER_KEYS.iter().for_each(|key| yaml_list::remove_empty(text, key));
            }
        }
    }

    /// The key of the file's servers: the one it has, or the usual one for its name.
    fn servers_key(&self) -> &'static str {
        let present = SERVER_KEYS.into_iter().find(|key| match &self.body {
            ServerListBody::Json(root) => {
                root.object_value().is_some_and(|root| root.object_value(key).is_some())
            }
            ServerListBody::Toml(document) => toml_servers(document, key).is_some(),
            ServerListBody::Yaml(text) => yaml_list::has_key(text, key),
        });
        let is_shared =
            self.path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("mcp.json"));
        present.unwrap_or(if is_shared { "mcpServers" } else { "servers" })
    }

    /// Removes an entry, and with the last one the map of servers, so that the bundled servers are offered again.
    /// Returns whether there was such an entry.
    pub fn remove(&mut self, name: &str) -> bool {
        // Other clients read this file as well, and some of them require the map.
        let keeps_map = self.path.file_name().is_some_and(|file| file == ".mcp.json");
        match &mut self.body {
            ServerListBody::Json(root) => {
                let Some((servers, _)) = json_entry(root, name) else { return false };
                if let Some(entry) = servers.get(name) {
                    entry.remove();
                }
                if !keeps_map
                    && is_vacant(&servers)
                    && let Some(CstContainerNode::ObjectProp(map)) = servers.parent()
                {
                    map.remove();
                }
                true
            }
            ServerListBody::Toml(document) => SERVER_KEYS.iter().any(|key| remove_entry(document, key, name)),
            ServerListBody::Yaml(text) => yaml_list::remove(text, name),
        }
    }

    /// Turns an entry on or off. Returns whether there is such an entry.
    pub fn switch(&mut self, name: &str, state: ServerSwitch) -> bool {
        let enabled = state == ServerSwitch::On;
        match &mut self.body {
            ServerListBody::Json(root) => {
                let Some((_, entry)) = json_entry(root, name) else { return false };
                if let Some(disabled) = entry.get("disabled") {
                    // Both keys in one entry would be an error.
                    match entry.get("enabled") {
                        Some(_) => disabled.remove(),
                        None => {
                            disabled.set_value(CstInputValue::Bool(!enabled));
                            return true;
                        }
                    }
                }
                match entry.get("enabled") {
                    Some(property) => property.set_value(CstInputValue::Bool(enabled)),
                    None if enabled => {}
                    None => drop(entry.append("enabled", CstInputValue::Bool(false))),
                }
                true
            }
            ServerListBody::Toml(document) => SERVER_KEYS.iter().any(|key| {
                let entry = document
                    .get_mut(key)
                    .and_then(Item::as_table_like_mut)
                    .and_then(|servers| servers.get_mut(name))
                    .and_then(Item::as_table_like_mut);
                entry.is_some_and(|entry| {
                    switch_toml(entry, enabled_item(state), state);
                    true
                })
            }),
            ServerListBody::Yaml(text) => yaml_list::switch(text, name, state),
        }
    }
}

/// Whether a server is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerSwitch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// The map of servers that has an entry of this name, and the entry.
fn json_entry(root: &CstRootNode, name: &str) -> Option<(CstObject, CstObject)> {
    let root = root.object_value()?;
    let keyed = SERVER_KEYS.iter().filter_map(|key| root.object_value(key));
    let nested = root.object_value("mcp").and_then(|mcp| mcp.object_value("servers"));
    let maps: Vec<CstObject> = keyed.chain(nested).collect();
    // A file without such a key may be a flat map of servers.
    let maps = if maps.is_empty() { vec![root] } else { maps };
    maps.into_iter().find_map(|servers| {
        let entry = servers.object_value(name)?;
        Some((servers, entry))
    })
}

/// The map of servers of a file that has them at its top, or in `mcp.servers`.
fn unkeyed_servers(root: &CstRootNode) -> Option<CstObject> {
    const WORDS: [&str; 4] = ["command", "url", "serverUrl", "httpUrl"];
    let root = root.object_value()?;
    if SERVER_KEYS.iter().any(|key| root.get(key).is_some()) {
        return None;
    }
    if let Some(nested) = root.object_value("mcp").and_then(|mcp| mcp.object_value("servers")) {
        return Some(nested);
    }
    let is_entry = |value: CstObject| WORDS.iter().any(|word| value.get(word).is_some());
    let mut values = root.properties().into_iter().filter_map(|property| property.object_value());
    values.any(is_entry).then_some(root)
}

/// Whether a map has neither entries nor comments.
fn is_vacant(servers: &CstObject) -> bool {
    servers.properties().is_empty() && !servers.children().iter().any(|child| child.is_comment())
}

fn toml_servers<'a>(document: &'a DocumentMut, key: &str) -> Option<&'a dyn TableLike> {
    document.get(key).and_then(Item::as_table_like)
}

fn enabled_item(state: ServerSwitch) -> toml_edit::Value {
    (state == ServerSwitch::On).into()
}

fn switch_toml(entry: &mut dyn TableLike, mut enabled: toml_edit::Value, state: ServerSwitch) {
    entry.remove("disabled");
    match entry.get_mut("enabled").and_then(Item::as_value_mut) {
        Some(value) => {
            // The comment at the end of the line belongs to the value.
            *enabled.decor_mut() = value.decor().clone();
            *value = enabled;
        }
        None if state == ServerSwitch::On => {}
        None => drop(entry.insert("enabled", Item::Value(enabled))),
    }
}

fn table_of(entry: &Value) -> Table {
    let mut table = Table::new();
    let members = entry.as_object();
    // Values come before tables, which TOML requires.
    for (key, value) in members.into_iter().flatten().filter(|(_, value)| !value.is_object()) {
        table.insert(key, Item::Value(toml_of(value)));
    }
    for (key, value) in members.into_iter().flatten().filter(|(_, value)| value.is_object()) {
        table.insert(key, Item::Table(table_of(value)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    fn changed(name: &str, before: &str, change: impl FnOnce(&mut ServerListDocument)) -> String {
        let mut document = ServerListDocument::parse(Path::new(name), before).expect("it parses");
        change(&mut document);
        document.text()
    }

    fn check(name: &str, before: &str, change: impl FnOnce(&mut ServerListDocument), expected: Expect) {
        expected.assert_eq(&changed(name, before, change));
    }

    const TOML: &str = "\
# mine
listen = 9000

[servers.fs]
command = \"fs\" # keep
enabled = true # for now

# the other one
[servers.git]
command = \"git\"
disabled = true

[policy]
consent = \"never\"
";

    const JSON: &str = "{\n  // mine\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"fs\"}, // keep\n    /* two */\n    \"git\": {\"command\": \"git\", \"disabled\": true}\n  }\n}\n";

    #[test]
    fn a_new_entry_leaves_the_rest_unchanged() {
        let entry = json!({ "command": "npx", "args": ["-y", "x"], "env": { "KEY": "${KEY}" } });
        check(
            "toolbooth.toml",
            "",
            |document| document.add("x", &entry).expect("added"),
            expect![[r#"
                [servers.x]
                command = "npx"
                args = ["-y", "x"]

                [servers.x.env]
                KEY = "${KEY}"
            "#]],
        );
        let after = changed("toolbooth.toml", TOML, |document| document.add("x", &entry).expect("added"));
        for line in TOML.lines() {
            assert!(after.contains(line), "{line} is missing in {after}");
        }
        check(
            "mcp.json",
            JSON,
            |document| document.add("x", &json!({ "url": "https://x.example/mcp" })).expect("added"),
            expect![[r#"
                {
                  // mine
                  "mcpServers": {
                    "fs": {"command": "fs"}, // keep
                    /* two */
                    "git": {"command": "git", "disabled": true},
                    "x": {
                      "url": "https://x.example/mcp"
                    }
                  }
                }
            "#]],
        );
        let new =
            changed("mcp.json", "", |document| document.add("x", &json!({ "command": "x" })).expect("added"));
        assert!(new.contains("\"mcpServers\""), "{new}");
    }

    #[test]
    fn a_new_entry_is_added_where_the_others_are() {
        let add =
            |document: &mut ServerListDocument| document.add("b", &json!({ "url": "u" })).expect("added");
        let cases = [
            (r#"{"a": {"command": "x"}}"#, "/b/url"),
            (r#"{"mcp": {"servers": {"a": {"url": "x"}}}}"#, "/mcp/servers/b/url"),
            (r#"{"mcpServers": {}, "a": {"command": "x"}}"#, "/mcpServers/b/url"),
            (r#"{"policy": {"consent": "never"}}"#, "/mcpServers/b/url"),
            ("{}", "/mcpServers/b/url"),
        ];
        for (before, place) in cases {
            let after = changed("mcp.json", before, add);
            let json: Value = serde_json::from_str(&after).expect("JSON");
            assert_eq!(json.pointer(place), Some(&json!("u")), "{before}: {after}");
        }
    }

    #[test]
    fn an_entry_is_removed_with_its_own_comments_only() {
        check(
            "toolbooth.toml",
            TOML,
            |document| assert!(document.remove("git") && !document.remove("git")),
            expect![[r##"
                # mine
                listen = 9000

                [servers.fs]
                command = "fs" # keep
                enabled = true # for now

                [policy]
                consent = "never"
            "##]],
        );
        let after = changed("mcp.json", JSON, |document| assert!(document.remove("git")));
        assert!(after.contains("// mine") && after.contains("// keep") && !after.contains("git"), "{after}");
    }

    #[test]
    fn the_list_goes_with_its_last_entry_and_comments_stay() {
        let cases = [
            ("a.toml", "[servers.x]\ncommand = \"x\"\n", "# Settings of Toolbooth.\n"),
            ("a.toml", "# all mine\n[servers.x]\ncommand = \"x\"\n", "# all mine\n"),
            ("a.toml", "# tools\n[servers]\nx = { command = \"x\" }\n# end\n", "# tools\n# end\n"),
            (
                "a.toml",
                "# all mine\n\n# the x\n[servers.x]\nurl = \"x\"\n\n[policy]\nconsent = \"never\"\n",
                "# all mine\n\n# the x\n\n[policy]\nconsent = \"never\"\n",
            ),
            ("a.json", "{\"servers\": {\"x\": {}}}", "{}"),
            ("mcp.json", "{\n  // mine\n  \"mcpServers\": {\n    \"x\": {}\n  }\n}\n", "{\n  // mine\n}\n"),
            (".mcp.json", "{\"mcpServers\": {\"x\": {}}}", "{\"mcpServers\": {}}"),
        ];
        for (name, before, expected) in cases {
            assert_eq!(changed(name, before, |document| assert!(document.remove("x"))), expected, "{before}");
        }
        // A comment that an empty line separates from the entry belongs to the file.
        let two = "# all mine\n\n# the x\n[servers.x]\nurl = \"x\"\n\n# the y\n[servers.y]\nurl = \"y\"\n";
        let one = "# all mine\n\n# the y\n[servers.y]\nurl = \"y\"\n";
        assert_eq!(changed("a.toml", two, |document| assert!(document.remove("x"))), one);
        let again = changed("a.toml", "# all mine\n", |document| {
            document.add("x", &json!({ "url": "x" })).expect("added");
        });
        assert_eq!(again, "# all mine\n\n[servers.x]\nurl = \"x\"\n");
    }

    #[test]
    fn an_entry_is_switched_in_place() {
        let off = |name: &'static str| {
            move |document: &mut ServerListDocument| assert!(document.switch(name, ServerSwitch::Off))
        };
        let on = |name: &'static str| {
            move |document: &mut ServerListDocument| assert!(document.switch(name, ServerSwitch::On))
        };
        let cases = [
            (changed("toolbooth.toml", TOML, off("fs")), "enabled = false # for now"),
            (changed("toolbooth.toml", TOML, off("git")), "command = \"git\"\nenabled = false\n"),
            (changed("toolbooth.toml", TOML, on("git")), "command = \"git\"\n\n[policy]"),
            (changed("mcp.json", JSON, on("git")), "{\"command\": \"git\", \"disabled\": false}"),
        ];
        for (after, part) in cases {
            assert!(after.contains(part), "{part} is missing in {after}");
        }
        let after = changed("mcp.json", JSON, off("fs"));
        assert!(after.contains("\"enabled\": false") && after.contains("// keep"), "{after}");
        changed("mcp.json", JSON, |document| assert!(!document.switch("gone", ServerSwitch::On)));
    }

    #[test]
    fn other_files_are_refused() {
        for (name, text) in [("a.yaml", "servers: ["), ("a.toml", "a = "), ("a.json", "{")] {
            assert!(ServerListDocument::parse(Path::new(name), text).is_err(), "{name}");
        }
        for (name, text) in [
            ("a.yaml", "servers: 3\n"),
            ("a.toml", "servers = 3\n"),
            ("a.json", "[1]"),
            ("a.json", r#"{"servers": 3}"#),
        ] {
            let mut document = ServerListDocument::parse(Path::new(name), text).expect("it parses");
            assert!(document.add("x", &json!({ "command": "x" })).is_err(), "{text}");
            assert_eq!(document.text(), text);
        }
    }
}
