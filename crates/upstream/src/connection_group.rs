//! The callers that share connections of a server, and the keys of their connections.

use crate::capabilities::ClientCapabilities;
use crate::connection::SharedConnection;

/// The callers that share connections, with their own connection.
#[derive(Debug)]
pub(crate) struct ConnectionGroup {
    /// Their own connection, already open.
    pub(crate) home: SharedConnection,
    pub(crate) sharing: SharingGroup,
    /// The capabilities announced to the server.
    pub(crate) capabilities: ClientCapabilities,
}

/// Identifies a connection in the pool: the callers that share it, and its number among theirs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionKey {
    sharing: SharingGroup,
    /// The capabilities announced to the server.
    capabilities: ClientCapabilities,
    /// Zero is the callers' own connection; other numbers are spares.
    spare: usize,
}

impl ConnectionKey {
    pub(crate) fn spare(sharing: &SharingGroup, capabilities: ClientCapabilities, spare: usize) -> Self {
        Self { sharing: sharing.clone(), capabilities, spare }
    }

    pub(crate) fn own(sharing: &SharingGroup, capabilities: ClientCapabilities) -> Self {
        Self::spare(sharing, capabilities, 0)
    }

    /// Whether it is a spare connection.
    pub(crate) fn is_spare(&self) -> bool {
        self.spare > 0
    }

    /// The user whose connection limit it counts against, and whose key it uses if users give their own.
    pub(crate) fn user(&self) -> Option<&str> {
        self.sharing.user()
    }
}

/// The callers that share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SharingGroup {
    /// All callers, and the gateway itself.
    All,
    /// The calls of one user.
    User(String),
    /// The calls of one client session. Includes the user, because REST callers choose their session names.
    Session {
        /// The session.
        session: String,
        /// Its user.
        user: String,
    },
}

impl SharingGroup {
    fn user(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::User(user) | Self::Session { user, .. } => Some(user),
        }
    }
}
