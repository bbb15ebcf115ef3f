//! The digest of a tool's definition. The order of keys and the spelling of numbers and strings do not change it;
//! anything else does.

use crate::json::RawJson;
use crate::manifest::{ProviderKind, ProviderSpec};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The digest of a definition under a server's own name for the tool, including the parameters hidden from clients.
pub(super) fn of(own_name: &str, definition: &RawJson, hidden: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    text(&mut hash, own_name);
    text(&mut hash, hidden);
    match definition.read::<Value>() {
        Ok(Value::Object(mut members)) => {
            members.remove("name");
            value(&mut hash, &Value::Object(members));
        }
        // A definition is always an object; any other value is hashed as its text.
        _ => text(&mut hash, definition.as_str()),
    }
    hash.finalize().into()
}

/// The digest of a manifest's tool: its providers, and the digests of the tools that serve it.
pub(super) fn of_virtual(name: &str, providers: &[ProviderSpec], served: &[[u8; 32]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    text(&mut hash, name);
    for provider in providers {
        text(&mut hash, &provider.id);
        match &provider.kind {
            ProviderKind::Mcp { server, tool } => {
                text(&mut hash, server.as_str());
                text(&mut hash, tool);
            }
            ProviderKind::Skill(skill) => {
                skill.plan.iter().for_each(|plan| value(&mut hash, plan.written()));
            }
            _ => {}
        }
    }
    served.iter().for_each(|digest| hash.update(digest));
    hash.finalize().into()
}

/// Hashes a text with its length, so that adjacent texts cannot run together.
fn text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

fn value(hash: &mut Sha256, of: &Value) {
    match of {
        Value::Null => hash.update(b"n"),
        Value::Bool(true) => hash.update(b"t"),
        Value::Bool(false) => hash.update(b"f"),
        Value::Number(number) => {
            hash.update(b"d");
            text(hash, &number.to_string());
        }
        Value::String(string) => {
            hash.update(b"s");
            text(hash, string);
        }
        Value::Array(elements) => {
            hash.update(b"a");
            hash.update((elements.len() as u64).to_le_bytes());
            elements.iter().for_each(|element| value(hash, element));
        }
        Value::Object(members) => {
            hash.update(b"o");
            hash.update((members.len() as u64).to_le_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| key.as_str());
            for (key, member) in members {
                text(hash, key);
                value(hash, member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_order_and_spelling_do_not_change_the_digest() {
        let digest = |name: &str, definition: &str, hidden: &str| {
            of(name, &RawJson::parse(definition.to_owned()).expect("JSON"), hidden)
        };
        let base = digest("a", r#"{"name":"s_a","description":"x","inputSchema":{"b":1,"a":[1,2]}}"#, "");
        let same = r#"{ "inputSchema":{"a":[1, 2],"b":1},"description":"\u0078","name":"other_a"}"#;
        assert_eq!(digest("a", same, ""), base);
        let others = [
            ("b", same, ""),
            ("a", same, "username"),
            ("a", r#"{"description":"x ","inputSchema":{"b":1,"a":[1,2]}}"#, ""),
            ("a", r#"{"description":"x","inputSchema":{"b":1,"a":[2,1]}}"#, ""),
            ("a", r#"{"description":"x","inputSchema":{"b":"1","a":[1,2]}}"#, ""),
            ("a", r#"{"description":"x","inputSchema":{"b":1,"a":[1,2]},"annotations":{}}"#, ""),
        ];
        for (name, definition, hidden) in others {
            assert_ne!(digest(name, definition, hidden), base, "{name} {definition} {hidden}");
        }
    }
}
