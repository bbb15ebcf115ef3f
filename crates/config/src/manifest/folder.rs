//! Folders of manifests: which files stand in them, in the order of their names.

use std::path::{Path, PathBuf};
use toolbooth_core::manifest::Scope;

/// The most personas that one folder may hold.
const MAX_PERSONAS: usize = 500;
const EXTENSIONS: [&str; 5] = ["json", "jsonc", "yaml", "yml", "toml"];

/// A folder of manifests, and whom they are for.
pub(super) struct Shelf {
    pub folder: PathBuf,
    pub scope: Scope,
}

/// The files of a folder; a missing folder has none.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let is_manifest = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        !is_hidden(path)
            && extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
            && path.is_file()
    };
    listed(folder).into_iter().filter(is_manifest).take(super::MAX_FILES + 1).collect()
}

/// The folders of the personas below a folder.
pub(super) fn personas(folder: &Path) -> Vec<Shelf> {
    let folders = listed(folder).into_iter().filter(|path| path.is_dir() && !is_hidden(path));
    let shelves = folders.filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        Some(Shelf { folder: path.join("tools"), scope: Scope::Persona(name) })
    });
    shelves.take(MAX_PERSONAS).collect()
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with('.'))
}
