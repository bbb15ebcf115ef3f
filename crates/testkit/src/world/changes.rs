//! A stream of changes as a client hears them.

use super::events::Events;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// The stream of one client. Dropping it hangs up.
#[derive(Debug)]
pub struct Changes {
    events: Events,
    /// What every message of a modern stream is tagged with.
    tag: Option<Value>,
}

impl Changes {
    /// Reads changes from these events.
    pub fn new(events: Events, tag: Option<Value>) -> Self {
        Self { events, tag }
    }

    /// Waits for a notification of this method and gives its params; others pass by.
    pub async fn wait_for(&mut self, method: &str, patience: Duration) -> Option<Value> {
        let end = Instant::now() + patience;
        loop {
            let message = self.next_until(end).await?;
            if message["method"] == method {
                return Some(message["params"].clone());
            }
        }
    }

    /// Everything that comes while this long.
    pub async fn gather(&mut self, patience: Duration) -> Vec<Value> {
        let end = Instant::now() + patience;
        let mut all = Vec::new();
        while let Some(message) = self.next_until(end).await {
            all.push(message);
        }
        all
    }

    /// The last message of a stream that is about to end.
    pub async fn last(&mut self, patience: Duration) -> Option<Value> {
        let end = Instant::now() + patience;
        let mut last = None;
        loop {
            match tokio::time::timeout_at(end, self.events.next()).await {
                Ok(Some(message)) => last = Some(message),
                Ok(None) => return last,
                Err(_) => panic!("the stream did not end; last came {last:?}"),
            }
        }
    }

    async fn next_until(&mut self, end: Instant) -> Option<Value> {
        let message = tokio::time::timeout_at(end, self.events.next()).await.ok()??;
        let tag = message["params"]["_meta"].get("io.modelcontextprotocol/subscriptionId");
        assert_eq!(tag, self.tag.as_ref(), "every message of a modern stream is tagged: {message}");
        Some(message)
    }
}
