//! The hint for a tool of a bundled server that does not run, because other servers are configured.

use crate::demo;
use crate::gateway_handle::GatewayHandle;

/// How the gateway reports a tool that a step needs.
const MISSING: &str = "there is no tool `";

/// The hint for the name of a tool that is unknown; `None` if no bundled server has it, or that server runs.
pub async fn of_tool(gateway: &GatewayHandle, name: &str) -> Option<String> {
    let server = server_of(name)?;
    let answer = gateway.get("/servers").await.ok()?;
    let servers = answer["servers"].as_array()?;
    let is_there = servers.iter().any(|one| one["name"] == server);
    (!is_there && !servers.is_empty()).then(|| {
        format!(
            "the bundled server `{server}` runs by default only if no servers are configured; to keep it, add \
             `[servers.{server}]` with `bundled = \"{server}\"` to toolbooth.toml"
        )
    })
}

/// The same for a sentence that names missing tools.
pub async fn of_sentence(gateway: &GatewayHandle, sentence: &str) -> Option<String> {
    let name = missing_tools(sentence).find(|name| server_of(name).is_some())?;
    of_tool(gateway, name).await
}

/// Whether a sentence names a missing tool.
pub fn names_missing_tool(sentence: &str) -> bool {
    missing_tools(sentence).next().is_some()
}

fn missing_tools(sentence: &str) -> impl Iterator<Item = &str> {
    sentence.split(MISSING).skip(1).filter_map(|rest| rest.split_once('`').map(|(name, _)| name))
}

fn server_of(tool: &str) -> Option<&'static str> {
    let has_tool =
        |server: &&'static str| tool.strip_prefix(*server).is_some_and(|rest| rest.starts_with(['_', '.']));
    demo::NAMES.into_iter().find(has_tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_of_bundled_servers_are_recognized() {
        let sentence = "cannot run: step `a`: there is no tool `mail_send`; there is no tool `demo_hash`";
        assert_eq!(missing_tools(sentence).collect::<Vec<_>>(), ["mail_send", "demo_hash"]);
        assert!(!names_missing_tool("there is no skill `x`"));
        assert_eq!(server_of("demo_hash"), Some("demo"));
        assert_eq!(server_of("demolition_start"), None);
    }
}
