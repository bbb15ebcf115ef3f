//! Limits on the requests that a server sends to the gateway on one connection: number and size of unanswered
//! requests, and rate. A server that exceeds a limit is disconnected.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::json::RawJson;
use toolbooth_wire::Request;

/// Maximum number of unanswered requests.
const MAX_WAITING: usize = 128;
/// Maximum total size of unanswered requests; a single larger one is allowed.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// Token bucket for incoming requests: burst size and refill rate.
const BURST: f64 = 1000.0;
const PER_SECOND: f64 = 100.0;

/// The limit that a server exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flood {
    /// Too many unanswered requests: the server does not wait for the answers or does not read them.
    Waiting,
    /// The unanswered requests are too large.
    Bytes,
    /// Too many requests per second.
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
struct RequestLoad {
    waiting: usize,
    waiting_bytes: usize,
    allowance: f64,
    refilled: Instant,
}

/// The incoming requests of one connection.
#[derive(Debug)]
pub(crate) struct ServerRequests(Arc<Mutex<RequestLoad>>);

impl Default for ServerRequests {
    fn default() -> Self {
        let refilled = Instant::now();
        Self(Arc::new(Mutex::new(RequestLoad { waiting: 0, waiting_bytes: 0, allowance: BURST, refilled })))
    }
}

/// A request that is being answered. Dropping it releases its share of the limits.
#[derive(Debug)]
pub(crate) struct Admitted {
    load: Arc<Mutex<RequestLoad>>,
    bytes: usize,
}

fn lock(load: &Mutex<RequestLoad>) -> MutexGuard<'_, RequestLoad> {
    load.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerRequests {
    /// Admits a request, or returns the limit that it exceeds.
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
    fn each_limit_is_enforced_separately() {
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
    fn a_burst_is_admitted_and_a_flood_is_refused() {
        let (requests, start) = (ServerRequests::default(), Instant::now());
        let within = (0..2000).take_while(|_| requests.admit_at(&request("a", 1), start).is_ok()).count();
        assert_eq!(within, 1000);
        let later = start + Duration::from_secs(1);
        let more = (0..2000).take_while(|_| requests.admit_at(&request("a", 1), later).is_ok()).count();
        assert_eq!(more, 100);
    }
}
