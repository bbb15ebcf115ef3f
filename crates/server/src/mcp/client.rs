//! The client of one request: its era, its caller, and what it said about itself.

use super::session::Session;
use std::sync::Arc;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, edit_object};
use toolbooth_wire::codes::INVALID_PARAMS;
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Era, Revision, RpcError};

/// The client of one request.
#[derive(Debug, Clone)]
pub struct Client {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// What the client said about itself.
    pub facts: Arc<ClientFacts>,
    /// The revision it speaks.
    pub revision: Revision,
    /// Its session, if it speaks a legacy revision.
    pub session: Option<Arc<Session>>,
}

impl Client {
    /// A legacy client, on a request of its session.
    pub fn of_session(session: Arc<Session>, identified: &Arc<Caller>) -> Self {
        Self {
            caller: session.caller_now(identified),
            facts: session.facts(),
            revision: session.revision,
            session: Some(session),
        }
    }

    /// The era it speaks.
    pub fn era(&self) -> Era {
        self.revision.era()
    }
}

/// An extension that clients may declare and the gateway does not bridge.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The longest name of a client, in characters.
const MAX_NAME: usize = 128;
/// The longest version of a client, in characters.
const MAX_VERSION: usize = 64;
/// The most bytes of a client's description of itself, and of its capabilities.
const MAX_FACT_BYTES: usize = 16 * 1024;
/// A description this short needs no look: neither name nor version can be too long.
const SHORT_BYTES: usize = MAX_VERSION + 16;

/// What a modern client says about itself with a request.
pub fn modern_facts(meta: &RequestMeta) -> Result<ClientFacts, RpcError> {
    let capabilities = meta.capabilities.clone().unwrap_or_else(RawJson::empty_object);
    Ok(ClientFacts {
        info: meta.client_info.clone().map(bounded_info),
        capabilities: bridged(bounded_capabilities(capabilities)?),
        log_level: meta.log_level.clone(),
        loaded: None,
    })
}

/// What a legacy client says about itself, apart from the message it came in: it is kept as long as its session.
pub fn legacy_facts(params: &RawJson) -> Result<ClientFacts, RpcError> {
    let capabilities = params.member("capabilities").filter(RawJson::is_object);
    let capabilities = capabilities.unwrap_or_else(RawJson::empty_object);
    Ok(ClientFacts {
        info: params.member("clientInfo").map(|info| bounded_info(info).detached()),
        capabilities: bounded_capabilities(capabilities)?.detached(),
        log_level: None,
        loaded: Some(Arc::default()),
    })
}

/// A client's description of itself. Of one that is too long, what the gateway needs is kept: name and version, cut.
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

/// Capabilities cannot be cut without meaning something else, so too long ones are refused.
fn bounded_capabilities(capabilities: RawJson) -> Result<RawJson, RpcError> {
    if capabilities.as_bytes().len() <= MAX_FACT_BYTES {
        return Ok(capabilities);
    }
    let why = format!("Invalid params: the client's capabilities are over {MAX_FACT_BYTES} bytes");
    Err(RpcError::new(INVALID_PARAMS, why))
}

/// Capabilities as a server may rely on them: a server that answered with a task could not be followed.
fn bridged(capabilities: RawJson) -> RawJson {
    if !capabilities.as_str().contains(TASKS) {
        return capabilities;
    }
    let without = edit_object(&capabilities, |key, value| match key {
        "extensions" => {
            match edit_object(
                &capabilities.share(value),
                |name, _| if name == TASKS { Edit::Drop } else { Edit::Keep },
            ) {
                Ok(rest) => Edit::Replace(rest),
                Err(_) => Edit::Keep,
            }
        }
        _ => Edit::Keep,
    });
    without.unwrap_or(capabilities)
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
        assert_eq!(bounded_info(usual.clone()).as_str(), usual.as_str(), "as it was sent");
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
