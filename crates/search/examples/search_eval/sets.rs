//! The collections: tools as a catalog, and queries with their answers.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, Discovery, Naming, admit};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::names::ServerName;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{ServerEntry, Transport};
use toolbooth_search::{EncodedQuery, MAX_HITS, Query, search_with};

/// Queries over one collection of tools.
pub struct EvalSet {
    pub name: String,
    pub tools: String,
    pub size: usize,
    pub queries: Vec<EvalQuery>,
}

/// A query. Each group lists tools that fit; one of every group is expected.
#[derive(Deserialize)]
pub struct EvalQuery {
    #[serde(rename = "qid")]
    pub id: String,
    #[serde(rename = "query")]
    pub text: String,
    pub relevant: Vec<Vec<String>>,
}

/// A tool as written in a collection.
#[derive(Deserialize)]
pub struct EvalTool {
    pub id: String,
    pub server: String,
    #[serde(default)]
    pub server_description: Option<String>,
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(rename = "inputSchema")]
    pub schema: RawJson,
}

/// Tools, and a catalog of them.
pub struct Collection {
    pub file: String,
    pub listed: Vec<EvalTool>,
    pub catalog: Catalog,
    ids: HashMap<(String, String), String>,
    owner: Caller,
}

pub fn read(folder: &Path) -> Result<Vec<EvalSet>, String> {
    #[derive(Deserialize)]
    struct Spec {
        set: String,
        tools: String,
        queries: String,
    }
    let text = std::fs::read_to_string(folder.join("sets.json")).map_err(|error| error.to_string())?;
    let specs: Vec<Spec> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let set = |spec: Spec| {
        let queries = lines(&folder.join(spec.queries))?;
        let size = lines::<serde::de::IgnoredAny>(&folder.join(&spec.tools))?.len();
        Ok(EvalSet { name: spec.set, tools: spec.tools, size, queries })
    };
    specs.into_iter().map(set).collect()
}

fn lines<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let filled = text.lines().filter(|line| !line.trim().is_empty());
    filled
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{}: {error}", file.display())))
        .collect()
}

impl Collection {
    pub fn read(folder: &Path, file: &str) -> Result<Self, String> {
        let listed: Vec<EvalTool> = lines(&folder.join(file))?;
        let mut ids = HashMap::new();
        for tool in &listed {
            ids.insert((legal(&tool.server), tool.name.clone()), tool.id.clone());
        }
        let catalog = catalog(&listed, listed.len());
        Ok(Self { file: file.to_owned(), listed, catalog, ids, owner: Caller::owner("owner") })
    }

    pub fn owner(&self) -> &Caller {
        &self.owner
    }

    /// The ids of the hits, best first.
    pub fn search(&self, text: &str, encoded: Option<&EncodedQuery>) -> Vec<String> {
        let Ok(query) = Query::new(vec![text.to_owned()], MAX_HITS) else { return Vec::new() };
        let hits = search_with(&self.catalog, &self.owner, &query, encoded);
        let id = |hit: &toolbooth_search::Hit| {
            self.ids.get(&(hit.tool.server.name.to_string(), hit.tool.name.to_string())).cloned()
        };
        hits.iter().filter_map(id).collect()
    }
}

/// A catalog of `size` tools; servers are repeated under other names until there are enough.
pub fn catalog(listed: &[EvalTool], size: usize) -> Catalog {
    let mut servers: BTreeMap<String, (Option<String>, Vec<RawJson>)> = BTreeMap::new();
    for (index, tool) in listed.iter().cycle().take(if listed.is_empty() { 0 } else { size }).enumerate() {
        let name = match index / listed.len() {
            0 => legal(&tool.server),
            round => format!("{}-{round}", legal(&tool.server)),
        };
        let (_, tools) = servers.entry(name).or_insert_with(|| (tool.server_description.clone(), Vec::new()));
        let mut definition = ObjectWriter::default();
        definition.text("name", &tool.name);
        if let Some(description) = &tool.description {
            definition.text("description", description);
        }
        definition.raw("inputSchema", &tool.schema);
        tools.push(definition.finish());
    }
    let mut parts = BTreeMap::new();
    for (name, (about, tools)) in servers {
        let Ok(name) = name.parse::<ServerName>() else { continue };
        let command = SecretText::plain("true");
        let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
        let mut entry = ServerEntry::with_defaults(name.clone(), transport);
        entry.about.description = about;
        let discovery = Discovery { tools, ..Discovery::default() };
        parts.insert(name, Arc::new(admit(&Arc::new(entry), &discovery, &Naming::default(), &|_| false)));
    }
    Catalog::new(1, parts)
}

/// A server's name in the form that the gateway's configuration allows.
fn legal(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' })
        .take(60)
        .collect()
}
