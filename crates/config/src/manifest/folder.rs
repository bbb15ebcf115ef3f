//! Lists the files of manifest folders, sorted by name.

use std::path::{Path, PathBuf};
use toolbooth_core::manifest::ManifestScope;

/// The maximum number of personas in one folder.
const MAX_PERSONAS: usize = 500;
const EXTENSIONS: [&str; 5] = ["json", "jsonc", "yaml", "yml", "toml"];

/// A folder of manifests, with the scope of their entries.
pub(super) struct ManifestFolder {
    pub path: PathBuf,
    pub scope: ManifestScope,
}

/// The manifest files of a folder; empty if the folder does not exist. A setting may also name a file.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let is_manifest = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        !is_hidden(path)
            && extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
            && path.is_file()
    };
    listed(folder).into_iter().filter(is_manifest).take(super::MAX_FILES + 1).collect()
}

/// The manifest folders of the personas in a folder: `tools`, and `Toolbox` as ATLAS names it.
pub(super) fn personas(folder: &Path) -> Vec<ManifestFolder> {
    let folders = listed(folder).into_iter().filter(|path| path.is_dir() && !is_hidden(path));
    let folders = folders.take(MAX_PERSONAS).filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let scope = ManifestScope::Persona(name);
        let is_toolbox = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.eq_ignore_ascii_case("toolbox"))
        };
        let toolbox = listed(&path).into_iter().find(is_toolbox).unwrap_or_else(|| path.join("Toolbox"));
        let both = [path.join("tools"), toolbox];
        Some(both.map(|path| ManifestFolder { path, scope: scope.clone() }))
    });
    folders.flatten().collect()
}

/// The shared folders, then those with this name, such as `skills`, in the folder of each persona.
pub(super) fn with_personas(shared: &[PathBuf], personas: &[PathBuf], name: &str) -> Vec<ManifestFolder> {
    let shared =
        shared.iter().map(|path| ManifestFolder { path: path.clone(), scope: ManifestScope::Shared });
    shared.chain(personas.iter().flat_map(|folder| personas_with(folder, name))).collect()
}

/// The folders of the personas in a folder that have this name, in any letter case.
fn personas_with(folder: &Path, wanted: &str) -> Vec<ManifestFolder> {
    let folders = listed(folder).into_iter().filter(|path| path.is_dir() && !is_hidden(path));
    let folders = folders.take(MAX_PERSONAS).filter_map(|path| {
        let scope = ManifestScope::Persona(path.file_name()?.to_str()?.to_owned());
        let fits = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            path.is_dir() && name.is_some_and(|name| name.eq_ignore_ascii_case(wanted))
        };
        let path = listed(&path).into_iter().find(fits)?;
        Some(ManifestFolder { path, scope })
    });
    folders.collect()
}

/// The scope of the entries of a file, derived from its path.
pub(super) fn scope_of(file: &Path) -> ManifestScope {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let folder = file.parent().filter(|folder| {
        name(folder).is_some_and(|name| name == "tools" || name.eq_ignore_ascii_case("toolbox"))
    });
    let persona = folder.and_then(Path::parent);
    let above = persona.and_then(Path::parent).and_then(name);
    match (above, persona.and_then(name)) {
        (Some(above), Some(persona)) if above.eq_ignore_ascii_case("personas") => {
            ManifestScope::Persona(persona)
        }
        _ => ManifestScope::Shared,
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
