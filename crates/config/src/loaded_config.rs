//! A loaded configuration, and questions about it: which files are in effect, and what waits for trust.

use crate::context::{ConfigDocument, UntrustedSettings};
use crate::expand::{self, Variables};
use crate::finding::Finding;
use crate::inputs::GoodManifests;
use crate::layer::Layer;
use crate::node::Node;
use crate::servers::{ConfiguredServer, EntryHistory, ServerConfigState};
use crate::settings::Settings;
use crate::texts::SourceTexts;
use crate::trust::{SETTINGS, TrustBook};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolbooth_core::job::{JobManifest, TaskManifest};
use toolbooth_core::manifest::Manifest;
use toolbooth_core::names::ServerName;
use toolbooth_core::skill::Skill;

/// A loaded configuration.
#[derive(Clone)]
pub struct LoadedConfig {
    /// All settings.
    pub settings: Settings,
    /// All configured servers, sorted by name.
    pub servers: Vec<ConfiguredServer>,
    /// Warnings, and errors that disable only a part of the configuration.
    pub findings: Vec<Finding>,
    /// All files that were read or looked for; they are watched for changes.
    pub files: Vec<PathBuf>,
    /// The variables that entries and manifests may refer to.
    pub variables: Variables,
    /// Project files whose settings wait for trust.
    pub untrusted: Vec<UntrustedSettings>,
    /// The valid entries of all tool manifests.
    pub manifests: Vec<Manifest>,
    /// The skills of all folders.
    pub skills: Vec<Arc<Skill>>,
    /// The jobs of all manifests.
    pub jobs: Vec<JobManifest>,
    /// The tasks of all manifests.
    pub tasks: Vec<TaskManifest>,
    /// The last valid entries of each manifest file. The next load uses them for files that an edit broke.
    pub good_manifests: GoodManifests,
    /// Manifest files that are broken or not trusted now, and whose last valid entries are in use.
    pub kept_manifests: Vec<PathBuf>,
    /// The folder of the trust file: the data directory, ignoring settings of project files.
    pub trust_dir: PathBuf,
    pub(crate) texts: SourceTexts,
    pub(crate) documents: Vec<ConfigDocument>,
    pub(crate) merged: Node,
    pub(crate) rules: Vec<(Layer, Node)>,
    pub(crate) history: BTreeMap<ServerName, EntryHistory>,
}

/// Settings that restrict access; without them a running gateway would be more open than before.
const PROTECTIONS: [&str; 13] = [
    "hooks",
    "auth",
    "policy",
    "groups",
    "personas",
    "approval",
    "compliance",
    "allow_tools",
    "deny_tools",
    "allow_server_tools",
    "deny_server_tools",
    "allowed_hosts",
    "allowed_origins",
];

impl fmt::Debug for LoadedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The raw text may contain secrets that only the typed values hide.
        f.debug_struct("LoadedConfig")
            .field("settings", &self.settings)
            .field("servers", &self.servers)
            .field("findings", &self.findings)
            .finish_non_exhaustive()
    }
}

impl LoadedConfig {
    /// The variables that a child process inherits in addition to its own `env`: those that `environment` lists.
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

    /// Whether no file has a map of servers, so that the bundled servers may be used. An empty map means no servers.
    pub fn is_empty_of_servers(&self) -> bool {
        let lists_servers = self.documents.iter().any(|document| document.split.lists_servers);
        self.servers.is_empty()
            && !lists_servers
            && !self.findings.iter().any(|finding| finding.code == "config.bad-name")
    }

    /// The files that have a map of servers, even if it is empty.
    pub fn files_with_server_maps(&self) -> Vec<&Path> {
        let documents = self.documents.iter().filter(|document| document.split.lists_servers);
        documents.filter_map(|document| document.path.as_deref()).collect()
    }

    /// The server with this name.
    pub fn server(&self, name: &str) -> Option<&ConfiguredServer> {
        self.servers.iter().find(|server| server.name.as_str() == name)
    }

    /// The servers whose entries refer to each variable.
    pub fn servers_by_variable(&self) -> BTreeMap<String, BTreeSet<ServerName>> {
        let mut servers: BTreeMap<String, BTreeSet<ServerName>> = BTreeMap::new();
        for (name, entry) in &self.history {
            for variable in expand::references_in(&entry.node) {
                servers.entry(variable).or_default().insert(name.clone());
            }
        }
        servers
    }

    /// Whether a setting other than the entries of servers refers to a variable.
    pub fn settings_use(&self, variable: &str) -> bool {
        expand::references_in(&self.merged).iter().any(|name| name == variable)
    }

    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// Project files that wait for trust and contain `auth` or `policy`. Without them the gateway would be more open
    /// than the project requires.
    pub fn rules_waiting(&self) -> Vec<&Path> {
        self.waiting_with(&["auth", "policy"])
    }

    /// Project files that wait for trust and contain settings that restrict access.
    pub fn protections_waiting(&self) -> Vec<&Path> {
        self.waiting_with(&PROTECTIONS)
    }

    fn waiting_with(&self, keys: &[&str]) -> Vec<&Path> {
        // Manifests also wait for trust, but their keys are tools, not settings.
        let is_document =
            |file: &Path| self.documents.iter().any(|document| document.path.as_deref() == Some(file));
        let has_any = |settings: &&UntrustedSettings| {
            is_document(&settings.file) && settings.keys.iter().any(|key| keys.contains(&key.as_str()))
        };
        self.untrusted.iter().filter(has_any).map(|settings| settings.file.as_path()).collect()
    }

    /// Files whose settings are in effect.
    pub fn files_in_force(&self) -> BTreeSet<PathBuf> {
        let waits = |path: &PathBuf| self.untrusted.iter().any(|settings| settings.file == *path);
        let has_settings = |document: &&ConfigDocument| {
            document.split.settings.members().is_some_and(|members| !members.is_empty())
        };
        let with_settings = self.documents.iter().filter(has_settings);
        with_settings.filter_map(|document| document.path.clone()).filter(|path| !waits(path)).collect()
    }

    /// Files that have an effect: their settings are in effect, or one of their servers may run. A project file that is
    /// not trusted at all has no effect.
    pub fn files_with_effect(&self) -> BTreeSet<PathBuf> {
        let in_force = self.files_in_force();
        let may_run = |path: &PathBuf| {
            self.servers.iter().any(|server| {
                server.trust_file.as_ref() == Some(path)
                    && matches!(server.state, ServerConfigState::Ready(_))
            })
        };
        let has_effect = |document: &&ConfigDocument| {
            document.layer != Layer::Project
                || document.path.as_ref().is_some_and(|path| in_force.contains(path) || may_run(path))
        };
        let filled = self.documents.iter().filter(|document| !document.is_blank);
        filled.filter(has_effect).filter_map(|document| document.path.clone()).collect()
    }

    /// Files with at least one key. The next load refuses such a file if it has become empty.
    pub fn filled_files(&self) -> BTreeSet<PathBuf> {
        let filled = self.documents.iter().filter(|document| !document.is_blank);
        filled.filter_map(|document| document.path.clone()).collect()
    }

    /// Trusts all entries and settings that wait for trust, or only those of files below `under`. Returns their number.
    pub fn trust_into(&self, book: &mut TrustBook, under: Option<&Path>) -> usize {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let under = under.map(whole);
        let wanted = |file: &Path| under.as_ref().is_none_or(|under| whole(file).starts_with(under));
        let mut count = 0;
        for server in &self.servers {
            if let (ServerConfigState::NeedsTrust { entry_preview, .. }, Some(file)) =
                (&server.state, &server.trust_file)
                && wanted(file)
            {
                book.trust(file, server.name.as_str(), entry_preview);
                count += 1;
            }
        }
        for settings in self.untrusted.iter().filter(|settings| wanted(&settings.file)) {
            book.trust(&settings.file, SETTINGS, &settings.preview);
            count += 1;
        }
        count
    }
}
