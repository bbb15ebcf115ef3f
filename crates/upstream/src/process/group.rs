//! Systems without subreapers: a server leads a process group and is ended by signals to that group.
//!
//! This does not cover processes that leave the group or a sudden death of the gateway; there, the closed
//! input is the only request to exit that a server gets.

use super::checked_launch::{CheckedLaunch, refusal};
use super::exit::ProcessExit;
use super::fault::LaunchError;
use super::running::{ProcessControl, ProcessStage, ServerProcess, StopOrder};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::process::{ExitCode, Stdio};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Controls a process group; dropping it kills the group.
#[derive(Debug)]
struct GroupControl {
    group: Pid,
    stage: watch::Receiver<ProcessStage>,
}

impl ProcessControl for GroupControl {
    fn order(&self, order: StopOrder) {
        // Once the group is gone, its id may belong to another process.
        if matches!(*self.stage.borrow(), ProcessStage::Gone(_)) {
            return;
        }
        let signal = match order {
            StopOrder::Terminate => Signal::SIGTERM,
            StopOrder::Kill => Signal::SIGKILL,
        };
        let _ = killpg(self.group, signal);
    }
}

impl Drop for GroupControl {
    fn drop(&mut self) {
        self.order(StopOrder::Kill);
    }
}

/// Starts a checked launch as the leader of its own group.
pub(super) fn start(checked: CheckedLaunch) -> Result<ServerProcess, LaunchError> {
    let CheckedLaunch { shown, file, name, args, folder, env, reaper: _ } = checked;
    let mut command = Command::new(file);
    command.arg0(name).args(args).current_dir(folder).env_clear().envs(env).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| refusal(shown, source))?;
    let pid = child.id().unwrap_or_default();
    let group = Pid::from_raw(i32::try_from(pid).unwrap_or_default());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (stage, seen) = watch::channel(ProcessStage::Running(pid));
    tokio::spawn(follow(child, group, stage));
    let control = Box::new(GroupControl { group, stage: seen.clone() });
    Ok(ServerProcess { stdin, stdout, stderr, pid, control, stage: seen })
}

async fn follow(mut child: Child, group: Pid, stage: watch::Sender<ProcessStage>) {
    let exit = child.wait().await.map_or(ProcessExit::Signal(0), ProcessExit::from);
    let _ = killpg(group, Signal::SIGKILL);
    stage.send_replace(ProcessStage::Gone(exit));
}

/// Reports that this system has no reaper.
pub fn reaper_main() -> ExitCode {
    eprintln!("error: `reaper` only works on Linux");
    ExitCode::from(2)
}
