//! Edits the entries of a client's configuration and keeps its comments and order.

use super::name_lists::{ListEdit, NameList};
use super::place::GATEWAY_NAME;
use super::spec::{ClientId, ServerLayout};
use super::yaml_text;
use crate::parse::Syntax;
use crate::written_values::{jsonc_of, toml_of};
use crate::yaml_edit;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstObject, CstRootNode};
use serde_json::Value;
use std::path::Path;
use toml_edit::{DocumentMut, Item, Table, value};

/// The parsed configuration file of a client.
pub struct ClientDocument {
    client: ClientId,
    layout: ServerLayout,
    body: DocumentBody,
}

enum DocumentBody {
    Json(CstRootNode),
    Toml(Box<DocumentMut>),
    Yaml(String),
}

impl ClientDocument {
    /// Parses a file; an empty text is a file without servers. The error describes the problem.
    pub fn parse(client: ClientId, text: &str) -> Result<Self, String> {
        Self::parse_as(client, client.spec().syntax, client.spec().layout, text)
    }

    /// Parses a file of a client, which may be one in its folder of servers.
    pub fn parse_file(client: ClientId, path: &Path, text: &str) -> Result<Self, String> {
        match (client.is_folder_file(path), Syntax::of(path)) {
            (false, _) => Self::parse(client, text),
            (true, Syntax::Json) => Self::parse_as(client, Syntax::Json, ServerLayout::Map, text),
            (true, syntax) => Self::parse_as(client, syntax, client.spec().layout, text),
        }
    }

    fn parse_as(client: ClientId, syntax: Syntax, layout: ServerLayout, text: &str) -> Result<Self, String> {
        let body = match syntax {
            Syntax::Toml => {
                let parsed = text.parse::<DocumentMut>().map_err(|error| {
                    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                    format!("it is not valid TOML (line {})", before.matches('\n').count() + 1)
                });
                DocumentBody::Toml(Box::new(parsed?))
            }
            Syntax::Yaml => {
                yaml_edit::value(text)?;
                DocumentBody::Yaml(text.to_owned())
            }
            Syntax::Json => {
                let text = if text.trim().is_empty() { "{}\n" } else { text };
                let parsed = CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| {
                    format!(
                        "it is not valid JSON (line {}, column {})",
                        error.line_display(),
                        error.column_display()
                    )
                });
                DocumentBody::Json(parsed?)
            }
        };
        Ok(Self { client, layout, body })
    }

    /// Whether the servers are a map or a list.
    pub(super) fn layout(&self) -> ServerLayout {
        self.layout
    }

    /// Writes `[]` for a list that has lost its last element, which some clients require.
    pub(super) fn close_empty_list(&mut self) {
        let key = self.client.spec().section;
        if let (DocumentBody::Yaml(text), ServerLayout::NamedList) = (&mut self.body, self.layout) {
            *text = yaml_text::with_empty_list(text, key);
        }
    }

    /// The client of the file.
    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// The keys from the top of the file to the servers.
    pub fn section(&self) -> Vec<String> {
        let key = self.client.spec().section;
        // Newer versions of opencode nest the servers one level deeper.
        let nested = self.client == ClientId::Opencode
            && matches!(&self.body, DocumentBody::Json(root) if root
                .object_value()
                .and_then(|object| object.object_value(key)?.object_value("servers"))
                .is_some_and(|servers| servers.get("type").is_none()));
        let more = nested.then(|| "servers".to_owned());
        std::iter::once(key.to_owned()).chain(more).collect()
    }

    /// Adds or replaces an entry of the client's servers.
    pub fn put(&mut self, name: &str, words: &Value) -> Result<(), String> {
        self.put_at(&self.section(), name, words)
    }

    /// Adds or replaces an entry of a map or list of servers.
    pub fn put_at(&mut self, section: &[String], name: &str, words: &Value) -> Result<(), String> {
        let layout = self.layout;
        match &mut self.body {
            DocumentBody::Json(root) => {
                let mut object = root.object_value_or_create().ok_or("it is not a JSON object")?;
                for key in section {
                    object = object
                        .object_value_or_create(key)
                        .ok_or_else(|| format!("its `{key}` is not an object"))?;
                }
                set(&object, name, words);
            }
            DocumentBody::Toml(document) => {
                let key = self.client.spec().section;
                let servers = document.entry(key).or_insert_with(|| {
                    let mut table = Table::new();
                    table.set_implicit(true);
                    Item::Table(table)
                });
                let servers =
                    servers.as_table_like_mut().ok_or_else(|| format!("its `{key}` is not a table"))?;
                servers.insert(name, Item::Table(table_of(words)));
            }
            DocumentBody::Yaml(text) => {
                let key = self.client.spec().section;
                *text = yaml_text::remove(text, key, layout, name)?;
                *text = yaml_text::insert(text, key, layout, name, words)?;
            }
        }
        Ok(())
    }

    /// Removes an entry. Returns false if it does not exist.
    pub fn remove(&mut self, section: &[String], name: &str) -> Result<bool, String> {
        let layout = self.layout;
        match &mut self.body {
            DocumentBody::Json(root) => {
                let object = section
                    .iter()
                    .try_fold(root.object_value(), |object, key| Some(object?.object_value(key)))
                    .flatten();
                let Some(object) = object else { return Ok(false) };
                let mut found = false;
                // A key may be written twice.
                while let Some(entry) = object.get(name) {
                    entry.remove();
                    found = true;
                }
                Ok(found)
            }
            DocumentBody::Toml(document) => {
                let servers = section.iter().try_fold(document.as_item_mut(), |item, key| item.get_mut(key));
                let servers = servers.and_then(Item::as_table_like_mut);
                Ok(servers.is_some_and(|servers| servers.remove(name).is_some()))
            }
            DocumentBody::Yaml(text) => {
                let edited = match section {
                    [key] => yaml_text::remove(text, key, layout, name)?,
                    _ => return Ok(false),
                };
                let changed = edited != *text;
                *text = edited;
                Ok(changed)
            }
        }
    }

    /// An entry of the client's servers as JSON.
    pub fn get(&self, name: &str) -> Option<Value> {
        let mut inner = self.value().ok()?;
        for key in self.section() {
            inner = inner.get_mut(&key)?.take();
        }
        match inner {
            Value::Object(mut map) => map.shift_remove(name),
            Value::Array(list) => {
                list.into_iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
            }
            _ => None,
        }
    }

    /// Changes a list of servers. Only files in JSON have such lists.
    pub(super) fn edit_list(&mut self, list: &NameList, edit: &ListEdit) {
        let DocumentBody::Json(root) = &self.body else { return };
        let Some((last, outer)) = list.keys.split_last() else {
            if let (Some(object), ListEdit::RemoveKey(key)) = (root.object_value(), edit) {
                object.get(key).into_iter().for_each(|member| member.remove());
            }
            return;
        };
        let object = outer
            .iter()
            .try_fold(root.object_value(), |object, key| Some(object?.object_value(key)))
            .flatten();
        let Some(object) = object else { return };
        match edit {
            ListEdit::Append(element) => {
                object.array_value(last).into_iter().for_each(|array| drop(array.append(jsonc_of(element))));
            }
            ListEdit::Remove(index) => {
                let elements = object.array_value(last).map(|array| array.elements()).unwrap_or_default();
                elements.into_iter().nth(*index).into_iter().for_each(|element| element.remove());
            }
            ListEdit::RemoveKey(key) => {
                let member = object.object_value(last).and_then(|members| members.get(key));
                member.into_iter().for_each(|member| member.remove());
            }
        }
    }

    /// Removes the gateway's entry, or restores the entry of an earlier version of the file. Returns false if there is no
    /// entry.
    pub fn disconnect(&mut self, earlier: Option<&Self>) -> Result<bool, String> {
        let section = self.section();
        if self.get(GATEWAY_NAME).is_none() {
            return Ok(false);
        }
        match earlier.and_then(|earlier| earlier.get(GATEWAY_NAME)) {
            Some(before) => self.put(GATEWAY_NAME, &before)?,
            None => {
                self.remove(&section, GATEWAY_NAME)?;
            }
        }
        let had_servers = earlier.is_none_or(Self::has_servers);
        if !had_servers {
            self.drop_empty_servers();
        }
        self.withdraw(&self.client.spec().own_lists(), earlier);
        Ok(true)
    }

    /// Takes the gateway out of the lists that allow it, unless an earlier version of the file has it. Returns whether
    /// anything was changed.
    pub(super) fn withdraw(&mut self, lists: &[&'static NameList], earlier: Option<&Self>) -> bool {
        let (Ok(now), before) = (self.value(), earlier.and_then(|earlier| earlier.value().ok())) else {
            return false;
        };
        let mut is_changed = false;
        for list in lists {
            let Some((found, _)) = list.find(&now).into_iter().next() else { continue };
            let before = before.as_ref().and_then(|before| Some(list.find(before).into_iter().next()?.0));
            for edit in list.withdrawal(found, before) {
                self.edit_list(list, &edit);
                is_changed = true;
            }
        }
        is_changed
    }

    fn has_servers(&self) -> bool {
        let key = self.client.spec().section;
        self.value().is_ok_and(|value| value.get(key).is_some())
    }

    /// Removes the key of the servers if it is empty.
    fn drop_empty_servers(&mut self) {
        let key = self.client.spec().section;
        match &mut self.body {
            DocumentBody::Json(root) => {
                let Some(object) = root.object_value() else { return };
                let is_empty =
                    object.object_value(key).is_some_and(|servers| servers.properties().is_empty());
                if let Some(servers) = object.get(key).filter(|_| is_empty) {
                    servers.remove();
                }
            }
            DocumentBody::Toml(document) => {
                let servers = document.get(key).and_then(Item::as_table_like);
                if servers.is_some_and(|servers| servers.is_empty()) {
                    document.remove(key);
                }
            }
            DocumentBody::Yaml(text) => *text = yaml_text::without_empty_key(text, key),
        }
    }

    /// Whether the file has nothing but an empty list of servers.
    pub fn is_empty(&self) -> bool {
        let key = self.client.spec().section;
        let is_vacant = |value: &Value| match value {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        match self.value() {
            Ok(Value::Object(map)) => map.iter().all(|(name, value)| name == key && is_vacant(value)),
            Ok(Value::Null) => true,
            _ => false,
        }
    }

    /// The whole file as JSON.
    pub fn value(&self) -> Result<Value, String> {
        match &self.body {
            DocumentBody::Json(root) => {
                root.to_serde_value().ok_or_else(|| "it is not valid JSON".to_owned())
            }
            DocumentBody::Toml(document) => Ok(json_of(document.as_item())),
            DocumentBody::Yaml(text) => yaml_edit::value(text),
        }
    }

    /// The file's text.
    pub fn text(&self) -> String {
        match &self.body {
            DocumentBody::Json(root) => root.to_string(),
            DocumentBody::Toml(document) => document.to_string(),
            DocumentBody::Yaml(text) => text.clone(),
        }
    }
}

fn set(servers: &CstObject, name: &str, words: &Value) {
    match servers.get(name) {
        Some(entry) => entry.set_value(jsonc_of(words)),
        None => drop(servers.append(name, jsonc_of(words))),
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

fn json_of(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return Value::Object(table.iter().map(|(key, item)| (key.to_owned(), json_of(item))).collect());
    }
    if let Some(tables) = item.as_array_of_tables() {
        let table_value = |table: &Table| {
            Value::Object(table.iter().map(|(key, item)| (key.to_owned(), json_of(item))).collect())
        };
        return Value::Array(tables.iter().map(table_value).collect());
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
