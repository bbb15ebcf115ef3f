//! Which files are looked for, in which order, and which of them are trusted.

use crate::dialect::FileKind;
use crate::inputs::{Discovery, Sources};
use crate::layer::Layer;
use std::path::{Path, PathBuf};

/// Whether a file must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Optional,
    Required,
}

/// A file that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub path: PathBuf,
    pub layer: Layer,
    pub kind: FileKind,
    pub presence: Presence,
}

/// Names of server files in a folder of ours, then of the one file that holds everything.
const SERVER_FILES: [&str; 2] = ["mcp.json", ".mcp.json"];
const WHOLE_FILES: [&str; 4] = ["toolbooth.toml", "toolbooth.json", "toolbooth.yaml", "toolbooth.yml"];
const LLM_FILES: [&str; 3] = ["llmconfig.yml", "llmconfig.yaml", "llmconfig.json"];
/// What `config import` writes; lowest of the user's files, so that hand-written entries win.
pub(crate) const IMPORTED: &str = "imported.json";
const COMPLIANCE_FILE: &str = "compliance-levels.json";

/// Every file that is looked for, lowest layer first. A file that is named twice counts where it is named last.
pub(crate) fn plan(sources: &Sources) -> Vec<Planned> {
    let mut files = Vec::new();
    if sources.discovery != Discovery::NamedOnly {
        folder(&mut files, &sources.system_dir, Layer::System, &SERVER_FILES);
        if let Some(user) = sources.user_dir() {
            files.push(optional(user.join(IMPORTED), Layer::User, FileKind::Servers));
            folder(&mut files, &user, Layer::User, &SERVER_FILES);
        }
    }
    if sources.discovery == Discovery::Everywhere {
        // A plain `mcp.json` in a project belongs to some other program more often than not.
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
        for name in LLM_FILES {
            files.push(optional(path.join(name), Layer::CommandLine, FileKind::Llm));
        }
        files.push(optional(path.join(COMPLIANCE_FILE), Layer::CommandLine, FileKind::Compliance));
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

fn folder(files: &mut Vec<Planned>, folder: &Path, layer: Layer, server_files: &[&str]) {
    for name in server_files {
        files.push(optional(folder.join(name), layer, FileKind::Servers));
    }
    for name in WHOLE_FILES {
        files.push(optional(folder.join(name), layer, FileKind::Whole));
    }
}

fn optional(path: PathBuf, layer: Layer, kind: FileKind) -> Planned {
    Planned { path, layer, kind, presence: Presence::Optional }
}

fn named(path: PathBuf, kind: impl Fn(&Path) -> FileKind) -> Planned {
    let kind = kind(&path);
    Planned { path, layer: Layer::CommandLine, kind, presence: Presence::Required }
}

/// Other programs' files may hold keys that are none of our business.
pub(crate) fn kind_of(path: &Path) -> FileKind {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if WHOLE_FILES.contains(&name) => FileKind::Whole,
        Some(name) if name.ends_with("mcp.json") => FileKind::Servers,
        _ => FileKind::Whole,
    }
}

/// A bare name is looked for in the folders that were named before it, then in the working folder.
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

fn keep_last(files: Vec<Planned>) -> Vec<Planned> {
    let mut kept: Vec<(PathBuf, Planned)> = Vec::new();
    for file in files {
        let same = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
        // Standing in one's own configuration folder does not make its files somebody else's.
        if file.layer == Layer::Project && kept.iter().any(|(path, _)| *path == same) {
            continue;
        }
        kept.retain(|(path, _)| *path != same);
        kept.push((same, file));
    }
    kept.into_iter().map(|(_, file)| file).collect()
}
