//! Writes an import, and undoes it.

use super::{ImportError, ImportPlan};
use crate::bounded_file::{read_bounded, unreadable};
use crate::digest;
use crate::env_document::EnvDocument;
use crate::inputs::Sources;
use crate::sealed_values::is_sealed;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file of imported secrets, next to the file of imported servers.
pub(super) const ENV_FILE: &str = crate::layers::IMPORTED_VARIABLES;
/// The file with the previous content of the files that imports wrote.
const JOURNAL: &str = "imported.undo.json";
/// The maximum number of imports that can be undone.
const MAX_STEPS: usize = 50;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedImport {
    /// The files written.
    pub written: Vec<PathBuf>,
    /// The names of the new servers.
    pub servers: Vec<String>,
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoneImport {
    /// Files restored to their earlier content.
    pub restored: Vec<PathBuf>,
    /// Files removed, because they did not exist before the import.
    pub removed: Vec<PathBuf>,
}

/// The imports that can be undone, latest last.
#[derive(Default, Serialize, Deserialize)]
struct UndoJournal {
    imports: Vec<ImportStep>,
}

/// The files of one import.
#[derive(Serialize, Deserialize)]
struct ImportStep {
    files: Vec<FileBefore>,
}

impl UndoJournal {
    /// Reads the journal; a missing or damaged one counts as empty.
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn write(&self, path: &Path) -> Result<(), ImportError> {
        write_private(path, &serde_json::to_string_pretty(self).unwrap_or_default())
    }
}

#[derive(Serialize, Deserialize)]
struct FileBefore {
    path: PathBuf,
    /// The previous content; absent if the file did not exist.
    content: Option<String>,
    /// The digest of the content that the import wrote, so that later changes are detected.
    after: String,
}

impl ImportPlan {
    /// The files that `apply` writes.
    pub fn written_files(&self) -> Vec<PathBuf> {
        if self.servers.is_empty() {
            return Vec::new();
        }
        let env_file = (!self.variables.is_empty()).then(|| self.env_file.clone());
        env_file.into_iter().chain([self.target.clone(), self.target.with_file_name(JOURNAL)]).collect()
    }

    /// Writes the plan. The files that were read are not changed.
    pub fn apply(&self) -> Result<AppliedImport, ImportError> {
        let names: Vec<String> = self.servers.iter().map(|server| server.name.clone()).collect();
        if names.is_empty() {
            return Ok(AppliedImport { written: Vec::new(), servers: names });
        }
        let mut files = vec![(self.target.clone(), self.servers_text()?)];
        if !self.variables.is_empty() {
            files.insert(0, (self.env_file.clone(), self.variables_text()?));
        }
        let before = |(path, text): &(PathBuf, String)| {
            let content = match *path == self.env_file {
                true => self.sealed_variables()?.map(|document| document.text()),
                false => std::fs::read_to_string(path).ok(),
            };
            Ok(FileBefore { path: path.clone(), content, after: digest::of_bytes(text.as_bytes()) })
        };
        let step = ImportStep { files: files.iter().map(before).collect::<Result<_, ImportError>>()? };
        // Write the undo journal first, so that an interrupted import can be undone.
        let journal_path = self.target.with_file_name(JOURNAL);
        let mut journal = UndoJournal::read(&journal_path);
        journal.imports.push(step);
        let surplus = journal.imports.len().saturating_sub(MAX_STEPS);
        journal.imports.drain(..surplus);
        journal.write(&journal_path)?;
        for (path, text) in &files {
            write_private(path, text)?;
        }
        Ok(AppliedImport { written: files.into_iter().map(|(path, _)| path).collect(), servers: names })
    }

    /// The content of the server file. Earlier imports are kept; their names differ from the new ones.
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
            "// Written by `toolbooth up` or `toolbooth config import`; the same command with --undo reverts it.\n{text}\n"
        ))
    }

    /// The content of the file with variables. Those of earlier imports are kept, and sealed if they were not.
    fn variables_text(&self) -> Result<String, ImportError> {
        let mut document = self.sealed_variables()?.unwrap_or_default();
        // A secret of another client that only looks sealed is sealed as well.
        self.set_sealed(&mut document, self.variables.clone())?;
        Ok(document.text())
    }

    /// The variables of earlier imports, all of them sealed; `None` if there are none. The undo journal has them in this form,
    /// too: it must not keep secrets in plain text.
    fn sealed_variables(&self) -> Result<Option<EnvDocument>, ImportError> {
        let Some(bytes) = read_existing(&self.env_file)? else { return Ok(None) };
        let mut document = EnvDocument::parse(&self.env_file, &bytes).map_err(ImportError::Unreadable)?;
        let plain = document.variables().filter(|(_, value)| !is_sealed(value));
        let plain = plain.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.set_sealed(&mut document, plain)?;
        Ok(Some(document))
    }

    fn set_sealed(
        &self,
        document: &mut EnvDocument,
        variables: BTreeMap<String, String>,
    ) -> Result<(), ImportError> {
        let Some(sealer) = &self.sealer else {
            variables.iter().for_each(|(name, value)| document.set(name, value));
            return Ok(());
        };
        for (name, value) in variables {
            let sealed = sealer.seal(&name, &value).map_err(ImportError::NotSealed)?;
            document.set(&name, &sealed);
        }
        Ok(())
    }
}

/// The content of a file that the import extends; `None` if it does not exist. A file that cannot be read must not be
/// replaced: its entries would be lost.
fn read_existing(path: &Path) -> Result<Option<Vec<u8>>, ImportError> {
    match read_bounded(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ImportError::Unreadable(Box::new(unreadable(path, &error, "the imported file")))),
    }
}

fn existing_servers(target: &Path) -> Result<Map<String, Json>, ImportError> {
    let Some(bytes) = read_existing(target)? else { return Ok(Map::new()) };
    let mut texts = crate::texts::SourceTexts::default();
    let node = crate::parse::parse(&mut texts, target, &bytes).map_err(ImportError::Unreadable)?;
    match node.get("servers").map(|servers| servers.shown()) {
        Some(Json::Object(servers)) => Ok(servers),
        _ => Ok(Map::new()),
    }
}

/// Undoes the last import that is not undone yet.
pub fn undo(sources: &Sources) -> Result<UndoneImport, ImportError> {
    let user = sources.user_dir().ok_or(ImportError::NoHome)?;
    let journal_path = user.join(JOURNAL);
    let mut journal = UndoJournal::read(&journal_path);
    let ImportStep { files } = journal.imports.pop().ok_or(ImportError::NothingToUndo)?;
    for FileBefore { path, after, .. } in &files {
        match std::fs::read(path) {
            Ok(bytes) if digest::of_bytes(&bytes) != *after => {
                return Err(ImportError::ChangedSince { path: path.clone() });
            }
            _ => {}
        }
    }
    let mut undone = UndoneImport { restored: Vec::new(), removed: Vec::new() };
    for FileBefore { path, content, .. } in files {
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
    match journal.imports.is_empty() {
        true => std::fs::remove_file(&journal_path)
            .map_err(|error| ImportError::Write { path: journal_path, error })?,
        false => journal.write(&journal_path)?,
    }
    Ok(undone)
}

/// Writes a file atomically, readable only by its owner.
fn write_private(path: &Path, text: &str) -> Result<(), ImportError> {
    let write = || -> std::io::Result<()> {
        // Dotfiles are often links into a repository; the link must stay intact.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    };
    write().map_err(|error| ImportError::Write { path: path.to_owned(), error })
}
