//! Processes that are hard to end: deaf ones, ones in a session of their own, daemons, chains that run away.

use super::LIFETIME;
use super::wire::{Call, Manner, Temper, Wire, ok_tool, serve, unknown};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::setsid;
use serde_json::Value;
use std::env;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// A server with descendants of every kind, each carrying the token in its command line.
pub struct Grandchildren;

impl Grandchildren {
    /// Starts `count` of each kind. They inherit the server's pipes and so keep them open.
    pub fn new(token: &str, count: u64) -> Self {
        for _ in 0..count {
            start(&["sleeper", token]);
            start(&["session-sleeper", token]);
            start(&["daemon", token]);
        }
        Self
    }
}

impl Temper for Grandchildren {
    fn name(&self) -> &'static str {
        "hostile-grandchildren"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool()]
    }

    fn call(&mut self, call: &Call, wire: &mut Wire) {
        unknown(call, wire);
    }
}

/// Serves, but neither signals nor the end of its input make it leave.
pub fn serve_deaf() {
    turn_deaf();
    serve(&mut Wire::new(Manner::Plain), Grandchildren);
    sleep(LIFETIME);
}

/// Does nothing, and no polite signal ends it.
pub fn sleep_deaf() {
    turn_deaf();
    sleep(LIFETIME);
}

/// As [`sleep_deaf`], in a session of its own.
pub fn sleep_in_own_session() {
    setsid().expect("a fresh process leads no group");
    sleep_deaf();
}

/// Leaves a deaf process behind that has neither this session nor this parent.
pub fn daemonise(token: &str) {
    setsid().expect("a fresh process leads no group");
    start(&["session-sleeper", token]);
}

/// Each process starts the next one and leaves, `count` times.
pub fn run_away(token: &str, count: u64) {
    turn_deaf();
    sleep(Duration::from_millis(1));
    if count > 0 {
        start(&["rabbit", token, &(count - 1).to_string()]);
    }
}

#[allow(clippy::zombie_processes, reason = "children nobody waits for are the point here")]
fn start(arguments: &[&str]) {
    let this = env::current_exe().expect("the system knows this executable");
    Command::new(this).args(arguments).spawn().expect("this executable runs again");
}

/// Blocks every polite signal, which is as good as ignoring it.
fn turn_deaf() {
    let mut polite = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        polite.add(signal);
    }
    polite.thread_block().expect("signals can be blocked");
}
