//! Finds a client's row of the table, and its files on this machine.

use super::spec::{ClientId, ClientSpec};
use super::table::CLIENTS;
use crate::inputs::Sources;
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

impl ClientId {
    /// The existing files of the client that have lists of servers, and no servers.
    pub fn list_files(self, sources: &Sources) -> Vec<PathBuf> {
        let places = self.spec().lists.iter().filter_map(|list| list.file);
        let mut files: Vec<PathBuf> = places.filter_map(|place| place.resolve(sources)).collect();
        files.dedup();
        files.retain(|file| file.is_file());
        files
    }

    /// All clients, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        CLIENTS.iter().map(|spec| spec.id)
    }

    /// The client's row of the table.
    pub fn spec(self) -> &'static ClientSpec {
        // The test `the_table_has_one_row_per_client` ensures that the row exists.
        CLIENTS.iter().find(|spec| spec.id == self).unwrap_or(&CLIENTS[0])
    }

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        self.spec().name
    }

    /// The product name.
    pub fn title(self) -> &'static str {
        self.spec().title
    }

    /// The client with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|client| client.as_str() == name)
    }

    /// The user's files of the client, on all systems; they need not exist.
    pub fn user_files(self, sources: &Sources) -> Vec<PathBuf> {
        unique(self.spec().files.iter().filter_map(|place| place.resolve(sources)))
    }

    /// All files of the client that an import reads: the user's, and those of the current project.
    pub fn files(self, sources: &Sources) -> Vec<PathBuf> {
        let project = self.spec().project_files.iter().map(|path| sources.cwd.join(path));
        let project =
            project.chain(self.project_folder(sources).into_iter().flat_map(|folder| files_in(&folder)));
        unique(self.user_files(sources).into_iter().chain(self.folder_files(sources)).chain(project))
    }

    /// The existing files in the user's folder of servers.
    pub fn folder_files(self, sources: &Sources) -> Vec<PathBuf> {
        let folder = self.spec().folder.and_then(|place| place.resolve(sources));
        folder.map(|folder| files_in(&folder)).unwrap_or_default()
    }

    /// The folder of servers in the current project.
    fn project_folder(self, sources: &Sources) -> Option<PathBuf> {
        let name = self.spec().folder?.shown();
        Some(sources.cwd.join(name.trim_start_matches("~/")))
    }

    /// Whether a file is in a folder of servers.
    pub(crate) fn is_folder_file(self, file: &Path) -> bool {
        let name = self.spec().folder.map(|place| place.shown());
        name.is_some_and(|name| file.parent().and_then(Path::file_name) == Path::new(&name).file_name())
    }

    /// The file that connects the client: an existing one, or the default of this system.
    pub fn default_file(self, sources: &Sources) -> Option<PathBuf> {
        let existing = self.user_files(sources).into_iter().find(|file| file.is_file());
        let native = || self.spec().files.iter().filter(|place| place.is_native());
        existing.or_else(|| native().find_map(|place| place.resolve(sources)))
    }

    /// The files that connect the client if it is installed: its existing files, or the default file if its folder
    /// exists. Empty if the client is not installed.
    pub fn installed_files(self, sources: &Sources) -> Vec<PathBuf> {
        let existing: Vec<PathBuf> =
            self.user_files(sources).into_iter().filter(|file| file.is_file()).collect();
        if !existing.is_empty() {
            return existing;
        }
        let has_folder = |file: &PathBuf| {
            file.parent().is_some_and(|folder| folder.is_dir() && Some(folder) != sources.home.as_deref())
        };
        self.default_file(sources).into_iter().filter(has_folder).collect()
    }

    /// The client that a file on this machine belongs to.
    pub fn of_file_here(path: &Path, sources: &Sources) -> Option<Self> {
        let is_users = |client: &Self| {
            let mut files = client.user_files(sources).into_iter().chain(client.folder_files(sources));
            files.any(|file| file == path)
        };
        let known = Self::all().find(is_users);
        known.or_else(|| Self::of_file(path))
    }

    /// The client that a file belongs to, judged by its path.
    pub fn of_file(path: &Path) -> Option<Self> {
        let folder = path.parent()?.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let client = match (folder, path.file_name()?.to_str()?) {
            (_, "claude_desktop_config.json") => Self::ClaudeDesktop,
            (_, ".claude.json") => Self::ClaudeCode,
            (_, "cline_mcp_settings.json") => Self::Cline,
            (_, "mcp-config.json") => Self::Copilot,
            (_, "opencode.json" | "opencode.jsonc") => Self::Opencode,
            ("windsurf" | ".codeium", "mcp_config.json") => Self::Windsurf,
            (".cursor", "mcp.json") => Self::Cursor,
            (".vscode" | "User", "mcp.json") => Self::Vscode,
            (".codex", "config.toml") => Self::Codex,
            (".gemini", "settings.json") => Self::Gemini,
            (".qwen", "settings.json") => Self::Qwen,
            ("zed" | ".zed" | "Zed", "settings.json") => Self::Zed,
            (".continue", "config.yaml") => Self::Continue,
            (".github", "mcp.json") => Self::Copilot,
            ("mcpServers", _) if path.parent()?.parent()?.ends_with(".continue") => Self::Continue,
            ("goose", "config.yaml") => Self::Goose,
            (".roo", "mcp.json") => Self::Roo,
            (".lmstudio", "mcp.json") => Self::LmStudio,
            ("amazonq" | ".amazonq", "mcp.json") => Self::AmazonQ,
            (".warp", ".mcp.json") => Self::Warp,
            _ if path.ends_with(".kiro/settings/mcp.json") => Self::Kiro,
            _ if path.ends_with(".junie/mcp/mcp.json") => Self::JetBrains,
            _ if path.ends_with("rooveterinaryinc.roo-cline/settings/mcp_settings.json") => Self::Roo,
            _ => return None,
        };
        Some(client)
    }
}

/// The files with servers in a folder, in the order of their names.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    const MAX_FILES: usize = 1000;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    let is_read = |file: &PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("yaml" | "yml" | "json" | "jsonc")) && file.is_file()
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_read).collect();
    files.sort();
    files
}

fn unique(files: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for file in files {
        if !kept.contains(&file) {
            kept.push(file);
        }
    }
    kept
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ClientId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_one_row_per_client() {
        for (row, spec) in CLIENTS.iter().enumerate() {
            assert_eq!(spec.id as usize, row, "{}", spec.name);
            assert_eq!(spec.id.spec().name, spec.name);
            assert_eq!(ClientId::named(spec.name), Some(spec.id));
            assert!(!spec.files.is_empty(), "{}", spec.name);
        }
        assert_eq!(ClientId::Qwen as usize + 1, CLIENTS.len());
    }

    #[test]
    fn the_path_of_a_file_names_its_client() {
        let sources = Sources {
            home: Some("/h".into()),
            cwd: "/work".into(),
            env: [("APPDATA".to_owned(), "/roaming".to_owned())].into(),
            ..Sources::default()
        };
        for client in ClientId::all() {
            for file in client.files(&sources) {
                let known = ClientId::of_file(&file);
                // The folder of goose on Windows is `config`, which says too little.
                assert!(
                    known == Some(client) || file.ends_with("goose/config/config.yaml"),
                    "{file:?}: {known:?}"
                );
            }
        }
    }
}
