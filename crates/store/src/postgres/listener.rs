//! Follows the changes of other gateways: by notices of the database, and by polling in case that notices are lost or not
//! available (behind a connection pooler).

use super::database::Database;
use super::topics::notices_in;
use crate::notices::{StoreNotice, StoreTopic};
use sqlx::Row;
use sqlx::postgres::{PgListener, PgPool};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often the counters of changes are read.
const POLL: Duration = Duration::from_secs(1);
/// After how many polls a lost listener is opened again.
const RELISTEN_POLLS: u32 = 5;
/// The most notices that a follower may be behind.
pub(super) const BACKLOG: usize = 1_024;

const CHANGES: &str = "SELECT topic, number FROM changes";

/// Publishes the changes of other gateways to the followers in this process.
pub(super) struct ChangeListener {
    pub(super) database: Database,
    pub(super) readers: PgPool,
    pub(super) replica: String,
    pub(super) followers: broadcast::Sender<StoreNotice>,
}

impl ChangeListener {
    /// Runs until the task is ended or the store is closed.
    pub(super) async fn run(self) {
        let mut seen = None;
        let mut polls = interval(POLL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut warned = false;
        while !self.readers.is_closed() {
            match self.database.listen().await {
                Ok(listener) => {
                    warned = false;
                    // Changes may have been missed before the listener was ready.
                    self.publish(StoreNotice::ANY);
                    self.receive(listener, &mut polls, &mut seen).await;
                }
                Err(error) if !warned => {
                    warned = true;
                    tracing::warn!(%error, "changes of other gateways are polled, because notices are not available");
                }
                Err(_) => {}
            }
            for _ in 0..RELISTEN_POLLS {
                polls.tick().await;
                self.poll(&mut seen).await;
            }
        }
    }

    /// Receives notices until the connection fails.
    async fn receive(
        &self,
        mut listener: PgListener,
        polls: &mut Interval,
        seen: &mut Option<HashMap<String, i64>>,
    ) {
        loop {
            tokio::select! {
                biased;
                received = listener.try_recv() => match received {
                    Ok(Some(notice)) => {
                        notices_in(notice.payload(), &self.replica).into_iter().for_each(|notice| self.publish(notice));
                    }
                    // The connection was lost, and notices with it.
                    Ok(None) => self.publish(StoreNotice::ANY),
                    Err(error) => {
                        tracing::warn!(%error, "notices of other gateways cannot be received; changes are polled");
                        return;
                    }
                },
                _ = polls.tick() => self.poll(seen).await,
            }
        }
    }

    /// Publishes the topics that have changed since the last poll.
    async fn poll(&self, seen: &mut Option<HashMap<String, i64>>) {
        let rows = match sqlx::query(CHANGES).fetch_all(&self.readers).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::debug!(%error, "the counters of changes could not be read");
                return;
            }
        };
        let counter = |row: &sqlx::postgres::PgRow| Some((row.try_get(0).ok()?, row.try_get(1).ok()?));
        let counters: HashMap<String, i64> = rows.iter().filter_map(counter).collect();
        if let Some(seen) = seen {
            for (name, number) in &counters {
                if seen.get(name) != Some(number)
                    && let Some(topic) = StoreTopic::named(name)
                {
                    self.publish(StoreNotice { topic: Some(topic), id: None });
                }
            }
        }
        *seen = Some(counters);
    }

    fn publish(&self, notice: StoreNotice) {
        // An error means that this process has no follower.
        let _ = self.followers.send(notice);
    }
}
