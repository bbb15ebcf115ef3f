//! Where there is no subreaper: a server leads a process group, and ending means signals to that group.
//!
//! A process that leaves the group, or the sudden death of the gateway, is beyond this; there the closing of its
//! input is all that tells a server to leave.

use super::exit::Exit;
use super::fault::LaunchError;
use super::launch::{Checked, refusal};
use super::running::{Life, Order, Process};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::process::{ExitCode, Stdio};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Holds a process group; dropping it kills the group.
#[derive(Debug)]
pub(super) struct Control {
    group: Pid,
    life: watch::Receiver<Life>,
}

impl Control {
    pub fn order(&self, order: Order) {
        // Once the group is gone its number may belong to somebody else.
        if matches!(*self.life.borrow(), Life::Gone(_)) {
            return;
        }
        let signal = match order {
            Order::Terminate => Signal::SIGTERM,
            Order::Kill => Signal::SIGKILL,
        };
        let _ = killpg(self.group, signal);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.order(Order::Kill);
    }
}

/// Starts a checked launch as the leader of its own group.
pub(super) fn start(checked: Checked) -> Result<Process, LaunchError> {
    let Checked { shown, file, name, args, folder, env, reaper: _ } = checked;
    let mut command = Command::new(file);
    command.arg0(name).args(args).current_dir(folder).env_clear().envs(env).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| refusal(shown, source))?;
    let pid = child.id().unwrap_or_default();
    let group = Pid::from_raw(i32::try_from(pid).unwrap_or_default());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (life, seen) = watch::channel(Life::Running(pid));
    tokio::spawn(follow(child, group, life));
    let control = Control { group, life: seen.clone() };
    Ok(Process { stdin, stdout, stderr, pid, control, life: seen })
}

async fn follow(mut child: Child, group: Pid, life: watch::Sender<Life>) {
    let exit = child.wait().await.map_or(Exit::Signal(0), Exit::from);
    let _ = killpg(group, Signal::SIGKILL);
    life.send_replace(Life::Gone(exit));
}

/// There is no reaper on this system; says so.
pub fn reaper_main() -> ExitCode {
    eprintln!("error: `reaper` only works on Linux");
    ExitCode::from(2)
}
