//! The clients that can be connected: where they keep servers, and in which words.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use toolbooth_config::Sources;
use toolbooth_config::import::Client;

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum App {
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

/// What a client is told about the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Entry {
    /// A command it starts.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// An address it calls.
    Http {
        /// The address.
        url: String,
    },
}

impl App {
    fn client(self) -> Client {
        match self {
            Self::ClaudeCode => Client::ClaudeCode,
            Self::Cursor => Client::Cursor,
            Self::Vscode => Client::Vscode,
            Self::ClaudeDesktop => Client::ClaudeDesktop,
            Self::Codex => Client::Codex,
        }
    }

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        self.client().as_str()
    }

    /// The name people know.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
        }
    }

    /// The user's own file: one that is there, else the one of this system.
    pub fn file(self, sources: &Sources) -> Option<PathBuf> {
        sources.home.as_ref()?;
        // A project's file is shared with others, who have another machine.
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

    /// The member that holds the servers.
    pub fn servers_key(self) -> &'static str {
        match self {
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::ClaudeCode | Self::Cursor | Self::ClaudeDesktop => "mcpServers",
        }
    }

    /// An entry in the client's words.
    pub fn words(self, entry: &Entry) -> Value {
        let typed = matches!(self, Self::ClaudeCode | Self::Vscode);
        match (entry, typed) {
            (Entry::Stdio { command, args }, true) => {
                json!({ "type": "stdio", "command": command, "args": args })
            }
            (Entry::Stdio { command, args }, false) => json!({ "command": command, "args": args }),
            (Entry::Http { url }, true) => json!({ "type": "http", "url": url }),
            (Entry::Http { url }, false) => json!({ "url": url }),
        }
    }
}
