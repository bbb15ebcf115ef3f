//! Where a person is asked something in the middle of a command.

use crate::render;
use crate::shell::editor::{Editor, Typed};
use nix::sys::termios::{FlushArg, tcflush};
use std::io::{BufRead, IsTerminal, Write};

/// A place where somebody may sit.
#[derive(Debug)]
pub enum Desk {
    /// The terminal that the command runs on.
    Terminal,
    /// The line editor of a shell: nobody else may read from its terminal.
    Editor(Editor),
    /// Nobody sits there.
    Nobody,
}

impl Desk {
    /// The one of this process.
    pub fn here() -> Self {
        match std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            true => Self::Terminal,
            false => Self::Nobody,
        }
    }

    /// Whether anybody can be asked.
    pub fn is_attended(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Asks for a line; nothing if they went away.
    pub async fn read(&self, prompt: &str) -> Option<String> {
        match self {
            Self::Nobody => None,
            Self::Editor(editor) => match editor.answer(prompt).await {
                Typed::Line(line) => Some(line),
                Typed::Interrupted | Typed::End => None,
            },
            Self::Terminal => {
                let prompt = prompt.to_owned();
                // On a thread of its own: meanwhile a gateway inside this process goes on.
                tokio::task::spawn_blocking(move || read_line(&prompt)).await.ok().flatten()
            }
        }
    }
}

/// Forgets what was typed before a question was put: it cannot be meant as the answer.
pub fn discard_type_ahead() {
    // Without a terminal there is no input to discard.
    let _ = tcflush(std::io::stdin(), FlushArg::TCIFLUSH);
}

fn read_line(prompt: &str) -> Option<String> {
    discard_type_ahead();
    render::complain(prompt);
    let _ = std::io::stderr().flush();
    let mut said = String::new();
    match std::io::stdin().lock().read_line(&mut said) {
        Ok(0) | Err(_) => {
            render::complain("\n");
            None
        }
        Ok(_) => Some(said),
    }
}
