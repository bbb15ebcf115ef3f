//! Reads a secret from a pipe, or from the terminal without showing it.

use crate::prompter::discard_type_ahead;
use crate::render;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, Read, stdin};
use tokio::sync::oneshot;

/// The maximum length of a secret, in bytes.
const MAX_SECRET: u64 = 64 << 10;

/// A line that was read without showing it.
pub enum HiddenInput {
    /// The line; empty at the end of the input.
    Line(String),
    /// The user pressed Ctrl+C.
    Interrupted,
}

/// Reads one line of standard input. On a terminal, it asks for the line and does not show it.
pub async fn read_secret(prompt: &str) -> HiddenInput {
    let hidden = stdin().is_terminal().then(|| {
        let hidden = EchoOff::begin();
        discard_type_ahead();
        render::complain(prompt);
        hidden
    });
    let (sender, receiver) = oneshot::channel();
    // Not a task of the runtime, which would wait for it after Ctrl+C.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdin().lock().take(MAX_SECRET).read_until(b'\n', &mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    let input = tokio::select! {
        line = receiver => HiddenInput::Line(line.unwrap_or_default()),
        _ = tokio::signal::ctrl_c(), if hidden.is_some() => HiddenInput::Interrupted,
    };
    if hidden.is_some() {
        // The user's own line break was not shown.
        render::complain("\n");
    }
    input
}

/// The terminal does not show what is typed. Dropping it restores the earlier settings.
struct EchoOff(Option<Termios>);

impl EchoOff {
    fn begin() -> Self {
        let Ok(before) = tcgetattr(stdin()) else { return Self(None) };
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        let is_hidden = tcsetattr(stdin(), SetArg::TCSANOW, &hidden).is_ok();
        Self(is_hidden.then_some(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, before);
        }
    }
}
