//! The list of configuration files to read, in the order of their layers.

use crate::dialect::FileKind;
use crate::inputs::{FileDiscovery, Sources};
use crate::layer::Layer;
use std::path::{Path, PathBuf};

/// Whether a file must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePresence {
    Optional,
    Required,
}

/// A configuration file to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedFile {
    pub path: PathBuf,
    pub layer: Layer,
    pub kind: FileKind,
    pub presence: FilePresence,
}

/// Names of files with servers only.
const SERVER_FILES: [&str; 2] = ["mcp.json", ".mcp.json"];
/// Names of files with settings and servers.
const WHOLE_FILES: [&str; 4] = ["toolbooth.toml", "toolbooth.json", "toolbooth.yaml", "toolbooth.yml"];
const LLM_FILES: [&str; 3] = ["llmconfig.yml", "llmconfig.yaml", "llmconfig.json"];
/// The file that `config import` writes. It is the lowest of the user's files, so that hand-written entries win.
pub(crate) const IMPORTED: &str = "imported.json";
/// The file beside it, with the values of its variables.
pub(crate) const IMPORTED_VARIABLES: &str = "imported.env";
/// The file with the variables that the user has stored as secrets. They win over those of imports.
pub(crate) const SECRETS: &str = "secrets.env";
const COMPLIANCE_FILE: &str = "compliance-levels.json";
/// The folders of an Atlas UI project, lowest precedence first.
const ATLAS_FOLDERS: [&str; 2] = ["config/defaults", "config/overrides"];
/// Files of Atlas UI that the gateway does not use.
const UNUSED_FILES: [&str; 2] = ["rag-sources.json", "file-extractors.json"];

impl Sources {
    /// The file with the secrets that the user has stored; its variables are always read.
    pub fn secrets_file(&self) -> Option<PathBuf> {
        Some(self.user_dir()?.join(SECRETS))
    }

    /// The file with the secrets of imported servers.
    pub fn imported_secrets_file(&self) -> Option<PathBuf> {
        Some(self.user_dir()?.join(IMPORTED_VARIABLES))
    }
}

/// Lists the files to look for, lowest layer first. A file that is listed twice counts at its last position.
pub(crate) fn plan(sources: &Sources) -> Vec<PlannedFile> {
    let mut files = Vec::new();
    if sources.discovery != FileDiscovery::NamedOnly {
        folder(&mut files, &sources.system_dir, Layer::System, &SERVER_FILES);
        if let Some(user) = sources.user_dir() {
            files.push(optional(user.join(IMPORTED), Layer::User, FileKind::Servers));
            folder(&mut files, &user, Layer::User, &SERVER_FILES);
        }
    }
    if sources.discovery == FileDiscovery::Everywhere {
        for path in ATLAS_FOLDERS {
            let path = sources.cwd.join(path);
            files.push(optional(path.join(SERVER_FILES[0]), Layer::Project, FileKind::Servers));
            companions(&mut files, &path, Layer::Project);
        }
        // A plain `mcp.json` in a project usually belongs to another program.
        folder(&mut files, &sources.cwd, Layer::Project, &SERVER_FILES[1..]);
    }
    let dirs = [&sources.config_dir, &sources.config_overrides];
    for path in dirs.into_iter().flatten() {
        let path = sources.absolute(path);
        if path.is_file() {
            files.push(named(path, kind_of));
            continue;
        }
        folder(&mut files, &path, Layer::CommandLine, &SERVER_FILES);
        companions(&mut files, &path, Layer::CommandLine);
    }
    if let Some(path) = &sources.mcp_config {
        files.push(named(in_config_dirs(sources, path), |_| FileKind::Servers));
    }
    if let Some(path) = &sources.llm_config {
        files.push(named(in_config_dirs(sources, path), |_| FileKind::Llm));
    }
    files.extend(sources.config_files.iter().map(|path| named(sources.absolute(path), kind_of)));
    keep_last(files)
}

/// The file with the variables of a file that `config import` wrote; `None` for other files.
pub(crate) fn imported_variables(file: &Path) -> Option<PathBuf> {
    (file.file_name()? == IMPORTED).then(|| file.with_file_name(IMPORTED_VARIABLES))
}

fn folder(files: &mut Vec<PlannedFile>, folder: &Path, layer: Layer, server_files: &[&str]) {
    for name in server_files {
        files.push(optional(folder.join(name), layer, FileKind::Servers));
    }
    for name in WHOLE_FILES {
        files.push(optional(folder.join(name), layer, FileKind::Whole));
    }
}

/// The files with models and compliance levels, next to `mcp.json`.
fn companions(files: &mut Vec<PlannedFile>, folder: &Path, layer: Layer) {
    for name in LLM_FILES {
        files.push(optional(folder.join(name), layer, FileKind::Llm));
    }
    files.push(optional(folder.join(COMPLIANCE_FILE), layer, FileKind::Compliance));
}

/// Existing files of Atlas UI that have no effect: those beside the files that are read, and `--rag-sources-config`.
pub(crate) fn unused(sources: &Sources) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = [&sources.config_dir, &sources.config_overrides]
        .into_iter()
        .flatten()
        .map(|dir| sources.absolute(dir))
        .collect();
    if sources.discovery == FileDiscovery::Everywhere {
        let atlas = ATLAS_FOLDERS.iter().map(|path| sources.cwd.join(path));
        folders.extend(atlas.filter(|path| path.join(SERVER_FILES[0]).is_file()));
    }
    let mut unused: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| UNUSED_FILES.map(|name| folder.join(name)))
        .filter(|path| path.is_file())
        .collect();
    // A file named on the command line is reported even if it does not exist.
    unused.extend(sources.rag_sources_config.as_ref().map(|path| in_config_dirs(sources, path)));
    let mut known = std::collections::BTreeSet::new();
    unused.retain(|path| known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    unused
}

fn optional(path: PathBuf, layer: Layer, kind: FileKind) -> PlannedFile {
    PlannedFile { path, layer, kind, presence: FilePresence::Optional }
}

fn named(path: PathBuf, kind: impl Fn(&Path) -> FileKind) -> PlannedFile {
    let kind = kind(&path);
    PlannedFile { path, layer: Layer::CommandLine, kind, presence: FilePresence::Required }
}

/// The kind of a file, by its name. Files of other programs may contain keys that are unknown here.
pub(crate) fn kind_of(path: &Path) -> FileKind {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if WHOLE_FILES.contains(&name) => FileKind::Whole,
        Some(name) if name.ends_with("mcp.json") => FileKind::Servers,
        _ => FileKind::Whole,
    }
}

/// Looks for a bare file name in the folders given on the command line, then in the working folder.
fn in_config_dirs(sources: &Sources, path: &Path) -> PathBuf {
    let bare = path.components().count() == 1;
    let dirs = [&sources.config_overrides, &sources.config_dir];
    let found =
        dirs.into_iter().flatten().map(|dir| sources.absolute(dir).join(path)).find(|path| path.is_file());
    match found {
        Some(found) if bare => found,
        _ => sources.absolute(path),
    }
}

fn keep_last(files: Vec<PlannedFile>) -> Vec<PlannedFile> {
    let mut kept: Vec<(PathBuf, PlannedFile)> = Vec::new();
    for file in files {
        let same = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
        // If the working folder is the user's configuration folder, its files stay trusted.
        if file.layer == Layer::Project && kept.iter().any(|(path, _)| *path == same) {
            continue;
        }
        kept.retain(|(path, _)| *path != same);
        kept.push((same, file));
    }
    kept.into_iter().map(|(_, file)| file).collect()
}
