//! The file a client keeps its servers in: read, written whole or not at all, with a backup beside it.

use super::client::App;
use crate::failure::{Failure, Trouble};
use crate::render;
use std::io::Write;
use std::path::{Path, PathBuf};
use toolbooth_config::Sources;

/// The largest file that is read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// What the backup is called, after the file.
const BACKUP: &str = ".before-toolbooth";

/// A client's file.
pub struct ClientFile {
    /// Where it is, links followed.
    pub path: PathBuf,
    /// Where its backup is.
    pub backup: PathBuf,
    title: &'static str,
}

impl ClientFile {
    /// The file of a client, there or not.
    pub fn of(app: App, sources: &Sources) -> Result<Self, Failure> {
        let Some(path) = app.file(sources) else {
            return Err(Failure::misuse(
                "connect.no-home",
                "there is no home folder to look in",
                Some("set HOME"),
            ));
        };
        // Dotfiles are often links into a repository; the link must stay one.
        let path = path.canonicalize().unwrap_or(path);
        let mut backup = path.clone().into_os_string();
        backup.push(BACKUP);
        Ok(Self { path, backup: backup.into(), title: app.title() })
    }

    /// What it holds; nothing if it is not there.
    pub fn read(&self) -> Result<Option<String>, Failure> {
        match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Ok(about) if about.len() > MAX_BYTES => return Err(self.unreadable("it is too large")),
            _ => {}
        }
        std::fs::read_to_string(&self.path).map(Some).map_err(|error| self.unreadable(&reason(&error)))
    }

    /// What it held before it was first changed.
    pub fn read_backup(&self) -> Option<String> {
        std::fs::read_to_string(&self.backup).ok()
    }

    /// Keeps what it holds now; an older backup is nearer to what the user had.
    pub fn keep_backup(&self, text: Option<&str>) -> Result<(), Failure> {
        match text {
            Some(text) if !self.backup.exists() => self.replace(&self.backup, text),
            _ => Ok(()),
        }
    }

    /// Removes the backup once it is of no use.
    pub fn drop_backup(&self) {
        let _ = std::fs::remove_file(&self.backup);
    }

    /// Writes it.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        self.replace(&self.path, text)
    }

    /// Removes it.
    pub fn remove(&self) -> Result<(), Failure> {
        std::fs::remove_file(&self.path).map_err(|error| self.unwritable(&self.path, &error))
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), Failure> {
        let write = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder)?;
            // A temporary file is made with mode 600: such files hold tokens.
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

    /// The file cannot be understood.
    pub fn unreadable(&self, why: &str) -> Failure {
        Failure::failed(Trouble {
            code: "connect.unreadable".to_owned(),
            blame: "caller".to_owned(),
            message: format!(
                "the configuration of {}, {}, cannot be read: {why}",
                self.title,
                render::path(&self.path)
            ),
            hint: Some("put the file right first; it was not changed".to_owned()),
        })
    }

    fn unwritable(&self, path: &Path, error: &std::io::Error) -> Failure {
        Failure::failed(Trouble {
            code: "connect.unwritable".to_owned(),
            blame: "caller".to_owned(),
            message: format!("{} cannot be written: {}", render::path(path), reason(error)),
            hint: None,
        })
    }
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "this user may not".to_owned(),
        std::io::ErrorKind::InvalidData => "it is no text".to_owned(),
        _ => error.to_string(),
    }
}
