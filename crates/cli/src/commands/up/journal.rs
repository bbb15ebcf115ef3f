//! The undo journal of `toolbooth up`: the content of every file before it was changed, in the data directory.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder of the journals in the data directory.
const FOLDER: &str = "up";
/// The file of a run's journal.
const FILE: &str = "journal.json";
/// The largest file that is saved.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The maximum number of runs that are kept.
const MAX_RUNS: u32 = 9999;

/// The journal of one run.
#[derive(Debug)]
pub struct UpJournal {
    folder: PathBuf,
    content: JournalContent,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct JournalContent {
    #[serde(default)]
    files: Vec<SavedFile>,
    #[serde(default)]
    gateway: Option<StartedGateway>,
}

/// A gateway that a run started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedGateway {
    /// Its process id.
    pub pid: u32,
    /// The start time of the process.
    pub started: Option<u64>,
}

/// The state of a file before and after a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// The file, with links resolved.
    pub path: PathBuf,
    /// The name of the client that the file belongs to; absent for our own files.
    pub client: Option<String>,
    /// The earlier content; absent if the file did not exist.
    pub before: Option<SavedContent>,
    /// The digest of the content that the run wrote; absent if it was interrupted.
    pub after: Option<String>,
    /// The outermost folder that the run created for the file.
    pub created_folder: Option<PathBuf>,
}

/// The saved content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedContent {
    /// The name of the copy in the folder of the run.
    copy: String,
    /// The permission bits.
    mode: u32,
    /// The digest of the content.
    pub digest: String,
}

/// The digest of a content.
pub fn digest(bytes: &[u8]) -> String {
    toolbooth_core::hex::encode(&Sha256::digest(bytes))
}

/// The digest of a file; `None` if it does not exist.
pub fn digest_of(path: &Path) -> io::Result<Option<String>> {
    match read(path) {
        Ok(bytes) => Ok(Some(digest(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    std::fs::read(path)
}

impl UpJournal {
    /// Starts the journal of a new run.
    pub fn begin(data_dir: &Path) -> io::Result<Self> {
        let all = data_dir.join(FOLDER);
        std::fs::create_dir_all(&all)?;
        std::fs::set_permissions(&all, std::fs::Permissions::from_mode(0o700))?;
        let last = numbers(&all).into_iter().max().unwrap_or(0);
        for number in last + 1..=MAX_RUNS {
            let folder = all.join(format!("{number:04}"));
            match std::fs::create_dir(&folder) {
                Ok(()) => return Ok(Self { folder, content: JournalContent::default() }),
                // Another run is going on.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("there are too many runs to undo"))
    }

    /// The journals of all runs, latest first. Damaged ones are left out.
    pub fn all(data_dir: &Path) -> Vec<Self> {
        let all = data_dir.join(FOLDER);
        let mut found = numbers(&all);
        found.sort_unstable_by(|one, other| other.cmp(one));
        let open = |number: u32| {
            let folder = all.join(format!("{number:04}"));
            let content = serde_json::from_slice(&read(&folder.join(FILE)).ok()?).ok()?;
            Some(Self { folder, content })
        };
        found.into_iter().filter_map(open).collect()
    }

    /// The saved files.
    pub fn files(&self) -> &[SavedFile] {
        &self.content.files
    }

    /// The gateway that the run started.
    pub fn gateway(&self) -> Option<&StartedGateway> {
        self.content.gateway.as_ref()
    }

    /// Whether the run changed nothing.
    pub fn is_empty(&self) -> bool {
        self.content.files.is_empty() && self.content.gateway.is_none()
    }

    /// Saves a file before it is written.
    pub fn save(&mut self, path: &Path, client: Option<&str>) -> io::Result<()> {
        let before = match read(path) {
            Ok(bytes) => {
                let copy = format!("{}.saved", self.content.files.len());
                write_file(&self.folder.join(&copy), &bytes, 0o600)?;
                let mode = std::fs::metadata(path)?.permissions().mode() & 0o7777;
                Some(SavedContent { copy, mode, digest: digest(&bytes) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let missing = path.ancestors().skip(1).take_while(|folder| !folder.exists());
        let created_folder = missing.last().map(Path::to_owned);
        let client = client.map(str::to_owned);
        self.content.files.push(SavedFile {
            path: path.to_owned(),
            client,
            before,
            after: None,
            created_folder,
        });
        self.store()
    }

    /// Writes a file that was saved, with its earlier permissions.
    pub fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let saved = self.content.files.iter_mut().rev().find(|file| file.path == path);
        let saved = saved.ok_or_else(|| io::Error::other("the file was not saved"))?;
        saved.after = Some(digest(content));
        // A new file of a client may contain tokens later.
        let mode = saved.before.as_ref().map_or(0o600, |before| before.mode);
        self.store()?;
        write_file(path, content, mode)
    }

    /// Records the content of saved files that another part of the program has written.
    pub fn record_written(&mut self) -> io::Result<()> {
        for file in &mut self.content.files {
            if file.after.is_none() {
                file.after = digest_of(&file.path)?;
            }
        }
        self.store()
    }

    /// Records that the run started a gateway.
    pub fn record_gateway(&mut self, gateway: StartedGateway) -> io::Result<()> {
        self.content.gateway = Some(gateway);
        self.store()
    }

    /// The earlier content of a file; `None` if it did not exist.
    pub fn earlier(&self, file: &SavedFile) -> io::Result<Option<Vec<u8>>> {
        let Some(before) = &file.before else { return Ok(None) };
        let bytes = std::fs::read(self.folder.join(&before.copy))?;
        match digest(&bytes) == before.digest {
            true => Ok(Some(bytes)),
            false => Err(io::Error::other("its saved copy is damaged")),
        }
    }

    /// Writes another content than the earlier one, with the present permissions of the file.
    pub fn write_merged(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        write_file(path, content, std::fs::metadata(path)?.permissions().mode() & 0o7777)
    }

    /// Restores the earlier content of a file.
    pub fn restore(&self, file: &SavedFile) -> io::Result<()> {
        let (Some(before), Some(bytes)) = (&file.before, self.earlier(file)?) else {
            match std::fs::remove_file(&file.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            if let Some(outermost) = &file.created_folder {
                let folders =
                    file.path.ancestors().skip(1).take_while(|folder| folder.starts_with(outermost));
                // A folder that has other files now stays.
                for folder in folders {
                    if std::fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
            }
            return Ok(());
        };
        write_file(&file.path, &bytes, before.mode)
    }

    /// Removes files from the journal, because they were restored. An empty journal is deleted.
    pub fn forget(&mut self, is_restored: impl Fn(&SavedFile) -> bool) -> io::Result<()> {
        self.content.files.retain(|file| !is_restored(file));
        match self.is_empty() {
            true => std::fs::remove_dir_all(&self.folder),
            false => self.store(),
        }
    }

    /// Removes the gateway from the journal, because it was stopped.
    pub fn forget_gateway(&mut self) {
        self.content.gateway = None;
    }

    fn store(&self) -> io::Result<()> {
        write_file(&self.folder.join(FILE), &serde_json::to_vec_pretty(&self.content)?, 0o600)
    }
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Writes a file atomically.
fn write_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_absence_are_restored() {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, old, new) =
            (folder.path().join("data"), folder.path().join("old"), folder.path().join("a/b/new"));
        write_file(&old, b"\xff old", 0o640).expect("written");
        let mut journal = UpJournal::begin(&data).expect("begun");
        for (path, text) in [(&old, "changed"), (&new, "made")] {
            journal.save(path, Some("cursor")).expect("saved");
            journal.write(path, text.as_bytes()).expect("written");
        }
        let mode = |path: &Path| std::fs::metadata(path).expect("exists").permissions().mode() & 0o777;
        assert_eq!((mode(&old), mode(&new)), (0o640, 0o600));
        let mut journals = UpJournal::all(&data);
        let journal = journals.first_mut().expect("one run");
        for file in journal.files().to_vec() {
            assert_eq!(digest_of(&file.path).expect("readable"), file.after);
            journal.restore(&file).expect("restored");
        }
        assert_eq!(std::fs::read(&old).expect("exists"), b"\xff old");
        assert_eq!(mode(&old), 0o640);
        assert!(!folder.path().join("a").exists());
        journal.forget(|_| true).expect("forgotten");
        assert!(UpJournal::all(&data).is_empty());
    }
}
