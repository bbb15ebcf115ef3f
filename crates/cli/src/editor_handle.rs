//! A handle to the line editor, which runs on a thread of its own.

use std::sync::mpsc as blocking;
use tokio::sync::oneshot;

/// The result of reading a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditedLine {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is closed.
    End,
}

/// The kind of line to read.
pub enum LineKind {
    /// A command, with history and completion.
    Command,
    /// An answer to a question, without either.
    Answer,
}

/// A request for one line.
pub struct ReadRequest {
    /// The kind of line.
    pub kind: LineKind,
    /// The text before the cursor.
    pub prompt: String,
    /// Receives the line.
    pub reply: oneshot::Sender<EditedLine>,
}

/// A handle to the editor thread.
#[derive(Debug, Clone)]
pub struct Editor {
    requests: blocking::Sender<ReadRequest>,
}

impl Editor {
    /// Creates a handle and the receiver of its requests.
    pub fn new() -> (Self, blocking::Receiver<ReadRequest>) {
        let (requests, received) = blocking::channel();
        (Self { requests }, received)
    }

    /// Reads a command.
    pub async fn command(&self, prompt: &str) -> EditedLine {
        self.read(LineKind::Command, prompt).await
    }

    /// Reads an answer.
    pub async fn answer(&self, prompt: &str) -> EditedLine {
        self.read(LineKind::Answer, prompt).await
    }

    async fn read(&self, kind: LineKind, prompt: &str) -> EditedLine {
        let (reply, typed) = oneshot::channel();
        if self.requests.send(ReadRequest { kind, prompt: prompt.to_owned(), reply }).is_err() {
            return EditedLine::End;
        }
        typed.await.unwrap_or(EditedLine::End)
    }
}
