//! How many streams of changes are open, in all and by whom: one user's streams cannot keep out another's.

use crate::connections::ConnectionLimits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use toolbooth_core::json::RawJson;
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::INVALID_REQUEST;

/// Open streams by user.
#[derive(Debug)]
pub struct Streams {
    taken: Mutex<HashMap<Arc<str>, usize>>,
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
        let (total, of_user) = (limits.total / 2, limits.of_user / 2);
        Arc::new(Self { taken: Mutex::default(), total, of_user: of_user.max(1) })
    }

    /// One more stream of this user.
    pub fn take(self: &Arc<Self>, user: &Arc<str>) -> Result<StreamSeat, RpcError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let mine = taken.get(user).copied().unwrap_or_default();
        if mine >= self.of_user || all >= self.total {
            let data = serde_json::json!({"toolbooth": {
                "code": "request.too-many-streams",
                "hint": "close streams that are no longer read; one stream can carry all changes",
            }});
            let error = RpcError::new(INVALID_REQUEST, format!("you have {mine} streams open already"));
            return Err(error.with_data(RawJson::from_value(&data)));
        }
        *taken.entry(user.clone()).or_default() += 1;
        Ok(StreamSeat { streams: self.clone(), user: user.clone() })
    }
}

impl Drop for StreamSeat {
    fn drop(&mut self) {
        let mut taken = self.streams.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.user);
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
    }
}
