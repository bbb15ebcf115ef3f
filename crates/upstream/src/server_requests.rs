//! Bounds on the requests that a server sends to the gateway on one connection: how many and how much may wait for an
//! answer, and how fast they may come. A server beyond them loses the connection.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use toolbooth_core::json::RawJson;
use toolbooth_wire::Request;

/// How many requests of a server may wait for their answers.
const MAX_WAITING: usize = 128;
/// How many bytes of them, unless it is only one.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// How many requests may come at once, and how many a second in the long run.
const BURST: f64 = 1000.0;
const PER_SECOND: f64 = 100.0;

/// How far a server went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flood {
    /// It does not wait for, or does not read, the answers.
    Waiting,
    /// Its requests are too large to be kept.
    Bytes,
    /// It asks too fast.
    Rate,
}

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => write!(f, "it sent more than {MAX_WAITING} requests without taking the answers"),
            Self::Bytes => write!(f, "its unanswered requests exceed {} MiB", MAX_WAITING_BYTES >> 20),
            Self::Rate => write!(f, "it sent more than {PER_SECOND} requests a second"),
        }
    }
}

#[derive(Debug)]
struct Load {
    waiting: usize,
    waiting_bytes: usize,
    allowance: f64,
    refilled: Instant,
}

/// The requests of one server on one connection.
#[derive(Debug)]
pub(crate) struct ServerRequests(Arc<Mutex<Load>>);

impl Default for ServerRequests {
    fn default() -> Self {
        let refilled = Instant::now();
        Self(Arc::new(Mutex::new(Load { waiting: 0, waiting_bytes: 0, allowance: BURST, refilled })))
    }
}

/// A request that is being answered. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Admitted {
    load: Arc<Mutex<Load>>,
    bytes: usize,
}

fn lock(load: &Mutex<Load>) -> MutexGuard<'_, Load> {
    load.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerRequests {
    /// Takes a request in, or says which bound it breaks.
    pub(crate) fn admit(&self, request: &Request) -> Result<Admitted, Flood> {
        self.admit_at(request, Instant::now())
    }

    fn admit_at(&self, request: &Request, now: Instant) -> Result<Admitted, Flood> {
        let id_bytes = request.id.raw().as_bytes().len();
        let params = request.params.as_ref().map_or(0, |params: &RawJson| params.as_bytes().len());
        let bytes = id_bytes + request.method.len() + params;
        let mut load = lock(&self.0);
        let since: Duration = now.saturating_duration_since(load.refilled);
        load.allowance = (load.allowance + since.as_secs_f64() * PER_SECOND).min(BURST);
        load.refilled = now;
        if load.allowance < 1.0 {
            return Err(Flood::Rate);
        }
        if load.waiting >= MAX_WAITING {
            return Err(Flood::Waiting);
        }
        if load.waiting > 0 && load.waiting_bytes + bytes > MAX_WAITING_BYTES {
            return Err(Flood::Bytes);
        }
        load.allowance -= 1.0;
        load.waiting += 1;
        load.waiting_bytes += bytes;
        drop(load);
        Ok(Admitted { load: self.0.clone(), bytes })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut load = lock(&self.load);
        load.waiting -= 1;
        load.waiting_bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_wire::Id;

    fn request(id: &str, params: usize) -> Request {
        let id = Id::from_raw(&RawJson::from_value(id)).expect("a text is an id");
        Request { id, method: "ping".into(), params: Some(RawJson::from_value(&"x".repeat(params))) }
    }

    #[test]
    fn every_bound_is_its_own() {
        let requests = ServerRequests::default();
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| requests.admit(&request("a", 1))).collect();
        assert!(waiting.iter().all(Result::is_ok));
        assert_eq!(requests.admit(&request("a", 1)).err(), Some(Flood::Waiting));
        drop(waiting);
        let large = requests.admit(&request("a", MAX_WAITING_BYTES + 1));
        assert!(large.is_ok(), "one request is as large as a message may be");
        assert_eq!(requests.admit(&request("a", 1)).err(), Some(Flood::Bytes));
    }

    #[test]
    fn a_burst_passes_and_a_flood_does_not() {
        let (requests, start) = (ServerRequests::default(), Instant::now());
        let within = (0..2000).take_while(|_| requests.admit_at(&request("a", 1), start).is_ok()).count();
        assert_eq!(within, 1000);
        let later = start + Duration::from_secs(1);
        let more = (0..2000).take_while(|_| requests.admit_at(&request("a", 1), later).is_ok()).count();
        assert_eq!(more, 100);
    }
}
