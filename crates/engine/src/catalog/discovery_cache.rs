//! The cached discoveries of servers, with which clients are answered before servers are connected.

use sha2::{Digest, Sha256};
use toolbooth_core::catalog::Discovery;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::server::{RemoteEndpoint, ServerEntry, Transport};

/// The cached discovery of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedDiscovery {
    /// What the server offered.
    pub discovery: Discovery,
    /// Tools with a suffixed name, because another server owned the plain one. They keep their names.
    pub suffixed: Vec<String>,
}

/// Serializes a discovery, together with the tools that have a suffixed name.
pub fn write<'a>(discovery: &Discovery, suffixed: impl Iterator<Item = &'a str>) -> RawJson {
    let size: usize = discovery.tools.iter().map(|tool| tool.as_bytes().len() + 1).sum();
    let mut writer = ObjectWriter::with_capacity(size + 1024);
    for (key, value) in [("capabilities", &discovery.capabilities), ("serverInfo", &discovery.server_info)] {
        if let Some(value) = value {
            writer.raw(key, value);
        }
    }
    if let Some(instructions) = &discovery.instructions {
        writer.text("instructions", instructions);
    }
    let lists = [
        ("tools", &discovery.tools),
        ("prompts", &discovery.prompts),
        ("resources", &discovery.resources),
        ("templates", &discovery.templates),
    ];
    for (key, list) in lists {
        writer.list(key, list);
    }
    let cut_short: Vec<RawJson> = discovery.cut_short.iter().map(RawJson::from_value).collect();
    if !cut_short.is_empty() {
        writer.list("cutShort", &cut_short);
    }
    let suffixed: Vec<RawJson> = suffixed.map(RawJson::from_value).collect();
    if !suffixed.is_empty() {
        writer.list("suffixed", &suffixed);
    }
    writer.finish()
}

/// Parses what `write` wrote; `None` for anything else.
pub fn read(text: &RawJson) -> Option<CachedDiscovery> {
    let list = |key: &str| text.member(key).and_then(|list| list.elements().ok());
    let suffixed = list("suffixed").unwrap_or_default();
    let suffixed = suffixed.iter().filter_map(|name| Some(name.string()?.into_owned())).collect();
    let discovery = Discovery {
        capabilities: text.member("capabilities"),
        server_info: text.member("serverInfo"),
        instructions: text
            .member("instructions")
            .and_then(|value| value.string().map(|text| text.into_owned())),
        tools: list("tools")?,
        prompts: list("prompts")?,
        resources: list("resources")?,
        templates: list("templates")?,
        cut_short: list("cutShort").unwrap_or_default().iter().filter_map(|one| one.read().ok()).collect(),
    };
    Some(CachedDiscovery { discovery, suffixed })
}

/// A digest of the server that an entry leads to, so that a cached discovery is not shown for another server of the
/// same name. Includes what decides which server runs or is contacted, not how the gateway treats it.
pub fn source_of(entry: &ServerEntry) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    let mut remote = |kind: &str, RemoteEndpoint { url, headers }: &RemoteEndpoint| {
        [kind, url.expose()].into_iter().for_each(&mut add);
        headers.iter().for_each(|(name, value)| [name, value.expose()].into_iter().for_each(&mut add));
    };
    match &entry.transport {
        Transport::Stdio { command, args, cwd, env } => {
            ["stdio", command.expose()].into_iter().for_each(&mut add);
            add(&args.len().to_string());
            args.iter().for_each(|word| add(word.expose()));
            add(&cwd.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default());
            env.iter().for_each(|(name, value)| [name, value.expose()].into_iter().for_each(&mut add));
        }
        Transport::Http(place) => remote("http", place),
        Transport::Sse(place) => remote("sse", place),
        Transport::WebSocket(place) => remote("ws", place),
        Transport::Bundled(name) => ["bundled", name].into_iter().for_each(&mut add),
        Transport::Own => add("own"),
        Transport::Virtual => add("virtual"),
    }
    toolbooth_core::hex::encode(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discovery_survives_the_store_unchanged() {
        let json = |text: &str| RawJson::parse(text.to_owned()).expect("JSON");
        let discovery = Discovery {
            capabilities: Some(json(r#"{"tools":{}}"#)),
            server_info: None,
            instructions: Some("be \"kind\"".into()),
            tools: vec![json(r#"{"name":"a","inputSchema":{"z":1.50,"a":2}}"#), json("7")],
            prompts: vec![],
            resources: vec![json(r#"{"uri":"x://y"}"#)],
            templates: vec![],
            cut_short: vec![("tools/list".into(), "too \"long\"".into())],
        };
        for suffixed in [vec![], vec!["a \"b\"".to_owned(), "c".to_owned()]] {
            let kept = CachedDiscovery { discovery: discovery.clone(), suffixed };
            let written = write(&kept.discovery, kept.suffixed.iter().map(String::as_str));
            assert_eq!(read(&written), Some(kept));
        }
        assert_eq!(read(&json("{}")), None);
    }
}
