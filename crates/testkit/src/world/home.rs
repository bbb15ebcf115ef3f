//! A gateway's folder during a test, with its configuration and data.

use super::{Gateway, binaries};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder for one gateway, which can be started more than once.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// A folder whose configuration has these servers.
    pub fn new(servers: &[(&str, Value)]) -> Self {
        Self::with_settings(json!({}), servers)
    }

    /// A folder whose configuration has these settings and servers.
    pub fn with_settings(settings: Value, servers: &[(&str, Value)]) -> Self {
        let folder = tempfile::Builder::new().prefix("tb").tempdir().expect("a folder for the test");
        let home = Self { folder };
        home.configure(settings, servers);
        home
    }

    /// Replaces the configuration.
    pub fn configure(&self, mut settings: Value, servers: &[(&str, Value)]) {
        let entries: Map<String, Value> =
            servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        // An empty map would mean no servers; without one, the gateway has its bundled servers.
        if !entries.is_empty() {
            settings["servers"] = Value::Object(entries);
        }
        // Most tests need full definitions; tests of exposure set the mode themselves.
        if settings.get("exposure").is_none() {
            settings["exposure"] = json!({ "mode": "full" });
        }
        self.write_config(&format!("{settings:#}"));
    }

    /// Replaces the configuration file atomically, by renaming, as editors do.
    pub fn write_config(&self, text: &str) {
        let draft = self.path("toolbooth.json.new");
        fs::write(&draft, text).expect("the folder can be written");
        fs::rename(draft, self.config()).expect("the folder can be written");
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.path("toolbooth.json")
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The gateway's executable with this configuration and data, isolated from the host's environment.
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(binaries::toolbooth());
        command.arg(subcommand).arg("--config").arg(self.config()).arg("--data-dir").arg(self.data());
        command.env_clear().current_dir(self.folder.path());
        for name in ["PATH", "USER", "LANG"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.folder.path()).env("TOOLBOOTH_LOG", "info");
        command
    }

    /// The `serve` command, run by another program that sets limits first, such as `prlimit` or a shell.
    pub fn serve_through(&self, program: &str, arguments: &[&str]) -> Command {
        let serve = self.command("serve");
        let mut command = Command::new(program);
        command.args(arguments).arg(serve.get_program()).args(serve.get_args());
        command.env_clear().current_dir(self.folder.path());
        command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Starts a gateway with this limit of open files.
    pub async fn start_with_descriptors(&self, descriptors: usize) -> Gateway {
        let limit = format!("--nofile={descriptors}:{descriptors}");
        Gateway::start(self.serve_through("prlimit", &[&limit]), &self.path("gateway.log")).await
    }

    /// Starts the gateway and waits until it listens.
    pub async fn start(&self) -> Gateway {
        Gateway::start(self.command("serve"), &self.path("gateway.log")).await
    }
}

/// The configuration entry of a mode of `toolbooth-hostile`.
pub fn hostile(arguments: &[&str]) -> Value {
    json!({ "command": binaries::hostile(), "args": arguments })
}

/// The configuration entry of a stdio fixture of this era.
pub fn fixture_on_stdio(era: &str) -> Value {
    json!({ "command": binaries::fixture(), "args": ["--stdio", "--era", era] })
}

/// The configuration entry of a server that is a shell script.
pub fn shell(script: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", script] })
}

/// A path quoted for a shell script.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}
