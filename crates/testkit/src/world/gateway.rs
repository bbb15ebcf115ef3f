//! The gateway as a process.

use super::http::Http;
use super::{TEST_TIMEOUT, poll};
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
    /// The address that it listens on.
    pub address: SocketAddr,
    /// Headers of the test's own requests, for example credentials.
    pub headers: Vec<(String, String)>,
    // Held so that the gateway can write to its standard output.
    _greeting: Lines<BufReader<ChildStdout>>,
}

/// Starts a program. While another test starts a process, a program that was just copied may be busy for a moment.
async fn spawn(command: &mut tokio::process::Command) -> Child {
    let started = poll(TEST_TIMEOUT, || {
        let spawned = match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
            spawned => Some(spawned.expect("the gateway runs")),
        };
        std::future::ready(spawned)
    });
    started.await.expect("the program is not busy for long")
}

impl Gateway {
    /// Starts a `serve` command on a free port and waits until it listens.
    pub async fn start(mut command: std::process::Command, log: &Path) -> Self {
        let stderr = File::options().create(true).append(true).open(log).expect("the log can be written");
        command.args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut command = tokio::process::Command::from(command);
        let mut child = spawn(command.kill_on_drop(true)).await;
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let first = tokio::time::timeout(TEST_TIMEOUT, lines.next_line()).await;
        let first = first.expect("the gateway starts in time").expect("it prints text");
        let logged = || std::fs::read_to_string(log).unwrap_or_default();
        let first = first.unwrap_or_else(|| panic!("the gateway exited at startup:\n{}", logged()));
        let address = first.rsplit_once("http://").and_then(|(_, address)| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {first:?}"));
        Self { child, log: log.to_owned(), address, headers: Vec::new(), _greeting: lines }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// An HTTP client for it.
    pub fn http(&self) -> Http {
        Http::new(self.address).sending(&self.headers)
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The response of `GET /servers/NAME`.
    pub async fn server(&self, name: &str) -> Value {
        self.http().get_json(&format!("/servers/{name}")).await
    }

    /// Acts on a server: connect, disconnect, restart or refresh.
    pub async fn act(&self, name: &str, action: &str) -> Value {
        self.http().post_json(&format!("/servers/{name}/{action}"), "").await.1
    }

    /// Waits until a server is in a state.
    pub async fn wait_for_state(&self, name: &str, state: &str) {
        let reached =
            poll(TEST_TIMEOUT, || async { (self.server(name).await["state"] == state).then_some(()) }).await;
        if reached.is_none() {
            panic!("`{name}` is not {state}: {}\n{}", self.server(name).await, self.log());
        }
    }

    /// Waits until all of these servers are connected.
    pub async fn connected(&self, names: &[&str]) {
        for name in names {
            self.wait_for_state(name, "connected").await;
        }
    }

    /// Sends SIGTERM and waits; returns the exit status and the time that took.
    pub async fn stop(mut self) -> (ExitStatus, Duration) {
        self.signal(Signal::SIGTERM);
        self.wait_for_exit().await
    }

    /// Sends SIGKILL and waits; returns the exit status and the time that took.
    pub async fn kill(mut self) -> (ExitStatus, Duration) {
        self.signal(Signal::SIGKILL);
        self.wait_for_exit().await
    }

    /// Waits until it exits.
    pub async fn gone(mut self) -> (ExitStatus, Duration) {
        self.wait_for_exit().await
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("process ids are small");
        kill(Pid::from_raw(pid), signal).expect("the gateway runs");
    }

    async fn wait_for_exit(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let status = tokio::time::timeout(TEST_TIMEOUT, self.child.wait()).await;
        (status.expect("the gateway exits in time").expect("it is our child"), start.elapsed())
    }
}
