//! Asks the user a question during a command.

use crate::editor_handle::{EditedLine, Editor};
use crate::render;
use nix::sys::termios::{FlushArg, tcflush};
use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Stdin};
use tokio::sync::{Mutex, MutexGuard};

/// The maximum length of an answer from a pipe, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// How to ask the user a question.
#[derive(Debug)]
pub enum Prompter {
    /// On the terminal of the command.
    Terminal,
    /// Through the line editor of the shell, which owns the terminal's input.
    Editor(Editor),
    /// From the lines of a pipe. They answer questions of servers, but they approve nothing.
    Lines(PipedLines),
    /// Not at all: there is no terminal.
    Unavailable,
}

impl Prompter {
    /// The one for this process.
    pub fn here() -> Self {
        match std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            true => Self::Terminal,
            false => Self::Unavailable,
        }
    }

    /// Whether the user is there in person.
    pub fn is_attended(&self) -> bool {
        matches!(self, Self::Terminal | Self::Editor(_))
    }

    /// Whether questions of servers can be answered.
    pub fn answers_questions(&self) -> bool {
        !matches!(self, Self::Unavailable)
    }

    /// Asks for a line; `None` if the input ended.
    pub async fn read(&self, prompt: &str) -> Option<String> {
        match self {
            Self::Unavailable => None,
            Self::Lines(lines) => {
                render::complain(prompt);
                lines.next().await
            }
            Self::Editor(editor) => match editor.answer(prompt).await {
                EditedLine::Line(line) => Some(line),
                EditedLine::Interrupted | EditedLine::End => None,
            },
            Self::Terminal => {
                let prompt = prompt.to_owned();
                // On a separate thread, so that an embedded gateway keeps running.
                tokio::task::spawn_blocking(move || read_line(&prompt)).await.ok().flatten()
            }
        }
    }
}

/// The lines of standard input, which the shell and its questions share.
#[derive(Debug, Clone)]
pub struct PipedLines(Arc<Mutex<BufReader<Stdin>>>);

impl PipedLines {
    /// Reads standard input.
    pub fn of_stdin() -> Self {
        Self(Arc::new(Mutex::new(BufReader::new(tokio::io::stdin()))))
    }

    /// Waits for the exclusive use of the input.
    pub async fn lock(&self) -> MutexGuard<'_, BufReader<Stdin>> {
        self.0.lock().await
    }

    /// The next line; `None` at the end of the input, or if it is longer than an answer.
    async fn next(&self) -> Option<String> {
        let mut line = String::new();
        let mut input = self.lock().await;
        let read = (&mut *input).take(MAX_ANSWER).read_line(&mut line).await;
        render::complain("\n");
        read.ok().filter(|bytes| *bytes > 0).map(|_| line)
    }
}

/// Discards input typed before the question, which cannot be an answer to it.
pub fn discard_type_ahead() {
    // Without a terminal there is no input to discard.
    let _ = tcflush(std::io::stdin(), FlushArg::TCIFLUSH);
}

fn read_line(prompt: &str) -> Option<String> {
    discard_type_ahead();
    render::complain(prompt);
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(0) | Err(_) => {
            render::complain("\n");
            None
        }
        Ok(_) => Some(answer),
    }
}
