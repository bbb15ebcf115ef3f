//! Runs a command on a pseudo-terminal, with simulated keys.

use super::{TEST_TIMEOUT, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::process::Child;

/// A pseudo-terminal with a running command.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
    seen: usize,
}

impl Terminal {
    /// Runs a command on a new terminal, without colours.
    pub fn run(mut command: Command) -> std::io::Result<Self> {
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None)?;
        let (master, slave) = (File::from(pair.master), File::from(pair.slave));
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        command.stdin(Stdio::from(slave.try_clone()?)).stdout(Stdio::from(slave.try_clone()?));
        command.stderr(Stdio::from(slave));
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
        let screen = Arc::<Mutex<String>>::default();
        let (mut reader, shown) = (master.try_clone()?, screen.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                let text = String::from_utf8_lossy(&piece[..read]);
                shown.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        Ok(Self { child, keys: master, screen, seen: 0 })
    }

    /// Types these keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal is open");
    }

    /// Interrupts the command, as Ctrl+C does on a terminal that controls it.
    pub fn interrupt(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).expect("the command runs");
        kill(Pid::from_raw(pid), Signal::SIGINT).expect("the command runs");
    }

    /// Waits for a text in the output after the last match.
    pub async fn wait_for_text(&mut self, text: &str) {
        let seen = self.seen;
        let found = poll(TEST_TIMEOUT, || async { self.shown().get(seen..)?.find(text) }).await;
        let Some(at) = found else { panic!("no {text:?} in {:?}", self.shown().get(seen..)) };
        self.seen += at + text.len();
    }

    /// The output so far.
    pub fn shown(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the command ends; returns its exit code.
    pub async fn wait_for_exit(mut self) -> Option<i32> {
        let ended = tokio::time::timeout(TEST_TIMEOUT, self.child.wait()).await;
        ended.expect("it ends in time").expect("it is our child").code()
    }
}
