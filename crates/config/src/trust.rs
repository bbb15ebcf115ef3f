//! Trust: which entries of project files a person has agreed to, bound to what they said at the time.

use crate::digest;
use crate::fields::HIDDEN;
use crate::lookup::masked;
use crate::node::{Node, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of the file in the data directory.
const FILE: &str = "trust.json";
/// The name under which the settings of a project file are trusted; no server can be called this.
pub(crate) const SETTINGS: &str = "(settings)";
/// Under what name it is kept where a link in `cwd` leads.
const LINKED_CWD: &str = "cwd leads to";
/// The largest book that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The fields of an entry that decide what runs, where data goes, and which secrets go with it.
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

/// What a person is asked to trust: the fields that matter, secrets hidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Field and text, such as `command` and `npx`.
    pub fields: BTreeMap<String, String>,
    /// The digest that trust is bound to.
    pub digest: String,
}

/// One difference between what was trusted and what stands there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The field.
    pub field: String,
    /// What was trusted; absent if it is new.
    pub before: Option<String>,
    /// What stands there now; absent if it is gone.
    pub after: Option<String>,
}

/// What is kept about one trusted entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    digest: String,
    fields: BTreeMap<String, String>,
}

/// The digests of trusted project entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustBook {
    #[serde(default)]
    files: BTreeMap<PathBuf, BTreeMap<String, Record>>,
    /// Trusts whatever it is asked about; never written down.
    #[serde(skip)]
    everything: bool,
}

/// The book could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file could not be read or written.
    #[error("the file of trusted entries, `{}`, could not be used: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not what was written.
    #[error("the file of trusted entries, `{}`, is damaged", path.display())]
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
    /// Reads the book of a data directory; none yet is an empty one.
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

    /// The same book, but everything counts as trusted while it is in use (`serve --trust`).
    #[must_use]
    pub fn trusting_everything(mut self) -> Self {
        self.everything = true;
        self
    }

    /// The same book, trusting everything if `other` does.
    pub(crate) fn with_generosity_of(self, other: &Self) -> Self {
        Self { everything: other.everything, ..self }
    }

    /// Every trusted entry, by file and name, with the digest that trust is bound to.
    pub fn entries(&self) -> BTreeMap<String, String> {
        let of_file = |(file, records): (&PathBuf, &BTreeMap<String, Record>)| {
            let file = file.display().to_string();
            let entry =
                |(name, record): (&String, &Record)| (format!("{file}#{name}"), record.digest.clone());
            records.iter().map(entry).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of_file).collect()
    }

    /// Whether this entry, as it stands, has been trusted.
    pub fn is_trusted(&self, file: &Path, name: &str, digest: &str) -> bool {
        self.everything || self.record(file, name).is_some_and(|record| record.digest == digest)
    }

    /// Whether an entry was ever trusted, whatever it said then.
    pub(crate) fn knows(&self, file: &Path, name: &str) -> bool {
        self.record(file, name).is_some()
    }

    /// Trusts an entry as it stands.
    pub fn trust(&mut self, file: &Path, name: &str, preview: &Preview) {
        let record = Record { digest: preview.digest.clone(), fields: preview.fields.clone() };
        self.files.entry(canonical(file)).or_default().insert(name.to_owned(), record);
    }

    /// Forgets what was trusted of a file; true if there was anything.
    pub fn forget(&mut self, file: &Path) -> bool {
        self.files.remove(&canonical(file)).is_some()
    }

    /// How an entry differs from what was trusted; nothing if it never was.
    pub fn changes(&self, file: &Path, name: &str, now: &Preview) -> Option<Vec<Change>> {
        let record = self.record(file, name)?;
        let keys: std::collections::BTreeSet<&String> =
            record.fields.keys().chain(now.fields.keys()).collect();
        let mut changes: Vec<Change> = keys
            .into_iter()
            .map(|key| (key, record.fields.get(key), now.fields.get(key)))
            .filter(|(_, before, after)| before != after)
            .map(|(key, before, after)| Change {
                field: key.clone(),
                before: before.cloned(),
                after: after.cloned(),
            })
            .collect();
        if changes.is_empty() && record.digest != now.digest {
            // Only something hidden changed; that it did must still be said.
            let hidden = Some(HIDDEN.to_owned());
            changes.push(Change { field: "a hidden value".into(), before: hidden.clone(), after: hidden });
        }
        Some(changes)
    }

    /// Writes the book, readable for its owner only, whole or not at all.
    pub fn save(&self, data_dir: &Path) -> Result<(), TrustError> {
        let path = data_dir.join(FILE);
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(data_dir)?;
            // A temporary file is made with mode 600.
            let mut file = tempfile::NamedTempFile::new_in(data_dir)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| TrustError::Io { path: path.clone(), error })
    }

    fn record(&self, file: &Path, name: &str) -> Option<&Record> {
        self.files.get(&canonical(file))?.get(name)
    }
}

/// Two names of one file are one file.
fn canonical(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_owned())
}

/// What a person is asked about a server entry, and where its `cwd` leads if that is a link. Nothing is expanded.
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

/// What a person is asked about the settings of a file.
pub(crate) fn preview_settings(node: &Node) -> Preview {
    let mut fields = BTreeMap::new();
    for (key, node) in node.members().unwrap_or_default() {
        flatten(&mut fields, &key.text, &key.text, node);
    }
    Preview { fields, digest: digest::of(&node.shown()) }
}

/// One line per value, keys joined by dots; lists of texts are one line.
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
