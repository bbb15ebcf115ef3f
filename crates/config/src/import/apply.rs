//! Writing an import, and taking it back.

use super::{ImportError, Plan};
use crate::digest;
use crate::inputs::Sources;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file of imported secrets, beside the file of imported servers.
pub(super) const ENV_FILE: &str = "imported.env";
/// What the last import found in the files it wrote.
const JOURNAL: &str = "imported.undo.json";

/// What an import wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The files.
    pub written: Vec<PathBuf>,
    /// The names of the new servers.
    pub servers: Vec<String>,
}

/// What an undo put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// Files with their earlier content.
    pub restored: Vec<PathBuf>,
    /// Files that were not there before.
    pub removed: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Journal {
    files: Vec<Before>,
}

#[derive(Serialize, Deserialize)]
struct Before {
    path: PathBuf,
    /// What stood there; absent if there was no file.
    content: Option<String>,
    /// What the import wrote, so that later changes are noticed.
    after: String,
}

impl Plan {
    /// Writes what was planned. The files that were read are not touched.
    pub fn apply(&self) -> Result<Applied, ImportError> {
        let names: Vec<String> = self.servers.iter().map(|server| server.name.clone()).collect();
        if names.is_empty() {
            return Ok(Applied { written: Vec::new(), servers: names });
        }
        let mut files = vec![(self.target.clone(), self.servers_text()?)];
        if !self.variables.is_empty() {
            files.insert(0, (self.env_file.clone(), self.variables_text()?));
        }
        let journal = Journal {
            files: files
                .iter()
                .map(|(path, text)| Before {
                    path: path.clone(),
                    content: std::fs::read_to_string(path).ok(),
                    after: digest::of_bytes(text.as_bytes()),
                })
                .collect(),
        };
        // The way back is written first: an import that stops half way can be undone.
        let way_back = self.target.with_file_name(JOURNAL);
        let text = serde_json::to_string_pretty(&journal).unwrap_or_default();
        write_private(&way_back, &text)?;
        for (path, text) in &files {
            write_private(path, text)?;
        }
        Ok(Applied { written: files.into_iter().map(|(path, _)| path).collect(), servers: names })
    }

    /// Earlier imports stay; a server of the same name cannot be among them.
    fn servers_text(&self) -> Result<String, ImportError> {
        let mut servers = existing_servers(&self.target)?;
        servers.extend(self.entries());
        let mut whole = Map::new();
        whole.insert("env_file".into(), json!(ENV_FILE));
        if self.variables.is_empty() && !self.env_file.exists() {
            whole.clear();
        }
        whole.insert("servers".into(), Json::Object(servers));
        let text = serde_json::to_string_pretty(&Json::Object(whole)).unwrap_or_default();
        Ok(format!(
            "// Written by `toolbooth config import`; `toolbooth config import --undo` takes the last one back.\n{text}\n"
        ))
    }

    fn variables_text(&self) -> Result<String, ImportError> {
        let mut variables = BTreeMap::new();
        if let Ok(bytes) = std::fs::read(&self.env_file) {
            let mut texts = crate::texts::Texts::default();
            let earlier = crate::parse::dotenv::parse(&mut texts, &self.env_file, &bytes);
            variables = earlier.map_err(ImportError::Unreadable)?;
        }
        variables.extend(self.variables.clone());
        let quoted = |value: &str| {
            value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
                .replace('\r', "\\r")
                .replace('\t', "\\t")
        };
        Ok(variables.iter().map(|(name, value)| format!("{name}=\"{}\"\n", quoted(value))).collect())
    }
}

fn existing_servers(target: &Path) -> Result<Map<String, Json>, ImportError> {
    let Ok(bytes) = std::fs::read(target) else { return Ok(Map::new()) };
    let mut texts = crate::texts::Texts::default();
    let node = crate::parse::parse(&mut texts, target, &bytes).map_err(ImportError::Unreadable)?;
    match node.get("servers").map(|servers| servers.shown()) {
        Some(Json::Object(servers)) => Ok(servers),
        _ => Ok(Map::new()),
    }
}

/// Takes the last import back.
pub fn undo(sources: &Sources) -> Result<Undone, ImportError> {
    let user = sources.user_dir().ok_or(ImportError::NoHome)?;
    let way_back = user.join(JOURNAL);
    let text = std::fs::read_to_string(&way_back).map_err(|_| ImportError::NothingToUndo)?;
    let Journal { files } = serde_json::from_str(&text).map_err(|_| ImportError::NothingToUndo)?;
    for Before { path, after, .. } in &files {
        match std::fs::read(path) {
            Ok(bytes) if digest::of_bytes(&bytes) != *after => {
                return Err(ImportError::ChangedSince { path: path.clone() });
            }
            _ => {}
        }
    }
    let mut undone = Undone { restored: Vec::new(), removed: Vec::new() };
    for Before { path, content, .. } in files {
        match content {
            Some(content) => {
                write_private(&path, &content)?;
                undone.restored.push(path);
            }
            None => {
                if path.exists() {
                    std::fs::remove_file(&path)
                        .map_err(|error| ImportError::Write { path: path.clone(), error })?;
                }
                undone.removed.push(path);
            }
        }
    }
    std::fs::remove_file(&way_back).map_err(|error| ImportError::Write { path: way_back, error })?;
    Ok(undone)
}

/// Writes a file whole or not at all, readable for its owner only.
fn write_private(path: &Path, text: &str) -> Result<(), ImportError> {
    let write = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| ImportError::Write { path: path.to_owned(), error })
}
