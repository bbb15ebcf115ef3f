//! A client's stream of change notifications.

use super::events::EventReader;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// The change notifications of one client. Dropping it closes the connection.
#[derive(Debug)]
pub struct ChangeFeed {
    events: EventReader,
    /// The subscription id in every message of a modern stream.
    tag: Option<Value>,
}

impl ChangeFeed {
    /// Reads change notifications from these events.
    pub fn new(events: EventReader, tag: Option<Value>) -> Self {
        Self { events, tag }
    }

    /// Waits for a notification of this method and returns its params; other messages are skipped.
    pub async fn wait_for(&mut self, method: &str, timeout: Duration) -> Option<Value> {
        let end = Instant::now() + timeout;
        loop {
            let message = self.next_until(end).await?;
            if message["method"] == method {
                return Some(message["params"].clone());
            }
        }
    }

    /// Collects all messages until the timeout.
    pub async fn gather(&mut self, timeout: Duration) -> Vec<Value> {
        let end = Instant::now() + timeout;
        let mut all = Vec::new();
        while let Some(message) = self.next_until(end).await {
            all.push(message);
        }
        all
    }

    /// The last message of a stream that is about to end.
    pub async fn last(&mut self, timeout: Duration) -> Option<Value> {
        let end = Instant::now() + timeout;
        let mut last = None;
        loop {
            match tokio::time::timeout_at(end, self.events.next()).await {
                Ok(Some(message)) => last = Some(message),
                Ok(None) => return last,
                Err(_) => panic!("the stream did not end; the last message was {last:?}"),
            }
        }
    }

    async fn next_until(&mut self, end: Instant) -> Option<Value> {
        let message = tokio::time::timeout_at(end, self.events.next()).await.ok()??;
        let tag = message["params"]["_meta"].get("io.modelcontextprotocol/subscriptionId");
        assert_eq!(
            tag,
            self.tag.as_ref(),
            "every message of a modern stream has the subscription id: {message}"
        );
        Some(message)
    }
}
