//! Runs a bundled server as a process, with lines on standard input and output.

use super::conversation::{self, BundledServer};
use bytes::Bytes;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use toolbooth_upstream::bundled::Queues;
use toolbooth_upstream::process::{LineFrame, LineReader};

/// The longest accepted line.
const LONGEST_LINE: usize = 16 << 20;
/// The capacity of each queue.
const BACKLOG: usize = 64;

/// Serves until the input ends.
pub(super) fn serve(server: Arc<dyn BundledServer>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("the runtime cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        let (read, incoming) = mpsc::channel(BACKLOG);
        let (outgoing, written) = mpsc::channel(BACKLOG);
        tokio::spawn(read_all(read));
        let writer = tokio::spawn(write_all(written));
        conversation::serve_queues(server, Queues { incoming, outgoing }).await;
        // The last messages are still being written.
        let _ = writer.await;
    });
    // A read of standard input cannot be cancelled, so do not wait for it.
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

async fn read_all(read: mpsc::Sender<Bytes>) {
    let mut lines = LineReader::new(tokio::io::stdin(), LONGEST_LINE);
    while let Ok(Some(frame)) = lines.next().await {
        if let LineFrame::Line(line) = frame
            && read.send(line).await.is_err()
        {
            return;
        }
    }
}

async fn write_all(mut written: mpsc::Receiver<Bytes>) {
    let mut out = tokio::io::stdout();
    while let Some(message) = written.recv().await {
        let sent = async {
            out.write_all(&message).await?;
            out.write_all(b"\n").await?;
            out.flush().await
        };
        if sent.await.is_err() {
            return;
        }
    }
}
