//! The catalog kept in the store, so that clients are answered before servers are up.

use sha2::{Digest, Sha256};
use toolbooth_core::catalog::Discovery;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::server::{Remote, ServerEntry, Transport};

/// What was kept of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it offered.
    pub discovery: Discovery,
    /// Tools whose plain names were others' already. They stay with the names they were given then.
    pub suffixed: Vec<String>,
}

/// Writes a discovery as text, with the tools that go by another name than their plain one.
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

/// Reads what `write` wrote; `None` for anything else.
pub fn read(text: &RawJson) -> Option<Kept> {
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
    Some(Kept { discovery, suffixed })
}

/// Which server an entry leads to, as a digest: what another one offered under the same name is not shown as its own.
/// Everything counts that decides what runs or is asked; what the gateway makes of it does not.
pub fn source_of(entry: &ServerEntry) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    let mut remote = |kind: &str, Remote { url, headers }: &Remote| {
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
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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
            let kept = Kept { discovery: discovery.clone(), suffixed };
            let written = write(&kept.discovery, kept.suffixed.iter().map(String::as_str));
            assert_eq!(read(&written), Some(kept));
        }
        assert_eq!(read(&json("{}")), None);
    }
}
