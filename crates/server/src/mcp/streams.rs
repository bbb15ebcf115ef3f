//! How many streams of changes are open, in all and by whom: one user's streams cannot keep out another's.

use crate::connections::ConnectionLimits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::json::RawJson;
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::INVALID_REQUEST;

/// Open streams by user.
#[derive(Debug)]
pub struct Streams {
    seats: Mutex<OpenStreams>,
}

/// Streams that are open, and how many may be.
#[derive(Debug)]
struct OpenStreams {
    taken: HashMap<Arc<str>, usize>,
    total: usize,
    of_user: usize,
}

/// The right to one stream; dropping it gives it back.
#[derive(Debug)]
pub struct StreamSeat {
    streams: Arc<Streams>,
    user: Arc<str>,
}

impl Streams {
    /// At most half of the connections are streams, and half of those that one user may have.
    pub fn within(limits: ConnectionLimits) -> Arc<Self> {
        let seats = OpenStreams { taken: HashMap::new(), total: 0, of_user: 0 };
        let streams = Self { seats: Mutex::new(seats) };
        streams.set_limits(limits);
        Arc::new(streams)
    }

    /// Puts other bounds in force, for streams that are opened from now on.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        let mut seats = self.seats();
        seats.total = limits.total / 2;
        seats.of_user = (limits.of_user / 2).max(1);
    }

    fn seats(&self) -> MutexGuard<'_, OpenStreams> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more stream of this user.
    pub fn take(self: &Arc<Self>, user: &Arc<str>) -> Result<StreamSeat, RpcError> {
        let mut seats = self.seats();
        let all: usize = seats.taken.values().sum();
        let mine = seats.taken.get(user).copied().unwrap_or_default();
        if mine >= seats.of_user || all >= seats.total {
            let data = serde_json::json!({"toolbooth": {
                "code": "request.too-many-streams",
                "hint": "close streams that are no longer read; one stream can carry all changes",
            }});
            let error = RpcError::new(INVALID_REQUEST, format!("you have {mine} streams open already"));
            return Err(error.with_data(RawJson::from_value(&data)));
        }
        *seats.taken.entry(user.clone()).or_default() += 1;
        Ok(StreamSeat { streams: self.clone(), user: user.clone() })
    }
}

impl Drop for StreamSeat {
    fn drop(&mut self) {
        let mut seats = self.streams.seats();
        if let Some(count) = seats.taken.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                seats.taken.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_users_streams_leave_room_for_anothers() {
        let limits = ConnectionLimits { total: 16, strangers: 4, of_source: 2, of_user: 6 };
        let streams = Streams::within(limits);
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let mut hers: Vec<_> = (0..10).filter_map(|_| streams.take(&ann).ok()).collect();
        assert_eq!(hers.len(), 3);
        assert!(streams.take(&bob).is_ok());
        hers.pop();
        assert!(streams.take(&ann).is_ok());
        streams.set_limits(ConnectionLimits { of_user: 2, ..limits });
        assert!(streams.take(&ann).is_err(), "another share holds at once");
    }
}
