//! The gateway as a process.

use super::http::Http;
use super::{PATIENCE, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

/// A running gateway; it is killed when dropped.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    log: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
    /// What the test shows when it looks at servers.
    pub showing: Vec<(String, String)>,
    // Held so that what it prints has somewhere to go.
    _greeting: Lines<BufReader<ChildStdout>>,
}

impl Gateway {
    /// Runs a command that is `serve`, on a port of its own choosing.
    pub async fn start(mut command: std::process::Command, log: &Path) -> Self {
        let stderr = File::options().create(true).append(true).open(log).expect("the log can be written");
        command.args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child =
            tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("the gateway runs");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let first = first.expect("the gateway comes up in time").expect("it prints text");
        let said = || std::fs::read_to_string(log).unwrap_or_default();
        let first = first.unwrap_or_else(|| panic!("the gateway ended at once:\n{}", said()));
        let address = first.rsplit_once("http://").and_then(|(_, address)| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {first:?}"));
        Self { child, log: log.to_owned(), address, showing: Vec::new(), _greeting: lines }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// Plain HTTP to it.
    pub fn http(&self) -> Http {
        Http::new(self.address).sending(&self.showing)
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// One server as `GET /servers/NAME` shows it.
    pub async fn server(&self, name: &str) -> Value {
        self.http().get_json(&format!("/servers/{name}")).await
    }

    /// Acts on a server: connect, disconnect, restart or refresh.
    pub async fn act(&self, name: &str, action: &str) -> Value {
        self.http().post_json(&format!("/servers/{name}/{action}"), "").await.1
    }

    /// Waits until a server is in a state.
    pub async fn reaches(&self, name: &str, state: &str) {
        let reached =
            poll(PATIENCE, || async { (self.server(name).await["state"] == state).then_some(()) }).await;
        if reached.is_none() {
            panic!("`{name}` is not {state}: {}\n{}", self.server(name).await, self.log());
        }
    }

    /// Waits until all of these servers are connected.
    pub async fn connected(&self, names: &[&str]) {
        for name in names {
            self.reaches(name, "connected").await;
        }
    }

    /// Asks it politely to end, and tells how it did and how long that took.
    pub async fn stop(mut self) -> (ExitStatus, Duration) {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// Kills it as a power cut would.
    pub async fn kill(mut self) -> (ExitStatus, Duration) {
        self.signal(Signal::SIGKILL);
        self.ended().await
    }

    /// Waits until it is gone, whoever ended it.
    pub async fn gone(mut self) -> (ExitStatus, Duration) {
        self.ended().await
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("process ids are small");
        kill(Pid::from_raw(pid), signal).expect("the gateway is there");
    }

    async fn ended(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        (status.expect("the gateway ends in time").expect("it is our child"), start.elapsed())
    }
}
