//! Dialects: splits a file of any supported program into servers and settings.

mod entry_defaults;
mod models;

pub(crate) use entry_defaults::ENTRY_DEFAULTS;

use crate::finding::Finding;
use crate::node::{MapKey, Mark, Node, TemplateText, Value};
use crate::texts::SourceTexts;

/// The expected content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// `toolbooth.*`: settings and servers.
    Whole,
    /// `.mcp.json` and similar files: servers, possibly next to keys of other programs.
    Servers,
    /// Settings of the language model.
    Llm,
    /// Compliance levels.
    Compliance,
}

/// The kind of file that an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// A file with its servers under a key.
    Plain,
    /// A flat map of servers, which get all injected arguments by default.
    FlatAtlas,
}

/// A server entry of one file, before normalisation.
#[derive(Debug, Clone)]
pub(crate) struct RawServer {
    pub name: MapKey,
    pub node: Node,
    pub flavor: Flavor,
}

/// The settings and servers of one file.
#[derive(Debug, Clone)]
pub(crate) struct SplitFile {
    pub settings: Node,
    pub servers: Vec<RawServer>,
    /// Server names that are defined twice, each with the location of the second definition.
    pub duplicates: Vec<(String, Mark)>,
    /// Whether the file has a map of servers, even an empty one.
    pub lists_servers: bool,
    pub findings: Vec<Finding>,
}

/// Top-level keys that contain servers, in all dialects.
pub(crate) const SERVER_KEYS: [&str; 4] = ["servers", "mcpServers", "mcp_servers", "mcp"];

/// Keys that identify a map as a server entry.
const REACHING: [&str; 8] = ["command", "cmd", "url", "uri", "endpoint", "serverUrl", "httpUrl", "bundled"];

/// Keys that other programs write into an entry, and that the gateway ignores.
const MEANINGLESS: [&str; 10] = [
    "name",
    "title",
    "displayName",
    "gallery",
    "allow_edit",
    "poll_interval",
    "alwaysAllow",
    "autoApprove",
    "dev",
    "is_exclusive",
];

/// Whether a key is a comment.
pub(crate) fn is_comment(key: &str) -> bool {
    matches!(key, "$schema" | "$comment" | "_comment" | "_comments") || key.starts_with("//")
}

/// Splits a file into settings and servers.
pub(crate) fn split(texts: &SourceTexts, document: Node, kind: FileKind, known: &[&str]) -> SplitFile {
    let mut splitter = FileSplitter {
        texts,
        split: SplitFile {
            settings: Node::empty_map(document.mark),
            servers: Vec::new(),
            duplicates: Vec::new(),
            lists_servers: false,
            findings: Vec::new(),
        },
    };
    let mark = document.mark;
    let Value::Map(members) = document.value else {
        let sentence = format!("a configuration file must contain a map, found {}", document.kind());
        splitter.split.findings.push(Finding::error("config.wrong-type", sentence).at(texts, mark));
        return splitter.split;
    };
    match kind {
        FileKind::Llm => splitter.llm(members, mark),
        FileKind::Compliance => splitter.compliance(members, mark),
        _ if is_flat(&members, kind, known) => {
            for (key, node) in members {
                if !is_comment(&key.text) {
                    splitter.server(key, node, Flavor::FlatAtlas);
                }
            }
        }
        _ => splitter.whole(members),
    }
    splitter.split
}

/// Whether a map is a flat map of servers: at least one value looks like a server, and no key is a setting.
fn is_flat(members: &[(MapKey, Node)], kind: FileKind, known: &[&str]) -> bool {
    let mut own = members.iter().filter(|(key, _)| !is_comment(&key.text)).peekable();
    if own.peek().is_none() || own.clone().any(|(key, node)| holds_servers(&key.text, node)) {
        return false;
    }
    let is_setting = |key: &str, node: &Node| known.contains(&key) && !looks_like_server(key, node);
    if own.clone().any(|(key, node)| is_setting(&key.text, node)) {
        return false;
    }
    // In a file for servers, a map of maps is a flat map even if `command` is misspelt in every entry.
    let slipped = kind == FileKind::Servers
        && own.clone().all(|(key, node)| {
            matches!(&node.value, Value::Map(inner) if !inner.is_empty()
                && !inner.iter().any(|(_, value)| looks_like_server("", value)))
                && crate::suggest::nearest(&key.text, known.iter().copied().chain(SERVER_KEYS)).is_none()
        });
    slipped || own.any(|(key, node)| looks_like_server(&key.text, node))
}

fn holds_servers(key: &str, node: &Node) -> bool {
    let inner = match key {
        "servers" | "mcpServers" | "mcp_servers" => return !looks_like_server(key, node),
        "mcp" => node.get("servers"),
        "tools" => node.get("mcp").and_then(|mcp| mcp.get("servers")),
        _ => None,
    };
    inner.is_some()
}

pub(crate) fn looks_like_server(key: &str, node: &Node) -> bool {
    let Some(members) = node.members() else { return false };
    // `store {url}` and `blobs {url}` are settings.
    let keys: &[&str] = if matches!(key, "store" | "blobs") { &REACHING[..2] } else { &REACHING };
    members.iter().any(|(name, value)| {
        keys.contains(&name.text.as_str()) && matches!(value.value, Value::Text(_) | Value::List(_))
    })
}

struct FileSplitter<'a> {
    texts: &'a SourceTexts,
    split: SplitFile,
}

impl FileSplitter<'_> {
    fn setting(&mut self, path: &[&str], key_mark: Mark, node: Node) {
        self.split.settings.set(path, key_mark, node);
    }

    fn whole(&mut self, members: Vec<(MapKey, Node)>) {
        let mut defaults = Vec::new();
        for (key, node) in members {
            if let Some((_, field)) = ENTRY_DEFAULTS.iter().find(|(option, _)| *option == key.text) {
                defaults.extend(self.entry_default(key, field, node));
                continue;
            }
            match key.text.as_str() {
                // YAML files define anchors under `x-…` keys.
                name if is_comment(name) || name.starts_with("x-") => {}
                "servers" | "mcpServers" | "mcp_servers" => self.servers(node),
                "mcp" => self.mcp(node),
                "tools" => self.tools(key, node),
                // Other programs prompt for these values; here they come from variables.
                "inputs" => {}
                "lazyLoading" => self.lazy_loading(key.mark, &node),
                "alwaysLoadTools" => {
                    self.setting(&["exposure", "always_load_tools"], key.mark, substrings(node))
                }
                "summaryDescriptionLimit" => {
                    self.setting(&["exposure", "summary_description_limit"], key.mark, node);
                }
                "maxToolsPerSearch" => self.setting(&["exposure", "max_tools_per_search"], key.mark, node),
                "always_load_tools" | "summary_description_limit" | "max_tools_per_search" => {
                    self.setting(&["exposure", &key.text], key.mark, node);
                }
                "exposure" => self.exposure(key, node),
                _ => self.keep(key, node),
            }
        }
        self.fill_in(0, &defaults);
    }

    /// Keeps a setting unchanged. A key that is defined twice is reported, and the later value wins.
    fn keep(&mut self, key: MapKey, node: Node) {
        let earlier = self.split.settings.get(&key.text).is_some();
        if earlier {
            let sentence = format!("`{}` is defined twice in this file", key.text);
            self.split
                .findings
                .push(Finding::error("config.duplicate-key", sentence).at(self.texts, key.mark));
        }
        let (text, mark) = (key.text, key.mark);
        self.setting(&[&text], mark, node);
    }

    fn exposure(&mut self, key: MapKey, node: Node) {
        let mark = node.mark;
        let Value::Map(members) = node.value else { return self.keep(key, node) };
        if self.split.settings.get("exposure").is_none() {
            self.setting(&["exposure"], key.mark, Node::empty_map(mark));
        }
        for (inner, node) in members {
            match inner.text.as_str() {
                "lazyLoading" => self.lazy_loading(inner.mark, &node),
                "alwaysLoadTools" => {
                    self.setting(&["exposure", "always_load_tools"], inner.mark, substrings(node))
                }
                name => self.setting(&["exposure", name], inner.mark, node.clone()),
            }
        }
    }

    /// Attocode's `lazyLoading`: `search` mode or `full` mode.
    fn lazy_loading(&mut self, mark: Mark, node: &Node) {
        let Some(lazy) = node.truth() else {
            let sentence = format!("`lazyLoading` must be true or false, found {}", node.kind());
            self.split.findings.push(Finding::error("config.wrong-type", sentence).at(self.texts, node.mark));
            return;
        };
        let mode = TemplateText::written(if lazy { "search" } else { "full" });
        self.setting(&["exposure", "mode"], mark, Node { value: Value::Text(mode), mark: node.mark });
    }

    /// `{"mcp": {"servers": {...}}}`, as in the settings of editors.
    fn mcp(&mut self, node: Node) {
        let Value::Map(members) = node.value else { return };
        for (key, node) in members {
            match key.text.as_str() {
                "servers" => self.servers(node),
                "inputs" => {}
                name if is_comment(name) => {}
                name => {
                    let sentence = format!("unknown key `{name}` in `mcp`");
                    self.split
                        .findings
                        .push(Finding::warning("config.unknown-key", sentence).at(self.texts, key.mark));
                }
            }
        }
    }

    /// `{"tools": {"mcp": {"servers": {...}, "allow_tools": [...]}}}`.
    fn tools(&mut self, key: MapKey, node: Node) {
        let Some(mcp) = node.get("mcp").cloned() else { return self.keep(key, node) };
        let Value::Map(members) = mcp.value else { return self.keep(key, node) };
        let first = self.split.servers.len();
        let mut defaults = Vec::new();
        for (key, node) in members {
            match key.text.as_str() {
                "servers" => self.servers(node),
                "allow_tools" | "allow" => self.setting(&["allow_server_tools"], key.mark, node),
                "deny_tools" | "deny" => self.setting(&["deny_server_tools"], key.mark, node),
                "timeout_seconds" => {
                    defaults.push((MapKey { text: "timeout".into(), mark: key.mark }, node));
                }
                "enabled" | "health_check_interval" => defaults.push((key, node)),
                // Defaults for calls that name no server or tool; here every call names its tool.
                "default_server" | "server" | "tool" => {}
                name => {
                    let sentence = format!("unknown key `{name}` in `tools.mcp`");
                    self.split
                        .findings
                        .push(Finding::error("config.unknown-key", sentence).at(self.texts, key.mark));
                }
            }
        }
        self.fill_in(first, &defaults);
    }

    fn servers(&mut self, node: Node) {
        self.split.lists_servers |= !matches!(node.value, Value::Null);
        match node.value {
            Value::Map(members) => {
                for (key, node) in members {
                    if !is_comment(&key.text) {
                        self.server(key, node, Flavor::Plain);
                    }
                }
            }
            Value::List(elements) => elements.into_iter().for_each(|element| self.listed(element)),
            Value::Null => {}
            _ => {
                let sentence =
                    format!("`servers` must be a map from names to entries, found {}", node.kind());
                self.split
                    .findings
                    .push(Finding::error("config.wrong-type", sentence).at(self.texts, node.mark));
            }
        }
    }

    /// A server in a list has its name in the entry.
    fn listed(&mut self, node: Node) {
        match node.get("name").and_then(|name| Some((name.text()?.to_owned(), name.mark))) {
            Some((text, mark)) => self.server(MapKey { text, mark }, node, Flavor::Plain),
            None => {
                let finding = Finding::error("config.missing-key", "a server in a list needs a `name`");
                self.split.findings.push(finding.at(self.texts, node.mark));
            }
        }
    }

    fn server(&mut self, name: MapKey, mut node: Node, flavor: Flavor) {
        if let Some(members) = node.members_mut() {
            for (key, value) in members.iter() {
                let Some(hint) = ignored(&key.text, value) else { continue };
                let sentence = format!("server `{}`: `{}` is ignored", name.text, key.text);
                let finding = Finding::warning("config.ignored-key", sentence).hint(hint);
                self.split.findings.push(finding.at(self.texts, key.mark));
            }
            members.retain(|(key, _)| !is_comment(&key.text) && !MEANINGLESS.contains(&key.text.as_str()));
        }
        match self.split.servers.iter().position(|server| server.name.text == name.text) {
            Some(_) => self.split.duplicates.push((name.text, name.mark)),
            None => self.split.servers.push(RawServer { name, node, flavor }),
        }
    }

    /// `{"levels": [...]}`, as in the `compliance` setting.
    fn compliance(&mut self, members: Vec<(MapKey, Node)>, mark: Mark) {
        let whole = Node { value: Value::Map(members), mark };
        if let Some((key, levels)) = whole.entry("levels") {
            self.setting(&["compliance", "levels"], key.mark, levels.clone());
        }
    }
}

/// What to use in place of a key that another program acts on and the gateway ignores.
fn ignored(key: &str, value: &Node) -> Option<&'static str> {
    match key {
        "alwaysAllow" | "autoApprove" => {
            Some("`policy` and `tools.require_approval` decide which calls need approval")
        }
        "allow_edit" => Some("an approver may edit the arguments of every call that waits for approval"),
        // `false` is the behaviour of the gateway.
        "is_exclusive" if value.truth() != Some(false) => Some(
            "the server works beside others; a persona with `allowed_tools` limits a caller to the tools of one server",
        ),
        _ => None,
    }
}

/// Converts Attocode's substrings of tool names to globs.
fn substrings(mut node: Node) -> Node {
    if let Value::List(elements) = &mut node.value {
        for element in elements {
            if let Value::Text(text) = &element.value
                && !text.shown().contains(['*', '?', '[', '{'])
            {
                element.value = Value::Text(TemplateText::written(format!("*{}*", text.shown())));
            }
        }
    }
    node
}
