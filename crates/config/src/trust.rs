//! Trust: the entries of project files that the user has approved, bound to a digest of their content.

use crate::digest;
use crate::lookup::masked;
use crate::node::{Node, Value};
use crate::secrets::HIDDEN;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of the file in the data directory.
const FILE: &str = "trust.json";
/// The name under which the settings of a project file are trusted; it is not a valid server name.
pub(crate) const SETTINGS: &str = "(settings)";
/// The field that stores the real path of a `cwd` with symbolic links.
const LINKED_CWD: &str = "cwd leads to";
/// The maximum size of the trust file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The fields of an entry that trust is bound to: they decide what runs, where data goes, and which secrets are sent.
const BOUND: [&str; 26] = [
    "command",
    "cmd",
    "args",
    "command_args",
    "cwd",
    "working_directory",
    "env",
    "url",
    "uri",
    "endpoint",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "transport",
    "type",
    "bundled",
    "auth",
    "auth_type",
    "auth_token",
    "auth_header",
    "oauth",
    "oauth_config",
    "forward_headers",
    "wormhole",
    "scopes",
];

/// The preview of an entry that the user is asked to trust: its relevant fields, with secrets masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Values by field, such as `command` and `npx`.
    pub fields: BTreeMap<String, String>,
    /// The digest that trust is bound to.
    pub digest: String,
}

/// A difference between the trusted and the current version of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrustChange {
    /// The field.
    pub field: String,
    /// The trusted value; absent if the field is new.
    pub before: Option<String>,
    /// The current value; absent if the field was removed.
    pub after: Option<String>,
}

/// The stored record of a trusted entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrustRecord {
    digest: String,
    fields: BTreeMap<String, String>,
}

/// The trusted entries of project files, with their digests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustBook {
    #[serde(default)]
    files: BTreeMap<PathBuf, BTreeMap<String, TrustRecord>>,
    /// Whether every entry counts as trusted; never saved.
    #[serde(skip)]
    everything: bool,
}

/// An error of the trust file.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file could not be read or written.
    #[error("the trust file `{}` could not be read or written: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The file is not valid.
    #[error("the trust file `{}` is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl toolbooth_core::fault::Fault for TrustError {
    fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "trust.file",
            Self::Damaged { .. } => "trust.damaged",
        }
    }

    fn blame(&self) -> toolbooth_core::fault::Blame {
        toolbooth_core::fault::Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::Damaged { .. } => Some("remove it and run `toolbooth trust` again".into()),
        }
    }
}

impl TrustBook {
    /// Reads the trust file of a data directory; a missing file counts as empty.
    pub fn load(data_dir: &Path) -> Result<Self, TrustError> {
        let path = data_dir.join(FILE);
        let io = |error| TrustError::Io { path: path.clone(), error };
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(io(error)),
            Ok(about) if about.len() > MAX_BYTES => return Err(TrustError::Damaged { path }),
            Ok(_) => {}
        }
        let bytes = std::fs::read(&path).map_err(io)?;
        serde_json::from_slice(&bytes).map_err(|_| TrustError::Damaged { path })
    }

    /// The same book, with every entry counted as trusted (`serve --trust`).
    #[must_use]
    pub fn trusting_everything(mut self) -> Self {
        self.everything = true;
        self
    }

    /// The same book, with every entry counted as trusted if `other` does so.
    pub(crate) fn with_mode_of(self, other: &Self) -> Self {
        Self { everything: other.everything, ..self }
    }

    /// All trusted entries, by file and name, with their digests.
    pub fn entries(&self) -> BTreeMap<String, String> {
        let of_file = |(file, records): (&PathBuf, &BTreeMap<String, TrustRecord>)| {
            let file = file.display().to_string();
            let entry =
                |(name, record): (&String, &TrustRecord)| (format!("{file}#{name}"), record.digest.clone());
            records.iter().map(entry).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of_file).collect()
    }

    /// Whether this version of an entry is trusted.
    pub fn is_trusted(&self, file: &Path, name: &str, digest: &str) -> bool {
        self.everything || self.record(file, name).is_some_and(|record| record.digest == digest)
    }

    /// Whether any version of an entry is trusted.
    pub(crate) fn knows(&self, file: &Path, name: &str) -> bool {
        self.record(file, name).is_some()
    }

    /// Trusts the current version of an entry.
    pub fn trust(&mut self, file: &Path, name: &str, preview: &Preview) {
        let record = TrustRecord { digest: preview.digest.clone(), fields: preview.fields.clone() };
        self.files.entry(canonical(file)).or_default().insert(name.to_owned(), record);
    }

    /// Trusts the current version of the settings of a file.
    pub fn trust_settings(&mut self, file: &Path, preview: &Preview) {
        self.trust(file, SETTINGS, preview);
    }

    /// Removes the trust in all entries of a file; returns whether there were any.
    pub fn forget(&mut self, file: &Path) -> bool {
        self.files.remove(&canonical(file)).is_some()
    }

    /// The differences between an entry and its trusted version; `None` if it was never trusted.
    pub fn changes(&self, file: &Path, name: &str, now: &Preview) -> Option<Vec<TrustChange>> {
        let record = self.record(file, name)?;
        let keys: std::collections::BTreeSet<&String> =
            record.fields.keys().chain(now.fields.keys()).collect();
        let mut changes: Vec<TrustChange> = keys
            .into_iter()
            .map(|key| (key, record.fields.get(key), now.fields.get(key)))
            .filter(|(_, before, after)| before != after)
            .map(|(key, before, after)| TrustChange {
                field: key.clone(),
                before: before.cloned(),
                after: after.cloned(),
            })
            .collect();
        if changes.is_empty() && record.digest != now.digest {
            // Only a masked value changed, which must still be reported.
            let hidden = Some(HIDDEN.to_owned());
            changes.push(TrustChange {
                field: "a hidden value".into(),
                before: hidden.clone(),
                after: hidden,
            });
        }
        Some(changes)
    }

    /// Writes the trust file atomically, readable only by its owner.
    pub fn save(&self, data_dir: &Path) -> Result<(), TrustError> {
        let path = data_dir.join(FILE);
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(data_dir)?;
            // Temporary files are created with mode 600.
            let mut file = tempfile::NamedTempFile::new_in(data_dir)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| TrustError::Io { path: path.clone(), error })
    }

    fn record(&self, file: &Path, name: &str) -> Option<&TrustRecord> {
        self.files.get(&canonical(file))?.get(name)
    }
}

/// The canonical path, so that two paths of one file are equal.
fn canonical(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_owned())
}

/// The preview of a server entry, with the real path of `cwd` if it contains a link. Variables are not expanded.
pub(crate) fn preview_entry(node: &Node, linked_cwd: Option<&Path>) -> Preview {
    let members = node.members().unwrap_or_default();
    let bound: Vec<_> = members.iter().filter(|(key, _)| BOUND.contains(&key.text.as_str())).collect();
    let mut json: serde_json::Map<String, serde_json::Value> =
        bound.iter().map(|(key, node)| (key.text.clone(), node.shown())).collect();
    let mut fields = BTreeMap::new();
    for (key, node) in bound {
        flatten(&mut fields, &key.text, &key.text, node);
    }
    if let Some(path) = linked_cwd {
        let path = path.to_string_lossy().into_owned();
        json.insert(LINKED_CWD.into(), path.clone().into());
        fields.insert(LINKED_CWD.into(), path);
    }
    Preview { fields, digest: digest::of(&serde_json::Value::Object(json)) }
}

/// The preview of the settings of a file.
pub(crate) fn preview_settings(node: &Node) -> Preview {
    let mut fields = BTreeMap::new();
    for (key, node) in node.members().unwrap_or_default() {
        flatten(&mut fields, &key.text, &key.text, node);
    }
    Preview { fields, digest: digest::of(&node.shown()) }
}

/// Adds one field per value, with dotted keys; a list is one field.
fn flatten(fields: &mut BTreeMap<String, String>, path: &str, last: &str, node: &Node) {
    if let Value::Map(members) = &node.value {
        for (key, member) in members {
            flatten(fields, &format!("{path}.{}", key.text), &key.text, member);
        }
        return;
    }
    let text = match masked(last, node) {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    fields.insert(path.to_owned(), text);
}
