//! Spare connections: used by a call that finds the turn of its own connection taken.
//!
//! A server may keep state in its connection (for stdio: its process), and a spare does not have it. A call
//! therefore waits briefly for its callers' own connection before it looks for a spare, and while a spare is
//! being opened it takes whichever connection is free first. Clients that make one call after another always
//! use the same process. Idle spares are closed (`Pool::close_idle`).

use crate::capabilities::ClientCapabilities;
use crate::connection::{Connection, SharedConnection};
use crate::connection_group::{ConnectionGroup, ConnectionKey};
use crate::lease::ConnectionLease;
use crate::pool::{MAX_CONNECTIONS, Pool, has_share_left};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How long a call waits for its callers' own connection before it looks for a spare.
const OWN_CONNECTION_WAIT: Duration = Duration::from_millis(50);
/// Maximum number of connections of the same callers that work in parallel; further calls wait.
const MAX_PARALLEL: usize = 4;
/// Maximum number in total, including those that wait for a person.
const MAX_GROUP_CONNECTIONS: usize = 16;
/// How long no spare is opened after a failure. Some servers do not support a second process.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// How often a waiting call checks again: meanwhile one of the connections may wait for a person.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The connections of a group at one moment.
struct GroupConnections {
    /// The group's own connection first.
    open: Vec<SharedConnection>,
    opening: usize,
    vacant: Option<ConnectionKey>,
}

impl Pool {
    /// Leases a connection with a turn for one of the group's calls.
    pub(crate) async fn lease(self: &Arc<Self>, group: &ConnectionGroup) -> ConnectionLease {
        let home = &group.home;
        if let Some(lease) = ConnectionLease::try_take(home) {
            return lease;
        }
        if !home.waits_for_person()
            && let Ok(lease) =
                tokio::time::timeout(OWN_CONNECTION_WAIT, ConnectionLease::take(home.clone())).await
        {
            return lease;
        }
        loop {
            let changed = self.spares_changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if home.peer.is_lost() {
                return ConnectionLease::shared(home.clone()); // The next request on it reports the loss.
            }
            let open = self.open_connections(group);
            if let Some(lease) = open.iter().find_map(ConnectionLease::try_take) {
                return lease;
            }
            let turns = open.into_iter().map(|connection| Box::pin(ConnectionLease::take(connection)));
            tokio::select! {
                (lease, ..) = futures_util::future::select_all(turns) => {
                    if !lease.peer.is_lost() {
                        return lease;
                    }
                }
                () = changed => {}
                () = tokio::time::sleep(RECHECK_INTERVAL) => {}
            }
        }
    }

    /// The group's open connections. Starts opening another if that helps.
    fn open_connections(self: &Arc<Self>, group: &ConnectionGroup) -> Vec<SharedConnection> {
        let mut others = self.others();
        let mut connections = GroupConnections { open: vec![group.home.clone()], opening: 0, vacant: None };
        for spare in 1..MAX_GROUP_CONNECTIONS {
            let key = ConnectionKey::spare(&group.sharing, group.capabilities, spare);
            match others.get(&key).map(|cell| cell.get()) {
                Some(Some(open)) if !open.peer.is_lost() => connections.open.push(open.clone()),
                Some(Some(_)) => {}
                Some(None) => connections.opening += 1,
                None => drop(connections.vacant.get_or_insert(key)),
            }
        }
        let GroupConnections { open, opening, vacant } = connections;
        let at_work = open.iter().filter(|connection| !connection.waits_for_person()).count() + opening;
        let free = open.iter().any(|connection| connection.has_free_turn());
        if let Some(key) = vacant
            && !free
            && at_work < MAX_PARALLEL
            && others.len() < MAX_CONNECTIONS
            && has_share_left(&others, key.user())
            && !self.spares_were_refused()
        {
            let cell = others.entry(key.clone()).or_default().clone();
            tokio::spawn(self.clone().open_spare(key, cell, group.home.clone(), group.capabilities));
        }
        open
    }

    /// Opens a spare in its own task: a call that got a turn elsewhere meanwhile must not cancel it, or the
    /// next call would start the same process again.
    async fn open_spare(
        self: Arc<Self>,
        key: ConnectionKey,
        cell: Arc<OnceCell<SharedConnection>>,
        home: Arc<Connection>,
        capabilities: ClientCapabilities,
    ) {
        let opened = self.open_other(&key, &cell, &home, capabilities).await;
        let kept = self.others().get(&key).is_some_and(|kept| Arc::ptr_eq(kept, &cell));
        match opened {
            Ok(connection) if !kept => connection.close().await, // The pool was closed meanwhile.
            Ok(_) => {}
            Err(error) => {
                if kept {
                    self.others().remove(&key);
                }
                *self.spares_refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                tracing::warn!(
                    server.name = %home.server,
                    "server `{}` could not be opened a second time, so its calls run one at a time: {error}",
                    home.server
                );
            }
        }
        self.spares_changed.notify_waiters();
    }

    fn spares_were_refused(&self) -> bool {
        let refused = *self.spares_refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_some_and(|at| at.elapsed() < REFUSED_PAUSE)
    }
}
