//! The other gateways on a shared store: what they decide, and the work of those that have ended.

use crate::engine::Engine;
use std::sync::Arc;
use toolbooth_core::fault::Problem;
use toolbooth_store::{StoreNotice, StoreTopic};

impl Engine {
    /// Whether other gateways may use the same store.
    pub fn is_shared(&self) -> bool {
        self.store().is_shared()
    }

    /// Whether a notice of mail concerns this gateway.
    pub fn is_for_this_gateway(&self, notice: StoreNotice) -> bool {
        notice.id.is_none_or(|id| self.store().replica() == id.to_string())
    }

    /// Sends the events of this gateway to the others on a shared store, for as long as it is polled.
    pub async fn send_events(&self) {
        self.events().send_to_others(self.replica_mail()).await;
    }

    /// Takes notice of a change that another gateway has committed.
    pub async fn take_notice(&self, notice: StoreNotice) {
        if notice.is_about(StoreTopic::Held) {
            self.approvals().note_elsewhere(notice.id).await;
        }
        if notice.is_about(StoreTopic::Decisions)
            && let Err(error) = self.catalog().reload_decisions().await
        {
            // Kept as they are until the next notice, which comes when the store can be read again.
            tracing::error!("the decisions of other gateways could not be read: {error}");
        }
        if notice.is_about(StoreTopic::Vaults) {
            // In the background: a sign-in that is in progress may last.
            let servers = self.servers().clone();
            tokio::spawn(async move { servers.follow_vaults().await });
        }
        if notice.is_about(StoreTopic::Letters) {
            self.dead_letters().note_elsewhere();
        }
    }

    /// Checks that the store can be used; without it, calls cannot be recorded.
    pub async fn check_store(&self) -> Result<(), Problem> {
        self.store().check().await.map_err(|error| Problem::of(&error))
    }

    /// Ends the unfinished work of gateways that have ended, and runs approved calls that they left behind.
    pub async fn end_lost_work(self: &Arc<Self>) {
        if !self.is_shared() {
            return;
        }
        let now_ms = self.clock().now_ms();
        let next_retry_ms = self.dead_letters().first_replay_ms(now_ms);
        let grants_until_ms = self.files().grants_end_ms(now_ms);
        match self.store().end_lost_work(now_ms, next_retry_ms, grants_until_ms).await {
            Ok(lost) => {
                if lost.calls > 0 || !lost.held.is_empty() || !lost.letters.is_empty() {
                    tracing::warn!(
                        calls = lost.calls,
                        held = lost.held.len(),
                        letters = lost.letters.len(),
                        "another gateway has ended; the outcome of its running calls is unknown"
                    );
                    self.dead_letters().note_elsewhere();
                }
            }
            Err(error) => tracing::error!("the work of ended gateways could not be closed: {error}"),
        }
        self.approvals().run_unclaimed().await;
    }
}
