//! The files in which a client keeps lists of allowed and disabled servers: changed with the connection, and restored with it.

use super::file::ClientFile;
use crate::failure::CommandFailure;
use serde_json::Value as Json;
use std::path::PathBuf;
use toolbooth_config::Sources;
use toolbooth_config::clients::{ClientId, admit_in_file, withdraw_from_file};

/// A file with lists, and its new text.
pub struct ListChange {
    file: ClientFile,
    before: String,
    after: String,
    /// The names of the lists that are changed.
    pub lists: Vec<String>,
}

impl ListChange {
    /// The changes after which the client uses the gateway. `words` is the gateway's entry as the client has it.
    pub fn admissions(
        client: ClientId,
        sources: &Sources,
        words: &Json,
    ) -> Result<Vec<Self>, CommandFailure> {
        let mut changes = Vec::new();
        for path in client.list_files(sources) {
            let file = ClientFile::at(client, path.clone(), sources);
            let Some(before) = file.read()? else { continue };
            let admitted =
                admit_in_file(client, &path, &before, words).map_err(|why| file.unreadable(&why))?;
            if let Some((after, lists)) = admitted {
                changes.push(Self { file, before, after, lists });
            }
        }
        Ok(changes)
    }

    /// The changes that take the gateway out of the lists again. If nothing else has changed, the backup is restored byte
    /// for byte.
    pub fn withdrawals(
        client: ClientId,
        sources: &Sources,
        words: Option<&Json>,
    ) -> Result<Vec<Self>, CommandFailure> {
        let mut changes = Vec::new();
        for path in client.list_files(sources) {
            let file = ClientFile::at(client, path.clone(), sources);
            let Some(before) = file.read()? else { continue };
            let kept = file.read_backup();
            let written = kept
                .as_deref()
                .zip(words)
                .and_then(|(kept, words)| Some(admit_in_file(client, &path, kept, words).ok()??.0));
            let after = match &kept {
                Some(kept) if written.as_ref() == Some(&before) => Some(kept.clone()),
                _ => withdraw_from_file(client, &path, &before, kept.as_deref())
                    .map_err(|why| file.unreadable(&why))?,
            };
            if let Some(after) = after {
                changes.push(Self { file, before, after, lists: Vec::new() });
            }
        }
        Ok(changes)
    }

    /// The path of the file.
    pub fn path(&self) -> &PathBuf {
        &self.file.path
    }

    /// Writes the file, with a backup of the content before the first change.
    pub fn admit(&self) -> Result<(), CommandFailure> {
        self.file.keep_backup(Some(&self.before))?;
        self.file.write(&self.after)
    }

    /// Writes the file, and removes its backup.
    pub fn withdraw(&self) -> Result<(), CommandFailure> {
        self.file.write(&self.after)?;
        self.file.drop_backup();
        Ok(())
    }
}
