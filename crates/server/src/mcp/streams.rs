//! Limits on open change streams, in total and per user.

use crate::connections::ConnectionLimits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::json::RawJson;
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::INVALID_REQUEST;

/// Open streams by user.
#[derive(Debug)]
pub struct Streams {
    open: Mutex<OpenStreams>,
}

/// The open streams and their limits.
#[derive(Debug)]
struct OpenStreams {
    count: HashMap<Arc<str>, usize>,
    total: usize,
    per_user: usize,
}

/// Permission to hold one stream open; released on drop.
#[derive(Debug)]
pub struct StreamPermit {
    streams: Arc<Streams>,
    user: Arc<str>,
}

impl Streams {
    /// At most half of the connections are streams, and half of each user's.
    pub fn within(limits: ConnectionLimits) -> Arc<Self> {
        let open = OpenStreams { count: HashMap::new(), total: 0, per_user: 0 };
        let streams = Self { open: Mutex::new(open) };
        streams.set_limits(limits);
        Arc::new(streams)
    }

    /// Changes the limits for new streams.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        let mut open = self.open();
        open.total = limits.total / 2;
        open.per_user = (limits.per_user / 2).max(1);
    }

    fn open(&self) -> MutexGuard<'_, OpenStreams> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves one stream for this user.
    pub fn take(self: &Arc<Self>, user: &Arc<str>) -> Result<StreamPermit, RpcError> {
        let mut open = self.open();
        let all: usize = open.count.values().sum();
        let mine = open.count.get(user).copied().unwrap_or_default();
        if mine >= open.per_user || all >= open.total {
            let data = serde_json::json!({"toolbooth": {
                "code": "request.too-many-streams",
                "hint": "close streams that are no longer read; one stream can carry all changes",
            }});
            let error = RpcError::new(INVALID_REQUEST, format!("you already have {mine} open streams"));
            return Err(error.with_data(RawJson::from_value(&data)));
        }
        *open.count.entry(user.clone()).or_default() += 1;
        Ok(StreamPermit { streams: self.clone(), user: user.clone() })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.streams.open();
        if let Some(count) = open.count.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.count.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_users_streams_leave_room_for_anothers() {
        let limits = ConnectionLimits { total: 16, unidentified: 4, per_source: 2, per_user: 6 };
        let streams = Streams::within(limits);
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let mut hers: Vec<_> = (0..10).filter_map(|_| streams.take(&ann).ok()).collect();
        assert_eq!(hers.len(), 3);
        assert!(streams.take(&bob).is_ok());
        hers.pop();
        assert!(streams.take(&ann).is_ok());
        streams.set_limits(ConnectionLimits { per_user: 2, ..limits });
        assert!(streams.take(&ann).is_err(), "a new limit applies at once");
    }
}
