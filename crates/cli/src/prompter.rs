//! Asks the user a question during a command.

use crate::editor_handle::{EditedLine, Editor};
use crate::render;
use nix::sys::termios::{FlushArg, tcflush};
use std::io::{BufRead, IsTerminal, Write};

/// How to ask the user a question.
#[derive(Debug)]
pub enum Prompter {
    /// On the terminal of the command.
    Terminal,
    /// Through the line editor of the shell, which owns the terminal's input.
    Editor(Editor),
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

    /// Whether the user can be asked.
    pub fn is_attended(&self) -> bool {
        !matches!(self, Self::Unavailable)
    }

    /// Asks for a line; `None` if the input ended.
    pub async fn read(&self, prompt: &str) -> Option<String> {
        match self {
            Self::Unavailable => None,
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
