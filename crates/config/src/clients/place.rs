//! Where the files of clients are, and the name of the gateway in them.

use crate::inputs::Sources;
use std::path::{Path, PathBuf};

/// The name of the gateway's entry in a client's configuration.
pub const GATEWAY_NAME: &str = "toolbooth";

/// The folder that the path of a file starts at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseFolder {
    /// The home directory.
    Home,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    Config,
    /// `~/Library/Application Support`, on macOS.
    MacSupport,
    /// `%APPDATA%`, on Windows.
    Roaming,
    /// The value of a variable; without it, the file does not exist.
    Env(&'static str),
    /// The value of a variable, or a folder in the home directory.
    EnvOrHome(&'static str, &'static str),
}

/// The place of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFilePlace {
    base: BaseFolder,
    path: &'static str,
}

/// A file in the home directory.
pub(super) const fn home(path: &'static str) -> ClientFilePlace {
    ClientFilePlace::new(BaseFolder::Home, path)
}

/// A file in the user's configuration folder.
pub(super) const fn user_config(path: &'static str) -> ClientFilePlace {
    ClientFilePlace::new(BaseFolder::Config, path)
}

/// A file in the folder that a variable names, or in a folder of the home directory.
pub(super) const fn env_or_home(
    variable: &'static str,
    folder: &'static str,
    path: &'static str,
) -> ClientFilePlace {
    ClientFilePlace::new(BaseFolder::EnvOrHome(variable, folder), path)
}

impl ClientFilePlace {
    /// A file below a base folder.
    pub const fn new(base: BaseFolder, path: &'static str) -> Self {
        Self { base, path }
    }

    /// The path of the file; `None` if its base folder is unknown.
    pub(crate) fn resolve(&self, sources: &Sources) -> Option<PathBuf> {
        let home = sources.home.clone();
        let set = |name: &str| sources.env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = match self.base {
            BaseFolder::Home => home?,
            BaseFolder::Config => sources.xdg_config_home.clone().or_else(|| Some(home?.join(".config")))?,
            BaseFolder::MacSupport => home?.join("Library/Application Support"),
            BaseFolder::Roaming => set("APPDATA")?,
            BaseFolder::Env(name) => set(name)?,
            BaseFolder::EnvOrHome(name, "") => set(name).or(home)?,
            BaseFolder::EnvOrHome(name, folder) => set(name).or_else(|| Some(home?.join(folder)))?,
        };
        Some(if self.path.is_empty() { base } else { base.join(self.path) })
    }

    /// The variable that names another folder than the usual one.
    pub(super) fn variable(&self) -> Option<&'static str> {
        match self.base {
            BaseFolder::EnvOrHome(name, _) => Some(name),
            _ => None,
        }
    }

    /// Whether a file has the name of this one.
    pub(super) fn has_name_of(&self, file: &Path) -> bool {
        Path::new(self.path).file_name() == file.file_name()
    }

    /// Whether this place is used on the system that the program was built for.
    pub(super) fn is_native(&self) -> bool {
        match self.base {
            BaseFolder::MacSupport => cfg!(target_os = "macos"),
            BaseFolder::Roaming => cfg!(windows),
            BaseFolder::Config => !cfg!(windows),
            BaseFolder::Home | BaseFolder::Env(_) | BaseFolder::EnvOrHome(..) => true,
        }
    }

    /// The place as a guide shows it.
    pub fn shown(&self) -> String {
        let base = match self.base {
            BaseFolder::Home => "~".to_owned(),
            BaseFolder::Config => "~/.config".to_owned(),
            BaseFolder::MacSupport => "~/Library/Application Support".to_owned(),
            BaseFolder::Roaming => "%APPDATA%".to_owned(),
            BaseFolder::Env(name) => format!("${name}"),
            BaseFolder::EnvOrHome(_, "") => "~".to_owned(),
            BaseFolder::EnvOrHome(_, folder) => format!("~/{folder}"),
        };
        if self.path.is_empty() { base } else { format!("{base}/{}", self.path) }
    }
}
