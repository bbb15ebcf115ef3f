//! A running server process: its pipes, its exit, and how to stop it.

use super::exit::ProcessExit;
use std::time::Duration;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// A running server process and its tree. Dropping it ends the tree after a short grace period.
#[derive(Debug)]
pub struct ServerProcess {
    /// The server's standard input; may be taken.
    pub stdin: Option<ChildStdin>,
    /// The server's standard output; may be taken.
    pub stdout: Option<ChildStdout>,
    /// The server's standard error; may be taken, and must be drained.
    pub stderr: Option<ChildStderr>,
    pub(super) pid: u32,
    pub(super) control: Box<dyn ProcessControl>,
    pub(super) stage: watch::Receiver<ProcessStage>,
}

/// The stage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only a reaper reports all stages"))]
pub(super) enum ProcessStage {
    /// Starting.
    Starting,
    /// Running with this process id.
    Running(u32),
    /// The server ended; other processes of its tree may still be running.
    Ended(ProcessExit),
    /// No process of the tree is left that could be ended.
    Gone(ProcessExit),
}

impl ProcessStage {
    fn exit(self) -> Option<ProcessExit> {
        match self {
            Self::Starting | Self::Running(_) => None,
            Self::Ended(exit) | Self::Gone(exit) => Some(exit),
        }
    }
}

/// An order to the process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopOrder {
    /// Ask the server's group to exit.
    Terminate,
    /// Kill everything.
    Kill,
}

/// Carries orders to the process tree. Dropping it ends the tree.
pub(super) trait ProcessControl: std::fmt::Debug + Send + Sync {
    fn order(&self, order: StopOrder);
}

/// The timeouts of a stop. The whole takes at most `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPlan {
    /// How long the server may take to exit after its input was closed.
    pub linger: Duration,
    /// How long it may take after it was asked to exit by a signal.
    pub grace: Duration,
    /// When waiting ends even if a process could not be killed.
    pub limit: Duration,
}

impl Default for StopPlan {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { linger: seconds(1), grace: seconds(2), limit: seconds(5) }
    }
}

impl StopPlan {
    /// Kills immediately.
    pub fn at_once() -> Self {
        Self { linger: Duration::ZERO, grace: Duration::ZERO, limit: Duration::from_secs(5) }
    }
}

impl ServerProcess {
    /// The id of the process that leads the tree: the reaper on Linux, otherwise the server.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The id of the server itself, while it is running.
    pub fn server_pid(&self) -> Option<u32> {
        match *self.stage.borrow() {
            ProcessStage::Running(pid) => Some(pid),
            ProcessStage::Starting | ProcessStage::Ended(_) | ProcessStage::Gone(_) => None,
        }
    }

    /// Waits until the server ends. The rest of its tree is still being ended, see [`ServerProcess::gone`].
    pub async fn wait(&mut self) -> ProcessExit {
        self.until(|stage| stage.exit().is_some()).await
    }

    /// Waits until nothing is left of the tree.
    pub async fn gone(&mut self) -> ProcessExit {
        self.until(|stage| matches!(stage, ProcessStage::Gone(_))).await
    }

    async fn until(&mut self, reached: impl FnMut(&ProcessStage) -> bool) -> ProcessExit {
        let mut reached = reached;
        let stage = self.stage.wait_for(|stage| reached(stage)).await.map(|stage| *stage);
        // The watching task ends early only together with the whole runtime.
        stage.ok().and_then(ProcessStage::exit).unwrap_or(ProcessExit::ReaperLost)
    }

    /// Ends the server and its tree: closes its input, asks it to exit, then kills it.
    ///
    /// If `stdin` was taken, drop it first; otherwise the first step is only a wait.
    pub async fn stop(&mut self, plan: StopPlan) -> ProcessExit {
        let limit = Instant::now() + plan.limit;
        self.stdin = None;
        if let Ok(exit) = timeout(plan.linger, self.gone()).await {
            return exit;
        }
        if !plan.grace.is_zero() {
            self.control.order(StopOrder::Terminate);
            if let Ok(exit) = timeout_at(limit.min(Instant::now() + plan.grace), self.gone()).await {
                return exit;
            }
        }
        self.control.order(StopOrder::Kill);
        if let Ok(exit) = timeout_at(limit, self.gone()).await {
            return exit;
        }
        tracing::warn!(process.pid = self.pid, "a process of a stopped server could not be killed");
        let stage = *self.stage.borrow();
        stage.exit().unwrap_or(ProcessExit::Signal(nix::libc::SIGKILL))
    }
}
