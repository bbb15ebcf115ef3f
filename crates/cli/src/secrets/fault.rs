//! Faults of stored secrets and of the key that seals them.

use super::key_place::KeyPlace;
use crate::render;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};

/// A fault of a stored secret, or of the key that seals it. Values are never part of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SecretFault {
    /// Values are sealed, but their key does not exist.
    #[error("there is no key for sealed values in {}", render::path(folder))]
    NoKey {
        /// The folder of the key.
        folder: PathBuf,
    },
    /// The key is not in its place.
    #[error("the key for sealed values is no longer in {}", shown(*place))]
    KeyLost {
        /// The place where it should be.
        place: KeyPlace,
        /// The file that names the place.
        record: PathBuf,
    },
    /// The place has another key than the one that was stored.
    #[error("{} has another key than the one that sealed the values", shown(*place))]
    OtherKey {
        /// The place.
        place: KeyPlace,
        /// The file that names the key.
        record: PathBuf,
    },
    /// The record of the key cannot be used.
    #[error("{} cannot be used: {why}", render::path(path))]
    KeyRecord {
        /// The record.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The key file cannot be used.
    #[error("{} cannot be used: {why}", render::path(path))]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The keyring cannot be used.
    #[error("the keyring cannot be used: {why}")]
    Keyring {
        /// The reason.
        why: String,
    },
    /// A sealed value cannot be opened with the key.
    #[error("it was sealed with another key or for another name, or was changed")]
    Unopened {
        /// The name of the variable.
        name: String,
    },
    /// A sealed value has the notation of a later version.
    #[error("it was sealed by a later version of this program")]
    LaterVersion,
    /// A secret with this name is not stored.
    #[error("the secret `{name}` is not stored")]
    Unknown {
        /// The name.
        name: String,
        /// The name of a stored secret that is similar.
        similar: Option<String>,
    },
    /// The value cannot be stored.
    #[error("the value cannot be stored: {why}")]
    BadValue {
        /// The reason.
        why: &'static str,
    },
    /// A file with secrets cannot be read or written.
    #[error("{} cannot be used: {why}", render::path(path))]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Another program has locked the folder of the files with secrets.
    #[error("another program is changing the files in {}", render::path(folder))]
    FilesBusy {
        /// The folder.
        folder: PathBuf,
    },
    /// Another command is storing or moving the key.
    #[error("another command is using the key for sealed values")]
    Busy,
    /// The system has no random numbers.
    #[error("the system provides no random numbers for sealing")]
    NoRandomness,
}

fn shown(place: KeyPlace) -> &'static str {
    match place {
        KeyPlace::Keyring => "the keyring",
        KeyPlace::File => "its file",
    }
}

impl Fault for SecretFault {
    fn code(&self) -> &'static str {
        match self {
            Self::NoKey { .. } => "secret.no-key",
            Self::KeyLost { .. } => "secret.key-lost",
            Self::OtherKey { .. } => "secret.other-key",
            Self::KeyFile { .. } | Self::KeyRecord { .. } => "secret.key-file",
            Self::Keyring { .. } => "secret.keyring",
            Self::Unopened { .. } | Self::LaterVersion => "secret.unopened",
            Self::Unknown { .. } => "secret.unknown",
            Self::BadValue { .. } => "secret.bad-value",
            Self::File { .. } => "secret.file",
            Self::Busy | Self::FilesBusy { .. } => "secret.busy",
            Self::NoRandomness => "secret.no-randomness",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Unknown { .. } | Self::BadValue { .. } => Blame::Caller,
            _ => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoKey { .. } => {
                "if the files are from another machine, bring its key as well; else remove the sealed values with \
                 `toolbooth secrets remove NAME`, and store them again"
                    .into()
            }
            Self::KeyLost { record, .. } => format!(
                "restore the key from a backup; without it the values are lost: remove each with \
                 `toolbooth secrets remove NAME`, delete {}, and store them again",
                render::path(record)
            ),
            Self::OtherKey { record, .. } => format!(
                "restore the right key from a backup; without it the values are lost: remove each with \
                 `toolbooth secrets remove NAME`, delete {}, and store them again",
                render::path(record)
            ),
            Self::KeyFile { path, .. } => format!(
                "it must be a file of your own that only you can read (`chmod 600 {}`); if it is damaged, restore it from a \
                 backup; then `toolbooth reload`",
                render::shell_path(path)
            ),
            Self::KeyRecord { .. } => {
                "if the key is in its file, delete the record: the key is then used from there; else restore the record from \
                 a backup"
                    .into()
            }
            Self::Keyring { .. } => {
                "unlock it or log in to the desktop, and run `toolbooth reload`; `toolbooth secrets move --to file`, run where \
                 the keyring works, moves the key to a file"
                    .into()
            }
            Self::LaterVersion => "use the version of this program that sealed it, or a later one".into(),
            Self::Unopened { name } => {
                format!("store it again with `toolbooth secrets set {name}`, or in the file that has it")
            }
            Self::Unknown { similar: Some(similar), .. } => format!("did you mean `{similar}`?"),
            Self::Unknown { .. } => "`toolbooth secrets` lists them".into(),
            Self::BadValue { .. } => return None,
            Self::File { .. } => "correct the file, or change it by hand".into(),
            Self::FilesBusy { .. } | Self::Busy | Self::NoRandomness => "try again later".into(),
        })
    }
}
