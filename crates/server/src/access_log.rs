//! The access log: one JSON line per HTTP request, in a file that is rotated by size.
//!
//! A request puts its record into a bounded queue and never waits: if the queue is full, the record is dropped and
//! counted. A thread of its own writes the lines.

mod file;
mod pending;

pub(crate) use pending::PendingRecord;

use file::LogFile;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};

/// The number of records that wait for the writer.
const QUEUE: usize = 8_192;
/// How long the writer collects records before it writes them, so that a request seldom has to wake it.
const COLLECT: Duration = Duration::from_millis(50);
/// How long the end of the gateway waits for the last records.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The access log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the access log `{path}` cannot be opened: {reason}", path = path.display())]
pub struct AccessLogError {
    path: PathBuf,
    reason: String,
}

impl Fault for AccessLogError {
    fn code(&self) -> &'static str {
        "serve.access-log"
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        Some("set `access_log.path` to a file in a folder that the gateway may write to".into())
    }
}

/// One answered request.
#[derive(Debug, Serialize)]
struct AccessRecord {
    /// Wall time of the request, in milliseconds since 1970.
    #[serde(rename = "time", serialize_with = "as_timestamp")]
    at_ms: i64,
    /// The identified caller; absent if the request was not identified.
    caller: Option<Arc<str>>,
    /// The address or user of the connection.
    peer: String,
    method: String,
    /// The path without its query, and without secrets.
    path: String,
    /// Absent if the client disconnected before the answer.
    status: Option<u16>,
    /// The length of the answer's body.
    bytes: u64,
    /// Time from the head of the request to the end of the answer.
    ms: f64,
    request_id: Box<str>,
}

fn as_timestamp<S: serde::Serializer>(at_ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let time = jiff::Timestamp::from_millisecond(*at_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    serializer.collect_str(&format_args!("{time:.3}"))
}

enum LogMessage {
    Record(Box<AccessRecord>),
    /// All earlier records are written before it is dropped.
    Flush(SyncSender<()>),
}

/// The access log of a running gateway.
#[derive(Debug)]
pub struct AccessLog {
    queue: SyncSender<LogMessage>,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl AccessLog {
    /// Opens the file, which is created with mode 0600, and starts the thread that writes it. The file is renamed to
    /// `PATH.1` before it grows over `max_bytes`.
    pub fn open(path: &Path, max_bytes: u64) -> Result<Arc<Self>, AccessLogError> {
        let failed = |error: std::io::Error| AccessLogError { path: path.into(), reason: error.to_string() };
        let file = LogFile::open(path, max_bytes).map_err(failed)?;
        let (queue, received) = mpsc::sync_channel(QUEUE);
        let log = Arc::new(Self { queue, written: AtomicU64::new(0), dropped: AtomicU64::new(0) });
        let counts = Arc::downgrade(&log);
        let writer = std::thread::Builder::new().name("access-log".into());
        writer.spawn(move || write_records(&received, file, &counts)).map_err(failed)?;
        Ok(log)
    }

    /// The number of lines that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The number of requests without a line, because the queue was full or the file could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all earlier records are written, for a short time at most.
    pub fn flush(&self) {
        let (done, waiting) = mpsc::sync_channel(0);
        if self.queue.try_send(LogMessage::Flush(done)).is_ok() {
            let _: Result<(), RecvTimeoutError> = waiting.recv_timeout(FLUSH_TIMEOUT);
        }
    }

    fn add(&self, record: AccessRecord) {
        if self.queue.try_send(LogMessage::Record(Box::new(record))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes records until the log is dropped.
fn write_records(received: &Receiver<LogMessage>, mut file: LogFile, counts: &Weak<AccessLog>) {
    while let Ok(first) = received.recv() {
        let mut next = Some(first);
        // Waiting on the queue would make the next request wake this thread, so it sleeps while records keep coming.
        while let Some(message) = next {
            let is_open = write_batch(message, received, &mut file, counts);
            if !is_open {
                return;
            }
            std::thread::sleep(COLLECT);
            next = received.try_recv().ok();
        }
    }
}

/// Writes a message and all that wait behind it. Returns whether the log is still open.
fn write_batch(
    first: LogMessage,
    received: &Receiver<LogMessage>,
    file: &mut LogFile,
    counts: &Weak<AccessLog>,
) -> bool {
    let mut lines = 0_u64;
    let mut flushes = Vec::new();
    let mut failure = None;
    let mut next = Ok(first);
    while let Ok(message) = next {
        match message {
            LogMessage::Record(record) => {
                lines += 1;
                let mut line = serde_json::to_vec(&record).unwrap_or_default();
                line.push(b'\n');
                failure = file.add(&line).err().or(failure);
            }
            LogMessage::Flush(done) => flushes.push(done),
        }
        next = received.try_recv();
    }
    failure = file.flush().err().or(failure);
    if let Some(error) = &failure {
        tracing::warn!("the access log could not be written: {error}");
    }
    if let Some(log) = counts.upgrade() {
        // After a failure it is unknown which lines were written.
        let count = if failure.is_some() { &log.dropped } else { &log.written };
        count.fetch_add(lines, Ordering::Relaxed);
    }
    drop(flushes);
    next.is_err_and(|error| error == TryRecvError::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(path: &str) -> AccessRecord {
        AccessRecord {
            at_ms: 1_700_000_000_120,
            caller: Some("ann".into()),
            peer: "127.0.0.1".into(),
            method: "GET".into(),
            path: path.into(),
            status: Some(200),
            bytes: 7,
            ms: 1.25,
            request_id: "r1".into(),
        }
    }

    #[test]
    fn a_request_is_one_json_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("access.log");
        let log = AccessLog::open(&path, 1_000_000).expect("it is opened");
        log.add(record("/tools"));
        log.add(record("/a\n{\"forged\":1}"));
        log.flush();
        assert_eq!((log.written(), log.dropped()), (2, 0));
        let text = std::fs::read_to_string(&path).expect("the log is readable");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(
            lines[0],
            "{\"time\":\"2023-11-14T22:13:20.120Z\",\"caller\":\"ann\",\"peer\":\"127.0.0.1\",\"method\":\"GET\",\
             \"path\":\"/tools\",\"status\":200,\"bytes\":7,\"ms\":1.25,\"request_id\":\"r1\"}"
        );
    }

    #[test]
    fn requests_do_not_wait_for_the_writer() {
        let (queue, _received) = mpsc::sync_channel(2);
        let log = AccessLog { queue, written: AtomicU64::new(0), dropped: AtomicU64::new(0) };
        for _ in 0..5 {
            log.add(record("/"));
        }
        assert_eq!(log.dropped(), 3);
        log.flush();
    }
}
