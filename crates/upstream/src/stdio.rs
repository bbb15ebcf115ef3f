//! A server that is a child process, spoken to on its standard input and output.

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG};
use crate::error::UpstreamError;
use crate::peer::Notice;
use crate::process::{Frame, Launch, LineReader, Process, StderrTail, StopPlan, preview};
use bytes::Bytes;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;

/// How many bytes are gathered before they are written.
const WRITE_BATCH_BYTES: usize = 64 * 1024;

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
pub fn open(parts: StdioParts) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let StdioParts { server, launch, stderr, notices, roots, line_limit } = parts;
    let mut process =
        launch.spawn().map_err(|error| UpstreamError::NotStarted(Box::new(Problem::of(&error))))?;
    let (Some(stdin), Some(stdout), Some(complaints)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(UpstreamError::Unreachable { server, reason: "its pipes could not be opened".into() });
    };
    stderr.follow(server.clone(), complaints);
    let (outgoing, queue) = mpsc::channel(OUTGOING_BACKLOG);
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&server, outgoing, notices, roots, on_close);
    let writer = tokio::spawn(write_all(stdin, queue));
    let lines = LineReader::new(stdout, line_limit);
    tokio::spawn(run(peer.clone(), process, lines, writer, closing));
    Ok(peer)
}

/// Writes messages as lines; several waiting ones at once.
async fn write_all(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Bytes>) {
    let mut batch = Vec::with_capacity(1024);
    while let Some(message) = queue.recv().await {
        batch.clear();
        batch.extend_from_slice(&message);
        batch.push(b'\n');
        while batch.len() < WRITE_BATCH_BYTES {
            let Ok(more) = queue.try_recv() else { break };
            batch.extend_from_slice(&more);
            batch.push(b'\n');
        }
        if stdin.write_all(&batch).await.is_err() {
            return; // The reader sees the end too, and tells everyone.
        }
        if batch.capacity() > 4 * WRITE_BATCH_BYTES {
            batch = Vec::with_capacity(1024);
        }
    }
}

/// Owns the process: reads until it ends or is closed.
async fn run(
    peer: Arc<DuplexPeer>,
    mut process: Process,
    mut lines: LineReader<tokio::process::ChildStdout>,
    writer: tokio::task::JoinHandle<()>,
    mut closing: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let mut confirm = None;
    tokio::select! {
        () = read_all(&peer, &mut lines) => {}
        asked = &mut closing => confirm = asked.ok(),
    }
    // Dropping the writer closes the server's input, the first and politest word.
    writer.abort();
    let _ = writer.await;
    let exit = process.stop(StopPlan::default()).await;
    peer.lost(&format!("its process ended ({exit})"));
    if let Some(confirm) = confirm {
        let _ = confirm.send(());
    }
}

async fn read_all(peer: &Arc<DuplexPeer>, lines: &mut LineReader<tokio::process::ChildStdout>) {
    while let Ok(Some(frame)) = lines.next().await {
        match frame {
            Frame::Line(line) => peer.receive(&line),
            Frame::TooLong { limit, prefix } => peer.oversized(id_in(&prefix), limit),
            Frame::Skipped { discarded, .. } => {
                tracing::warn!(discarded, "a server wrote a line over the limit; it was dropped");
            }
            Frame::Partial(rest) => {
                tracing::debug!("a server ended in the middle of a line: {}", preview(&rest, 100));
            }
        }
    }
}

/// The id in the first bytes of a long answer, so that only its caller is told.
fn id_in(prefix: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(prefix, b"\"id\"")? + 4;
    let text = std::str::from_utf8(&prefix[at..]).ok().or_else(|| {
        // The cut may fall inside a character.
        std::str::from_utf8(&prefix[at..prefix.len().saturating_sub(3)]).ok()
    })?;
    let digits = text.trim_start().strip_prefix(':')?.trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_long_answer_is_found_in_its_head() {
        let cases: [(&str, Option<u64>); 4] = [
            (r#"{"jsonrpc":"2.0","id":17,"result":{"content"#, Some(17)),
            (r#"{"id" : 3 , "jsonrpc":"2.0"#, Some(3)),
            (r#"{"jsonrpc":"2.0","result":{"content"#, None),
            (r#"{"jsonrpc":"2.0","id":"x","result"#, None),
        ];
        for (prefix, id) in cases {
            assert_eq!(id_in(prefix.as_bytes()), id, "{prefix}");
        }
    }
}
