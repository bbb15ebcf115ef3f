//! Prints a chat: the answer to standard output as it arrives, notes to standard error.

use crate::render::{self, Paint, TextFrame, Tone, line, plain};
use std::io::IsTerminal;

/// What a chat prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatVerbosity {
    /// The answer and notes.
    Everything,
    /// Notes only; the answer goes to a file.
    NotesOnly,
    /// Nothing.
    Silent,
}

/// The printer of a chat.
#[derive(Debug)]
pub struct ChatPrinter {
    verbosity: ChatVerbosity,
    /// On a terminal, the frame that marks the model's text.
    frame: Option<TextFrame>,
    /// Whether the last line has no line end yet.
    open: bool,
}

impl ChatPrinter {
    /// A printer with this verbosity.
    pub fn new(verbosity: ChatVerbosity) -> Self {
        let frame = std::io::stdout().is_terminal().then(TextFrame::new);
        Self { verbosity, frame, open: false }
    }

    /// Prints a piece of the answer.
    pub fn say(&mut self, piece: &str) {
        if self.verbosity != ChatVerbosity::Everything || piece.is_empty() {
            return;
        }
        // Pipes get the exact bytes; on a terminal, control characters could do harm or deceive the user.
        match &mut self.frame {
            Some(frame) => {
                render::print(&frame.put(piece));
                self.open = frame.is_open();
            }
            None => {
                render::print(piece);
                self.open = !piece.ends_with('\n');
            }
        }
    }

    /// Ends the current line.
    pub fn pause(&mut self) {
        if std::mem::take(&mut self.open) {
            self.frame.as_mut().map(TextFrame::end);
            render::print("\n");
        }
    }

    /// Prints a note about the progress.
    pub fn note(&mut self, text: &str) {
        self.pause();
        if self.verbosity != ChatVerbosity::Silent {
            let note = Paint::stderr().tone(Tone::Dim, &line(text));
            render::complain(&format!("{note}\n"));
        }
    }

    /// Prints a warning.
    pub fn warn(&mut self, text: &str) {
        self.pause();
        if self.verbosity != ChatVerbosity::Silent {
            render::complain(&format!("{}\n", render::wrap(&plain(text), 0)));
        }
    }
}
