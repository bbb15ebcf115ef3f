//! Tool lists of real servers, read from files.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolbooth_core::catalog::{Catalog, Discovery, Naming, ServerCatalog, admit};
use toolbooth_core::exposure::meta;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{ServerEntry, Transport};
use toolbooth_core::weigh;

/// The largest file that is read.
const MAX_FILE: u64 = 64 << 20;
/// The depth to which subfolders are read.
const MAX_DEPTH: usize = 3;

/// The tools of some servers.
pub struct ToolLists {
    /// The name in tables.
    pub name: String,
    /// Unchanged definitions, by server.
    pub servers: BTreeMap<String, Vec<Value>>,
}

/// Tokens of tools, with the servers' own tool names.
pub struct Figures {
    /// Complete definitions.
    pub raw: u64,
    /// The parts of definitions that models see: name, description, schema.
    pub definitions: u64,
    /// The part of each definition that models see, sorted.
    pub each: Vec<u32>,
}

impl ToolLists {
    /// Reads a folder, or files joined by commas.
    pub fn read(argument: &str) -> Result<Self> {
        let folder = Path::new(argument);
        let (name, mut files) = if folder.is_dir() {
            let name = folder.file_name().map_or(argument.into(), |name| name.to_string_lossy().into_owned());
            let mut files = Vec::new();
            gather(folder, MAX_DEPTH, &mut files)?;
            (name, files)
        } else {
            let files: Vec<PathBuf> = argument.split(',').map(PathBuf::from).collect();
            let stems = files.iter().filter_map(|file| file.file_stem()).map(|stem| stem.to_string_lossy());
            (stems.collect::<Vec<_>>().join(", "), files)
        };
        files.sort();
        let mut servers: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for file in &files {
            for (server, tool) in read(file).with_context(|| file.display().to_string())? {
                servers.entry(server).or_default().push(tool);
            }
        }
        ensure!(!servers.is_empty(), "{argument}: found no tools");
        Ok(Self { name, servers })
    }

    /// Counts the tokens.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures { raw: 0, definitions: 0, each: Vec::new() };
        for tool in self.servers.values().flatten() {
            let text = tool.to_string();
            figures.raw += u64::from(weigh::tokens(&text));
            let cost = weigh::definition_tokens(&RawJson::trusted(text));
            figures.definitions += u64::from(cost);
            figures.each.push(cost);
        }
        figures.each.sort_unstable();
        figures
    }

    /// The catalog of a gateway that has these servers.
    pub fn admitted(&self) -> Result<Catalog> {
        let mut parts: BTreeMap<ServerName, Arc<ServerCatalog>> = BTreeMap::new();
        let command = SecretText::plain("true");
        let stdio = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
        for (server, tools) in &self.servers {
            let fits = |letter: &char| letter.is_ascii_alphanumeric() || "_-.".contains(*letter);
            let name: ServerName = server.chars().filter(fits).take(64).collect::<String>().parse()?;
            let tools = tools.iter().map(|tool| RawJson::trusted(tool.to_string())).collect();
            admit_into(&mut parts, ServerEntry::with_defaults(name, stdio.clone()), tools);
        }
        let own = ServerEntry::with_defaults("_toolbooth".parse()?, Transport::Own);
        admit_into(&mut parts, own, meta::definitions().to_vec());
        Ok(Catalog::new(1, parts))
    }
}

fn admit_into(parts: &mut BTreeMap<ServerName, Arc<ServerCatalog>>, entry: ServerEntry, tools: Vec<RawJson>) {
    // The gateway's own tools keep their names.
    let naming = Naming::default();
    let discovery = Discovery { tools, ..Discovery::default() };
    let taken = |name: &str| parts.values().any(|part| part.tools.iter().any(|tool| &*tool.exposed == name));
    let part = admit(&Arc::new(entry), &discovery, &naming, &taken);
    parts.insert(part.entry.name.clone(), Arc::new(part));
}

impl Figures {
    /// The mean tokens of a tool.
    pub fn mean(&self) -> u64 {
        let count = u64::try_from(self.each.len()).unwrap_or(u64::MAX).max(1);
        (self.definitions + count / 2) / count
    }
}

/// A percentile of sorted figures.
pub fn percentile(sorted: &[u32], percent: usize) -> u32 {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// Adds the JSON files of a folder and its subfolders.
fn gather(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if depth > 0 {
                gather(&path, depth - 1, files)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads the tools of a file, with their servers. The file is a list, an object with a list, the whole answer of a
/// server, or lines of tools, each with its server.
fn read(file: &Path) -> Result<Vec<(String, Value)>> {
    ensure!(std::fs::metadata(file)?.len() <= MAX_FILE, "over {MAX_FILE} bytes");
    let text = std::fs::read_to_string(file)?;
    let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    if file.extension().is_some_and(|ending| ending == "jsonl") {
        let tools = text.lines().filter(|line| !line.trim().is_empty()).map(|line| {
            let mut tool: Value = serde_json::from_str(line)?;
            let server = tool["server"].as_str().unwrap_or(&stem).to_owned();
            let members = tool.as_object_mut().context("a line is not an object")?;
            for key in ["id", "server", "server_description"] {
                members.shift_remove(key);
            }
            Ok((server, tool))
        });
        return tools.collect();
    }
    let mut whole: Value = serde_json::from_str(&text)?;
    let holder = if whole["result"].is_object() { &mut whole["result"] } else { &mut whole };
    let list = if holder.is_array() { holder.take() } else { holder["tools"].take() };
    let Value::Array(tools) = list else { anyhow::bail!("the file has no list of tools") };
    Ok(tools.into_iter().map(|tool| (stem.clone(), tool)).collect())
}
