//! How a chat is heard: the answer as it comes on standard output, what is done meanwhile on standard error.

use crate::render::{self, Frame, Paint, Tone, line, plain};
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
    /// On a terminal, what sets the model's words apart from ours.
    frame: Option<Frame>,
    /// Whether the last line is not finished.
    open: bool,
}

impl Voice {
    /// One that tells so.
    pub fn new(manner: Manner) -> Self {
        let frame = std::io::stdout().is_terminal().then(Frame::new);
        Self { manner, frame, open: false }
    }

    /// A piece of the answer.
    pub fn say(&mut self, piece: &str) {
        if self.manner != Manner::Aloud || piece.is_empty() {
            return;
        }
        // Another program gets every byte; a terminal could be harmed by some, and a person deceived.
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

    /// The end of what was said.
    pub fn pause(&mut self) {
        if std::mem::take(&mut self.open) {
            self.frame.as_mut().map(Frame::end);
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
