//! Loading: files to settings and servers, with every problem found on the way.

use crate::dialect::{self, FileKind, Split};
use crate::environment::{self, Argument};
use crate::expand::Variables;
use crate::finding::Finding;
use crate::inputs::Sources;
use crate::layer::Layer;
use crate::layers::{self, Planned, Presence};
use crate::manifest::{self, Gathering, GoodManifests, Manifests};
use crate::node::{Node, Value};
use crate::ownership;
use crate::parse;
use crate::servers::{self, ConfiguredServer, History};
use crate::settings::Settings;
use crate::texts::Texts;
use crate::trust::{Preview, TrustBook, TrustError};
use crate::{checks, resolve, schema};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use toolbooth_core::manifest::Manifest;
use toolbooth_core::names::ServerName;

/// A configuration, loaded.
#[derive(Clone)]
pub struct Loaded {
    /// Every setting.
    pub settings: Settings,
    /// Every server that any file names, by name.
    pub servers: Vec<ConfiguredServer>,
    /// Warnings, and errors that set something aside.
    pub findings: Vec<Finding>,
    /// Every file that was read or looked for, for watching.
    pub files: Vec<PathBuf>,
    /// The variables that entries and manifests may refer to.
    pub variables: Variables,
    /// Project files whose settings wait for trust.
    pub untrusted: Vec<UntrustedSettings>,
    /// Every entry of a tool manifest that can be used.
    pub manifests: Vec<Manifest>,
    /// What each manifest held; handed to the next load, it stays where an edit breaks a file.
    pub good_manifests: GoodManifests,
    /// Manifests that cannot be read any more, of which the last good content counts.
    pub kept_manifests: Vec<PathBuf>,
    /// Where the book of trust is kept: the data directory that no project file had a say in.
    pub trust_dir: PathBuf,
    pub(crate) texts: Texts,
    pub(crate) documents: Vec<Document>,
    pub(crate) merged: Node,
    pub(crate) history: BTreeMap<ServerName, History>,
}

/// Settings without which a running gateway would be more open than before.
const PROTECTIONS: [&str; 10] = [
    "auth",
    "policy",
    "groups",
    "personas",
    "approval",
    "compliance",
    "allow_tools",
    "deny_tools",
    "allowed_hosts",
    "allowed_origins",
];

/// A project file whose settings wait for trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedSettings {
    /// The file.
    pub file: PathBuf,
    /// What is asked.
    pub preview: Preview,
    /// The keys that are set aside until then.
    pub keys: Vec<String>,
}

/// Nothing can go on: the findings say why, and at least one is an error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", sentence(.findings))]
pub struct LoadFailure {
    /// Why.
    pub findings: Vec<Finding>,
    /// Every file that was read or looked for, for watching.
    pub files: Vec<PathBuf>,
}

impl LoadFailure {
    /// Whether a mistake on the command line is among the reasons.
    pub fn is_misuse(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_error() && finding.is_on_command_line())
    }
}

fn sentence(findings: &[Finding]) -> String {
    let mut errors = findings.iter().filter(|finding| finding.is_error());
    match (errors.next(), errors.count()) {
        (Some(first), 0) => first.to_string(),
        (Some(first), more) => format!("{first} (and {more} more)"),
        (None, _) => "the configuration could not be loaded".to_owned(),
    }
}

impl toolbooth_core::fault::Fault for LoadFailure {
    fn code(&self) -> &'static str {
        self.findings
            .iter()
            .find(|finding| finding.is_error())
            .map_or("config.failed", |finding| finding.code)
    }

    fn blame(&self) -> toolbooth_core::fault::Blame {
        toolbooth_core::fault::Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        self.findings.iter().find(|finding| finding.is_error()).and_then(|finding| finding.hint.clone())
    }
}

/// One file or other source of one layer, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub layer: Layer,
    pub path: Option<PathBuf>,
    pub kind: FileKind,
    pub split: Split,
    /// Whether its settings and servers count as the user's own words.
    pub settings_trusted: bool,
    /// Whether the file holds no key: it is empty, or has only comments.
    pub is_blank: bool,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was written may hold secrets that only the typed values know to hide.
        f.debug_struct("Loaded")
            .field("settings", &self.settings)
            .field("servers", &self.servers)
            .field("findings", &self.findings)
            .finish_non_exhaustive()
    }
}

impl Loaded {
    /// The variables that a child process gets besides its own `env`: those that `environment` lists.
    pub fn base_environment(&self) -> Variables {
        let listed = |name: &str| {
            self.settings.environment.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == wanted,
            })
        };
        let pairs = self.variables.iter().filter(|(name, _)| listed(name));
        Variables::new(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Whether no file names any server, so that the bundled ones may stand in.
    pub fn is_empty_of_servers(&self) -> bool {
        self.servers.is_empty() && !self.findings.iter().any(|finding| finding.code == "config.bad-name")
    }

    /// The server of that name.
    pub fn server(&self, name: &str) -> Option<&ConfiguredServer> {
        self.servers.iter().find(|server| server.name.as_str() == name)
    }

    /// Whether anything is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// Project files that wait for trust and say how callers are recognised or what they may do. Without them the
    /// gateway would run more openly than the folder asks.
    pub fn rules_waiting(&self) -> Vec<&Path> {
        self.waiting_with(&["auth", "policy"])
    }

    /// Project files that wait for trust and hold settings that protect.
    pub fn protections_waiting(&self) -> Vec<&Path> {
        self.waiting_with(&PROTECTIONS)
    }

    fn waiting_with(&self, keys: &[&str]) -> Vec<&Path> {
        // Manifests wait as well; what they name are tools, not settings.
        let is_document =
            |file: &Path| self.documents.iter().any(|document| document.path.as_deref() == Some(file));
        let has_any = |settings: &&UntrustedSettings| {
            is_document(&settings.file) && settings.keys.iter().any(|key| keys.contains(&key.as_str()))
        };
        self.untrusted.iter().filter(has_any).map(|settings| settings.file.as_path()).collect()
    }

    /// Files whose settings are in force.
    pub fn files_in_force(&self) -> BTreeSet<PathBuf> {
        let waits = |path: &PathBuf| self.untrusted.iter().any(|settings| settings.file == *path);
        let has_settings = |document: &&Document| {
            document.split.settings.members().is_some_and(|members| !members.is_empty())
        };
        let with_settings = self.documents.iter().filter(has_settings);
        with_settings.filter_map(|document| document.path.clone()).filter(|path| !waits(path)).collect()
    }

    /// Files that have an effect: their settings count, or a server of theirs may run. A project file that waits for
    /// trust as a whole has none.
    pub fn files_with_effect(&self) -> BTreeSet<PathBuf> {
        let in_force = self.files_in_force();
        let may_run = |path: &PathBuf| {
            self.servers.iter().any(|server| {
                server.trust_file.as_ref() == Some(path)
                    && matches!(server.state, servers::ServerConfigState::Ready(_))
            })
        };
        let has_effect = |document: &&Document| {
            document.layer != Layer::Project
                || document.path.as_ref().is_some_and(|path| in_force.contains(path) || may_run(path))
        };
        let filled = self.documents.iter().filter(|document| !document.is_blank);
        filled.filter(has_effect).filter_map(|document| document.path.clone()).collect()
    }

    /// Files that hold something, for the next load: one of them that is empty then is not taken.
    pub fn filled_files(&self) -> BTreeSet<PathBuf> {
        let filled = self.documents.iter().filter(|document| !document.is_blank);
        filled.filter_map(|document| document.path.clone()).collect()
    }

    /// Trusts everything that waits for it, below `under` if given, and says how many things that were.
    pub fn trust_into(&self, book: &mut TrustBook, under: Option<&Path>) -> usize {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let under = under.map(whole);
        let wanted = |file: &Path| under.as_ref().is_none_or(|under| whole(file).starts_with(under));
        let mut count = 0;
        for server in &self.servers {
            if let (servers::ServerConfigState::NeedsTrust { entry_preview, .. }, Some(file)) =
                (&server.state, &server.trust_file)
                && wanted(file)
            {
                book.trust(file, server.name.as_str(), entry_preview);
                count += 1;
            }
        }
        for settings in self.untrusted.iter().filter(|settings| wanted(&settings.file)) {
            book.trust(&settings.file, crate::trust::SETTINGS, &settings.preview);
            count += 1;
        }
        count
    }
}

/// Loads the configuration, with the book of trust that the user's own data directory holds.
pub fn load_with_trust(sources: &mut Sources) -> Result<Loaded, LoadFailure> {
    let first = load(sources)?;
    match TrustBook::load(&first.trust_dir).map(|book| book.with_generosity_of(&sources.trust)) {
        Ok(book) if book == sources.trust => Ok(first),
        Ok(book) => {
            sources.trust = book;
            load(sources)
        }
        Err(error) => {
            let mut loaded = first;
            loaded.findings.push(trust_finding(&error));
            Ok(loaded)
        }
    }
}

fn trust_finding(error: &TrustError) -> Finding {
    use toolbooth_core::fault::Fault;
    let mut finding = Finding::error(error.code(), error.to_string());
    finding.hint = Fault::hint(error);
    finding
}

/// Loads the configuration.
pub fn load(sources: &Sources) -> Result<Loaded, LoadFailure> {
    let mut desk =
        Desk { sources, texts: Texts::default(), findings: Vec::new(), fatal: false, files: Vec::new() };
    let mut variables = desk.variables();
    let documents = desk.documents(&variables);
    let arguments = environment::from_arguments(&mut desk.texts, &sources.overrides);
    if desk.fatal {
        return Err(desk.failure());
    }
    let (server_arguments, arguments) =
        arguments.into_iter().partition(|argument| argument.path[0] == "servers");
    let resolved = resolve::settings(&mut desk, &documents, arguments, &mut variables);
    if desk.fatal {
        return Err(desk.failure());
    }
    let resolve::Resolved { settings, merged, mut untrusted, trust_dir } = resolved;
    let gathered = servers::gather(&mut desk, &documents, server_arguments, &variables);
    let servers::Gathered { mut servers, history } = gathered;
    checks::forwarded(&mut desk, &settings, &mut servers);
    let names = servers.iter().map(|server| &server.name).collect();
    let gathering =
        Gathering { documents: &documents, settings: &settings, variables: &variables, servers: names };
    let gathered = manifest::gather(&mut desk, &gathering, &mut untrusted);
    let Manifests { entries: manifests, good: good_manifests, kept: kept_manifests } = gathered;
    if desk.command_line_is_wrong() {
        return Err(desk.failure());
    }
    let Desk { texts, findings, files, .. } = desk;
    Ok(Loaded {
        settings,
        servers,
        findings: sorted(findings),
        files,
        variables,
        untrusted,
        manifests,
        good_manifests,
        kept_manifests,
        trust_dir,
        texts,
        documents,
        merged,
        history,
    })
}

/// In the order of files and lines, so that a reader can follow.
fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.file.clone(), finding.line, finding.column);
        key(a).cmp(&key(b))
    });
    findings.dedup();
    findings
}

/// What one load collects on its way.
pub(crate) struct Desk<'a> {
    pub sources: &'a Sources,
    pub texts: Texts,
    pub findings: Vec<Finding>,
    /// Whether an error was found with which nothing can go on.
    pub fatal: bool,
    pub files: Vec<PathBuf>,
}

impl Desk<'_> {
    /// Notes an error with which nothing can go on.
    pub(crate) fn fatal(&mut self, finding: Finding) {
        self.fatal = true;
        self.findings.push(finding);
    }

    /// Whether something on the command line is a mistake: whoever typed it is there to put it right, and
    /// going on without it would do something else than they said.
    fn command_line_is_wrong(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_error() && finding.is_on_command_line())
    }

    fn failure(self) -> LoadFailure {
        LoadFailure { findings: sorted(self.findings), files: self.files }
    }

    /// The environment, over the variables of `--env-file`.
    fn variables(&mut self) -> Variables {
        let mut variables = Variables::new(self.sources.env.clone());
        if let Some(path) = &self.sources.env_file {
            let path = self.sources.absolute(path);
            self.files.push(path.clone());
            if let Some(refusal) = ownership::refusal(self.sources, &path) {
                self.fatal(refusal);
                return variables;
            }
            match std::fs::read(&path) {
                Ok(bytes) => match parse::dotenv::parse(&mut self.texts, &path, &bytes) {
                    Ok(more) => variables.add_missing(more),
                    Err(finding) => self.fatal(*finding),
                },
                Err(error) => self.fatal(unreadable(&path, &error, "the file of variables")),
            }
        }
        variables
    }

    /// Every file of every layer, taken apart, lowest first.
    fn documents(&mut self, variables: &Variables) -> Vec<Document> {
        let known = schema::setting_names();
        let mut documents = Vec::new();
        let mut with_environment = false;
        let planned = layers::plan(self.sources);
        for file in planned {
            if file.layer > Layer::Environment && !with_environment {
                with_environment = true;
                documents.extend(self.environment(variables));
            }
            documents.extend(self.document(file, &known));
        }
        if !with_environment {
            documents.extend(self.environment(variables));
        }
        self.missing_folders();
        self.warn_of_pairs(&documents);
        documents
    }

    fn document(&mut self, file: Planned, known: &[&str]) -> Option<Document> {
        let Planned { path, layer, kind, presence } = file;
        self.files.push(path.clone());
        let bytes = match read_bounded(&path) {
            Ok(bytes) => bytes,
            Err(error) if presence == Presence::Optional && is_absent(&error) => return None,
            Err(error) => {
                self.fatal(unreadable(&path, &error, "the configuration file"));
                return None;
            }
        };
        if layer != Layer::Project
            && let Some(refusal) = ownership::refusal(self.sources, &path)
        {
            self.fatal(refusal);
            return None;
        }
        let is_empty = bytes.iter().all(u8::is_ascii_whitespace);
        if is_empty && self.sources.filled_files.contains(&path) {
            self.fatal(emptied(&path));
            return None;
        }
        let node = match parse::parse(&mut self.texts, &path, &bytes) {
            Ok(node) => node,
            Err(finding) => {
                self.fatal(*finding);
                return None;
            }
        };
        if !matches!(node.value, Value::Map(_)) {
            let sentence = format!("a configuration file holds a map, this one holds {}", node.kind());
            let finding = Finding::error("config.wrong-type", sentence).at(&self.texts, node.mark);
            self.fatal(parse::discreet(finding, &path));
            return None;
        }
        let is_blank = holds_no_key(&node);
        let mut split = dialect::split(&self.texts, node, kind, known);
        self.findings.append(&mut split.findings);
        let settings_trusted = layer != Layer::Project;
        Some(Document { layer, path: Some(path), kind, split, settings_trusted, is_blank })
    }

    fn environment(&mut self, variables: &Variables) -> Option<Document> {
        let env = variables.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (settings, mut findings) =
            environment::from_variables(&mut self.texts, &env, schema::setting_paths);
        self.findings.append(&mut findings);
        let split =
            Split { settings: settings?, servers: Vec::new(), twice: Vec::new(), findings: Vec::new() };
        let kind = FileKind::Whole;
        let layer = Layer::Environment;
        Some(Document { layer, path: None, kind, split, settings_trusted: true, is_blank: false })
    }

    /// A folder that was named must be there, or a slip in its name would pass in silence.
    fn missing_folders(&mut self) {
        let named = [
            ("--config-dir", &self.sources.config_dir),
            ("--config-overrides", &self.sources.config_overrides),
        ];
        for (flag, path) in named {
            let Some(path) = path.as_ref().map(|path| self.sources.absolute(path)) else { continue };
            if !path.exists() {
                self.fatal(
                    Finding::error("config.no-folder", format!("the folder of {flag} does not exist"))
                        .in_file(path),
                );
            }
        }
    }

    fn warn_of_pairs(&mut self, documents: &[Document]) {
        let whole: Vec<&Path> = documents
            .iter()
            .filter(|document| document.kind == FileKind::Whole)
            .filter_map(|document| document.path.as_deref())
            .filter(|path| path.file_stem().is_some_and(|stem| stem == "toolbooth"))
            .collect();
        for pair in whole.windows(2) {
            if pair[0].parent() == pair[1].parent() {
                let name = pair[0].file_name().unwrap_or_default().to_string_lossy();
                let sentence = format!("`{name}` stands beside this file; both are read, and this one wins");
                self.findings.push(Finding::warning("config.two-files", sentence).in_file(pair[1]));
            }
        }
    }
}

/// Reads a file, but not without end: a device or a runaway file is refused.
pub(crate) fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(parse::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a file says nothing: it is empty, `{}`, or has only comments and keys that are comments.
fn holds_no_key(node: &Node) -> bool {
    node.members().is_some_and(|members| members.iter().all(|(key, _)| dialect::is_comment(&key.text)))
}

/// A file that held a configuration and is empty now.
fn emptied(path: &Path) -> Finding {
    Finding::error("config.emptied", "this file is empty, and held a configuration before")
        .in_file(path)
        .hint("to mean nothing, write only a comment or remove the file, then run `toolbooth reload`")
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

pub(crate) fn unreadable(path: &Path, error: &std::io::Error, what: &str) -> Finding {
    let (code, reason) = match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            ("config.no-file", "does not exist")
        }
        std::io::ErrorKind::PermissionDenied => ("config.unreadable", "may not be read by this user"),
        std::io::ErrorKind::IsADirectory => ("config.unreadable", "is a folder"),
        _ => ("config.unreadable", "could not be read"),
    };
    Finding::error(code, format!("{what} {reason}")).in_file(path)
}

/// Arguments that set something of a server.
pub(crate) type ServerArguments = Vec<Argument>;
