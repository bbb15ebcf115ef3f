//! Catalogues of real servers, read from files in place.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use toolbooth_core::json::RawJson;
use toolbooth_core::weigh;

/// The longest file that is read.
const MAX_FILE: u64 = 64 << 20;
/// Characters of a description in a summary.
const SUMMARY: usize = 100;

/// What some servers listed.
pub struct Catalogue {
    /// What it is called in tables.
    pub name: String,
    /// The servers, by name.
    pub servers: Vec<Listed>,
}

/// What one server listed.
pub struct Listed {
    /// Its definitions, as they came.
    pub tools: Vec<Value>,
}

/// Tokens of a catalogue's tools, under their servers' own names.
pub struct Figures {
    /// Whole definitions, with everything in them.
    pub raw: u64,
    /// What models are shown of them: name, description, schema.
    pub definitions: u64,
    /// Names, and the starts of descriptions.
    pub summaries: u64,
    /// What models are shown of each, from small to large.
    pub each: Vec<u32>,
}

impl Catalogue {
    /// Reads one: a folder, or files joined by commas.
    pub fn read(argument: &str) -> Result<Self> {
        let folder = Path::new(argument);
        let name = folder.file_name().map_or(argument.into(), |name| name.to_string_lossy().into_owned());
        let (name, mut files) = match folder.is_dir() {
            true => {
                let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
                let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
                (name, entries.into_iter().filter(is_json).collect())
            }
            false => {
                let files: Vec<PathBuf> = argument.split(',').map(PathBuf::from).collect();
                let stems = files.iter().filter_map(|file| file.file_stem()).map(|stem| stem.to_string_lossy());
                (stems.collect::<Vec<_>>().join(", "), files)
            }
        };
        files.sort();
        let servers = files.iter().map(|file| Listed::read(file)).collect::<Result<Vec<_>>>()?;
        ensure!(!servers.is_empty(), "{argument}: there is no JSON file here");
        Ok(Self { name, servers })
    }

    /// Weighs it.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures { raw: 0, definitions: 0, summaries: 0, each: Vec::new() };
        for tool in self.servers.iter().flat_map(|server| &server.tools) {
            let text = tool.to_string();
            figures.raw += u64::from(weigh::tokens(&text));
            let cost = weigh::definition(&RawJson::trusted(text));
            figures.definitions += u64::from(cost);
            figures.summaries += u64::from(weigh::tokens(&summary(tool)));
            figures.each.push(cost);
        }
        figures.each.sort_unstable();
        figures
    }
}

impl Figures {
    /// What a tool costs on average.
    pub fn mean(&self) -> u64 {
        let count = u64::try_from(self.each.len()).unwrap_or(u64::MAX).max(1);
        (self.definitions + count / 2) / count
    }

    /// What so many percent of tools do not exceed.
    pub fn percentile(&self, percent: usize) -> u32 {
        let last = self.each.len().saturating_sub(1);
        self.each.get(last * percent / 100).copied().unwrap_or(0)
    }
}

impl Listed {
    /// Reads a list: an array of tools, or an object with one, be it the whole answer of a server.
    fn read(file: &Path) -> Result<Self> {
        let shown = || file.display().to_string();
        let size = std::fs::metadata(file).with_context(shown)?.len();
        ensure!(size <= MAX_FILE, "{}: over {MAX_FILE} bytes", shown());
        let text = std::fs::read_to_string(file).with_context(shown)?;
        let mut whole: Value = serde_json::from_str(&text).with_context(shown)?;
        let holder = if whole["result"].is_object() { &mut whole["result"] } else { &mut whole };
        let list = if holder.is_array() { holder.take() } else { holder["tools"].take() };
        let Value::Array(tools) = list else { anyhow::bail!("{}: there is no list of tools in it", shown()) };
        Ok(Self { tools })
    }
}

/// A tool in short.
fn summary(tool: &Value) -> String {
    let start: String = tool["description"].as_str().unwrap_or_default().chars().take(SUMMARY).collect();
    json!({ "name": tool["name"], "description": start }).to_string()
}
