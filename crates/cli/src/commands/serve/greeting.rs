//! What a person sees when the gateway is up.

use crate::arguments::Global;
use crate::commands::{connect, trust};
use crate::presence::Presence;
use crate::render::{self, Paint, Tone};
use std::path::{Path, PathBuf};
use toolbooth_config::{Loaded, Sources};
use toolbooth_core::names::ServerName;
use toolbooth_engine::Engine;

/// How this program is called again with the same files: what people and clients must write.
#[derive(Debug)]
pub struct Again {
    program: String,
    /// The arguments of `toolbooth stdio`, that word last.
    arguments: Vec<String>,
}

impl Again {
    /// As this command line was called.
    pub fn of(global: &Global, sources: &Sources) -> Self {
        let whole = connect::program();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_this = |found: &PathBuf| found.canonicalize().is_ok_and(|found| found == Path::new(&whole));
        let found =
            std::env::split_paths(&path).map(|folder| folder.join("toolbooth")).find(|file| file.is_file());
        let program = if found.as_ref().is_some_and(is_this) { "toolbooth".to_owned() } else { whole };
        let arguments =
            connect::stdio_arguments(global, sources).into_iter().map(|word| shown(&word)).collect();
        Self { program, arguments }
    }

    /// A command for a shell.
    fn command(&self, words: &str) -> String {
        let named = self.arguments.split_last().map_or(&[][..], |(_, named)| named);
        let all: Vec<String> = std::iter::once(&self.program).chain(named).map(|word| quoted(word)).collect();
        format!("{} {words}", all.join(" "))
    }

    /// An entry for a client.
    fn entry(&self) -> String {
        let text = |word: &String| serde_json::Value::from(word.as_str()).to_string();
        let arguments: Vec<String> = self.arguments.iter().map(text).collect();
        format!(
            "{{\"mcpServers\": {{\"toolbooth\": {{\"command\": {}, \"args\": [{}]}}}}}}",
            text(&self.program),
            arguments.join(", ")
        )
    }
}

/// A setting may be a secret, and a greeting ends in logs.
fn shown(word: &str) -> String {
    match word.split_once('=') {
        Some((key, _))
            if ["key", "token", "secret", "password", "url", "header"]
                .iter()
                .any(|part| key.contains(part)) =>
        {
            format!("{key}=…")
        }
        _ => word.to_owned(),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%…".contains(c);
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The greeting: where the gateway is, who may come, and what to do next.
pub fn text(presence: &Presence, engine: &Engine, loaded: &Loaded, again: &Again) -> String {
    let url = &presence.url;
    let paint = Paint::stdout();
    let title = format!("Toolbooth {} is listening on {url}", presence.version);
    let servers = engine.servers();
    let names: Vec<&str> = servers.keys().map(ServerName::as_str).collect();
    let count = render::count(names.len(), "server");
    let servers = if loaded.is_empty_of_servers() {
        format!(
            "No servers are configured yet, so the bundled ones are shown: {}.\n\
             Put yours into .mcp.json here, or into {}.",
            names.join(", "),
            user_file()
        )
    } else {
        format!("{count}: {}{}", names.join(", "), waiting(loaded))
    };
    format!(
        "{}\n\n  MCP endpoint  {url}/mcp\n\nConnect a client:\n\
         \x20 {}       or cursor, vscode, codex, claude-desktop\n\
         \x20 claude mcp add --transport http toolbooth {url}/mcp\n\
         \x20 {{\"mcpServers\": {{\"toolbooth\": {{\"url\": \"{url}/mcp\"}}}}}}\n\
         \x20 {}\n\n\
         {servers}\n`{}` shows how they do, `{}` what they offer.\n",
        paint.tone(Tone::Strong, &title),
        render::plain(&again.command("connect claude-code")),
        render::plain(&again.entry()),
        render::plain(&again.command("servers")),
        render::plain(&again.command("tools list")),
    )
}

/// Servers that nobody has agreed to: a gateway without a terminal asks nobody, so it says so.
fn waiting(loaded: &Loaded) -> String {
    let names: Vec<&str> = trust::pending(loaded).iter().filter_map(|one| one.name).collect();
    match names.len() {
        0 => String::new(),
        1 => format!("; 1 waits for `toolbooth trust`: {}", names[0]),
        count => format!("; {count} wait for `toolbooth trust`: {}", names.join(", ")),
    }
}

fn user_file() -> String {
    let base = std::env::var("XDG_CONFIG_HOME").ok().filter(|path| !path.is_empty());
    let base = base.map_or_else(|| "~/.config".to_owned(), |base| render::path(base.as_ref()));
    format!("{base}/toolbooth/toolbooth.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_copied_and_tell_no_secret() {
        let arguments = ["--config", "/a b/c'd.toml", "--set", "llm.api_key=hunter2", "stdio"];
        let arguments = arguments.iter().map(|word| shown(word)).collect();
        let again = Again { program: "/opt/toolbooth".into(), arguments };
        assert_eq!(
            again.command("servers"),
            r"/opt/toolbooth --config '/a b/c'\''d.toml' --set llm.api_key=… servers"
        );
        assert_eq!(
            again.entry(),
            r#"{"mcpServers": {"toolbooth": {"command": "/opt/toolbooth", "args": ["--config", "/a b/c'd.toml", "--set", "llm.api_key=…", "stdio"]}}}"#
        );
    }
}
