//! What a person sees when the gateway is up.

use crate::presence::Presence;
use crate::render::{self, Paint, Tone};
use toolbooth_config::Loaded;
use toolbooth_core::names::ServerName;
use toolbooth_engine::Engine;

/// The greeting: where the gateway is, who may come, and what to do next.
pub fn text(presence: &Presence, engine: &Engine, loaded: &Loaded) -> String {
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
        format!("{count}: {}", names.join(", "))
    };
    format!(
        "{}\n\n  MCP endpoint  {url}/mcp\n\nConnect a client:\n\
         \x20 toolbooth connect claude-code       or cursor, vscode, codex, claude-desktop\n\
         \x20 claude mcp add --transport http toolbooth {url}/mcp\n\
         \x20 {{\"mcpServers\": {{\"toolbooth\": {{\"url\": \"{url}/mcp\"}}}}}}\n\
         \x20 {{\"mcpServers\": {{\"toolbooth\": {{\"command\": \"toolbooth\", \"args\": [\"stdio\"]}}}}}}\n\n\
         {servers}\n`toolbooth servers` shows how they do, `toolbooth tools list` what they offer.\n",
        paint.tone(Tone::Strong, &title)
    )
}

fn user_file() -> String {
    let base = std::env::var("XDG_CONFIG_HOME").ok().filter(|path| !path.is_empty());
    let base = base.map_or_else(|| "~/.config".to_owned(), |base| render::path(base.as_ref()));
    format!("{base}/toolbooth/toolbooth.toml")
}
