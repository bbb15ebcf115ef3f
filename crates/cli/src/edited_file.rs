//! A configuration file that a command changes: read, checked with its new text, and replaced atomically.

use crate::failure::{CommandFailure, FaultReport};
use crate::render;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolbooth_config::{ProposedFile, ServerListDocument};

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

    /// The change, which can be checked before it is written.
    pub fn change(self) -> TextChange {
        TextChange { after: self.document.text(), path: self.path, before: self.before }
    }

    /// Writes the file.
    pub fn save(self) -> Result<(), CommandFailure> {
        self.change().save()
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

/// A change of a file that is not written yet.
pub struct TextChange {
    path: PathBuf,
    /// The text that was read; absent for a new file.
    before: Option<String>,
    after: String,
}

impl TextChange {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as it will be, to load the configuration with it.
    pub fn proposed(&self) -> ProposedFile {
        ProposedFile { path: self.path.clone(), text: self.after.clone() }
    }

    /// Writes the file, unless another program has changed it since it was read.
    pub fn save(&self) -> Result<(), CommandFailure> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| unwritable(&self.path, &error))?;
        let _lock = FolderLock::take(folder);
        if read(&self.path)? != self.before {
            return Err(changed_meanwhile(&self.path));
        }
        write(&self.path, &self.after)
    }
}

/// A lock on a folder of configuration files, which the gateway and its commands take for a change.
pub struct FolderLock {
    _folder: Option<File>,
    is_refused: bool,
}

impl FolderLock {
    /// Waits for the lock, but not for long: any program that can read the folder can hold it. Without the lock two changes
    /// at the same instant may overwrite each other.
    pub fn take(folder: &Path) -> Self {
        const TRIES: u32 = 40;
        const PAUSE: Duration = Duration::from_millis(50);
        let Ok(folder) = File::open(folder) else { return Self { _folder: None, is_refused: false } };
        let is_free = |folder: &File| match folder.try_lock() {
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(PAUSE);
                false
            }
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => true,
        };
        let is_refused = !(0..TRIES).any(|_| is_free(&folder));
        Self { _folder: Some(folder), is_refused }
    }

    /// Whether another program holds the lock.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }
}

fn read(path: &Path) -> Result<Option<String>, CommandFailure> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match path.is_symlink() {
                true => Err(unreadable(path, "it is a link to a file that does not exist")),
                false => Ok(None),
            };
        }
        Ok(about) if !about.is_file() => return Err(unreadable(path, "it is not a regular file")),
        Ok(about) if about.len() > MAX_BYTES => return Err(unreadable(path, "it is too large")),
        Ok(about) if about.permissions().readonly() => return Err(unreadable(path, "it is read-only")),
        _ => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| unreadable(path, &error.to_string()))
}

/// Replaces a file atomically. A new file is readable only by its owner, because entries may contain secrets.
pub fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    replace(path, text).map_err(|error| unwritable(path, &error))
}

/// The same with the error of the operating system.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
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
}

fn unreadable(path: &Path, why: &str) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "servers.unreadable".to_owned(),
        blame: "caller".to_owned(),
        message: format!("{} cannot be changed: {why}", render::path(path)),
        hint: Some("correct the file, change it by hand, or name another with --file".to_owned()),
    })
}

fn changed_meanwhile(path: &Path) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "servers.changed".to_owned(),
        blame: "caller".to_owned(),
        message: format!("{} was changed by another program at the same time", render::path(path)),
        hint: Some("nothing was written; try again".to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_program_changed_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("toolbooth.toml");
        let entry = serde_json::json!({ "command": "x" });
        for theirs in ["listen = 9000\n", "[policy]\nconsent = \"never\"\n"] {
            let mut edited = EditedFile::open(&path).expect("readable");
            edited.add("one", &entry).expect("added");
            let change = edited.change();
            std::fs::write(&path, theirs).expect("written");
            let refused = change.save().expect_err("changed");
            assert_eq!(refused.fault.code, "servers.changed");
            assert_eq!(std::fs::read_to_string(&path).expect("text"), theirs);
        }
    }

    #[test]
    fn only_regular_files_that_may_be_written_are_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink(at("nowhere.toml"), at("link.toml")).expect("a link");
        std::fs::write(at("read-only.toml"), "").expect("written");
        let about = std::fs::metadata(at("read-only.toml")).expect("metadata");
        let mut permissions = about.permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(at("read-only.toml"), permissions).expect("set");
        std::fs::create_dir(at("folder.toml")).expect("a folder");
        for name in ["link.toml", "read-only.toml", "folder.toml"] {
            let refused = EditedFile::open(&at(name)).err().expect(name);
            assert_eq!(refused.fault.code, "servers.unreadable", "{name}");
        }
    }
}
