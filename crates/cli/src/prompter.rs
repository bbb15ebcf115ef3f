//! Asks the user a question during a command.

use crate::editor_handle::{EditedLine, Editor};
use crate::interrupts::open_question;
use crate::render;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use std::io::{BufRead, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Stdin};
use tokio::sync::{Mutex, MutexGuard, oneshot};

/// The maximum length of an answer from a pipe, in bytes.
const MAX_ANSWER: u64 = 64 << 10;
/// How often a thread that waits for a line checks whether it is still wanted, in milliseconds.
const LINE_CHECK_MS: u8 = 100;

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

    /// Asks for a decision. Ctrl+C is an answer to it and does not end the command.
    pub async fn ask(&self, prompt: &str) -> EditedLine {
        match self {
            Self::Editor(editor) => editor.answer(prompt).await,
            Self::Terminal => {
                let interrupted = open_question();
                tokio::select! {
                    line = read_on_thread(prompt) => line.map_or(EditedLine::End, EditedLine::Line),
                    Ok(()) = interrupted => {
                        render::complain("\n");
                        EditedLine::Interrupted
                    }
                }
            }
            Self::Lines(_) | Self::Unavailable => {
                self.read(prompt).await.map_or(EditedLine::End, EditedLine::Line)
            }
        }
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

/// Asks for a line on the terminal, on a thread that ends when the line is not wanted any more. It is not a task of the
/// runtime, which would wait for it after Ctrl+C.
async fn read_on_thread(prompt: &str) -> Option<String> {
    let prompt = prompt.to_owned();
    let (sender, line) = oneshot::channel();
    std::thread::spawn(move || {
        show_prompt(&prompt);
        while !has_input() {
            if sender.is_closed() {
                return;
            }
        }
        // The line is for the next question if this one has ended.
        if !sender.is_closed() {
            let _ = sender.send(read_answer());
        }
    });
    line.await.ok().flatten()
}

/// Waits a moment for input, and returns whether there is some. At the end of the input there is: reading returns at once.
fn has_input() -> bool {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::from(LINE_CHECK_MS)) {
        Ok(ready) => ready > 0,
        // Ctrl+C, most likely.
        Err(Errno::EINTR) => false,
        // The read that follows fails in the same way.
        Err(_) => true,
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
    show_prompt(prompt);
    read_answer()
}

fn show_prompt(prompt: &str) {
    discard_type_ahead();
    render::complain(prompt);
    let _ = std::io::stderr().flush();
}

fn read_answer() -> Option<String> {
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(0) | Err(_) => {
            render::complain("\n");
            None
        }
        Ok(_) => Some(answer),
    }
}
