//! Spare connections: where a call goes that finds the turn of its own connection taken.
//!
//! A server may keep state in its connection (for stdio: its process), and a spare has none of it. So a call
//! waits a little for its callers' own connection before it looks elsewhere, and while a spare is being
//! opened it takes whichever is free first: clients that call one thing after another always meet the same
//! process. Spares that nobody uses are closed again (`Pool::close_idle`).

use crate::capabilities::Askable;
use crate::connection::{Connection, SharedConnection};
use crate::pool::{Key, MAX_CONNECTIONS, Pool, Sharing, has_share_left};
use crate::seat::Seat;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// How long a call waits for its callers' own connection before it looks for a spare.
const GRACE: Duration = Duration::from_millis(50);
/// How many connections of the same callers work side by side; further calls wait for one of them.
const MAX_AT_ONCE: usize = 4;
/// How many there may be in all, with those that wait for a person.
const MAX_IN_ALL: usize = 16;
/// How long no spare is tried after one could not be opened. Some servers bear no second process.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// How often a waiting call looks anew: by now one of the connections may wait for a person.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Callers who share connections.
#[derive(Debug)]
pub(crate) struct Party {
    /// Their own connection, opened already.
    pub(crate) home: SharedConnection,
    pub(crate) sharing: Sharing,
    /// What the server is told they can be asked.
    pub(crate) asked: Askable,
}

/// The connections of a party at one moment.
struct Lineup {
    /// Home first.
    open: Vec<SharedConnection>,
    opening: usize,
    vacant: Option<Key>,
}

impl Pool {
    /// A place with a turn for one of the party's calls.
    pub(crate) async fn seat(self: &Arc<Self>, party: &Party) -> Seat {
        let home = &party.home;
        if let Some(seat) = Seat::try_take(home) {
            return seat;
        }
        if !home.is_held_up()
            && let Ok(seat) = tokio::time::timeout(GRACE, Seat::take(home.clone())).await
        {
            return seat;
        }
        loop {
            let changed = self.spares_changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if home.peer.is_lost() {
                return Seat::shared(home.clone()); // Its next request says why.
            }
            let open = self.line_up(party);
            if let Some(seat) = open.iter().find_map(Seat::try_take) {
                return seat;
            }
            let turns = open.into_iter().map(|connection| Box::pin(Seat::take(connection)));
            tokio::select! {
                (seat, ..) = futures_util::future::select_all(turns) => {
                    if !seat.peer.is_lost() {
                        return seat;
                    }
                }
                () = changed => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// The party's connections; starts one more where that would help.
    fn line_up(self: &Arc<Self>, party: &Party) -> Vec<SharedConnection> {
        let mut others = self.others();
        let mut lineup = Lineup { open: vec![party.home.clone()], opening: 0, vacant: None };
        for spare in 1..MAX_IN_ALL {
            let key = Key::spare(&party.sharing, party.asked, spare);
            match others.get(&key).map(|cell| cell.get()) {
                Some(Some(open)) if !open.peer.is_lost() => lineup.open.push(open.clone()),
                Some(Some(_)) => {}
                Some(None) => lineup.opening += 1,
                None => drop(lineup.vacant.get_or_insert(key)),
            }
        }
        let Lineup { open, opening, vacant } = lineup;
        let at_work = open.iter().filter(|connection| !connection.is_held_up()).count() + opening;
        let free = open.iter().any(|connection| connection.has_free_turn());
        if let Some(key) = vacant
            && !free
            && at_work < MAX_AT_ONCE
            && others.len() < MAX_CONNECTIONS
            && has_share_left(&others, key.user())
            && !self.spares_were_refused()
        {
            let cell = others.entry(key.clone()).or_default().clone();
            tokio::spawn(self.clone().open_spare(key, cell, party.home.clone(), party.asked));
        }
        open
    }

    /// Opens a spare, on a task of its own: a call that found its turn elsewhere meanwhile must not stop it,
    /// or the next one would start the same process over again.
    async fn open_spare(
        self: Arc<Self>,
        key: Key,
        cell: Arc<OnceCell<SharedConnection>>,
        home: Arc<Connection>,
        asked: Askable,
    ) {
        let opened = self.open_other(&key, &cell, &home, asked).await;
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
                    "server `{}` could not be opened a second time, so its calls wait for one another: {error}",
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
