//! The inputs of loading: paths, environment and command line arguments, collected once.

use crate::sealed_values::ValueSealer;
use crate::trust::TrustBook;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use toolbooth_core::job::{JobManifest, TaskManifest};
use toolbooth_core::manifest::Manifest;
use toolbooth_core::skill::Skill;

/// The inputs of loading. The crate reads nothing else from the process.
#[derive(Clone, Default)]
pub struct Sources {
    /// The project folder.
    pub cwd: PathBuf,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
    /// The system folder, `/etc/toolbooth`.
    pub system_dir: PathBuf,
    /// The environment variables.
    pub env: BTreeMap<String, String>,
    /// `--config`; later files take precedence.
    pub config_files: Vec<PathBuf>,
    /// `--config-dir`: a folder with `mcp.json`, `toolbooth.*`, `llmconfig.yml`.
    pub config_dir: Option<PathBuf>,
    /// `--config-overrides`: a folder of the same kind that takes precedence over `--config-dir`.
    pub config_overrides: Option<PathBuf>,
    /// `--mcp-config`: a file with servers.
    pub mcp_config: Option<PathBuf>,
    /// `--llm-config`: a file about the language model.
    pub llm_config: Option<PathBuf>,
    /// `--rag-sources-config`: a file that the gateway does not use; a notice says so.
    pub rag_sources_config: Option<PathBuf>,
    /// `--env-file`: a file with variables, loaded first.
    pub env_file: Option<PathBuf>,
    /// `key=value` arguments with dotted keys; they take precedence over everything else.
    pub overrides: Vec<(String, String)>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// The trusted project entries.
    pub trust: TrustBook,
    /// The last valid entries of each manifest file.
    pub good_manifests: GoodManifests,
    /// Files that had content at the last successful load. If one of them is empty now, a save is probably in progress
    /// or has failed.
    pub filled_files: BTreeSet<PathBuf>,
    /// The user ID of this process, or `None` if file ownership is not checked.
    pub user_id: Option<u32>,
    /// Which files are read.
    pub discovery: FileDiscovery,
    /// The URL of the gateway that is running, if there is one. An import leaves out entries that lead to it.
    pub gateway_url: Option<String>,
    /// The text of a file as it will be after a change, so that the change is checked before it is written.
    pub proposed: Option<ProposedFile>,
    /// Seals the secrets that an import moves, and opens the sealed values of environment files. Without it an import writes
    /// secrets as they are, and sealed values are not opened.
    pub sealer: Option<Arc<dyn ValueSealer>>,
}

/// A changed file that is not written yet.
#[derive(Clone, PartialEq, Eq)]
pub struct ProposedFile {
    /// Its path, with links resolved if it exists.
    pub path: PathBuf,
    /// Its new text.
    pub text: String,
}

/// The last valid entries of each manifest file. They remain in use if an edit breaks the file.
#[derive(Debug, Clone, Default)]
pub struct GoodManifests {
    /// The tools of each file.
    pub(crate) tools: BTreeMap<PathBuf, Vec<Manifest>>,
    /// The skills, each with its file.
    pub(crate) skills: Vec<(PathBuf, Arc<Skill>)>,
    /// The jobs, each with its file.
    pub(crate) jobs: Vec<(PathBuf, JobManifest)>,
    /// The tasks, each with its file.
    pub(crate) tasks: Vec<(PathBuf, TaskManifest)>,
}

/// Which configuration files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileDiscovery {
    /// The files of the system, the user and the project, and those named on the command line.
    #[default]
    Everywhere,
    /// The same without the files of the project (`--no-project`).
    WithoutProject,
    /// Only files named on the command line, as for `config check FILE`.
    NamedOnly,
}

/// The home folder of this account, for a program that was started without `HOME`. Accounts of services often name a
/// folder that does not exist.
fn account_home() -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok()??;
    Some(user.dir).filter(|folder| folder.parent().is_some() && folder.is_dir())
}

impl Sources {
    /// Reads the environment, the working folder and the home directory of this process.
    pub fn from_process() -> Self {
        let env: BTreeMap<String, String> = std::env::vars_os()
            // Variables that are not UTF-8 cannot be used in a configuration file.
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let folder = |name: &str| env.get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self {
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            home: folder("HOME").or_else(|| folder("USERPROFILE")).or_else(account_home),
            xdg_config_home: folder("XDG_CONFIG_HOME"),
            system_dir: PathBuf::from("/etc/toolbooth"),
            user_id: Some(nix::unistd::geteuid().as_raw()),
            env,
            ..Self::default()
        }
    }

    /// The user's configuration folder.
    pub fn user_dir(&self) -> Option<PathBuf> {
        let base = self.xdg_config_home.clone().or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(base.join("toolbooth"))
    }

    /// The data directory if no setting or argument names one.
    pub fn default_data_dir(&self) -> PathBuf {
        let set = |name: &str| self.env.get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        set("XDG_DATA_HOME")
            .or_else(|| Some(self.home.as_ref()?.join(".local/share")))
            .map_or_else(|| self.cwd.join(".toolbooth"), |base| base.join("toolbooth"))
    }

    /// Resolves a path from the command line. `~` is the home directory; a relative path starts at the project folder.
    pub fn absolute(&self, path: &std::path::Path) -> PathBuf {
        self.resolve(path, &self.cwd)
    }

    /// The proposed text of a file, if it is the one that is changed.
    pub(crate) fn proposed_text(&self, path: &std::path::Path) -> Option<&str> {
        let proposed = self.proposed.as_ref()?;
        let is_same = || path.canonicalize().is_ok_and(|path| path == proposed.path);
        (path == proposed.path || is_same()).then_some(&proposed.text)
    }

    /// Resolves a path from a file in `folder`.
    pub(crate) fn resolve(&self, path: &std::path::Path, folder: &std::path::Path) -> PathBuf {
        let joined = match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => folder.join(path),
        };
        // Remove `./` and trailing slashes, so that equal paths compare as equal.
        joined.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
    }
}

impl Sources {
    /// The folders that a `cwd` in a file may mean, in order: relative to the folder of the file, then to the folder that
    /// the gateway was started in. They are equal if the path is absolute. For the files of the user and of the system
    /// only the first counts: a project folder must not decide what their trusted entries run.
    pub(crate) fn cwd_candidates(&self, path: &std::path::Path, folder: &std::path::Path) -> [PathBuf; 2] {
        let first = self.resolve(path, folder);
        let own = [self.user_dir(), Some(self.system_dir.clone())];
        let is_own = |dir: PathBuf| !dir.as_os_str().is_empty() && folder.starts_with(dir);
        match own.into_iter().flatten().any(is_own) {
            true => [first.clone(), first],
            false => [first, self.resolve(path, &self.cwd)],
        }
    }

    /// The folder that a `cwd` in a file means: the first candidate that exists, else the first one.
    pub(crate) fn cwd_of(&self, path: &std::path::Path, folder: &std::path::Path) -> PathBuf {
        let [first, second] = self.cwd_candidates(path, folder);
        if !first.is_dir() && second.is_dir() { second } else { first }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment contains secrets.
        f.debug_struct("Sources")
            .field("cwd", &self.cwd)
            .field("config_files", &self.config_files)
            .finish_non_exhaustive()
    }
}
