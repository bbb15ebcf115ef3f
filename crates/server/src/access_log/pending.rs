//! A request that is being answered. Its line is written when the answer ends.

use super::{AccessLog, AccessRecord};
use crate::peer_info::PeerInfo;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;
use uuid::Uuid;

/// The header with the id of a request.
pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The maximum length of an id that a client gives its request.
const MAX_REQUEST_ID: usize = 64;
/// The maximum length of a path in the log, in characters.
const MAX_PATH: usize = 256;
/// Paths below this one end in a secret.
const DOWNLOADS: &str = "/files/download/";

/// The record of a request until its answer is sent. Dropping it adds the line.
pub(crate) struct PendingRecord {
    log: Arc<AccessLog>,
    started: Instant,
    at_ms: i64,
    caller: Arc<OnceLock<Arc<str>>>,
    peer: String,
    method: String,
    path: String,
    status: Option<u16>,
    bytes: u64,
    request_id: Box<str>,
}

impl PendingRecord {
    /// Begins the record of a request. The returned peer reports the caller to it.
    pub(crate) fn begin<B>(
        log: Arc<AccessLog>,
        at_ms: i64,
        request: &Request<B>,
        peer: PeerInfo,
    ) -> (Box<Self>, PeerInfo) {
        let caller = Arc::new(OnceLock::new());
        let record = Self {
            log,
            started: Instant::now(),
            at_ms,
            caller: caller.clone(),
            peer: peer.source(),
            method: request.method().as_str().chars().take(16).collect(),
            path: without_secrets(request.uri().path()),
            status: None,
            bytes: 0,
            request_id: id_of(request.headers()).into(),
        };
        (Box::new(record), peer.reporting_caller(caller))
    }

    /// Records the status of the answer, and gives the answer the id of the request.
    pub(crate) fn answered<B>(&mut self, response: &mut Response<B>) {
        self.status = Some(response.status().as_u16());
        if let Ok(id) = HeaderValue::from_str(&self.request_id) {
            response.headers_mut().insert(&REQUEST_ID, id);
        }
    }

    /// Counts a part of the body that is sent.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let microseconds = self.started.elapsed().as_micros();
        self.log.add(AccessRecord {
            at_ms: self.at_ms,
            caller: self.caller.get().cloned(),
            peer: std::mem::take(&mut self.peer),
            method: std::mem::take(&mut self.method),
            path: std::mem::take(&mut self.path),
            status: self.status,
            bytes: self.bytes,
            ms: microseconds as f64 / 1e3,
            request_id: std::mem::take(&mut self.request_id),
        });
    }
}

/// The id that the client gave the request, if it is a plain one; otherwise a new one.
fn id_of(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    let is_plain = |id: &&str| {
        let mut bytes = id.bytes();
        (1..=MAX_REQUEST_ID).contains(&id.len())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    given.filter(is_plain).map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

/// A path for the log. The query is not part of it.
fn without_secrets(path: &str) -> String {
    match path.starts_with(DOWNLOADS) {
        true => format!("{DOWNLOADS}***"),
        false => path.chars().take(MAX_PATH).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_paths_are_not_logged() {
        let cases = [
            ("/files/download/v1.secret", "/files/download/***"),
            ("/files/download/v1.secret/name.txt", "/files/download/***"),
            ("/tools/mail_send/call", "/tools/mail_send/call"),
            ("/", "/"),
        ];
        for (path, expected) in cases {
            assert_eq!(without_secrets(path), expected, "{path}");
        }
        assert_eq!(without_secrets(&"/x".repeat(1_000)).len(), MAX_PATH);
    }

    #[test]
    fn only_plain_request_ids_are_kept() {
        let long = "x".repeat(MAX_REQUEST_ID + 1);
        let cases = [("abc-1.2_3", true), ("", false), ("a b", false), ("a\"b", false), (&*long, false)];
        for (given, is_kept) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(&REQUEST_ID, HeaderValue::from_str(given).expect("ASCII"));
            assert_eq!(id_of(&headers) == given, is_kept, "{given}");
        }
        assert_ne!(id_of(&HeaderMap::new()), id_of(&HeaderMap::new()));
    }
}
