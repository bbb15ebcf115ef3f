//! The client of one request: its era, its caller, and its description of itself.

use super::session::LegacySession;
use std::sync::Arc;
use toolbooth_core::caller::{AskedWhen, Caller, ClientFacts};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_wire::codes::INVALID_PARAMS;
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Era, Revision, RpcError};

/// The client of one request.
#[derive(Debug, Clone)]
pub struct McpClient {
    /// The caller.
    pub caller: Arc<Caller>,
    /// The client's name, version and capabilities.
    pub facts: Arc<ClientFacts>,
    /// The protocol revision of the request.
    pub revision: Revision,
    /// Its session, if it speaks a legacy revision.
    pub session: Option<Arc<LegacySession>>,
}

impl McpClient {
    /// The legacy client of a session, for one request.
    pub fn of_session(session: Arc<LegacySession>, identified: &Arc<Caller>) -> Self {
        Self {
            caller: session.caller_now(identified),
            facts: session.facts(),
            revision: session.revision,
            session: Some(session),
        }
    }

    /// The era of its revision.
    pub fn era(&self) -> Era {
        self.revision.era()
    }
}

/// Maximum length of a client's name, in characters.
const MAX_NAME: usize = 128;
/// Maximum length of a client's version, in characters.
const MAX_VERSION: usize = 64;
/// Maximum size of a client's `clientInfo`, and of its capabilities.
const MAX_FACT_BYTES: usize = 16 * 1024;
/// A `clientInfo` of this size cannot have a name or version that is too long.
const SHORT_BYTES: usize = MAX_VERSION + 16;

/// The facts that a modern client sends with a request.
pub fn modern_facts(meta: &RequestMeta) -> Result<ClientFacts, RpcError> {
    let capabilities = meta.capabilities.clone().unwrap_or_else(RawJson::empty_object);
    Ok(ClientFacts {
        info: meta.client_info.clone().map(bounded_info),
        capabilities: bounded_capabilities(capabilities)?,
        log_level: meta.log_level.clone(),
        loaded: None,
        asked_when: AskedWhen::InTurn,
    })
}

/// The facts that a legacy client sends with `initialize`, copied out of the message because the session keeps them.
pub fn legacy_facts(params: &RawJson) -> Result<ClientFacts, RpcError> {
    let capabilities = params.member("capabilities").filter(RawJson::is_object);
    let capabilities = capabilities.unwrap_or_else(RawJson::empty_object);
    let facts = ClientFacts {
        info: params.member("clientInfo").map(|info| bounded_info(info).detached()),
        capabilities: bounded_capabilities(capabilities)?.detached(),
        log_level: None,
        loaded: Some(Arc::default()),
        asked_when: AskedWhen::InTurn,
    };
    // Legacy clients do not know the extension: the gateway follows the tasks of modern servers for them.
    Ok(facts.with_followed_tasks())
}

/// A client's `clientInfo`. If it is too long, only name and version are kept, truncated.
fn bounded_info(info: RawJson) -> RawJson {
    if info.as_bytes().len() <= SHORT_BYTES {
        return info;
    }
    let text = |key: &str, most: usize| {
        let value = info.member(key)?;
        let value = value.string()?;
        let cut: String = value.chars().take(most).collect();
        Some((cut.len() == value.len(), cut))
    };
    let (name, version) = (text("name", MAX_NAME), text("version", MAX_VERSION));
    let fits = |fact: &Option<(bool, String)>| fact.as_ref().is_none_or(|(whole, _)| *whole);
    if info.as_bytes().len() <= MAX_FACT_BYTES && fits(&name) && fits(&version) {
        return info;
    }
    let mut writer = ObjectWriter::default();
    for (key, fact) in [("name", name), ("version", version)] {
        if let Some((_, text)) = fact {
            writer.text(key, &text);
        }
    }
    writer.finish()
}

/// Rejects capabilities that are too long. They cannot be truncated without changing their meaning.
fn bounded_capabilities(capabilities: RawJson) -> Result<RawJson, RpcError> {
    if capabilities.as_bytes().len() <= MAX_FACT_BYTES {
        return Ok(capabilities);
    }
    let why = format!("Invalid params: the client's capabilities are over {MAX_FACT_BYTES} bytes");
    Err(RpcError::new(INVALID_PARAMS, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn raw(value: &serde_json::Value) -> RawJson {
        RawJson::from_value(value)
    }

    #[test]
    fn a_session_keeps_few_bytes_of_client_info() {
        let usual = raw(&json!({ "name": "claude-code", "version": "1.0", "title": "x".repeat(200) }));
        assert_eq!(bounded_info(usual.clone()).as_str(), usual.as_str(), "unchanged");
        let long = |size: usize| {
            raw(&json!({ "name": "é".repeat(size), "version": "7", "other": "x".repeat(size) }))
        };
        for size in [200, 4_000_000] {
            let kept = bounded_info(long(size));
            assert_eq!(kept.as_str(), format!(r#"{{"name":"{}","version":"7"}}"#, "é".repeat(MAX_NAME)));
        }
        let params = raw(&json!({ "capabilities": { "x": "y".repeat(MAX_FACT_BYTES) } }));
        assert!(legacy_facts(&params).is_err());
    }
}
