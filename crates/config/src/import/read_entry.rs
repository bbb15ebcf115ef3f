//! Converts the entries of other clients to our fields.

use super::Skipped;
use super::client_env_file::ClientEnvFile;
use super::list_entries::{ClientSource, RawEntry, project_of, raw_servers};
use super::server_lists::ServerLists;
use crate::clients::{ClientId, TimeoutUnit, VariableForm};
use crate::node::{MapKey, Node, Value};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A server of another client, converted to our fields.
pub(super) struct FoundServer {
    pub name: String,
    pub entry: Map<String, Json>,
    pub from: PathBuf,
    /// The keys from the top of the file to the servers.
    pub section: Vec<String>,
    pub notes: Vec<String>,
    /// The variables that the client read from a file of the user; they count as secrets.
    pub file_variables: BTreeSet<String>,
}

/// Reads the servers of a client's file.
pub(super) fn servers(
    source: &ClientSource<'_>,
    node: Node,
    found: &mut Vec<FoundServer>,
    skipped: &mut Vec<Skipped>,
) {
    let lists = ServerLists::read(source, &node.used());
    for RawEntry { name, node: entry, note, section, project } in raw_servers(source, node) {
        let notes = note.into_iter().collect();
        let own_project = project.clone();
        let project = project.or_else(|| project_of(source));
        let mut reading = ClientEntryReader { source, project, notes, refusal: None, env_file: None };
        let fields = match entry.members() {
            Some(members) => reading.fields(members),
            None => Err(format!("its entry is {}", entry.kind())),
        };
        match fields {
            Ok(mut entry) => {
                let from = source.path.to_owned();
                let file_variables = reading.add_file_variables(&mut entry);
                let mut notes = reading.notes;
                let verdict = lists.verdict(&name, &entry, own_project.as_deref());
                notes.extend(verdict.apply(&mut entry));
                found.push(FoundServer { name, entry, from, section, notes, file_variables });
            }
            Err(reason) => skipped.push(Skipped { name, reason, from: source.path.to_owned() }),
        }
    }
}

struct ClientEntryReader<'a> {
    source: &'a ClientSource<'a>,
    /// The folder that the client starts the server in, if the entry belongs to a project.
    project: Option<PathBuf>,
    notes: Vec<String>,
    /// The reason to leave the entry in the client.
    refusal: Option<String>,
    /// The file with variables that the entry names, as it is written.
    env_file: Option<String>,
}

impl ClientEntryReader<'_> {
    /// Converts the fields of one entry; an error is the reason to skip it.
    fn fields(&mut self, members: &[(MapKey, Node)]) -> Result<Map<String, Json>, String> {
        let client = self.source.client;
        // Older goose files and Cline's `transport` have fields one level deeper.
        let is_outer = |key: &str| match client {
            Some(ClientId::Goose) | None => key == "config",
            Some(ClientId::Cline) => key == "transport",
            _ => false,
        };
        let inner = members.iter().find(|(key, _)| is_outer(&key.text)).and_then(|(_, node)| node.members());
        let mut entry = Map::new();
        for (key, node) in members
            .iter()
            .filter(|(key, _)| !is_outer(&key.text) || inner.is_none())
            .chain(inner.into_iter().flatten())
        {
            let value = self.plain(node);
            match client {
                Some(ClientId::Goose) => self.goose(&mut entry, &key.text, value)?,
                Some(ClientId::Codex) => self.codex(&mut entry, &key.text, value),
                _ => self.usual(&mut entry, &key.text, value),
            }
        }
        self.complete(&mut entry);
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal);
        }
        match entry.contains_key("command") || entry.contains_key("url") {
            true => Ok(entry),
            false if client == Some(ClientId::Zed) => Err("is an extension of the client".to_owned()),
            false => Err("has neither `command` nor `url`".to_owned()),
        }
    }

    /// The fields that most clients share, under all their names.
    fn usual(&mut self, entry: &mut Map<String, Json>, name: &str, value: Json) {
        let client = self.source.client;
        let is_client = client.is_some();
        match (name, value) {
            ("envFile", Json::String(file)) => self.env_file = Some(file),
            ("envFile", _) => {}
            ("alwaysAllow" | "autoApprove" | "name" | "gallery" | "version" | "dev", _) => {}
            ("trust" | "source" | "remote" | "metadata" | "watchPaths" | "settings", _) if is_client => {}
            ("tools", Json::Array(tools)) if is_client => {
                if tools.iter().all(|tool| tool != "*") {
                    entry.insert("allow_tools".into(), Json::Array(tools));
                }
            }
            ("serverUrl" | "httpUrl" | "uri" | "endpoint", url) => {
                if name == "httpUrl" && client == Some(ClientId::Qwen) {
                    entry.insert("type".into(), "http".into());
                }
                entry.insert("url".into(), url);
            }
            ("command", Json::Array(words)) if is_client => {
                let mut words = words.into_iter();
                entry.insert("command".into(), words.next().unwrap_or_default());
                entry.insert("args".into(), words.collect());
            }
            // Older files of Zed have a map.
            ("command", Json::Object(map)) if is_client => {
                for (name, value) in map {
                    let ours = if name == "path" { "command" } else { name.as_str() };
                    entry.insert(ours.to_owned(), value);
                }
            }
            ("environment", value) if is_client => merge_map(entry, "env", value),
            ("working_directory", folder) if is_client => drop(entry.insert("cwd".into(), folder)),
            ("includeTools" | "enabledTools", tools) if is_client => {
                drop(entry.insert("allow_tools".into(), tools))
            }
            ("excludeTools" | "disabledTools", tools) if is_client => {
                if tools.as_array().is_some_and(|tools| !tools.is_empty()) {
                    entry.insert("deny_tools".into(), tools);
                }
            }
            ("requestOptions", Json::Object(mut options)) if is_client => {
                merge_map(entry, "headers", options.shift_remove("headers").unwrap_or_default());
            }
            ("apiKey", key) if client == Some(ClientId::Continue) => {
                drop(entry.insert("auth_token".into(), key))
            }
            ("connectionTimeout" | "discoveryTimeoutMs", time) if is_client => {
                self.timeout(entry, "connect_timeout", &time, TimeoutUnit::Milliseconds);
            }
            ("timeout", time) if client.is_some() => {
                let unit = client.map_or(TimeoutUnit::Seconds, |client| client.spec().timeout);
                self.timeout(entry, "timeout", &time, unit);
            }
            ("oauth", Json::Object(map)) if is_client => self.oauth(entry, map),
            (name, value) => drop(entry.insert(name.to_owned(), value)),
        }
    }

    /// Converts a timeout to seconds.
    fn timeout(&mut self, entry: &mut Map<String, Json>, field: &str, time: &Json, unit: TimeoutUnit) {
        let Some(number) = time.as_f64() else { return };
        let seconds = if unit == TimeoutUnit::Milliseconds { number / 1000.0 } else { number };
        // Claude Code ignores less than a second, and nothing useful runs in less.
        if seconds < 1.0 {
            return self.notes.push(format!("its `{field}` of less than a second is not imported"));
        }
        let whole = seconds.fract() == 0.0 && seconds < 1e9;
        let value = if whole { json!(seconds as i64) } else { json!(seconds) };
        entry.insert(field.to_owned(), value);
    }

    /// Keeps the registered client of `oauth`; other clients store their own state beside it.
    fn oauth(&mut self, entry: &mut Map<String, Json>, map: Map<String, Json>) {
        if map.get("enabled") == Some(&Json::Bool(false)) {
            return;
        }
        let known = ["clientId", "client_id", "clientSecret", "client_secret", "scopes"];
        let kept: Map<String, Json> =
            map.into_iter().filter(|(key, _)| known.contains(&key.as_str())).collect();
        let value = if kept.is_empty() { Json::Bool(true) } else { Json::Object(kept) };
        entry.insert("oauth".into(), value);
    }

    /// Adds what the client implies: the folder of a project, and the transport of a URL.
    fn complete(&mut self, entry: &mut Map<String, Json>) {
        if let Some(Json::String(cwd)) = entry.get_mut("cwd")
            && !cwd.contains("${")
        {
            let folder = self.source.path.parent().unwrap_or(Path::new("/"));
            *cwd = self.source.sources.cwd_of(Path::new(cwd.as_str()), folder).to_string_lossy().into_owned();
        }
        if self.source.client.is_none() {
            return;
        }
        // The client starts the server of a project in the project's folder.
        if let Some(project) = &self.project
            && self.source.client == Some(ClientId::ClaudeCode)
            && entry.contains_key("command")
            && !entry.contains_key("cwd")
        {
            match project.is_dir() {
                true => drop(entry.insert("cwd".into(), project.to_string_lossy().into_owned().into())),
                false => self.refusal = Some(format!("its project `{}` does not exist", project.display())),
            }
        }
        // These clients use the older transport for a URL without a type.
        let is_older = matches!(self.source.client, Some(ClientId::Cline | ClientId::Qwen));
        if is_older && entry.contains_key("url") && !entry.contains_key("type") {
            entry.insert("type".into(), "sse".into());
        }
    }

    /// Adds the variables of the entry's `envFile`. Those in `env` win. Returns the names of the added ones.
    fn add_file_variables(&mut self, entry: &mut Map<String, Json>) -> BTreeSet<String> {
        let Some(written) = self.env_file.take() else { return BTreeSet::new() };
        let file = ClientEnvFile::find(self.source, self.project.as_deref(), &written);
        let shown = file.path.display();
        let variables = match file.read() {
            Ok(variables) => variables,
            Err(why) => {
                self.notes.push(format!("its `envFile` `{shown}` is not imported: {why}"));
                return BTreeSet::new();
            }
        };
        let own = entry.get("env").and_then(Json::as_object).cloned().unwrap_or_default();
        let added: Map<String, Json> = variables
            .into_iter()
            .filter(|(name, _)| !own.contains_key(name))
            .map(|(name, value)| (name, Json::String(literal(&value))))
            .collect();
        let names: BTreeSet<String> = added.keys().cloned().collect();
        if !names.is_empty() {
            self.notes.push(format!(
                "its `envFile` `{shown}` is copied; later changes of that file have no effect"
            ));
            merge_map(entry, "env", Json::Object(added));
        }
        names
    }

    fn goose(&mut self, entry: &mut Map<String, Json>, name: &str, value: Json) -> Result<(), String> {
        let ours = match name {
            "type" => match value.as_str() {
                Some("stdio") => return Ok(()),
                Some(word @ ("sse" | "streamable_http")) => {
                    let ours = if word == "sse" { "sse" } else { "http" };
                    entry.insert("transport".into(), ours.into());
                    return Ok(());
                }
                other => return Err(format!("`{}` is built into the client", other.unwrap_or("?"))),
            },
            "cmd" => "command",
            "uri" => "url",
            "envs" => {
                merge_map(entry, "env", value);
                return Ok(());
            }
            "env_keys" => {
                let names = texts_of(&value);
                if !names.is_empty() {
                    self.notes.push(format!(
                        "set {} yourself: the client keeps them in its key store",
                        names.join(", ")
                    ));
                }
                let map = names.iter().map(|name| (name.clone(), json!(format!("${{{name}}}")))).collect();
                merge_map(entry, "env", Json::Object(map));
                return Ok(());
            }
            "available_tools" => {
                if value.as_array().is_some_and(|tools| !tools.is_empty()) {
                    entry.insert("allow_tools".into(), value);
                }
                return Ok(());
            }
            "bundled" | "name" | "display_name" | "available" => return Ok(()),
            other => other,
        };
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            entry.insert(ours.to_owned(), value);
        }
        Ok(())
    }

    fn codex(&mut self, entry: &mut Map<String, Json>, name: &str, value: Json) {
        let variable = |name: &str| json!(format!("${{{name}}}"));
        match name {
            "env_vars" => {
                let map = texts_of(&value).iter().map(|name| (name.clone(), variable(name))).collect();
                merge_map(entry, "env", Json::Object(map));
            }
            "bearer_token_env_var" => {
                if let Some(name) = value.as_str() {
                    entry.insert("auth_token".into(), variable(name));
                }
            }
            "http_headers" => merge_map(entry, "headers", value),
            "env" => merge_map(entry, "env", value),
            "env_http_headers" => {
                let pairs = value.as_object().into_iter().flatten();
                let map = pairs
                    .filter_map(|(header, name)| Some((header.clone(), variable(name.as_str()?))))
                    .collect();
                merge_map(entry, "headers", Json::Object(map));
            }
            "startup_timeout_ms" => {
                if let Some(milliseconds) = value.as_f64() {
                    entry.insert("connect_timeout".into(), json!(milliseconds / 1000.0));
                }
            }
            "startup_timeout_sec" => drop(entry.insert("connect_timeout".into(), value)),
            "tool_timeout_sec" => drop(entry.insert("timeout".into(), value)),
            "enabled_tools" => drop(entry.insert("allow_tools".into(), value)),
            "disabled_tools" => drop(entry.insert("deny_tools".into(), value)),
            // Whether the client can start without the server does not matter here.
            "required" => {}
            other => drop(entry.insert(other.to_owned(), value)),
        }
    }

    /// Converts a value, with variables in our syntax.
    fn plain(&mut self, node: &Node) -> Json {
        match &node.value {
            Value::Text(text) => Json::String(self.text(text.shown())),
            Value::List(elements) => elements.iter().map(|element| self.plain(element)).collect(),
            Value::Map(members) => {
                Json::Object(members.iter().map(|(key, node)| (key.text.clone(), self.plain(node))).collect())
            }
            _ => node.shown(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        match self.source.client.map_or(VariableForm::Braces, |client| client.spec().variables) {
            VariableForm::Literal => literal(text),
            VariableForm::Braces => self.braces(text),
            VariableForm::Dollar => self.braces(&with_braces(text)),
            VariableForm::CurlyEnv => self.marked(text, "{", "}", "env:"),
            VariableForm::Secrets => self.marked(text, "${{", "}}", "secrets."),
        }
    }

    /// Converts `${NAME}`, `${env:NAME}` and the words that clients replace.
    fn braces(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            out.push_str(&rest[..at]);
            let inside = &rest[at + 2..];
            let Some(end) = inside.find('}') else {
                out.push_str("$${");
                rest = inside;
                continue;
            };
            out.push_str(&self.variable(&inside[..end]));
            rest = &inside[end + 1..];
        }
        out.push_str(rest);
        out
    }

    /// Converts variables between two marks, such as `{env:NAME}`; other text is literal.
    fn marked(&mut self, text: &str, open: &str, close: &str, prefix: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, inside)) = rest.split_once(open) {
            let variable = inside
                .split_once(close)
                .and_then(|(name, after)| Some((name.trim().strip_prefix(prefix)?.trim(), after)))
                .filter(|(name, _)| is_name(name));
            out.push_str(&literal(before));
            match variable {
                Some((name, after)) => {
                    out.push_str(&format!("${{{name}}}"));
                    if prefix == "secrets." {
                        self.notes
                            .push(format!("set `{name}` yourself: the client keeps it in its key store"));
                    }
                    rest = after;
                }
                None => {
                    if prefix == "env:" && inside.starts_with("file:") {
                        self.refusal = Some("it reads a file with `{file:…}`".to_owned());
                    }
                    out.push_str(&open.replace('$', "$$"));
                    rest = inside;
                }
            }
        }
        out.push_str(&literal(rest));
        out
    }

    fn variable(&mut self, inside: &str) -> String {
        match inside {
            "workspaceFolder" | "workspaceRoot" | "workspaceFolderBasename" => match &self.project {
                Some(project) if inside.ends_with("Basename") => {
                    project.file_name().unwrap_or_default().to_string_lossy().into_owned()
                }
                Some(project) => project.to_string_lossy().into_owned(),
                None => {
                    self.refusal = Some(format!("it depends on the client's open folder (`${{{inside}}}`)"));
                    String::new()
                }
            },
            "userHome" => self.source.sources.home.clone().unwrap_or_default().to_string_lossy().into_owned(),
            "pathSeparator" | "/" => "/".to_owned(),
            _ => match inside.strip_prefix("input:") {
                Some(id) => {
                    let name = variable_name(id);
                    self.notes.push(format!("set `{name}` yourself: the client prompts for it"));
                    format!("${{{name}}}")
                }
                None => format!("${{{inside}}}"),
            },
        }
    }
}

/// A text that must not become a variable here.
fn literal(text: &str) -> String {
    match text.contains("${") || text.contains("$$") {
        true => text.replace('$', "$$"),
        false => text.to_owned(),
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Writes `$NAME` as `${NAME}`.
fn with_braces(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
        match is_name(&after[..end]) {
            true => {
                out.push_str(&format!("${{{}}}", &after[..end]));
                rest = &after[end..];
            }
            false => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Converts a text to a variable name.
pub(super) fn variable_name(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let name = name.trim_matches('_').to_owned();
    match name.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name,
        None => "VALUE".to_owned(),
    }
}

fn texts_of(value: &Json) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn merge_map(entry: &mut Map<String, Json>, key: &str, value: Json) {
    let Json::Object(more) = value else { return };
    if more.is_empty() {
        return;
    }
    match entry.entry(key).or_insert_with(|| Json::Object(Map::new())) {
        Json::Object(map) => map.extend(more),
        other => *other = Json::Object(more),
    }
}
