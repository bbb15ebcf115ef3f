//! The file with variables that an entry of a client names in `envFile`.

use super::list_entries::ClientSource;
use crate::bounded_file::read_bounded;
use crate::expand::references;
use crate::parse::dotenv;
use crate::texts::SourceTexts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file with variables.
pub(super) struct ClientEnvFile {
    /// Its path.
    pub path: PathBuf,
}

impl ClientEnvFile {
    /// Finds the file: clients start a relative path at the folder of a project, or at the folder of the entry's file.
    pub(super) fn find(source: &ClientSource<'_>, project: Option<&Path>, written: &str) -> Self {
        let written = expanded(source, written);
        let folders = [project, source.path.parent()].into_iter().flatten();
        let candidates: Vec<PathBuf> =
            folders.map(|folder| source.sources.resolve(Path::new(&written), folder)).collect();
        let existing = candidates.iter().find(|file| file.is_file());
        let path = existing.or(candidates.first()).cloned().unwrap_or_else(|| PathBuf::from(written));
        Self { path }
    }

    /// Its variables. The error describes the problem; it does not quote the file.
    pub(super) fn read(&self) -> Result<BTreeMap<String, String>, String> {
        let bytes = read_bounded(&self.path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
            _ => "it cannot be read".to_owned(),
        })?;
        let mut texts = SourceTexts::default();
        dotenv::parse(&mut texts, &self.path, &bytes)
            .map_err(|finding| format!("{} (line {})", finding.message, finding.line))
    }
}

/// The path with the variables of this process. `${workspaceFolder}` and the like are replaced already.
fn expanded(source: &ClientSource<'_>, written: &str) -> String {
    let mut text = written.to_owned();
    for name in references(written) {
        let Some(value) = source.sources.env.get(&name) else { continue };
        for form in [format!("${{{name}}}"), format!("${{env:{name}}}")] {
            text = text.replace(&form, value);
        }
    }
    text.replace("$$", "$")
}
