//! The greeting that `toolbooth serve` prints when it is ready.

use crate::commands::{config_notices, connect, trust};
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone};
use std::path::{Path, PathBuf};
use toolbooth_config::settings::AuthMode;
use toolbooth_config::{LoadedConfig, Settings, Sources};
use toolbooth_core::names::ServerName;
use toolbooth_engine::Servers;

/// The maximum number of sentences about calls that will be held.
const MAX_NOTICES: usize = 5;

/// How to run this program again with the same configuration files.
#[derive(Debug)]
pub struct Invocation {
    program: String,
    /// Arguments for `toolbooth stdio`; the last one is `stdio` itself.
    arguments: Vec<String>,
}

impl Invocation {
    /// Builds it from the current command line.
    pub fn of(global: &GlobalOptions, sources: &Sources) -> Self {
        let whole = connect::program();
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Both can be symbolic links, for example those that npm makes.
        let real = |file: &Path| file.canonicalize().ok();
        let is_this =
            |found: &PathBuf| real(found).is_some_and(|found| real(Path::new(&whole)) == Some(found));
        let found =
            std::env::split_paths(&path).map(|folder| folder.join("toolbooth")).find(|file| file.is_file());
        let program = if found.as_ref().is_some_and(is_this) { "toolbooth".to_owned() } else { whole };
        let arguments =
            connect::stdio_arguments(global, sources).into_iter().map(|word| shown(&word)).collect();
        Self { program, arguments }
    }

    /// A command line for a shell.
    fn command(&self, words: &str) -> String {
        let named = self.arguments.split_last().map_or(&[][..], |(_, named)| named);
        let all: Vec<String> =
            std::iter::once(&self.program).chain(named).map(|word| render::shell_word(word)).collect();
        format!("{} {words}", all.join(" "))
    }

    /// An entry for a client's configuration file.
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

/// Hides values that may be secret, because the greeting may end up in logs.
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

/// Builds the greeting: the gateway's URL, its servers, and the next steps.
pub fn text(
    record: &GatewayRecord,
    servers: &Servers,
    loaded: &LoadedConfig,
    invocation: &Invocation,
) -> String {
    let url = loaded.settings.public_url.as_deref().unwrap_or(&record.url).trim_end_matches('/');
    let paint = Paint::stdout();
    let title = title(record, &loaded.settings);
    let access = ClientAccess::of(loaded.settings.auth.mode);
    let servers = servers.all();
    let names: Vec<&str> = servers.keys().map(ServerName::as_str).collect();
    let count = render::count(names.len(), "server");
    let servers = if loaded.is_empty_of_servers() {
        format!(
            "No servers are configured yet, so the bundled ones are running: {}.\n\
             Define yours in .mcp.json here, or in {}.",
            names.join(", "),
            user_file()
        )
    } else {
        format!("{count}: {}{}", names.join(", "), waiting(loaded))
    };
    format!(
        "{}\n\n  Console       {url}/console/\n  MCP endpoint  {url}/mcp\n\nConnect a client:\n\
         \x20 {}       or cursor, vscode, codex, claude-desktop\n\
         \x20 claude mcp add --scope user --transport http toolbooth {url}/mcp{}\n\
         \x20 {{\"mcpServers\": {{\"toolbooth\": {{\"url\": \"{url}/mcp\"{}}}}}}}\n\
         \x20 {}\n{}\n\
         {servers}\n`{}` shows their state, `{}` lists their tools.\n{}",
        paint.tone(Tone::Strong, &title),
        render::plain(&invocation.command("connect claude-code")),
        access.argument,
        access.member,
        render::plain(&invocation.entry()),
        access.note,
        render::plain(&invocation.command("servers")),
        render::plain(&invocation.command("tools list")),
        held(loaded),
    )
}

/// The first line. A gateway on all addresses is also reached from other machines.
fn title(record: &GatewayRecord, settings: &Settings) -> String {
    let GatewayRecord { version, url, .. } = record;
    let all = if settings.listen.0.ip().is_unspecified() {
        ", and on all other addresses of this machine"
    } else {
        ""
    };
    format!("Toolbooth {version} is listening on {url}{all}")
}

/// What a client adds to its requests over HTTP, so that the gateway knows its user.
struct ClientAccess {
    /// Added to a command line.
    argument: &'static str,
    /// Added to a JSON entry.
    member: &'static str,
    /// The origin of the value.
    note: &'static str,
}

impl ClientAccess {
    fn of(mode: AuthMode) -> Self {
        let (argument, member) = (
            " --header \"Authorization: Bearer TOKEN\"",
            ", \"headers\": {\"Authorization\": \"Bearer TOKEN\"}",
        );
        match mode {
            AuthMode::Local => Self { argument: "", member: "", note: "" },
            AuthMode::Token => {
                Self { argument, member, note: "`toolbooth tokens create --user NAME` creates a TOKEN.\n" }
            }
            AuthMode::Jwt => {
                Self { argument, member, note: "TOKEN is an access token of your identity provider.\n" }
            }
            AuthMode::Header => Self {
                argument: "",
                member: "",
                note: "Over HTTP, clients connect to your proxy, which adds the headers of the user.\n",
            },
        }
    }
}

/// Says which calls will be held, and how to change that.
fn held(loaded: &LoadedConfig) -> String {
    let notices = config_notices::held_calls(loaded);
    let shown = notices.iter().take(MAX_NOTICES);
    let mut text: String = shown.map(|notice| format!("  {} ({})\n", notice.text, notice.change)).collect();
    if text.is_empty() {
        return text;
    }
    if notices.len() > MAX_NOTICES {
        text.push_str("  `toolbooth doctor` shows the others\n");
    }
    format!("\nHeld calls (`toolbooth approvals` decides them):\n{text}")
}

/// Names the servers that are not trusted yet. A gateway without a terminal cannot ask about them.
fn waiting(loaded: &LoadedConfig) -> String {
    let names: Vec<&str> = trust::pending(loaded).iter().filter_map(|one| one.name).collect();
    match names.len() {
        0 => String::new(),
        1 => format!("; 1 needs `toolbooth trust`: {}", names[0]),
        count => format!("; {count} need `toolbooth trust`: {}", names.join(", ")),
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

    // No client can connect to 0.0.0.0, so the greeting has another address.
    #[test]
    fn a_gateway_on_all_addresses_is_reached_at_one() {
        let record =
            GatewayRecord { url: "http://127.0.0.1:80".into(), ..GatewayRecord::of_test(Path::new("")) };
        let mut settings = Settings::default();
        assert_eq!(title(&record, &settings), "Toolbooth 1 is listening on http://127.0.0.1:80");
        settings.listen.0 = "0.0.0.0:80".parse().expect("an address");
        assert_eq!(
            title(&record, &settings),
            "Toolbooth 1 is listening on http://127.0.0.1:80, and on all other addresses of this machine"
        );
        assert!(ClientAccess::of(AuthMode::Token).argument.contains("Authorization: Bearer"));
    }

    #[test]
    fn commands_can_be_copied_and_contain_no_secret() {
        let arguments = ["--config", "/a b/c'd.toml", "--set", "llm.api_key=hunter2", "stdio"];
        let arguments = arguments.iter().map(|word| shown(word)).collect();
        let invocation = Invocation { program: "/opt/toolbooth".into(), arguments };
        assert_eq!(
            invocation.command("servers"),
            r"/opt/toolbooth --config '/a b/c'\''d.toml' --set llm.api_key=… servers"
        );
        assert_eq!(
            invocation.entry(),
            r#"{"mcpServers": {"toolbooth": {"command": "/opt/toolbooth", "args": ["--config", "/a b/c'd.toml", "--set", "llm.api_key=…", "stdio"]}}}"#
        );
    }
}
