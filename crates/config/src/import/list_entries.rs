//! Lists the entries in a client's file, before their fields are read.

use crate::bounded_file::read_bounded;
use crate::clients::{ClientId, ServerLayout};
use crate::dialect::{self, FileKind, Flavor};
use crate::inputs::Sources;
use crate::node::{MapKey, Node, Value};
use crate::parse::Syntax;
use crate::texts::SourceTexts;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde_json::{Map, Value as Json};
use std::path::{Path, PathBuf};

/// A client's file that is read.
pub(super) struct ClientSource<'a> {
    pub sources: &'a Sources,
    pub client: Option<ClientId>,
    pub path: &'a Path,
    pub texts: &'a SourceTexts,
}

/// The largest file of a client that is read.
const MAX_CLIENT_BYTES: u64 = 64 * 1024 * 1024;
/// The size from which only the servers of a file are parsed with their locations.
const LARGE_BYTES: usize = 1024 * 1024;

/// Reads a file of a client. A client may keep more in it than servers, so it may be larger than our own files.
pub(super) fn read_client_file(path: &Path, client: Option<ClientId>) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let Some(client) = client else { return read_bounded(path) };
    if std::fs::metadata(path)?.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_CLIENT_BYTES).read_to_end(&mut bytes)?;
    let is_large = bytes.len() > LARGE_BYTES && client.spec().syntax == Syntax::Json;
    Ok(if is_large { only_servers(client, &bytes).unwrap_or(bytes) } else { bytes })
}

/// The servers of a large file, without the rest; `None` if it cannot be parsed.
fn only_servers(client: ClientId, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.trim_start_matches('\u{feff}');
    let parsed = CstRootNode::parse(text, &ParseOptions::default()).ok()?.to_serde_value()?;
    let Json::Object(mut whole) = parsed else { return None };
    let section = client.spec().section;
    let lists = || client.spec().lists.iter().filter(|list| list.file.is_none());
    let is_list = |key: &String| lists().any(|list| list.keys.first().is_some_and(|first| first == key));
    let is_of_project = |key: &String| lists().any(|list| list.keys.last().is_some_and(|last| last == key));
    whole.retain(|key, _| key == section || key == "projects" || is_list(key));
    for project in
        whole.get_mut("projects").and_then(Json::as_object_mut).into_iter().flat_map(Map::values_mut)
    {
        if let Json::Object(fields) = project {
            fields.retain(|key, _| key == section || is_of_project(key));
        }
    }
    serde_json::to_vec(&whole).ok()
}

/// The project folder of a file in it; `None` for a file of the user.
pub(super) fn project_of(source: &ClientSource<'_>) -> Option<PathBuf> {
    let Some(client) = source.client else {
        let folder = source.path.parent()?;
        let is_hidden = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        return Some(if is_hidden { folder.parent()? } else { folder }.to_owned());
    };
    let mut of_user =
        client.user_files(source.sources).into_iter().chain(client.folder_files(source.sources));
    if of_user.any(|file| file == source.path) {
        return None;
    }
    if client.is_folder_file(source.path) {
        return Some(source.path.ancestors().nth(3)?.to_owned());
    }
    let place = client.spec().project_files.iter().find(|place| source.path.ends_with(place))?;
    Some(source.path.ancestors().nth(Path::new(place).components().count())?.to_owned())
}

/// A server as the client's file has it, with a remark for the user.
pub(super) struct RawEntry {
    pub name: String,
    pub node: Node,
    pub note: Option<String>,
    /// The keys from the top of the file to the servers.
    pub section: Vec<String>,
    /// The project that the entry belongs to.
    pub project: Option<PathBuf>,
}

/// The entries of a client's file.
pub(super) fn raw_servers(source: &ClientSource<'_>, node: Node) -> Vec<RawEntry> {
    let Some(client) = source.client else { return of_any_dialect(source.texts, node) };
    let spec = client.spec();
    let mut section = vec![spec.section.to_owned()];
    let mut servers = node.get(spec.section);
    let nested = servers.and_then(|servers| servers.get("servers"));
    // Newer versions of opencode nest the servers one level deeper.
    if client == ClientId::Opencode && nested.is_some_and(|nested| nested.get("type").is_none()) {
        servers = nested;
        section.push("servers".to_owned());
    }
    // In a project, the file of Copilot CLI may be only a map of servers.
    if client == ClientId::Copilot && servers.is_none() && project_of(source).is_some() {
        servers = Some(&node);
        section.clear();
    }
    let is_map = servers.is_some_and(|servers| servers.members().is_some());
    let mut found = match spec.layout {
        ServerLayout::NamedList if !is_map => named(servers, &section),
        _ => listed(servers, &section, None),
    };
    if client == ClientId::ClaudeCode {
        for (path, project) in node.get("projects").and_then(Node::members).unwrap_or_default() {
            let section = ["projects", &path.text, spec.section].map(str::to_owned);
            found.extend(listed(project.get(spec.section), &section, Some(Path::new(&path.text))));
        }
    }
    found
}

fn listed(servers: Option<&Node>, section: &[String], project: Option<&Path>) -> Vec<RawEntry> {
    let members = servers.and_then(Node::members).unwrap_or_default();
    let entry = |(key, node): &(MapKey, Node)| RawEntry {
        name: key.text.clone(),
        node: node.clone(),
        note: project.map(|project| format!("of the project `{}`", project.display())),
        section: section.to_vec(),
        project: project.map(Path::to_owned),
    };
    let own = members.iter().filter(|(key, _)| !dialect::is_comment(&key.text));
    own.map(entry).collect()
}

fn named(servers: Option<&Node>, section: &[String]) -> Vec<RawEntry> {
    let elements = servers.and_then(Node::elements).unwrap_or_default();
    let entry = |node: &Node| {
        let name = node.get("name").and_then(Node::text)?.to_owned();
        Some(RawEntry { name, node: node.clone(), note: None, section: section.to_vec(), project: None })
    };
    elements.iter().filter_map(entry).collect()
}

/// The servers of a file that belongs to no known client.
fn of_any_dialect(texts: &SourceTexts, node: Node) -> Vec<RawEntry> {
    let known = crate::schema::setting_names();
    let split = dialect::split(texts, node, FileKind::Servers, &known);
    split
        .servers
        .into_iter()
        .map(|server| with_injection(server.name.text, server.flavor, server.node))
        .collect()
}

/// Fields that only Atlas UI writes into an entry.
const ATLAS_FIELDS: [&str; 6] =
    ["groups", "short_description", "help_email", "compliance_level", "require_approval", "author"];

/// Adds `inject: true` to servers of a flat file, which get all injected arguments by default. The imported file is
/// not flat, so it must be explicit.
fn with_injection(name: String, flavor: Flavor, mut node: Node) -> RawEntry {
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
    RawEntry { name, node, note: note.map(str::to_owned), section: Vec::new(), project: None }
}
