//! The configuration files of each client, and the conversion of their fields to ours.

use super::Skipped;
use crate::dialect::Flavor;
use crate::dialect::{self, FileKind};
use crate::inputs::Sources;
use crate::node::{MapKey, Node, Value};
use crate::texts::SourceTexts;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::fmt;
use std::path::{Path, PathBuf};

/// A client whose servers can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportClient {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
    /// Codex.
    Codex,
    /// goose.
    Goose,
}

impl fmt::Display for ImportClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server of another client, converted to our fields.
pub(super) struct FoundServer {
    pub name: String,
    pub entry: Map<String, Json>,
    pub from: PathBuf,
    pub notes: Vec<String>,
}

impl ImportClient {
    /// All clients.
    pub const ALL: [Self; 6] =
        [Self::ClaudeDesktop, Self::ClaudeCode, Self::Cursor, Self::Vscode, Self::Codex, Self::Goose];

    /// The name used on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Goose => "goose",
        }
    }

    /// The client with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.as_str() == name)
    }

    /// The paths of the client's configuration files, on all operating systems.
    pub fn files(self, sources: &Sources) -> Vec<PathBuf> {
        let home = sources.home.clone().unwrap_or_default();
        let config = sources.xdg_config_home.clone().unwrap_or_else(|| home.join(".config"));
        let support = home.join("Library/Application Support");
        let roaming = sources.env.get("APPDATA").map(PathBuf::from);
        let mut files = match self {
            Self::ClaudeDesktop => vec![
                config.join("Claude/claude_desktop_config.json"),
                support.join("Claude/claude_desktop_config.json"),
            ],
            Self::ClaudeCode => vec![home.join(".claude.json")],
            Self::Cursor => vec![home.join(".cursor/mcp.json"), sources.cwd.join(".cursor/mcp.json")],
            Self::Vscode => vec![
                config.join("Code/User/mcp.json"),
                support.join("Code/User/mcp.json"),
                sources.cwd.join(".vscode/mcp.json"),
            ],
            Self::Codex => {
                let own = sources.env.get("CODEX_HOME").map_or_else(|| home.join(".codex"), PathBuf::from);
                vec![own.join("config.toml"), sources.cwd.join(".codex/config.toml")]
            }
            Self::Goose => vec![config.join("goose/config.yaml"), home.join(".config/goose/config.yaml")],
        };
        let more = roaming.and_then(|roaming| match self {
            Self::ClaudeDesktop => Some(roaming.join("Claude/claude_desktop_config.json")),
            Self::Vscode => Some(roaming.join("Code/User/mcp.json")),
            Self::Goose => Some(roaming.join("Block/goose/config/config.yaml")),
            Self::ClaudeCode | Self::Cursor | Self::Codex => None,
        });
        files.extend(more);
        files.dedup();
        files
    }

    /// The client that a file belongs to, judged by its path.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        let folder = path.parent()?.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match (folder, path.file_name()?.to_str()?) {
            (_, "claude_desktop_config.json") => Some(Self::ClaudeDesktop),
            (_, ".claude.json") => Some(Self::ClaudeCode),
            (".cursor", "mcp.json") => Some(Self::Cursor),
            (".vscode" | "User", "mcp.json") => Some(Self::Vscode),
            (".codex", "config.toml") => Some(Self::Codex),
            ("goose", "config.yaml") => Some(Self::Goose),
            _ => None,
        }
    }

    /// Whether the client expands `${NAME}` in its files.
    fn expands(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Cursor | Self::Vscode)
    }
}

/// Reads the servers of a client's file.
pub(super) fn servers(
    sources: &Sources,
    client: Option<ImportClient>,
    path: &Path,
    texts: &SourceTexts,
    node: Node,
    found: &mut Vec<FoundServer>,
    skipped: &mut Vec<Skipped>,
) {
    for RawEntry { name, node: entry, note } in raw_servers(sources, client, texts, node) {
        let notes = note.into_iter().map(str::to_owned).collect();
        let mut reading = ClientEntryReader { sources, client, path, notes };
        let fields = match entry.members() {
            Some(members) => reading.fields(members),
            None => Err(format!("its entry is {}", entry.kind())),
        };
        match fields {
            Ok(entry) => found.push(FoundServer { name, entry, from: path.to_owned(), notes: reading.notes }),
            Err(reason) => skipped.push(Skipped { name, reason }),
        }
    }
}

/// A server as the client's file has it, with a remark for the user.
struct RawEntry {
    name: String,
    node: Node,
    note: Option<&'static str>,
}

fn raw_servers(
    sources: &Sources,
    client: Option<ImportClient>,
    texts: &SourceTexts,
    node: Node,
) -> Vec<RawEntry> {
    let listed = |node: Option<&Node>| -> Vec<RawEntry> {
        let members = node.and_then(Node::members).unwrap_or_default();
        let entry = |(key, node): &(MapKey, Node)| RawEntry {
            name: key.text.clone(),
            node: node.clone(),
            note: None,
        };
        members.iter().map(entry).collect()
    };
    match client {
        Some(ImportClient::Goose) => listed(node.get("extensions")),
        Some(ImportClient::Codex) => listed(node.get("mcp_servers")),
        Some(ImportClient::ClaudeCode) if node.get("projects").is_some() => {
            // Add the servers of this project to the user's own.
            let project =
                node.get("projects").and_then(|projects| projects.get(&sources.cwd.to_string_lossy()));
            let mut servers = listed(node.get("mcpServers"));
            servers.extend(listed(project.and_then(|project| project.get("mcpServers"))));
            servers
        }
        _ => {
            let known = crate::schema::setting_names();
            let split = dialect::split(texts, node, FileKind::Servers, &known);
            split
                .servers
                .into_iter()
                .map(|server| kept_contract(server.name.text, server.flavor, server.node))
                .collect()
        }
    }
}

/// Fields that only Atlas UI writes into an entry.
const ATLAS_FIELDS: [&str; 6] =
    ["groups", "short_description", "help_email", "compliance_level", "require_approval", "author"];

/// Adds `inject: true` to servers of a flat file, which follow the injection contract by default. The imported file is
/// not flat, so it must be explicit.
fn kept_contract(name: String, flavor: Flavor, mut node: Node) -> RawEntry {
    let note = match (flavor, node.get("inject")) {
        (_, Some(_)) => None,
        (Flavor::FlatAtlas, None) => {
            let mark = node.mark;
            node.set(&["inject"], mark, Node { value: Value::Bool(true), mark });
            Some(
                "`inject: true` is kept: the gateway supplies `username`, `_mcp_data` and file URLs to its tools",
            )
        }
        (Flavor::Plain, None) if ATLAS_FIELDS.iter().any(|key| node.get(key).is_some()) => Some(
            "without `inject: true` the gateway does not supply `username`; add it if the tools rely on the caller's name",
        ),
        (Flavor::Plain, None) => None,
    };
    RawEntry { name, node, note }
}

struct ClientEntryReader<'a> {
    sources: &'a Sources,
    client: Option<ImportClient>,
    path: &'a Path,
    notes: Vec<String>,
}

impl ClientEntryReader<'_> {
    /// Converts the fields of one entry; an error is the reason to skip it.
    fn fields(&mut self, members: &[(MapKey, Node)]) -> Result<Map<String, Json>, String> {
        // Older goose files have the fields one level deeper.
        let inner = members.iter().find(|(key, _)| key.text == "config").and_then(|(_, node)| node.members());
        let mut entry = Map::new();
        for (key, node) in members
            .iter()
            .filter(|(key, _)| key.text != "config" || inner.is_none())
            .chain(inner.into_iter().flatten())
        {
            let value = self.plain(node);
            match (self.client, key.text.as_str()) {
                (Some(ImportClient::Goose), name) => self.goose(&mut entry, name, value)?,
                (Some(ImportClient::Codex), name) => self.codex(&mut entry, name, value),
                (_, "envFile") => {
                    self.notes.push("its `envFile` is not imported; pass it with --env-file".into())
                }
                (_, "alwaysAllow" | "autoApprove" | "name" | "gallery" | "version" | "dev") => {}
                (_, name) => {
                    entry.insert(name.to_owned(), value);
                }
            }
        }
        self.complete(&mut entry);
        match entry.contains_key("command")
            || ["url", "uri", "serverUrl", "httpUrl"].iter().any(|key| entry.contains_key(*key))
        {
            true => Ok(entry),
            false => Err("has neither `command` nor `url`".to_owned()),
        }
    }

    /// Makes a relative `cwd` absolute, since it starts at the folder of the client's file or at the working folder, not at
    /// the folder of our file.
    fn complete(&self, entry: &mut Map<String, Json>) {
        if let Some(Json::String(cwd)) = entry.get_mut("cwd")
            && !cwd.contains("${")
        {
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            *cwd = self.sources.cwd_of(Path::new(cwd.as_str()), folder).to_string_lossy().into_owned();
        }
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
        if self.client.is_some_and(|client| !client.expands()) {
            // Literal text of the client must not become a variable here.
            return if text.contains("${") || text.contains("$$") {
                text.replace('$', "$$")
            } else {
                text.to_owned()
            };
        }
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

    fn variable(&mut self, inside: &str) -> String {
        let project = || {
            let beside = self.path.parent().unwrap_or(Path::new("/"));
            let hidden = beside.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            (if hidden { beside.parent().unwrap_or(beside) } else { beside }).to_string_lossy().into_owned()
        };
        match inside {
            "workspaceFolder" => project(),
            "userHome" => self.sources.home.clone().unwrap_or_default().to_string_lossy().into_owned(),
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
