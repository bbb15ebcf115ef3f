//! The catalog kept in the store, so that clients are answered before servers are up.

use toolbooth_core::catalog::Discovery;
use toolbooth_core::json::{ObjectWriter, RawJson};

/// Writes a discovery as text.
pub fn write(discovery: &Discovery) -> RawJson {
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
        writer.raw(key, &array(list));
    }
    writer.finish()
}

/// Reads what `write` wrote; `None` for anything else.
pub fn read(text: &RawJson) -> Option<Discovery> {
    let list = |key: &str| text.member(key).and_then(|list| list.elements().ok());
    Some(Discovery {
        capabilities: text.member("capabilities"),
        server_info: text.member("serverInfo"),
        instructions: text
            .member("instructions")
            .and_then(|value| value.string().map(|text| text.into_owned())),
        tools: list("tools")?,
        prompts: list("prompts")?,
        resources: list("resources")?,
        templates: list("templates")?,
    })
}

fn array(list: &[RawJson]) -> RawJson {
    let size: usize = list.iter().map(|value| value.as_bytes().len() + 1).sum();
    let mut out = bytes::BytesMut::with_capacity(size + 2);
    out.extend_from_slice(b"[");
    for (index, value) in list.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b",");
        }
        out.extend_from_slice(value.as_bytes());
    }
    out.extend_from_slice(b"]");
    RawJson::trusted(out)
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
        };
        assert_eq!(read(&write(&discovery)), Some(discovery));
        assert_eq!(read(&json("{}")), None);
    }
}
