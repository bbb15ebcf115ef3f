//! Imports the servers of other clients: makes a plan, moves secrets to an env file, leaves the original files
//! unchanged, and can be undone.

mod apply;
mod client_env_file;
mod extract_secrets;
mod gateway_addresses;
mod list_entries;
mod read_entry;
mod server_lists;

pub use apply::{AppliedImport, UndoneImport, undo};

use crate::bounded_file::unreadable;
use crate::clients::{ClientId, EntryPlace};
use crate::digest;
use crate::entry::ServerFile;
use crate::finding::Finding;
use crate::inputs::Sources;
use crate::load::load;
use crate::loaded_config::LoadedConfig;
use crate::parse::Syntax;
use crate::schema::known_keys;
use crate::sealed_values::ValueSealer;
use crate::texts::SourceTexts;
use extract_secrets::SecretExtractor;
use gateway_addresses::GatewayAddresses;
use list_entries::{ClientSource, read_client_file};
use read_entry::FoundServer;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_core::names::ServerName;

/// The source of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportFrom {
    /// The configuration files of a client.
    Client(ClientId),
    /// One file, in any dialect.
    File(PathBuf),
}

impl std::str::FromStr for ImportFrom {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(ClientId::named(text).map_or_else(|| Self::File(PathBuf::from(text)), Self::Client))
    }
}

/// The plan of an import.
#[derive(Clone, Serialize)]
pub struct ImportPlan {
    /// The files that were read; they are not changed.
    pub read: Vec<PathBuf>,
    /// The file that servers are written to.
    pub target: PathBuf,
    /// The file that secrets are written to, sealed.
    pub env_file: PathBuf,
    /// The servers to write.
    pub servers: Vec<PlannedServer>,
    /// Servers that are not imported, with the reasons.
    pub skipped: Vec<Skipped>,
    /// The entries of the files that the gateway has after the import.
    #[serde(skip)]
    pub covered: Vec<EntryPlace>,
    #[serde(skip)]
    variables: BTreeMap<String, String>,
    #[serde(skip)]
    sealer: Option<Arc<dyn ValueSealer>>,
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
    /// The place of its entry in the file.
    #[serde(skip)]
    pub place: EntryPlace,
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
    /// The file that contains it.
    pub from: PathBuf,
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
        client: ClientId,
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
    /// A secret could not be sealed.
    #[error("the secrets could not be sealed: {0}")]
    NotSealed(Problem),
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
            Self::NotSealed(problem) => problem.code,
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
            Self::NotSealed(problem) => problem.hint.clone(),
            Self::NoHome | Self::Write { .. } | Self::NothingToUndo => None,
        }
    }
}

/// A client's file that cannot be imported.
#[derive(Debug)]
pub struct UnreadableClientFile {
    /// The client.
    pub client: ClientId,
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub finding: Box<Finding>,
}

/// Reads the files of other clients and plans the import. Changes nothing.
pub fn plan(sources: &Sources, from: &ImportFrom) -> Result<ImportPlan, ImportError> {
    let (client, looked) = match from {
        ImportFrom::Client(client) => (Some(*client), client.files(sources)),
        ImportFrom::File(path) => {
            let path = sources.absolute(path);
            (ClientId::of_file_here(&path, sources), vec![path])
        }
    };
    let mut input = ImportInput::default();
    for path in &looked {
        let is_read = input.add_file(sources, client, path).map_err(ImportError::Unreadable)?;
        if !is_read && matches!(from, ImportFrom::File(_)) {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(ImportError::Unreadable(Box::new(unreadable(path, &missing, "the file"))));
        }
    }
    match from {
        ImportFrom::Client(client) if input.read.is_empty() => {
            Err(ImportError::NothingFound { client: *client, looked })
        }
        _ => settle(sources, input),
    }
}

/// Plans the import of the users' files of several clients. A file that cannot be read is left out.
pub fn plan_clients(
    sources: &Sources,
    clients: &[ClientId],
) -> Result<(ImportPlan, Vec<UnreadableClientFile>), ImportError> {
    let mut input = ImportInput::default();
    let mut unreadable = Vec::new();
    let mut known = BTreeSet::new();
    for client in clients {
        for path in client.user_files(sources).into_iter().chain(client.folder_files(sources)) {
            // One file may have two names.
            if !known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                continue;
            }
            if let Err(finding) = input.add_file(sources, Some(*client), &path) {
                unreadable.push(UnreadableClientFile { client: *client, path, finding });
            }
        }
    }
    Ok((settle(sources, input)?, unreadable))
}

/// The files that were read, the servers found in them, and the servers skipped.
#[derive(Default)]
struct ImportInput {
    read: Vec<PathBuf>,
    found: Vec<FoundServer>,
    skipped: Vec<Skipped>,
}

impl ImportInput {
    /// Reads a file; false if it does not exist.
    fn add_file(
        &mut self,
        sources: &Sources,
        client: Option<ClientId>,
        path: &std::path::Path,
    ) -> Result<bool, Box<Finding>> {
        let bytes = match read_client_file(path, client) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Box::new(unreadable(path, &error, "the file"))),
        };
        let mut texts = SourceTexts::default();
        let syntax = match client {
            Some(client) if !client.is_folder_file(path) => client.spec().syntax,
            _ => Syntax::of(path),
        };
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        // An empty file has no servers, in every syntax.
        if !bytes.trim_ascii().is_empty() {
            let node = crate::parse::parse_as(&mut texts, path, bytes, syntax)?;
            let source = ClientSource { sources, client, path, texts: &texts };
            read_entry::servers(&source, node, &mut self.found, &mut self.skipped);
        }
        self.read.push(path.to_owned());
        Ok(true)
    }
}

/// Settles names and secrets of the servers that were found.
fn settle(sources: &Sources, input: ImportInput) -> Result<ImportPlan, ImportError> {
    let user = sources.user_dir().ok_or(ImportError::NoHome)?;
    let ImportInput { read, found, mut skipped } = input;
    let mut extractor = SecretExtractor::new(sources);
    found.iter().for_each(|server| extractor.reserve(&server.entry));
    let loaded = load(sources).ok();
    let taken = loaded.as_ref().map(|loaded| existing(loaded, &read)).unwrap_or_default();
    let gateway = GatewayAddresses::of(sources, loaded.as_ref());
    let mut servers: Vec<PlannedServer> = Vec::new();
    let mut covered = Vec::new();
    for FoundServer { name, entry, from, section, notes, file_variables } in found {
        let place = EntryPlace { file: from.clone(), section, name: name.clone() };
        let entry = Json::Object(entry);
        let mut planned = PlannedServer { name, entry, from, place, moved: Vec::new(), notes };
        drop_unknown_keys(&mut planned);
        if gateway.is_meant_by(&planned.entry) {
            skipped.push(skip(planned, "is this gateway"));
            continue;
        }
        if planned.name.parse::<ServerName>().is_err() {
            let plain = plain_name(&planned.name);
            planned.notes.push(format!("named `{}` in the client's file", planned.name));
            planned.name = plain;
        }
        extractor.take_from(&mut planned, &file_variables);
        match settle_name(&planned, &taken, &servers) {
            Ok(name) => {
                if name != planned.name {
                    planned.notes.push(format!("another server is already named `{}`", planned.name));
                    planned.name = name;
                }
                covered.push(planned.place.clone());
                servers.push(planned);
            }
            Err(NotSettled::Configured) => {
                covered.push(planned.place.clone());
                skipped.push(skip(planned, "is already configured"));
            }
            Err(NotSettled::Planned) => {
                covered.push(planned.place.clone());
                skipped.push(skip(planned, "is the same server as above"));
            }
            Err(NotSettled::NoFreeName) => skipped.push(skip(planned, "no free name")),
        }
    }
    Ok(ImportPlan {
        read,
        target: user.join(crate::layers::IMPORTED),
        env_file: user.join(apply::ENV_FILE),
        servers,
        skipped,
        covered,
        variables: extractor.variables,
        sealer: sources.sealer.clone(),
    })
}

fn skip(planned: PlannedServer, reason: &str) -> Skipped {
    Skipped { name: planned.name, reason: reason.to_owned(), from: planned.from }
}

/// Why a server gets no name of its own.
enum NotSettled {
    /// The same server is configured.
    Configured,
    /// The same server is in the plan, from another client.
    Planned,
    /// All names are taken.
    NoFreeName,
}

/// Digests of the configured entries, by server name. An entry of a project file that is imported now keeps its name.
fn existing(loaded: &LoadedConfig, read: &[PathBuf]) -> BTreeMap<String, String> {
    let is_imported = |name: &ServerName| {
        let server = loaded.server(name.as_str());
        server.is_some_and(|server| server.trust_file.as_ref().is_some_and(|file| read.contains(file)))
    };
    let others = loaded.history.iter().filter(|(name, _)| !is_imported(name));
    others.map(|(name, entry)| (name.to_string(), meaning_of(&entry.node.shown()))).collect()
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

/// A digest of an entry without the fields that say the same as their absence: clients write them differently.
fn meaning_of(entry: &Json) -> String {
    let mut entry = entry.clone();
    if let Json::Object(fields) = &mut entry {
        let is_local = fields.contains_key("command");
        fields.retain(|key, value| {
            let is_implied = match key.as_str() {
                "type" | "transport" if is_local => true,
                "type" | "transport" => *value != "sse" && *value != "ws",
                "args" => value.as_array().is_some_and(Vec::is_empty),
                "env" | "headers" => value.as_object().is_some_and(Map::is_empty),
                "enabled" => *value == true,
                "disabled" => *value == false,
                _ => false,
            };
            !is_implied
        });
    }
    digest::of(&entry)
}

/// A free name for the server, or the reason to skip it.
fn settle_name(
    planned: &PlannedServer,
    taken: &BTreeMap<String, String>,
    servers: &[PlannedServer],
) -> Result<String, NotSettled> {
    let digest = meaning_of(&planned.entry);
    let mut candidates = std::iter::once(planned.name.clone()).chain(
        (2..100).map(|number| format!("{}-{number}", planned.name.chars().take(61).collect::<String>())),
    );
    candidates
        .find_map(|name| {
            if let Some(configured) = taken.get(&name) {
                return (*configured == digest).then_some(Err(NotSettled::Configured));
            }
            match servers.iter().find(|server| server.name == name) {
                None => Some(Ok(name)),
                Some(other) if meaning_of(&other.entry) == digest => Some(Err(NotSettled::Planned)),
                Some(_) => None,
            }
        })
        .unwrap_or(Err(NotSettled::NoFreeName))
}

impl fmt::Display for ImportPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.read {
            writeln!(f, "read {}", path.display())?;
        }
        for server in &self.servers {
            let PlannedServer { name, moved, notes, .. } = server;
            writeln!(f, "+ {name}: {}", server.command_line())?;
            for MovedSecret { field, variable } in moved {
                writeln!(f, "    `{field}` moves to ${{{variable}}}")?;
            }
            for note in notes {
                writeln!(f, "    note: {note}")?;
            }
        }
        for Skipped { name, reason, from: _ } in &self.skipped {
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

impl PlannedServer {
    /// The whole command with its folder, or the URL. Secrets have moved to variables.
    pub fn command_line(&self) -> String {
        let text = |key: &str| self.entry.get(key).and_then(Json::as_str);
        let words = |key: &str| -> Vec<String> {
            match self.entry.get(key) {
                Some(Json::Array(words)) => words.iter().filter_map(Json::as_str).map(quoted).collect(),
                Some(Json::String(word)) => vec![quoted(word)],
                _ => Vec::new(),
            }
        };
        let line = [words("command"), words("args")].concat().join(" ");
        match (text("cwd"), text("url")) {
            (_, Some(url)) if line.is_empty() => url.to_owned(),
            (Some(cwd), _) => format!("{line} (in {cwd})"),
            (None, _) => line,
        }
    }
}

/// A word as a shell would need it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,~${}".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("{word:?}") }
}

impl ImportPlan {
    /// The server entries to write, by name.
    pub fn entries(&self) -> Map<String, Json> {
        self.servers.iter().map(|server| (server.name.clone(), server.entry.clone())).collect()
    }
}
