//! A server process that runs: its pipes, its ending, and the way to end it.

use super::exit::Exit;
use super::platform::Control;
use std::time::Duration;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// A running server process and its tree. Dropping it ends the tree too, after a short grace.
#[derive(Debug)]
pub struct Process {
    /// Where the server reads; may be taken.
    pub stdin: Option<ChildStdin>,
    /// Where the server writes; may be taken.
    pub stdout: Option<ChildStdout>,
    /// Where the server complains; may be taken, and must be drained.
    pub stderr: Option<ChildStderr>,
    pub(super) pid: u32,
    pub(super) control: Control,
    pub(super) life: watch::Receiver<Life>,
}

/// Where in its life a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only a reaper tells the stages apart"))]
pub(super) enum Life {
    /// On its way.
    Starting,
    /// Alive under this process id.
    Running(u32),
    /// The server ended; others of its tree may still be about.
    Ended(Exit),
    /// Nothing of the tree is left that could be ended.
    Gone(Exit),
}

impl Life {
    fn exit(self) -> Option<Exit> {
        match self {
            Self::Starting | Self::Running(_) => None,
            Self::Ended(exit) | Self::Gone(exit) => Some(exit),
        }
    }
}

/// An order to the tree of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Ask the server's group to leave.
    Terminate,
    /// Kill everything.
    Kill,
}

/// How patient a stop is. The whole takes no longer than `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPlan {
    /// How long the server may take to leave after its input was closed.
    pub linger: Duration,
    /// How long it may take after it was asked to leave by a signal.
    pub grace: Duration,
    /// When waiting ends even if something could not be killed.
    pub limit: Duration,
}

impl Default for StopPlan {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { linger: seconds(1), grace: seconds(2), limit: seconds(5) }
    }
}

impl StopPlan {
    /// Kills at once.
    pub fn at_once() -> Self {
        Self { linger: Duration::ZERO, grace: Duration::ZERO, limit: Duration::from_secs(5) }
    }
}

impl Process {
    /// The id of the process that leads the tree: on Linux the reaper's, elsewhere the server's.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The id of the server itself, as soon as it runs and until it ended.
    pub fn server_pid(&self) -> Option<u32> {
        match *self.life.borrow() {
            Life::Running(pid) => Some(pid),
            Life::Starting | Life::Ended(_) | Life::Gone(_) => None,
        }
    }

    /// Waits for the server's end. What it left behind is being ended by then, see [`Process::gone`].
    pub async fn wait(&mut self) -> Exit {
        self.until(|life| life.exit().is_some()).await
    }

    /// Waits until nothing is left of the tree.
    pub async fn gone(&mut self) -> Exit {
        self.until(|life| matches!(life, Life::Gone(_))).await
    }

    async fn until(&mut self, reached: impl FnMut(&Life) -> bool) -> Exit {
        let mut reached = reached;
        let life = self.life.wait_for(|life| reached(life)).await.map(|life| *life);
        // The watching task only ends early together with the whole runtime.
        life.ok().and_then(Life::exit).unwrap_or(Exit::ReaperLost)
    }

    /// Ends the server and its tree: closes its input, asks, then kills.
    ///
    /// If `stdin` was taken, drop it first, or the first step is only a wait.
    pub async fn stop(&mut self, plan: StopPlan) -> Exit {
        let limit = Instant::now() + plan.limit;
        self.stdin = None;
        if let Ok(exit) = timeout(plan.linger, self.gone()).await {
            return exit;
        }
        if !plan.grace.is_zero() {
            self.control.order(Order::Terminate);
            if let Ok(exit) = timeout_at(limit.min(Instant::now() + plan.grace), self.gone()).await {
                return exit;
            }
        }
        self.control.order(Order::Kill);
        if let Ok(exit) = timeout_at(limit, self.gone()).await {
            return exit;
        }
        tracing::warn!(process.pid = self.pid, "a process of a stopped server resists being killed");
        let life = *self.life.borrow();
        life.exit().unwrap_or(Exit::Signal(nix::libc::SIGKILL))
    }
}
