//! The types of the table of clients: their files, and the form of their entries.

use super::name_lists::NameList;
use super::place::ClientFilePlace;
use crate::parse::Syntax;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    /// The lists in a file of the client: the file of its servers, or another one.
    pub(super) fn lists_in(&self, path: &Path) -> Vec<&'static NameList> {
        let is_file = |list: &&NameList| list.file.is_some_and(|place| place.has_name_of(path));
        let separate: Vec<&'static NameList> = self.lists.iter().filter(is_file).collect();
        match separate.is_empty() {
            true => self.own_lists(),
            false => separate,
        }
    }

    /// The lists in the file of the servers.
    pub(super) fn own_lists(&self) -> Vec<&'static NameList> {
        self.lists.iter().filter(|list| list.file.is_none()).collect()
    }

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
