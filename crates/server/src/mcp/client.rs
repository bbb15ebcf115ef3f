//! The client of one request: its era, its caller, and what it said about itself.

use super::session::Session;
use std::sync::Arc;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::{Edit, RawJson, edit_object};
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Era, Revision};

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

/// What a modern client says about itself with a request.
pub fn modern_facts(meta: &RequestMeta) -> ClientFacts {
    let capabilities = meta.capabilities.clone().unwrap_or_else(RawJson::empty_object);
    ClientFacts {
        info: meta.client_info.clone(),
        capabilities: bridged(capabilities),
        log_level: meta.log_level.clone(),
        loaded: None,
    }
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
