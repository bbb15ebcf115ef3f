//! Edits one entry of a client's configuration and keeps its comments and order.

use super::client::{ClientApp, ClientEntry};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table, value};

/// The parsed configuration file of a client.
pub struct ClientDocument {
    app: ClientApp,
    body: DocumentBody,
}

enum DocumentBody {
    Json(CstRootNode),
    Toml(Box<DocumentMut>),
}

impl ClientDocument {
    /// Parses a file; an empty text is a file without servers. The error describes the problem.
    pub fn parse(app: ClientApp, text: &str) -> Result<Self, String> {
        let body = if app == ClientApp::Codex {
            let parsed = text.parse::<DocumentMut>().map_err(|error| {
                let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                format!("it is not valid TOML (line {})", before.matches('\n').count() + 1)
            });
            DocumentBody::Toml(Box::new(parsed?))
        } else {
            let text = if text.trim().is_empty() { "{}\n" } else { text };
            let parsed = CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| {
                format!(
                    "it is not valid JSON (line {}, column {})",
                    error.line_display(),
                    error.column_display()
                )
            });
            DocumentBody::Json(parsed?)
        };
        Ok(Self { app, body })
    }

    /// Adds or replaces an entry. Returns true if the entry was already there unchanged.
    pub fn put(&mut self, name: &str, entry: &ClientEntry) -> Result<bool, String> {
        let words = self.app.words(entry);
        if self.get(name).as_ref() == Some(&words) {
            return Ok(true);
        }
        self.insert(name, &words)?;
        Ok(false)
    }

    /// The text of this version of a file with the entry of another version.
    pub fn text_with(mut self, name: &str, other: &Self) -> Option<String> {
        self.insert(name, &other.get(name)?).ok()?;
        Some(self.text())
    }

    fn insert(&mut self, name: &str, words: &Value) -> Result<(), String> {
        let key = self.app.servers_key();
        match &mut self.body {
            DocumentBody::Json(root) => {
                let object = root.object_value_or_create().ok_or("it is not a JSON object")?;
                let servers = object
                    .object_value_or_create(key)
                    .ok_or_else(|| format!("its `{key}` is not an object"))?;
                set(&servers, name, words);
            }
            DocumentBody::Toml(document) => {
                let servers = document.entry(key).or_insert_with(|| {
                    let mut table = Table::new();
                    table.set_implicit(true);
                    Item::Table(table)
                });
                let servers = servers.as_table_mut().ok_or_else(|| format!("its `{key}` is not a table"))?;
                servers.insert(name, Item::Table(table_of(words)));
            }
        }
        Ok(())
    }

    /// Removes an entry, or restores it from an earlier version of the file. Returns false if there is no entry.
    pub fn remove(&mut self, name: &str, earlier: Option<&Self>) -> bool {
        if self.get(name).is_none() {
            return false;
        }
        let before = earlier.and_then(|earlier| earlier.get(name));
        let had_servers = earlier.is_none_or(Self::has_servers);
        let key = self.app.servers_key();
        match &mut self.body {
            DocumentBody::Json(root) => {
                let Some(object) = root.object_value() else { return false };
                let Some(servers) = object.object_value(key) else { return false };
                match (before, servers.get(name)) {
                    (Some(before), _) => set(&servers, name, &before),
                    (None, Some(entry)) => entry.remove(),
                    (None, None) => {}
                }
                if !had_servers
                    && servers.properties().is_empty()
                    && let Some(servers) = object.get(key)
                {
                    servers.remove();
                }
            }
            DocumentBody::Toml(document) => {
                let Some(servers) = document.get_mut(key).and_then(Item::as_table_mut) else { return false };
                match before {
                    Some(before) => drop(servers.insert(name, Item::Table(table_of(&before)))),
                    None => drop(servers.remove(name)),
                }
                if !had_servers && servers.is_empty() {
                    document.remove(key);
                }
            }
        }
        true
    }

    fn has_servers(&self) -> bool {
        let key = self.app.servers_key();
        match &self.body {
            DocumentBody::Json(root) => root.object_value().is_some_and(|object| object.get(key).is_some()),
            DocumentBody::Toml(document) => document.contains_key(key),
        }
    }

    /// Whether the file has nothing but an empty list of servers.
    pub fn is_empty(&self) -> bool {
        let key = self.app.servers_key();
        match &self.body {
            DocumentBody::Json(root) => root.object_value().is_some_and(|object| {
                object.properties().len() <= usize::from(object.get(key).is_some())
                    && object.object_value(key).is_none_or(|servers| servers.properties().is_empty())
            }),
            DocumentBody::Toml(document) => document
                .iter()
                .all(|(name, item)| name == key && item.as_table().is_some_and(Table::is_empty)),
        }
    }

    /// An entry as JSON.
    fn get(&self, name: &str) -> Option<Value> {
        let key = self.app.servers_key();
        match &self.body {
            DocumentBody::Json(root) => {
                root.object_value()?.object_value(key)?.get(name)?.value()?.to_serde_value()
            }
            DocumentBody::Toml(document) => Some(json_of(document.get(key)?.get(name)?)),
        }
    }

    /// The file's text.
    pub fn text(&self) -> String {
        match &self.body {
            DocumentBody::Json(root) => root.to_string(),
            DocumentBody::Toml(document) => document.to_string(),
        }
    }

    /// The text of a file with only this entry.
    pub fn sample(app: ClientApp, name: &str, entry: &ClientEntry) -> String {
        let Ok(mut sample) = Self::parse(app, "") else { return String::new() };
        let _ = sample.put(name, entry);
        sample.text()
    }
}

fn set(servers: &CstObject, name: &str, words: &Value) {
    match servers.get(name) {
        Some(entry) => entry.set_value(input(words)),
        None => drop(servers.append(name, input(words))),
    }
}

fn input(words: &Value) -> CstInputValue {
    match words {
        Value::Null => CstInputValue::Null,
        Value::Bool(truth) => CstInputValue::Bool(*truth),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

fn table_of(words: &Value) -> Table {
    let mut table = Table::new();
    for (key, word) in words.as_object().into_iter().flatten() {
        let item = match word {
            Value::Object(_) => Item::Table(table_of(word)),
            word => value(toml_of(word)),
        };
        table.insert(key, item);
    }
    table
}

fn toml_of(word: &Value) -> toml_edit::Value {
    match word {
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| number.as_f64().unwrap_or_default().into(), Into::into)
        }
        Value::Array(list) => toml_edit::Value::Array(list.iter().map(toml_of).collect()),
        other => other.as_str().unwrap_or_default().into(),
    }
}

fn json_of(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return Value::Object(table.iter().map(|(key, item)| (key.to_owned(), json_of(item))).collect());
    }
    item.as_value().map_or(Value::Null, json_of_value)
}

fn json_of_value(word: &toml_edit::Value) -> Value {
    match word {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        toml_edit::Value::Float(number) => Value::from(*number.value()),
        toml_edit::Value::Boolean(truth) => Value::from(*truth.value()),
        toml_edit::Value::Array(list) => Value::Array(list.iter().map(json_of_value).collect()),
        toml_edit::Value::InlineTable(table) => {
            Value::Object(table.iter().map(|(key, word)| (key.to_owned(), json_of_value(word))).collect())
        }
        toml_edit::Value::Datetime(time) => Value::from(time.value().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn entry() -> ClientEntry {
        ClientEntry::Stdio { command: "/bin/toolbooth".into(), args: vec!["stdio".into()] }
    }

    fn check(app: ClientApp, before: &str, expected: Expect) {
        let mut document = ClientDocument::parse(app, before).expect("it parses");
        assert_eq!(document.put("toolbooth", &entry()), Ok(false));
        expected.assert_eq(&document.text());
        assert_eq!(document.put("toolbooth", &entry()), Ok(true), "a second time changes nothing");
        let earlier = ClientDocument::parse(app, before).expect("it parses");
        assert!(document.remove("toolbooth", Some(&earlier)));
        assert_eq!(document.get("toolbooth"), earlier.get("toolbooth"));
        assert!(!before.contains("//") || document.text() == before, "{}", document.text());
    }

    #[test]
    fn comments_and_order_stay() {
        let json = "{\n  // mine\n  \"zeta\": 1,\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"fs\"}, // keep\n  },\n}\n";
        check(
            ClientApp::Cursor,
            json,
            expect![[r#"
            {
              // mine
              "zeta": 1,
              "mcpServers": {
                "fs": {"command": "fs"}, // keep
                "toolbooth": {
                  "command": "/bin/toolbooth",
                  "args": ["stdio"],
                },
              },
            }
        "#]],
        );
        check(
            ClientApp::Vscode,
            "",
            expect![[r#"
            {
              "servers": {
                "toolbooth": {
                  "type": "stdio",
                  "command": "/bin/toolbooth",
                  "args": ["stdio"]
                }
              }
            }
        "#]],
        );
        check(
            ClientApp::ClaudeCode,
            r#"{"mcpServers": {"toolbooth": {"command": "old"}}}"#,
            expect![[r#"
            {"mcpServers": {"toolbooth": {
                  "type": "stdio",
                  "command": "/bin/toolbooth",
                  "args": ["stdio"]
                }}}"#]],
        );
        let toml = "# mine\nmodel = \"x\"\n\n[mcp_servers.fs]\ncommand = \"fs\" # keep\n";
        check(
            ClientApp::Codex,
            toml,
            expect![[r##"
            # mine
            model = "x"

            [mcp_servers.fs]
            command = "fs" # keep

            [mcp_servers.toolbooth]
            command = "/bin/toolbooth"
            args = ["stdio"]
        "##]],
        );
    }

    #[test]
    fn a_file_with_an_unexpected_structure_is_not_changed() {
        for (app, text) in [
            (ClientApp::Cursor, "[1]"),
            (ClientApp::Cursor, r#"{"mcpServers": 3}"#),
            (ClientApp::Codex, "mcp_servers = 3\n"),
        ] {
            let mut document = ClientDocument::parse(app, text).expect("it parses");
            assert!(document.put("toolbooth", &entry()).is_err(), "{text}");
            assert_eq!(document.text(), text);
        }
        assert!(ClientDocument::parse(ClientApp::Cursor, "{").is_err());
        assert!(ClientDocument::parse(ClientApp::Codex, "a = ").is_err());
    }
}
