//! What loading may look at: everything that comes from the process, gathered once.

use crate::manifest::GoodManifests;
use crate::trust::TrustBook;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// Everything that loading reads from; the crate looks at nothing else of the process.
#[derive(Clone, Default)]
pub struct Sources {
    /// The project folder.
    pub cwd: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
    /// The machine's folder, `/etc/toolbooth`.
    pub system_dir: PathBuf,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// `--config`, later ones win.
    pub config_files: Vec<PathBuf>,
    /// `--config-dir`: a folder with `mcp.json`, `toolbooth.*`, `llmconfig.yml`.
    pub config_dir: Option<PathBuf>,
    /// `--config-overrides`: the same, laid over it.
    pub config_overrides: Option<PathBuf>,
    /// `--mcp-config`: a file of servers.
    pub mcp_config: Option<PathBuf>,
    /// `--llm-config`: a file about the language model.
    pub llm_config: Option<PathBuf>,
    /// `--env-file`: variables, loaded first.
    pub env_file: Option<PathBuf>,
    /// Dotted `key=value` pairs of the command line; they win over everything.
    pub overrides: Vec<(String, String)>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// What has been trusted.
    pub trust: TrustBook,
    /// What manifests held when they could last be read.
    pub good_manifests: GoodManifests,
    /// Files that held something at the last good load: if one of them is empty now, that is not intended, but a save that
    /// is under way or went wrong.
    pub filled_files: BTreeSet<PathBuf>,
    /// The user this process runs as; absent if file ownership is not checked.
    pub user_id: Option<u32>,
    /// Whether files are looked for where they usually are.
    pub discovery: Discovery,
}

/// Which files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discovery {
    /// Those of the system, the user and the project, and those that are named.
    #[default]
    Everywhere,
    /// Those of the system and the user, and those that are named (`--no-project`).
    WithoutProject,
    /// Only those that are named, as for `config check FILE`.
    NamedOnly,
}

impl Sources {
    /// Reads environment, working folder and home of this process.
    pub fn from_process() -> Self {
        let env: BTreeMap<String, String> = std::env::vars_os()
            // A variable that is not UTF-8 cannot be named in a file either.
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let folder = |name: &str| env.get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self {
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            home: folder("HOME").or_else(|| folder("USERPROFILE")),
            xdg_config_home: folder("XDG_CONFIG_HOME"),
            system_dir: PathBuf::from("/etc/toolbooth"),
            user_id: Some(nix::unistd::geteuid().as_raw()),
            env,
            ..Self::default()
        }
    }

    /// The user's folder of configuration files.
    pub fn user_dir(&self) -> Option<PathBuf> {
        let base = self.xdg_config_home.clone().or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(base.join("toolbooth"))
    }

    /// Where state is kept when no setting says so.
    pub fn default_data_dir(&self) -> PathBuf {
        let set = |name: &str| self.env.get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        set("XDG_DATA_HOME")
            .or_else(|| Some(self.home.as_ref()?.join(".local/share")))
            .map_or_else(|| self.cwd.join(".toolbooth"), |base| base.join("toolbooth"))
    }

    /// A path as a person wrote it on the command line: `~` is home, relative is from the project folder.
    pub fn absolute(&self, path: &std::path::Path) -> PathBuf {
        self.resolve(path, &self.cwd)
    }

    /// A path as a person wrote it in a file of `folder`.
    pub(crate) fn resolve(&self, path: &std::path::Path, folder: &std::path::Path) -> PathBuf {
        let joined = match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => folder.join(path),
        };
        // `./` and a trailing slash would make two names of one path.
        joined.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment holds secrets.
        f.debug_struct("Sources")
            .field("cwd", &self.cwd)
            .field("config_files", &self.config_files)
            .finish_non_exhaustive()
    }
}
