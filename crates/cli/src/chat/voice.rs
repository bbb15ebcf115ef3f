//! How a chat is heard: the answer as it comes on standard output, what is done meanwhile on standard error.

use crate::render::{self, Paint, Tone, line, plain};
use std::io::IsTerminal;

/// What is told while an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Everything.
    Aloud,
    /// What is done, but not the answer: that goes elsewhere.
    Working,
    /// Nothing.
    Silent,
}

/// The one who tells.
#[derive(Debug)]
pub struct Voice {
    manner: Manner,
    terminal: bool,
    /// Whether the last line is not finished.
    open: bool,
}

impl Voice {
    /// One that tells so.
    pub fn new(manner: Manner) -> Self {
        Self { manner, terminal: std::io::stdout().is_terminal(), open: false }
    }

    /// A piece of the answer.
    pub fn say(&mut self, piece: &str) {
        if self.manner != Manner::Aloud || piece.is_empty() {
            return;
        }
        // Another program gets every byte; a terminal could be harmed by some.
        render::print(&if self.terminal { plain(piece) } else { piece.to_owned() });
        self.open = !piece.ends_with('\n');
    }

    /// The end of what was said.
    pub fn pause(&mut self) {
        if std::mem::take(&mut self.open) {
            render::print("\n");
        }
    }

    /// What is being done.
    pub fn note(&mut self, text: &str) {
        self.pause();
        if self.manner != Manner::Silent {
            let note = Paint::stderr().tone(Tone::Dim, &line(text));
            render::complain(&format!("{note}\n"));
        }
    }

    /// Something that a person should know of.
    pub fn warn(&mut self, text: &str) {
        self.pause();
        if self.manner != Manner::Silent {
            render::complain(&format!("{}\n", render::wrap(&plain(text), 0)));
        }
    }
}
