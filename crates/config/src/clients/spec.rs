//! The types of the table of clients: their files, and the form of their entries.

use super::name_lists::NameList;
use crate::inputs::Sources;
use crate::parse::Syntax;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the gateway's entry in a client's configuration.
pub const GATEWAY_NAME: &str = "toolbooth";

/// A client whose servers can be imported, and that can be connected to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientId {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// opencode.
    Opencode,
    /// Cline.
    Cline,
    /// Roo Code.
    Roo,
    /// GitHub Copilot CLI.
    Copilot,
    /// Continue.
    Continue,
    /// goose.
    Goose,
    /// LM Studio.
    LmStudio,
    /// Amazon Q Developer CLI.
    AmazonQ,
    /// Kiro.
    Kiro,
    /// Warp.
    Warp,
    /// Junie in JetBrains IDEs.
    JetBrains,
    /// Qwen Code.
    Qwen,
}

/// The row of a client in the table.
#[derive(Debug, Clone, Copy)]
pub struct ClientSpec {
    /// The client.
    pub id: ClientId,
    /// The name on the command line.
    pub name: &'static str,
    /// The product name.
    pub title: &'static str,
    /// The syntax of its files.
    pub syntax: Syntax,
    /// The user's files. All that exist are read; the first one of this system is created if none exists.
    pub files: &'static [ClientFilePlace],
    /// Files in a project folder. They can be imported, but are not changed, because others share them.
    pub project_files: &'static [&'static str],
    /// The user's folder whose files each add servers, in YAML or JSON. A project has the same folder.
    pub folder: Option<ClientFilePlace>,
    /// The top-level key of the servers.
    pub section: &'static str,
    /// Whether the servers are a map or a list.
    pub layout: ServerLayout,
    /// How an entry for the gateway is written.
    pub form: EntryForm,
    /// How variables are written in its entries.
    pub variables: VariableForm,
    /// The unit of `timeout` in its entries.
    pub timeout: TimeoutUnit,
    /// Where it keeps that a server is turned off, besides its lists.
    pub off: OffSwitch,
    /// The lists of allowed and disabled servers beside its servers.
    pub lists: &'static [NameList],
    /// What the user does so that a change takes effect.
    pub apply: &'static str,
    /// A remark for the guide; may be empty.
    pub note: &'static str,
}

/// Whether servers are members of a map, or elements of a list with a `name` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerLayout {
    /// A map from names to entries.
    Map,
    /// A list of entries with names.
    NamedList,
}

/// How a client writes variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableForm {
    /// Not at all: every text is literal.
    Literal,
    /// `${NAME}`, `${env:NAME}`.
    Braces,
    /// `$NAME` and `${NAME}`.
    Dollar,
    /// `{env:NAME}`.
    CurlyEnv,
    /// `${{ secrets.NAME }}`.
    Secrets,
}

/// The unit of a client's `timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutUnit {
    /// Seconds, as in our own files.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// Where a client keeps that a server is turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffSwitch {
    /// In the entry, as this field and value.
    Entry(&'static str),
    /// Outside the file.
    Outside,
    /// Nowhere: an entry that is not wanted is removed. Or only in lists.
    Nowhere,
}

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

/// How a client writes an entry.
#[derive(Debug, Clone, Copy)]
pub struct EntryForm {
    /// The value of `type` for a command.
    pub stdio_type: Option<&'static str>,
    /// The field of the URL and the value of `type` beside it; `None` if the client's file does not support URLs.
    pub http: Option<(&'static str, Option<&'static str>)>,
    /// The field of the program.
    pub command_field: &'static str,
    /// Whether the program and its arguments are one list.
    pub command_list: bool,
    /// The field of the program's variables.
    pub env_field: &'static str,
    /// Whether the entry repeats its name in `name`.
    pub name_field: bool,
    /// More fields, each with a value in JSON.
    pub extra: &'static [(&'static str, &'static str)],
}

impl EntryForm {
    /// `{"command": …, "args": […]}` or `{"url": …}`.
    pub const PLAIN: Self = Self {
        stdio_type: None,
        http: Some(("url", None)),
        command_field: "command",
        command_list: false,
        env_field: "env",
        name_field: false,
        extra: &[],
    };
}

/// The gateway's entry in a client's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum GatewayEntry {
    /// A command that the client starts.
    Stdio {
        /// Program.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Variables that the client sets for it.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
    /// A URL that the client calls.
    Http {
        /// URL of the MCP endpoint.
        url: String,
    },
}

impl GatewayEntry {
    /// The entry of a program without variables.
    pub fn stdio(command: impl Into<String>, args: Vec<String>) -> Self {
        Self::Stdio { command: command.into(), args, env: BTreeMap::new() }
    }
}

impl ClientSpec {
    /// An entry in the client's format; `None` if its file does not support URLs.
    pub fn entry(&self, name: &str, entry: &GatewayEntry) -> Option<Json> {
        let form = &self.form;
        let mut fields = Map::new();
        if form.name_field {
            fields.insert("name".into(), name.into());
        }
        match entry {
            GatewayEntry::Stdio { command, args, env } => {
                if let Some(word) = form.stdio_type {
                    fields.insert("type".into(), word.into());
                }
                if form.command_list {
                    let words: Vec<&String> = std::iter::once(command).chain(args).collect();
                    fields.insert(form.command_field.into(), Json::from_iter(words.into_iter().cloned()));
                } else {
                    fields.insert(form.command_field.into(), command.clone().into());
                    fields.insert("args".into(), args.clone().into());
                }
                if !env.is_empty() {
                    let variables = env.iter().map(|(name, value)| (name.clone(), value.clone().into()));
                    fields.insert(form.env_field.into(), Json::Object(variables.collect()));
                }
            }
            GatewayEntry::Http { url } => {
                let (field, word) = form.http?;
                if let Some(word) = word {
                    fields.insert("type".into(), word.into());
                }
                fields.insert(field.into(), url.clone().into());
            }
        }
        for (field, value) in form.extra {
            fields.insert((*field).into(), serde_json::from_str(value).unwrap_or_default());
        }
        Some(Json::Object(fields))
    }
}

/// The place of a server's entry in a client's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPlace {
    /// The file.
    pub file: PathBuf,
    /// The keys from the top of the file to the map or list of servers.
    pub section: Vec<String>,
    /// The name of the entry.
    pub name: String,
}
