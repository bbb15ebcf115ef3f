//! Servers that are child processes, over their standard input and output.

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, ReceiveOutcome};
use crate::error::UpstreamError;
use crate::peer::ServerNotice;
use crate::process::{Launch, LineFrame, LineReader, ServerProcess, StderrTail, StopPlan};
use crate::unreadable::{answered_id, id_at_end};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;

/// Number of bytes collected before a write.
const WRITE_BATCH_BYTES: usize = 64 * 1024;
/// How long to wait for the end of an overlong line, which may contain the id of the answer.
const LONG_LINE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the remaining output of a process that ended is read.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Parameters for starting a child process.
#[derive(Debug)]
pub struct StdioParts {
    /// The server's name in messages.
    pub server: String,
    /// The process to start.
    pub launch: Launch,
    /// Keeps its standard error.
    pub stderr: StderrTail,
    /// Receives its notices.
    pub notices: mpsc::Sender<ServerNotice>,
    /// The answer to `roots/list` outside a call.
    pub roots: Option<RawJson>,
    /// Maximum length of a line.
    pub line_limit: usize,
}

/// Starts the process and connects a peer to it.
pub async fn open(parts: StdioParts) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let StdioParts { server, launch, stderr, notices, roots, line_limit } = parts;
    let started = launch.begin().await;
    let mut process = started.map_err(|error| UpstreamError::NotStarted(Box::new(Problem::of(&error))))?;
    let (Some(stdin), Some(stdout), Some(stderr_pipe)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(UpstreamError::Unreachable { server, reason: "its pipes could not be opened".into() });
    };
    stderr.follow(server.clone(), stderr_pipe);
    let output = ServerOutput { lines: LineReader::new(stdout, line_limit), tail: stderr };
    let (outgoing, queue) = mpsc::channel(OUTGOING_BACKLOG);
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&server, outgoing, notices, roots, on_close);
    let writer = tokio::spawn(write_all(stdin, queue));
    tokio::spawn(run(Arc::downgrade(&peer), process, output, writer, closing));
    Ok(peer)
}

/// A server's standard output, and the tail that keeps lines that are not messages.
struct ServerOutput {
    lines: LineReader<ChildStdout>,
    tail: StderrTail,
}

/// Writes messages as lines; messages that are queued are written together.
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
            return; // The reader sees the end too and fails the waiting calls.
        }
        if batch.capacity() > 4 * WRITE_BATCH_BYTES {
            batch = Vec::with_capacity(1024);
        }
    }
}

/// Adds a message as one line. Callers may format JSON over several lines, and a line of it must not become a
/// separate message. JSON strings contain no raw line breaks.
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

/// Owns the process: reads until it ends or is closed. A peer that was dropped is closed too, so that an
/// abandoned handshake leaves no process behind.
async fn run(
    peer: Weak<DuplexPeer>,
    mut process: ServerProcess,
    mut output: ServerOutput,
    writer: tokio::task::JoinHandle<()>,
    closing: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let mut confirm = None;
    let mut reason = None;
    tokio::select! {
        () = read_all(&peer, &mut output) => {}
        asked = closing => confirm = asked.ok(),
        exit = process.wait() => {
            // The pipe may still hold the last output, and a leftover child may keep it open.
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, read_all(&peer, &mut output)).await;
            reason = Some(format!("its process ended ({exit})"));
        }
    }
    if let (Some(reason), Some(peer)) = (&reason, peer.upgrade()) {
        peer.lost(reason);
    }
    // Dropping the writer closes the server's input, which asks it to exit.
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

async fn read_all(peer: &Weak<DuplexPeer>, output: &mut ServerOutput) {
    // The limit of the overlong line being skipped, while its call is unknown.
    let mut unclaimed = None;
    loop {
        let frame = match unclaimed {
            None => output.lines.next().await,
            Some(limit) => match tokio::time::timeout(LONG_LINE_TIMEOUT, output.lines.next()).await {
                Ok(frame) => frame,
                Err(_) => {
                    unclaimed = None;
                    let Some(peer) = peer.upgrade() else { return };
                    if peer.oversized(None, limit) == ReceiveOutcome::Last {
                        return;
                    }
                    continue;
                }
            },
        };
        let Ok(Some(frame)) = frame else { return };
        let Some(peer) = peer.upgrade() else { return };
        let taken = match frame {
            LineFrame::Line(line) => {
                let taken = peer.receive(&line);
                if taken == ReceiveOutcome::No {
                    output.tail.note_stray(&line);
                }
                taken
            }
            LineFrame::TooLong { limit, prefix } => {
                let id = answered_id(&prefix);
                // Some servers write the id last: then the end of the line identifies the call.
                if id.is_some() || peer.has_only_one_call() {
                    peer.oversized(id, limit)
                } else {
                    unclaimed = Some(limit);
                    ReceiveOutcome::Yes
                }
            }
            LineFrame::Skipped { discarded, suffix } => {
                tracing::warn!(discarded, "a server wrote a line over the limit; it was dropped");
                match unclaimed.take() {
                    Some(limit) => peer.oversized(id_at_end(&suffix), limit),
                    None => ReceiveOutcome::Yes,
                }
            }
            LineFrame::Partial(rest) => {
                tracing::debug!("a server ended in the middle of a line: {}", output.tail.shown(&rest, 100));
                ReceiveOutcome::Yes
            }
        };
        if taken == ReceiveOutcome::Last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_one_line() {
        let mut batch = Vec::new();
        for message in ["{\n\"a\":\r\n\"b\\n\"}", "", "{}", "\n"] {
            add_line(&mut batch, message.as_bytes());
        }
        assert_eq!(String::from_utf8(batch), Ok("{ \"a\":  \"b\\n\"}\n\n{}\n \n".to_owned()));
    }
}
