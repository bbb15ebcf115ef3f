//! Imports the servers of other clients: makes a plan, moves secrets to an env file, leaves the original files
//! unchanged, and can be undone.

mod apply;
mod clients;
mod extract_secrets;

pub use apply::{AppliedImport, UndoneImport, undo};
pub use clients::ImportClient;

use crate::bounded_file::unreadable;
use crate::digest;
use crate::entry::ServerFile;
use crate::finding::Finding;
use crate::inputs::Sources;
use crate::load::{LoadedConfig, load};
use crate::schema::known_keys;
use crate::texts::SourceTexts;
use clients::FoundServer;
use extract_secrets::SecretExtractor;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::names::ServerName;

/// The source of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportFrom {
    /// The configuration files of a client.
    Client(ImportClient),
    /// One file, in any dialect.
    File(PathBuf),
}

impl std::str::FromStr for ImportFrom {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(ImportClient::named(text).map_or_else(|| Self::File(PathBuf::from(text)), Self::Client))
    }
}

/// The plan of an import.
#[derive(Clone, Serialize)]
pub struct ImportPlan {
    /// The files that were read; they are not changed.
    pub read: Vec<PathBuf>,
    /// The file that servers are written to.
    pub target: PathBuf,
    /// The file that secrets are written to.
    pub env_file: PathBuf,
    /// The servers to write.
    pub servers: Vec<PlannedServer>,
    /// Servers that are not imported, with the reasons.
    pub skipped: Vec<Skipped>,
    #[serde(skip)]
    variables: BTreeMap<String, String>,
}

/// A server of an import plan.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedServer {
    /// The name of the server.
    pub name: String,
    /// The entry, with secrets as `${NAME}`.
    pub entry: Json,
    /// The file that contains the server.
    pub from: PathBuf,
    /// The secrets that move to the env file.
    pub moved: Vec<MovedSecret>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// A secret that moves to the env file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovedSecret {
    /// The field that contained it.
    pub field: String,
    /// The variable that holds it now.
    pub variable: String,
}

/// A server that is not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The name of the server.
    pub name: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Debug for ImportPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The variables contain the secrets.
        f.debug_struct("ImportPlan")
            .field("target", &self.target)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

/// An error of an import or of its undo.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The client has no configuration file.
    #[error("no configuration file of {client} was found")]
    NothingFound {
        /// The client.
        client: ImportClient,
        /// The paths that were checked.
        looked: Vec<PathBuf>,
    },
    /// A file could not be read.
    #[error("{0}")]
    Unreadable(Box<Finding>),
    /// The user has no home directory.
    #[error("there is no home folder to import into")]
    NoHome,
    /// A file could not be written.
    #[error("`{}` could not be written: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// There is nothing to undo.
    #[error("there is no import to undo")]
    NothingToUndo,
    /// The file was changed after the import.
    #[error("`{}` was changed after the import", path.display())]
    ChangedSince {
        /// The file.
        path: PathBuf,
    },
}

impl Fault for ImportError {
    fn code(&self) -> &'static str {
        match self {
            Self::NothingFound { .. } => "import.nothing-found",
            Self::Unreadable(_) => "import.unreadable",
            Self::NoHome => "import.no-home",
            Self::Write { .. } => "import.write",
            Self::NothingToUndo => "import.nothing-to-undo",
            Self::ChangedSince { .. } => "import.changed-since",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NothingFound { looked, .. } => {
                let places: Vec<String> = looked.iter().map(|path| format!("`{}`", path.display())).collect();
                Some(format!("looked for {}; specify a file instead", places.join(", ")))
            }
            Self::Unreadable(finding) => finding.hint.clone(),
            Self::ChangedSince { .. } => Some("remove the unwanted entries by hand".into()),
            Self::NoHome | Self::Write { .. } | Self::NothingToUndo => None,
        }
    }
}

/// Reads the files of other clients and plans the import. Changes nothing.
pub fn plan(sources: &Sources, from: &ImportFrom) -> Result<ImportPlan, ImportError> {
    let user = sources.user_dir().ok_or(ImportError::NoHome)?;
    let (read, found, mut skipped) = gather(sources, from)?;
    let mut extractor = SecretExtractor::new(&user.join(apply::ENV_FILE));
    let loaded = load(sources).ok();
    let taken = loaded.as_ref().map(|loaded| existing(loaded, &read)).unwrap_or_default();
    let door = loaded.as_ref().map(|loaded| loaded.settings.listen.0.to_string());
    let mut servers: Vec<PlannedServer> = Vec::new();
    for FoundServer { name, entry, from, notes } in found {
        let mut planned = PlannedServer { name, entry: Json::Object(entry), from, moved: Vec::new(), notes };
        drop_unknown_keys(&mut planned);
        if is_ourselves(&planned.entry, door.as_deref()) {
            skipped.push(Skipped { name: planned.name, reason: "is this gateway".to_owned() });
            continue;
        }
        if planned.name.parse::<ServerName>().is_err() {
            let plain = plain_name(&planned.name);
            planned.notes.push(format!("named `{}` in the client's file", planned.name));
            planned.name = plain;
        }
        extractor.take_from(&mut planned);
        match settle_name(&planned, &taken, &servers) {
            Ok(name) if name == planned.name => servers.push(planned),
            Ok(name) => {
                planned.notes.push(format!("another server is already named `{}`", planned.name));
                planned.name = name;
                servers.push(planned);
            }
            Err(reason) => skipped.push(Skipped { name: planned.name, reason }),
        }
    }
    Ok(ImportPlan {
        read,
        target: user.join(crate::layers::IMPORTED),
        env_file: user.join(apply::ENV_FILE),
        servers,
        skipped,
        variables: extractor.variables,
    })
}

/// The files that were read, the servers found in them, and the servers skipped.
type ImportInput = (Vec<PathBuf>, Vec<FoundServer>, Vec<Skipped>);

fn gather(sources: &Sources, from: &ImportFrom) -> Result<ImportInput, ImportError> {
    let looked = match from {
        ImportFrom::Client(client) => client.files(sources),
        ImportFrom::File(path) => vec![sources.absolute(path)],
    };
    let mut texts = SourceTexts::default();
    let mut gathered: ImportInput = (Vec::new(), Vec::new(), Vec::new());
    for path in &looked {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && matches!(from, ImportFrom::Client(_)) =>
            {
                continue;
            }
            Err(error) => {
                return Err(ImportError::Unreadable(Box::new(unreadable(path, &error, "the file"))));
            }
        };
        let node = crate::parse::parse(&mut texts, path, &bytes).map_err(ImportError::Unreadable)?;
        let client = match from {
            ImportFrom::Client(client) => Some(*client),
            ImportFrom::File(path) => ImportClient::of_file(path),
        };
        clients::servers(sources, client, path, &texts, node, &mut gathered.1, &mut gathered.2);
        gathered.0.push(path.clone());
    }
    match from {
        ImportFrom::Client(client) if gathered.0.is_empty() => {
            Err(ImportError::NothingFound { client: *client, looked })
        }
        _ => Ok(gathered),
    }
}

/// Digests of the configured entries, by server name. An entry of a project file that is imported now keeps its name.
fn existing(loaded: &LoadedConfig, read: &[PathBuf]) -> BTreeMap<String, String> {
    let is_imported = |name: &ServerName| {
        let server = loaded.server(name.as_str());
        server.is_some_and(|server| server.trust_file.as_ref().is_some_and(|file| read.contains(file)))
    };
    let others = loaded.history.iter().filter(|(name, _)| !is_imported(name));
    others.map(|(name, entry)| (name.to_string(), digest::of(&entry.node.shown()))).collect()
}

/// Whether an entry connects a client to this gateway, as `toolbooth connect` writes it. As a server, the gateway would
/// offer its own tools to itself.
fn is_ourselves(entry: &Json, door: Option<&str>) -> bool {
    let text = |key: &str| entry.get(key).and_then(Json::as_str);
    let runs_us = text("command").is_some_and(|command| {
        std::path::Path::new(command).file_stem().is_some_and(|name| name == "toolbooth")
    });
    let arguments = entry.get("args").and_then(Json::as_array);
    let joins = arguments.is_some_and(|words| words.iter().any(|word| word == "stdio"));
    let authority = text("url").and_then(|url| url.split("://").nth(1)?.split('/').next());
    (runs_us && joins) || (authority.is_some() && authority == door)
}

/// Removes keys that only the other client knows, and adds a note for each.
fn drop_unknown_keys(planned: &mut PlannedServer) {
    let known = known_keys::<ServerFile>();
    let Json::Object(entry) = &mut planned.entry else { return };
    let unknown: Vec<String> = entry.keys().filter(|key| !known.contains(&key.as_str())).cloned().collect();
    for key in unknown {
        entry.shift_remove(&key);
        planned.notes.push(format!("`{key}` is not imported"));
    }
}

fn plain_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '-' })
        .take(64)
        .collect();
    let plain = plain.trim_matches('-').to_owned();
    if plain.is_empty() { "server".to_owned() } else { plain }
}

/// A free name for the server, or the reason to skip it.
fn settle_name(
    planned: &PlannedServer,
    taken: &BTreeMap<String, String>,
    servers: &[PlannedServer],
) -> Result<String, String> {
    let digest = digest::of(&planned.entry);
    let mut candidates = std::iter::once(planned.name.clone()).chain(
        (2..100).map(|number| format!("{}-{number}", planned.name.chars().take(61).collect::<String>())),
    );
    candidates
        .find_map(|name| {
            let configured = taken.get(&name).cloned();
            let planned =
                servers.iter().find(|server| server.name == name).map(|server| digest::of(&server.entry));
            match configured.or(planned) {
                None => Some(Ok(name)),
                Some(other) if other == digest => Some(Err("is already configured".to_owned())),
                Some(_) => None,
            }
        })
        .unwrap_or_else(|| Err("no free name".to_owned()))
}

impl fmt::Display for ImportPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.read {
            writeln!(f, "read {}", path.display())?;
        }
        for server in &self.servers {
            let PlannedServer { name, entry, moved, notes, from: _ } = server;
            let what = entry.get("command").or_else(|| entry.get("url")).unwrap_or(&Json::Null);
            writeln!(f, "+ {name}: {what}")?;
            for MovedSecret { field, variable } in moved {
                writeln!(f, "    `{field}` moves to ${{{variable}}}")?;
            }
            for note in notes {
                writeln!(f, "    note: {note}")?;
            }
        }
        for Skipped { name, reason } in &self.skipped {
            writeln!(f, "- {name}: {reason}")?;
        }
        if self.servers.is_empty() {
            return writeln!(f, "nothing to import");
        }
        writeln!(f, "would write {}", self.target.display())?;
        if !self.variables.is_empty() {
            writeln!(f, "would write {}", self.env_file.display())?;
        }
        Ok(())
    }
}

impl ImportPlan {
    /// The server entries to write, by name.
    pub fn entries(&self) -> Map<String, Json> {
        self.servers.iter().map(|server| (server.name.clone(), server.entry.clone())).collect()
    }
}
