//! A configuration file that a command changes: read, replaced atomically, and restored after an error.

use crate::failure::{CommandFailure, FaultReport};
use crate::render;
use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use toolbooth_config::ServerListDocument;

/// The largest accepted file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A configuration file that is being changed.
pub struct EditedFile {
    /// Its path, with links resolved.
    path: PathBuf,
    /// Its text when it was read; absent for a new file.
    before: Option<String>,
    document: ServerListDocument,
}

impl EditedFile {
    /// Reads a file, which need not exist.
    pub fn open(path: &Path) -> Result<Self, CommandFailure> {
        // Dotfiles are often links into a repository; the link must stay intact.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let before = read(&path)?;
        let document = ServerListDocument::parse(&path, before.as_deref().unwrap_or_default())
            .map_err(|why| unreadable(&path, &why))?;
        Ok(Self { path, before, document })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an entry.
    pub fn add(&mut self, name: &str, entry: &serde_json::Value) -> Result<(), CommandFailure> {
        self.document.add(name, entry).map_err(|why| unreadable(&self.path, &why))
    }

    /// Writes the file.
    pub fn save(self) -> Result<WrittenFile, CommandFailure> {
        write(&self.path, &self.document.text())?;
        Ok(WrittenFile { path: self.path, before: self.before })
    }
}

impl Deref for EditedFile {
    type Target = ServerListDocument;

    fn deref(&self) -> &ServerListDocument {
        &self.document
    }
}

impl DerefMut for EditedFile {
    fn deref_mut(&mut self) -> &mut ServerListDocument {
        &mut self.document
    }
}

/// A written file that can be restored.
pub struct WrittenFile {
    path: PathBuf,
    before: Option<String>,
}

impl WrittenFile {
    /// Restores the content from before the change.
    pub fn undo(&self) -> Result<(), CommandFailure> {
        match &self.before {
            Some(text) => write(&self.path, text),
            None => std::fs::remove_file(&self.path).map_err(|error| unwritable(&self.path, &error)),
        }
    }
}

fn read(path: &Path) -> Result<Option<String>, CommandFailure> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Ok(about) if about.len() > MAX_BYTES => return Err(unreadable(path, "it is too large")),
        _ => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| unreadable(path, &error.to_string()))
}

/// Replaces a file atomically. A new file is readable only by its owner, because entries may contain secrets.
pub fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    let replace = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        if let Ok(about) = std::fs::metadata(path) {
            file.as_file().set_permissions(about.permissions())?;
        }
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    replace().map_err(|error| unwritable(path, &error))
}

fn unreadable(path: &Path, why: &str) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "servers.unreadable".to_owned(),
        blame: "caller".to_owned(),
        message: format!("{} cannot be changed: {why}", render::path(path)),
        hint: Some("correct the file, change it by hand, or name another with --file".to_owned()),
    })
}

fn unwritable(path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "servers.unwritable".to_owned(),
        blame: "caller".to_owned(),
        message: format!("{} cannot be written: {error}", render::path(path)),
        hint: None,
    })
}
