//! Notices about changes that other gateways on the same store have committed, and the work of gateways that have ended.

use tokio::sync::broadcast;
use toolbooth_core::dead_letter::DeadLetter;
use toolbooth_core::held::HeldCall;
use uuid::Uuid;

/// The kinds of records whose changes other gateways must know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreTopic {
    /// Discoveries and names of tools.
    Catalog,
    /// Consents, pins, plans and releases.
    Decisions,
    /// Held calls.
    Held,
    /// Jobs and their runs.
    Jobs,
    /// Dead letters.
    Letters,
    /// Messages to gateways. The id is the gateway's, if there is one recipient.
    Mail,
    /// Sessions of legacy clients.
    Sessions,
    /// Bearer tokens.
    Tokens,
    /// Vaults: OAuth tokens for servers, and users' keys.
    Vaults,
}

impl StoreTopic {
    /// All topics.
    pub const ALL: [Self; 9] = [
        Self::Catalog,
        Self::Decisions,
        Self::Held,
        Self::Jobs,
        Self::Letters,
        Self::Mail,
        Self::Sessions,
        Self::Tokens,
        Self::Vaults,
    ];

    /// The name of the topic in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Decisions => "decisions",
            Self::Held => "held",
            Self::Jobs => "jobs",
            Self::Letters => "letters",
            Self::Mail => "mail",
            Self::Sessions => "sessions",
            Self::Tokens => "tokens",
            Self::Vaults => "vaults",
        }
    }

    /// The topic with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.as_str() == name)
    }
}

/// A notice that another gateway has changed records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreNotice {
    /// The kind of records; `None` if notices may have been lost, so that any record may have changed.
    pub topic: Option<StoreTopic>,
    /// The changed record, if it is a single known one.
    pub id: Option<Uuid>,
}

impl StoreNotice {
    /// Notices may have been lost: all cached records must be read again.
    pub const ANY: Self = Self { topic: None, id: None };

    /// Whether records of this topic may have changed.
    pub fn is_about(&self, topic: StoreTopic) -> bool {
        self.topic.is_none_or(|changed| changed == topic)
    }
}

/// The notices of a store, for one follower.
#[derive(Debug)]
pub struct StoreNotices {
    receiver: broadcast::Receiver<StoreNotice>,
}

impl StoreNotices {
    pub(crate) fn new(receiver: broadcast::Receiver<StoreNotice>) -> Self {
        Self { receiver }
    }

    /// Waits for the next notice; `None` when the store is closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<StoreNotice> {
        match self.receiver.recv().await {
            Ok(notice) => Some(notice),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(StoreNotice::ANY),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The unfinished work of gateways that have ended.
#[derive(Debug, Default)]
pub struct LostWork {
    /// The number of calls whose outcome is unknown.
    pub calls: u64,
    /// The held calls that had been claimed; their outcome is unknown.
    pub held: Vec<HeldCall>,
    /// The dead letters whose replay was interrupted.
    pub letters: Vec<DeadLetter>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_its_own_name() {
        for topic in StoreTopic::ALL {
            assert_eq!(StoreTopic::named(topic.as_str()), Some(topic));
        }
        assert_eq!(StoreTopic::named("other"), None);
    }
}
