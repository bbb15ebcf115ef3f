//! A call's place on a connection.
//!
//! On stdio, WebSocket and HTTP+SSE nothing links a server's question to the call that caused it. So a
//! connection on which the server may ask has one turn, and only the call that has it can be asked: with two
//! such calls side by side, one person might confirm what the other's call is about to do. A call that finds
//! the turn taken goes to a spare connection rather than wait behind a slow one (see `spares`).
//!
//! Calls of clients that cannot be asked take no turn, as most servers never ask. Should a question come while
//! one of them is under way, nobody is shown it; and from then on, calls of such clients take turns too, so
//! that they spoil nobody's questions again.

use crate::connection::{ASKABLE, Ask, Connection, SharedConnection};
use crate::error::UpstreamError;
use crate::link::CallLink;
use crate::peer::{Asking, PeerAnswer};
use std::ops::Deref;
use std::pin::pin;
use std::sync::PoisonError;
use tokio::sync::OwnedSemaphorePermit;
use toolbooth_core::caller::ClientFacts;

/// A call's place on a connection; its turn, where it needs one, lasts as long as it lives.
#[derive(Debug)]
pub struct Seat {
    connection: SharedConnection,
    turn: Option<OwnedSemaphorePermit>,
}

impl Seat {
    /// A place without a turn.
    pub(crate) fn shared(connection: SharedConnection) -> Self {
        Self { connection, turn: None }
    }

    /// A place with the turn, where there are turns and nobody has it.
    pub(crate) fn try_take(connection: &SharedConnection) -> Option<Self> {
        let turn = connection.turns.clone()?.try_acquire_owned().ok()?;
        Some(Self { connection: connection.clone(), turn: Some(turn) })
    }

    /// Waits for the turn, where there are turns.
    pub async fn take(connection: SharedConnection) -> Self {
        let turn = match connection.turns.clone() {
            Some(turns) => turns.acquire_owned().await.ok(),
            None => None,
        };
        Self { connection, turn }
    }

    /// Asks the server for a client. Dropping the future cancels the request there too.
    pub async fn ask(&self, ask: Ask<'_>, link: &CallLink) -> Result<PeerAnswer, UpstreamError> {
        if self.turn.is_some() {
            *self.connection.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
        }
        let asking = self.asking_for(ask.client);
        pin!(self.connection.request(ask, asking, link)).await
    }

    /// Whether the server may ask this client anything.
    fn asking_for(&self, client: &ClientFacts) -> Asking {
        let told_apart = self.connection.turns.is_none() || self.turn.is_some();
        match self.connection.asking {
            Asking::Allowed if told_apart && can_be_asked(client) => Asking::Allowed,
            Asking::Allowed | Asking::Refused => Asking::Refused,
            Asking::No => Asking::No,
        }
    }
}

/// Whether a client can be asked anything at all.
pub(crate) fn can_be_asked(client: &ClientFacts) -> bool {
    ASKABLE.iter().any(|capability| client.can(capability))
}

impl Deref for Seat {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connection.touch();
        if self.turn.is_some() {
            *self.connection.holder.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}
