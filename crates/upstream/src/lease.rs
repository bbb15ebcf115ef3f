//! Leases of connections for calls.
//!
//! On stdio, WebSocket and HTTP+SSE nothing links a server's question to the call that caused it. A
//! connection on which the server may ask therefore has one turn, and only the call that holds it can be
//! asked: with two such calls side by side, one user might confirm an action of another user's call. A call
//! that finds the turn taken uses a spare connection instead of waiting for a slow call (see `spares`).
//!
//! Calls whose clients cannot be asked, or are asked only if no other call is in flight (REST), take no turn,
//! because most servers never ask. A question that arrives while several calls are in flight, or one whose
//! client cannot be asked, is refused. From then on such calls take turns too, so that questions can be
//! assigned again.

use crate::connection::{ASKABLE, Connection, SharedConnection, UpstreamRequest};
use crate::error::UpstreamError;
use crate::link::CallLink;
use crate::peer::{PeerAnswer, QuestionPolicy};
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use tokio::sync::OwnedSemaphorePermit;
use toolbooth_core::caller::{AskedWhen, ClientFacts};

/// A call's lease of a connection. It holds the connection's turn, if the call needs one, until it is
/// dropped.
#[derive(Debug)]
pub struct ConnectionLease {
    connection: SharedConnection,
    turn: Option<OwnedSemaphorePermit>,
}

impl ConnectionLease {
    /// A lease without a turn.
    pub(crate) fn shared(connection: SharedConnection) -> Self {
        Self { connection, turn: None }
    }

    /// A lease with the turn, if the connection has turns and the turn is free.
    pub(crate) fn try_take(connection: &SharedConnection) -> Option<Self> {
        let turn = connection.turns.clone()?.try_acquire_owned().ok()?;
        Some(Self { connection: connection.clone(), turn: Some(turn) })
    }

    /// Waits for the turn, if the connection has turns.
    pub async fn take(connection: SharedConnection) -> Self {
        let turn = match connection.turns.clone() {
            Some(turns) => turns.acquire_owned().await.ok(),
            None => None,
        };
        Self { connection, turn }
    }

    /// Sends a request for a client. Dropping the future cancels the request on the server too.
    pub async fn send(
        &self,
        request: UpstreamRequest<'_>,
        link: &CallLink,
    ) -> Result<PeerAnswer, UpstreamError> {
        if self.turn.is_some() {
            *self.connection.turn_holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
        }
        let question_policy = self.question_policy_for(request.client);
        pin!(self.connection.send_with_policy(request, question_policy, link)).await
    }

    /// The connection, for a request that must outlive the lease.
    pub fn connection(&self) -> Arc<Connection> {
        self.connection.clone()
    }

    /// Whether the server may ask this client questions.
    fn question_policy_for(&self, client: &ClientFacts) -> QuestionPolicy {
        // Without turns, a question is assigned only if a single call is in flight.
        let is_attributable =
            self.connection.turns.is_none() || self.turn.is_some() || client.asked_when == AskedWhen::Alone;
        match self.connection.question_policy {
            QuestionPolicy::Allowed if is_attributable && can_be_asked(client) => QuestionPolicy::Allowed,
            QuestionPolicy::Allowed | QuestionPolicy::Refused => QuestionPolicy::Refused,
            QuestionPolicy::No => QuestionPolicy::No,
        }
    }
}

/// Whether the calls of a client take turns before the server has asked anything.
pub(crate) fn takes_turns(client: &ClientFacts) -> bool {
    client.asked_when == AskedWhen::InTurn && can_be_asked(client)
}

/// Whether a client can be asked anything.
fn can_be_asked(client: &ClientFacts) -> bool {
    ASKABLE.iter().any(|capability| client.can(capability))
}

impl Deref for ConnectionLease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        self.connection.touch();
        if self.turn.is_some() {
            *self.connection.turn_holder.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}
