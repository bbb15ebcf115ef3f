//! The supported clients: their configuration files and the format of their entries.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use toolbooth_config::Sources;
use toolbooth_config::import::ImportClient;

/// A supported client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientApp {
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Codex.
    Codex,
}

/// The gateway's entry in a client's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ClientEntry {
    /// A command that the client starts.
    Stdio {
        /// Program.
        command: String,
        /// Arguments.
        args: Vec<String>,
    },
    /// A URL that the client calls.
    Http {
        /// URL of the MCP endpoint.
        url: String,
    },
}

impl ClientApp {
    fn client(self) -> ImportClient {
        match self {
            Self::ClaudeCode => ImportClient::ClaudeCode,
            Self::Cursor => ImportClient::Cursor,
            Self::Vscode => ImportClient::Vscode,
            Self::ClaudeDesktop => ImportClient::ClaudeDesktop,
            Self::Codex => ImportClient::Codex,
        }
    }

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        self.client().as_str()
    }

    /// The product name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
        }
    }

    /// The user's configuration file: an existing one, or the default of this system.
    pub fn file(self, sources: &Sources) -> Option<PathBuf> {
        sources.home.as_ref()?;
        // A project file is shared with other machines.
        let own =
            |file: &PathBuf| !file.starts_with(&sources.cwd) || sources.home.as_ref() == Some(&sources.cwd);
        let mut files: Vec<PathBuf> = self.client().files(sources).into_iter().filter(own).collect();
        if let Some(found) = files.iter().find(|file| file.is_file()) {
            return Some(found.clone());
        }
        let native = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
        files.sort_by_key(|file| !file.to_string_lossy().contains(native));
        files.into_iter().next()
    }

    /// The key of the servers.
    pub fn servers_key(self) -> &'static str {
        match self {
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::ClaudeCode | Self::Cursor | Self::ClaudeDesktop => "mcpServers",
        }
    }

    /// An entry in the client's format.
    pub fn words(self, entry: &ClientEntry) -> Value {
        let typed = matches!(self, Self::ClaudeCode | Self::Vscode);
        match (entry, typed) {
            (ClientEntry::Stdio { command, args }, true) => {
                json!({ "type": "stdio", "command": command, "args": args })
            }
            (ClientEntry::Stdio { command, args }, false) => json!({ "command": command, "args": args }),
            (ClientEntry::Http { url }, true) => json!({ "type": "http", "url": url }),
            (ClientEntry::Http { url }, false) => json!({ "url": url }),
        }
    }
}
