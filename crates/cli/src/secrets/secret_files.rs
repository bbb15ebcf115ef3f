//! The files with the user's secrets: `secrets.env`, which `toolbooth secrets set` writes, and `imported.env`.

use super::fault::SecretFault;
use crate::edited_file::{self, FolderLock};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use toolbooth_config::{EnvDocument, Sources, is_sealed};

/// The largest file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// The files with the user's secrets, in the order in which their values are looked up.
#[derive(Debug, Clone)]
pub struct SecretFiles {
    paths: Vec<PathBuf>,
}

/// One of the files.
pub struct SecretFile {
    /// Its path.
    pub path: PathBuf,
    /// Its variables.
    pub document: EnvDocument,
}

impl SecretFiles {
    /// The files of the user.
    pub fn of(sources: &Sources) -> Self {
        Self {
            paths: [sources.secrets_file(), sources.imported_secrets_file()].into_iter().flatten().collect(),
        }
    }

    /// Reads the files that exist.
    pub fn read(&self) -> Result<Vec<SecretFile>, SecretFault> {
        let mut files = Vec::new();
        for path in &self.paths {
            if let Some(document) = read(path)? {
                files.push(SecretFile { path: path.clone(), document });
            }
        }
        Ok(files)
    }

    /// Whether any value is sealed.
    pub fn have_sealed_values(&self) -> Result<bool, SecretFault> {
        let files = self.read()?;
        Ok(files.iter().any(|file| file.document.variables().any(|(_, value)| is_sealed(value))))
    }

    /// Stores the sealed value of a variable in `secrets.env`. Returns the path of the file.
    pub fn set(&self, name: &str, sealed: &str) -> Result<PathBuf, SecretFault> {
        let path = self.paths.first().ok_or_else(|| SecretFault::File {
            path: PathBuf::from("secrets.env"),
            why: "the home folder is unknown".into(),
        })?;
        // The lock needs the folder.
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)
            .map_err(|error| SecretFault::File { path: path.clone(), why: error.to_string() })?;
        change(path, |document| {
            document.set(name, sealed);
            true
        })?;
        Ok(path.clone())
    }

    /// Removes a variable from all files. Returns the paths of those that had it.
    pub fn remove(&self, name: &str) -> Result<Vec<PathBuf>, SecretFault> {
        let mut changed = Vec::new();
        for path in &self.paths {
            if change(path, |document| document.remove(name))? {
                changed.push(path.clone());
            }
        }
        Ok(changed)
    }
}

/// Changes a file under the lock of its folder, if `edit` changes its variables. Returns whether it did.
fn change(path: &Path, edit: impl FnOnce(&mut EnvDocument) -> bool) -> Result<bool, SecretFault> {
    let failed = |why: String| SecretFault::File { path: path.to_owned(), why };
    let folder = path.parent().unwrap_or(Path::new("."));
    let lock = FolderLock::take(folder);
    // Without the lock, a change that another command makes at the same time would be lost.
    if lock.is_refused() {
        return Err(SecretFault::FilesBusy { folder: folder.to_owned() });
    }
    let mut document = read(path)?.unwrap_or_default();
    if !edit(&mut document) {
        return Ok(false);
    }
    let text = document.text();
    if text.len() as u64 > MAX_BYTES {
        return Err(failed(format!("it would be larger than {} MiB", MAX_BYTES >> 20)));
    }
    // Dotfiles are often links into a repository; the link must stay intact.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&real).is_ok_and(|about| about.permissions().readonly()) {
        return Err(failed("it is read-only".into()));
    }
    edited_file::replace(&real, &text).map_err(|error| failed(error.to_string()))?;
    Ok(true)
}

/// Reads a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<EnvDocument>, SecretFault> {
    let failed = |why: String| SecretFault::File { path: path.to_owned(), why };
    // A named pipe would wait for a writer.
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error.to_string())),
        Err(_) if path.is_symlink() => {
            return Err(failed("it is a link to a file that does not exist".into()));
        }
        Err(_) => return Ok(None),
    };
    if !about.is_file() {
        return Err(failed("it is not a regular file".into()));
    }
    let file = fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    EnvDocument::parse(path, &bytes).map(Some).map_err(|finding| match finding.line {
        0 => failed(finding.message),
        line => failed(format!("line {line}: {}", finding.message)),
    })
}
