//! A server that is a child process, spoken to on its standard input and output.

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, Taken};
use crate::error::UpstreamError;
use crate::peer::Notice;
use crate::process::{Frame, Launch, LineReader, Process, StderrTail, StopPlan};
use crate::unreadable::{answered_id, id_at_end};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;

/// How many bytes are gathered before they are written.
const WRITE_BATCH_BYTES: usize = 64 * 1024;
/// How long the end of a line over the limit is waited for, as it may tell whose answer it was.
const LONG_LINE: Duration = Duration::from_secs(5);
/// How long the last words of a process that ended are read.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What a child process is opened with.
#[derive(Debug)]
pub struct StdioParts {
    /// The server's name, for messages.
    pub server: String,
    /// What to start.
    pub launch: Launch,
    /// Where its standard error is kept.
    pub stderr: StderrTail,
    /// Where its notices go.
    pub notices: mpsc::Sender<Notice>,
    /// What unasked `roots/list` is answered with.
    pub roots: Option<RawJson>,
    /// The longest line taken.
    pub line_limit: usize,
}

/// Starts the process and speaks to it.
pub async fn open(parts: StdioParts) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let StdioParts { server, launch, stderr, notices, roots, line_limit } = parts;
    let begun = launch.begin().await;
    let mut process = begun.map_err(|error| UpstreamError::NotStarted(Box::new(Problem::of(&error))))?;
    let (Some(stdin), Some(stdout), Some(complaints)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(UpstreamError::Unreachable { server, reason: "its pipes could not be opened".into() });
    };
    stderr.follow(server.clone(), complaints);
    let heard = Heard { lines: LineReader::new(stdout, line_limit), tail: stderr };
    let (outgoing, queue) = mpsc::channel(OUTGOING_BACKLOG);
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&server, outgoing, notices, roots, on_close);
    let writer = tokio::spawn(write_all(stdin, queue));
    tokio::spawn(run(Arc::downgrade(&peer), process, heard, writer, closing));
    Ok(peer)
}

/// What a server writes to its standard output, and where that is kept which is no message.
struct Heard {
    lines: LineReader<ChildStdout>,
    tail: StderrTail,
}

/// Writes messages as lines; several waiting ones at once.
async fn write_all(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Bytes>) {
    let mut batch = Vec::with_capacity(1024);
    while let Some(message) = queue.recv().await {
        batch.clear();
        add_line(&mut batch, &message);
        while batch.len() < WRITE_BATCH_BYTES {
            let Ok(more) = queue.try_recv() else { break };
            add_line(&mut batch, &more);
        }
        if stdin.write_all(&batch).await.is_err() {
            return; // The reader sees the end too, and tells everyone.
        }
        if batch.capacity() > 4 * WRITE_BATCH_BYTES {
            batch = Vec::with_capacity(1024);
        }
    }
}

/// Adds a message as one line, whatever spaces it has: callers write JSON over several lines, and a line
/// of theirs must not become a message of its own. Inside strings JSON has no raw line ends.
fn add_line(batch: &mut Vec<u8>, message: &[u8]) {
    let start = batch.len();
    batch.extend_from_slice(message);
    let mut at = start;
    while let Some(end) = memchr::memchr2(b'\n', b'\r', &batch[at..]) {
        at += end;
        batch[at] = b' ';
    }
    batch.push(b'\n');
}

/// Owns the process: reads until it ends or is closed. A peer that nobody holds any more is closed too,
/// so that a handshake given up half-way leaves no process behind.
async fn run(
    peer: Weak<DuplexPeer>,
    mut process: Process,
    mut heard: Heard,
    writer: tokio::task::JoinHandle<()>,
    closing: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let mut confirm = None;
    let mut reason = None;
    tokio::select! {
        () = read_all(&peer, &mut heard) => {}
        asked = closing => confirm = asked.ok(),
        exit = process.wait() => {
            // What it wrote last may still be in the pipe; what it left behind may hold the pipe open.
            let _ = tokio::time::timeout(LAST_WORDS, read_all(&peer, &mut heard)).await;
            reason = Some(format!("its process ended ({exit})"));
        }
    }
    if let (Some(reason), Some(peer)) = (&reason, peer.upgrade()) {
        peer.lost(reason);
    }
    // Dropping the writer closes the server's input, the first and politest word.
    writer.abort();
    let _ = writer.await;
    let exit = process.stop(StopPlan::default()).await;
    if reason.is_none()
        && let Some(peer) = peer.upgrade()
    {
        peer.lost(&format!("its process ended ({exit})"));
    }
    if let Some(confirm) = confirm {
        let _ = confirm.send(());
    }
}

async fn read_all(peer: &Weak<DuplexPeer>, heard: &mut Heard) {
    // The limit of a line that is still being passed over, while its call is unknown.
    let mut unclaimed = None;
    loop {
        let frame = match unclaimed {
            None => heard.lines.next().await,
            Some(limit) => match tokio::time::timeout(LONG_LINE, heard.lines.next()).await {
                Ok(frame) => frame,
                Err(_) => {
                    unclaimed = None;
                    let Some(peer) = peer.upgrade() else { return };
                    if peer.oversized(None, limit) == Taken::Last {
                        return;
                    }
                    continue;
                }
            },
        };
        let Ok(Some(frame)) = frame else { return };
        let Some(peer) = peer.upgrade() else { return };
        let taken = match frame {
            Frame::Line(line) => {
                let taken = peer.receive(&line);
                if taken == Taken::No {
                    heard.tail.note_stray(&line);
                }
                taken
            }
            Frame::TooLong { limit, prefix } => {
                let id = answered_id(&prefix);
                // Some servers write the id last: then the end of the line tells whose answer it was.
                if id.is_some() || peer.has_only_one_call() {
                    peer.oversized(id, limit)
                } else {
                    unclaimed = Some(limit);
                    Taken::Yes
                }
            }
            Frame::Skipped { discarded, suffix } => {
                tracing::warn!(discarded, "a server wrote a line over the limit; it was dropped");
                match unclaimed.take() {
                    Some(limit) => peer.oversized(id_at_end(&suffix), limit),
                    None => Taken::Yes,
                }
            }
            Frame::Partial(rest) => {
                tracing::debug!("a server ended in the middle of a line: {}", heard.tail.shown(&rest, 100));
                Taken::Yes
            }
        };
        if taken == Taken::Last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_its_spaces() {
        let mut batch = Vec::new();
        for message in ["{\n\"a\":\r\n\"b\\n\"}", "", "{}", "\n"] {
            add_line(&mut batch, message.as_bytes());
        }
        assert_eq!(String::from_utf8(batch), Ok("{ \"a\":  \"b\\n\"}\n\n{}\n \n".to_owned()));
    }
}
