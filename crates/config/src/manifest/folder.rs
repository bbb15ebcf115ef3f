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

/// Whom the entries of a file are for, by where it stands.
pub(super) fn scope_of(file: &Path) -> Scope {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let folder = file.parent().filter(|folder| {
        name(folder).is_some_and(|name| name == "tools" || name.eq_ignore_ascii_case("toolbox"))
    });
    let persona = folder.and_then(Path::parent);
    let above = persona.and_then(Path::parent).and_then(name);
    match (above, persona.and_then(name)) {
        (Some(above), Some(persona)) if above.eq_ignore_ascii_case("personas") => Scope::Persona(persona),
        _ => Scope::Shared,
    }
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
