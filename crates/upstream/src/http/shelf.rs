//! Lines that are free, kept for the next call to the same origin.

use super::client::{Client, IDLE_LIMIT, MAX_IDLE};
use super::line::Line;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often lines that nobody uses are looked after.
const ROUND: Duration = Duration::from_secs(5);

/// The free lines of one thread, those that were used last at the end.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    lines: Vec<(Line, Instant)>,
    /// Whether somebody makes rounds.
    is_looked_after: bool,
}

impl Shelf {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line that can take a request.
    pub(super) fn take(&self) -> Option<Line> {
        let mut free = self.free();
        while let Some((mut line, since)) = free.lines.pop() {
            if since.elapsed() > IDLE_LIMIT {
                free.lines.clear(); // The rest are older still.
                return None;
            }
            if line.is_quiet() {
                return Some(line);
            }
        }
        None
    }

    /// Keeps a line. `place` is where this shelf stands in its client.
    pub(super) fn put(&self, line: Line, client: &Arc<Client>, place: usize) {
        let mut free = self.free();
        if free.lines.len() >= MAX_IDLE {
            return;
        }
        free.lines.push((line, Instant::now()));
        if !free.is_looked_after
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            free.is_looked_after = true;
            runtime.spawn(look_after(Arc::downgrade(client), place));
        }
    }

    /// Closes all.
    pub(super) fn clear(&self) {
        self.free().lines.clear();
    }

    /// Closes what the server has closed and what is too old; whether any are left.
    fn tidy(&self) -> bool {
        let mut free = self.free();
        free.lines.retain_mut(|(line, since)| since.elapsed() <= IDLE_LIMIT && line.is_quiet());
        for (line, _) in free.lines.iter_mut().filter(|(_, since)| since.elapsed() > ROUND) {
            line.rest();
        }
        free.is_looked_after = !free.lines.is_empty();
        free.is_looked_after
    }
}

/// Makes rounds for as long as lines are kept: a line has no task that would see its server close it.
async fn look_after(client: Weak<Client>, place: usize) {
    loop {
        tokio::time::sleep(ROUND).await;
        let Some(client) = client.upgrade() else { return };
        if !client.shelf(place).tidy() {
            return;
        }
    }
}
