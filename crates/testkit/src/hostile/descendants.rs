//! Processes that are hard to end: they ignore signals, start new sessions, daemonise, or respawn in a chain.

use super::LIFETIME;
use super::wire::{HostileCall, HostileServer, LineStyle, StdioWire, ok_tool, serve, unknown};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::setsid;
use serde_json::Value;
use std::env;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// A server with descendants of every kind, each with the token in its command line.
pub struct Grandchildren;

impl Grandchildren {
    /// Starts `count` of each kind. They inherit the server's pipes and keep them open.
    pub fn new(token: &str, count: u64) -> Self {
        for _ in 0..count {
            start(&["sleeper", token]);
            start(&["session-sleeper", token]);
            start(&["daemon", token]);
        }
        Self
    }
}

impl HostileServer for Grandchildren {
    fn name(&self) -> &'static str {
        "hostile-grandchildren"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool()]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        unknown(call, wire);
    }
}

/// Serves, but does not exit on signals or at the end of its input.
pub fn serve_ignoring_signals() {
    block_signals();
    serve(&mut StdioWire::new(LineStyle::Plain), Grandchildren);
    sleep(LIFETIME);
}

/// Sleeps and ignores termination signals.
pub fn sleep_ignoring_signals() {
    block_signals();
    sleep(LIFETIME);
}

/// As [`sleep_ignoring_signals`], in its own session.
pub fn sleep_in_own_session() {
    setsid().expect("a new process is not a group leader");
    sleep_ignoring_signals();
}

/// Starts a process that ignores signals, in another session and with another parent.
pub fn daemonise(token: &str) {
    setsid().expect("a new process is not a group leader");
    start(&["session-sleeper", token]);
}

/// Starts the next process and exits, `count` times.
pub fn respawn(token: &str, count: u64) {
    block_signals();
    sleep(Duration::from_millis(1));
    if count > 0 {
        start(&["rabbit", token, &(count - 1).to_string()]);
    }
}

#[allow(clippy::zombie_processes, reason = "the tests need children that are not waited for")]
fn start(arguments: &[&str]) {
    let this = env::current_exe().expect("the system knows this executable");
    Command::new(this).args(arguments).spawn().expect("this executable runs again");
}

/// Blocks the termination signals, which has the effect of ignoring them.
fn block_signals() {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        signals.add(signal);
    }
    signals.thread_block().expect("signals can be blocked");
}
