//! A client's configuration file: read, replaced atomically, with a backup beside it.

use crate::failure::{CommandFailure, FaultReport};
use crate::render;
use std::io::Write;
use std::path::{Path, PathBuf};
use toolbooth_config::Sources;
use toolbooth_config::clients::ClientId;

/// The largest accepted file.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The suffix of the backup.
const BACKUP: &str = ".before-toolbooth";

/// A client's configuration file.
pub struct ClientFile {
    /// Its path, with links resolved.
    pub path: PathBuf,
    /// The path of its backup.
    pub backup: PathBuf,
    home: Option<PathBuf>,
    title: &'static str,
}

impl ClientFile {
    /// The file of a client, which need not exist.
    pub fn of(client: ClientId, sources: &Sources) -> Result<Self, CommandFailure> {
        let Some(path) = client.default_file(sources) else {
            return Err(CommandFailure::misuse(
                "connect.no-home",
                "there is no home folder",
                Some("set HOME"),
            ));
        };
        Ok(Self::at(client, path, sources))
    }

    /// A file at a path.
    pub fn at(client: ClientId, path: PathBuf, sources: &Sources) -> Self {
        // Dotfiles are often links into a repository; the link must stay intact.
        let path = path.canonicalize().unwrap_or(path);
        let mut backup = path.clone().into_os_string();
        backup.push(BACKUP);
        Self { path, backup: backup.into(), home: sources.home.clone(), title: client.title() }
    }

    /// Reads the file; `None` if it does not exist.
    pub fn read(&self) -> Result<Option<String>, CommandFailure> {
        match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Ok(about) if about.len() > MAX_BYTES => return Err(self.unreadable("it is too large")),
            _ => {}
        }
        std::fs::read_to_string(&self.path).map(Some).map_err(|error| self.unreadable(&reason(&error)))
    }

    /// Reads the backup: the content before the first change.
    pub fn read_backup(&self) -> Option<String> {
        std::fs::read_to_string(&self.backup).ok()
    }

    /// Writes the backup. An existing one is kept, because it has the user's original content.
    pub fn keep_backup(&self, text: Option<&str>) -> Result<(), CommandFailure> {
        match text {
            Some(text) if !self.backup.exists() => self.replace(&self.backup, text),
            _ => Ok(()),
        }
    }

    /// Removes the backup.
    pub fn drop_backup(&self) {
        let _ = std::fs::remove_file(&self.backup);
    }

    /// Writes the file.
    pub fn write(&self, text: &str) -> Result<(), CommandFailure> {
        self.replace(&self.path, text)
    }

    /// Removes the file, and its folders if they are empty: the folder of a client counts as its installation.
    pub fn remove(&self) -> Result<(), CommandFailure> {
        std::fs::remove_file(&self.path).map_err(|error| self.unwritable(&self.path, &error))?;
        let home = self.home.as_deref().and_then(|home| home.canonicalize().ok());
        // Only below the home folder: a configuration folder elsewhere may be a mount of its own.
        let is_clients = |folder: &&Path| {
            let is_below_home =
                home.as_deref().is_some_and(|home| *folder != home && folder.starts_with(home));
            is_below_home && !folder.ends_with(".config")
        };
        for folder in self.path.ancestors().skip(1).take_while(is_clients) {
            // A folder that has other files stays.
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), CommandFailure> {
        let write = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder)?;
            // A temporary file has mode 600: these files contain tokens.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            if let Ok(about) = std::fs::metadata(&self.path) {
                file.as_file().set_permissions(about.permissions())?;
            }
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        write().map_err(|error| self.unwritable(path, &error))
    }

    /// The failure of a file that cannot be read or parsed.
    pub fn unreadable(&self, why: &str) -> CommandFailure {
        CommandFailure::failed(FaultReport {
            code: "connect.unreadable".to_owned(),
            blame: "caller".to_owned(),
            message: format!(
                "the configuration file of {}, {}, cannot be read: {why}",
                self.title,
                render::path(&self.path)
            ),
            hint: Some("correct the file first; it was not changed".to_owned()),
        })
    }

    fn unwritable(&self, path: &Path, error: &std::io::Error) -> CommandFailure {
        CommandFailure::failed(FaultReport {
            code: "connect.unwritable".to_owned(),
            blame: "caller".to_owned(),
            message: format!("{} cannot be written: {}", render::path(path), reason(error)),
            hint: None,
        })
    }
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}
