//! Import of other clients' servers: a plan first, secrets moved out, originals untouched, and a way back.

mod apply;
mod clients;
mod rescue;

pub use apply::{Applied, Undone, undo};
pub use clients::Client;

use crate::digest;
use crate::entry::ServerFile;
use crate::finding::Finding;
use crate::inputs::Sources;
use crate::load::{Loaded, load, unreadable};
use crate::schema::known_keys;
use crate::texts::Texts;
use clients::Found;
use rescue::Rescue;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::names::ServerName;

/// What is imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportFrom {
    /// The usual files of a client.
    Client(Client),
    /// One file, in any dialect.
    File(PathBuf),
}

impl std::str::FromStr for ImportFrom {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Client::named(text).map_or_else(|| Self::File(PathBuf::from(text)), Self::Client))
    }
}

/// What an import would do.
#[derive(Clone, Serialize)]
pub struct Plan {
    /// The files that were read; they are not changed.
    pub read: Vec<PathBuf>,
    /// The file that servers are written to.
    pub target: PathBuf,
    /// The file that secrets are written to.
    pub env_file: PathBuf,
    /// The servers, by name.
    pub servers: Vec<PlannedServer>,
    /// What is not taken over, and why.
    pub skipped: Vec<Skipped>,
    #[serde(skip)]
    variables: BTreeMap<String, String>,
}

/// A server that would be written.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedServer {
    /// Its name.
    pub name: String,
    /// Its entry, secrets as `${NAME}`.
    pub entry: Json,
    /// Where it was found.
    pub from: PathBuf,
    /// Secrets that move to the file of variables.
    pub moved: Vec<MovedSecret>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// A secret that moves to the file of variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovedSecret {
    /// The field it stood in.
    pub field: String,
    /// The variable that holds it now.
    pub variable: String,
}

/// Something that is not taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The variables are the secrets.
        f.debug_struct("Plan")
            .field("target", &self.target)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

/// An import that could not be planned, done or undone.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No file of the client is there.
    #[error("{client} has no configuration file here")]
    NothingFound {
        /// The client.
        client: Client,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// A file could not be read.
    #[error("{0}")]
    Unreadable(Box<Finding>),
    /// There is no folder for the user's configuration.
    #[error("there is no home folder to import into")]
    NoHome,
    /// A file could not be written.
    #[error("`{}` could not be written: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// There is nothing to undo.
    #[error("no import is there to undo")]
    NothingToUndo,
    /// The file was changed since it was written.
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
                Some(format!("looked for {}; name another file instead", places.join(", ")))
            }
            Self::Unreadable(finding) => finding.hint.clone(),
            Self::ChangedSince { .. } => Some("remove by hand what you do not want".into()),
            Self::NoHome | Self::Write { .. } | Self::NothingToUndo => None,
        }
    }
}

/// Reads other clients' files and says what would be written. Nothing is changed.
pub fn plan(sources: &Sources, from: &ImportFrom) -> Result<Plan, ImportError> {
    let user = sources.user_dir().ok_or(ImportError::NoHome)?;
    let (read, found, mut skipped) = gather(sources, from)?;
    let mut rescue = Rescue::new(&user.join(apply::ENV_FILE));
    let loaded = load(sources).ok();
    let taken = loaded.as_ref().map(existing).unwrap_or_default();
    let door = loaded.as_ref().map(|loaded| loaded.settings.listen.0.to_string());
    let mut servers: Vec<PlannedServer> = Vec::new();
    for Found { name, entry, from, notes } in found {
        let mut planned = PlannedServer { name, entry: Json::Object(entry), from, moved: Vec::new(), notes };
        drop_strangers(&mut planned);
        if is_ourselves(&planned.entry, door.as_deref()) {
            skipped.push(Skipped { name: planned.name, reason: "is this gateway".to_owned() });
            continue;
        }
        if planned.name.parse::<ServerName>().is_err() {
            let plain = plain_name(&planned.name);
            planned.notes.push(format!("called `{}` there", planned.name));
            planned.name = plain;
        }
        rescue.take_from(&mut planned);
        match settle_name(&planned, &taken, &servers) {
            Ok(name) if name == planned.name => servers.push(planned),
            Ok(name) => {
                planned.notes.push(format!("`{}` is another server already", planned.name));
                planned.name = name;
                servers.push(planned);
            }
            Err(reason) => skipped.push(Skipped { name: planned.name, reason }),
        }
    }
    Ok(Plan {
        read,
        target: user.join(crate::layers::IMPORTED),
        env_file: user.join(apply::ENV_FILE),
        servers,
        skipped,
        variables: rescue.variables,
    })
}

type Gathered = (Vec<PathBuf>, Vec<Found>, Vec<Skipped>);

fn gather(sources: &Sources, from: &ImportFrom) -> Result<Gathered, ImportError> {
    let looked = match from {
        ImportFrom::Client(client) => client.files(sources),
        ImportFrom::File(path) => vec![sources.absolute(path)],
    };
    let mut texts = Texts::default();
    let mut gathered: Gathered = (Vec::new(), Vec::new(), Vec::new());
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
            ImportFrom::File(path) => Client::of_file(path),
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

/// Digests of the entries that are configured already, by name.
fn existing(loaded: &Loaded) -> BTreeMap<String, String> {
    loaded.history.iter().map(|(name, said)| (name.to_string(), digest::of(&said.node.shown()))).collect()
}

/// Whether an entry leads a client to this gateway, as `toolbooth connect` writes it. Made a server, it would offer its
/// own tools to itself.
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

/// Keys that only the other client understands are left behind, and said.
fn drop_strangers(planned: &mut PlannedServer) {
    let known = known_keys::<ServerFile>();
    let Json::Object(entry) = &mut planned.entry else { return };
    let strangers: Vec<String> = entry.keys().filter(|key| !known.contains(&key.as_str())).cloned().collect();
    for key in strangers {
        entry.shift_remove(&key);
        planned.notes.push(format!("`{key}` is not taken over"));
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

/// A free name, or why the server is not needed.
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
                Some(other) if other == digest => Some(Err("is there already".to_owned())),
                Some(_) => None,
            }
        })
        .unwrap_or_else(|| Err("no free name".to_owned()))
}

impl fmt::Display for Plan {
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

impl Plan {
    /// The servers as they would stand in the file.
    pub fn entries(&self) -> Map<String, Json> {
        self.servers.iter().map(|server| (server.name.clone(), server.entry.clone())).collect()
    }
}
