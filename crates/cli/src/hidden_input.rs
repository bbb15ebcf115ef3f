//! Reads a secret from a pipe, or from the terminal without showing it.

use crate::failure::CommandFailure;
use crate::prompter::discard_type_ahead;
use crate::render;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, Read, stdin};
use std::os::fd::AsFd;
use tokio::sync::oneshot;

/// The maximum length of a secret, in bytes.
const MAX_SECRET: u64 = 64 << 10;
/// The longest line that a terminal passes on; the rest of a longer one is lost. macOS passes on fewer.
const MAX_TERMINAL_LINE: usize = if cfg!(target_os = "linux") { 4095 } else { 1023 };
/// How long further lines of a pasted text may take, in milliseconds.
const PASTE_MS: u16 = 100;

/// A line that was read without showing it.
pub enum HiddenInput {
    /// The line; empty at the end of the input.
    Line(String),
    /// The user pressed Ctrl+C.
    Interrupted,
}

/// Reads one line of standard input. On a terminal, it asks for the line and does not show it. A text that a terminal does not
/// pass on as one line is refused as a whole.
pub async fn read_secret(prompt: &str) -> Result<HiddenInput, CommandFailure> {
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
        if let HiddenInput::Line(line) = &input {
            check_line(line)?;
        }
    }
    Ok(input)
}

/// Refuses a line of a terminal that is only a part of the secret. What follows it is discarded, because the shell would run it as
/// a command.
fn check_line(line: &str) -> Result<(), CommandFailure> {
    let refused = |message: &str| {
        let hint = "send it to standard input instead, for example with `< FILE`";
        Err(CommandFailure::misuse("usage.secret-line", message, Some(hint)))
    };
    if line.trim_end_matches(['\r', '\n']).len() >= MAX_TERMINAL_LINE {
        discard_type_ahead();
        return refused("the secret is too long to be typed or pasted at a terminal");
    }
    if more_was_pasted() {
        discard_type_ahead();
        return refused("more than one line was typed or pasted");
    }
    Ok(())
}

/// Whether the terminal has further input.
fn more_was_pasted() -> bool {
    let stdin = stdin();
    let mut waiting = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut waiting, PollTimeout::from(PASTE_MS)).is_ok_and(|ready| ready > 0)
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
