//! The client of one request: its era, its caller, and what it said about itself.

use super::session::Session;
use std::sync::Arc;
use toolbooth_core::caller::{Caller, ClientFacts};
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
    /// The era it speaks.
    pub fn era(&self) -> Era {
        self.revision.era()
    }
}
