//! The main loop of a reaper: waits for an order, the gateway's death or the server's end, then ends the
//! tree.
//!
//! All processes of the tree are descendants of this process, because orphans are reparented to the nearest
//! subreaper. When the system reports that no child is left, the whole tree is gone.

use super::super::exit::{ProcessExit, ReaperReport};
use super::{CONTROL_FD, KILL, REPORT_FD, ReaperArguments, TERMINATE, claim, close_strays, report_to, tree};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_name};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, close, dup2_stderr, dup2_stdin, dup2_stdout, getpid, setsid};
use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the server may take to exit when its gateway is gone.
const GRACE: Duration = Duration::from_secs(2);
/// How long it may take when the gateway asked; the gateway's own kill order comes earlier.
const WATCHED_GRACE: Duration = Duration::from_secs(5);
/// How long the rest of the tree may take after the server exited.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// When to give up on processes of another user or stuck in the kernel.
const GIVE_UP: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of consecutive looks in one sweep while new processes are found.
const LOOKS_PER_SWEEP: usize = 50;

/// Starts the server and runs until nothing is left of its tree.
pub(super) fn watch(arguments: ReaperArguments) -> io::Result<ExitCode> {
    close_strays()?;
    default_signals();
    let control = claim(CONTROL_FD, File::options().read(true))?;
    let report = claim(REPORT_FD, File::options().write(true))?;
    set_child_subreaper(true)?;
    // A name that `pkill toolbooth` does not match: if the gateway is killed that way, the tree must still be
    // ended.
    set_name(c"tb-reaper")?;
    // Detaches from the gateway's terminal: the gateway forwards Ctrl-C, and no server may read from the
    // terminal.
    setsid()?;
    let signals = listen()?;
    let server = match arguments.server().spawn() {
        Ok(child) => Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?),
        Err(error) => {
            report_to(
                &report,
                ReaperReport::Ended(ProcessExit::NotStarted(error.raw_os_error().unwrap_or(0))),
            );
            return Ok(ExitCode::from(126));
        }
    };
    release_server_files();
    report_to(&report, ReaperReport::Running(server.as_raw().unsigned_abs()));
    let watch =
        ReaperWatch { control: Some(control), report, signals, server, exit: None, phase: Phase::Running };
    Ok(ExitCode::from(watch.run().shell_status()))
}

/// Resets all signals to their defaults: ignored signals stay ignored through `exec`, and a server that
/// inherited them could not be stopped with them. An ignored SIGCHLD would also hide the end of child
/// processes.
#[allow(unsafe_code, reason = "`signal` has no safe form")]
fn default_signals() {
    for number in 1..=libc::SIGRTMAX() {
        // The runtime ignores it for this process, and `Command` resets it for the server.
        if number != libc::SIGPIPE {
            // SAFETY: sets no handler, and no other thread exists. Signals that cannot be set are refused.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
}

fn listen() -> io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        signals.add(signal);
    }
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Releases the server's pipes, so that each side sees when the other closes, and its folder.
fn release_server_files() {
    match File::options().read(true).write(true).open("/dev/null") {
        Ok(null) => {
            let _ = (dup2_stdin(&null), dup2_stdout(&null), dup2_stderr(&null));
        }
        Err(_) => {
            let _ = (close(0), close(1), close(2));
        }
    }
    let _ = env::set_current_dir("/");
}

struct ReaperWatch {
    /// `None` after the gateway closed it.
    control: Option<File>,
    report: File,
    signals: SignalFd,
    server: Pid,
    /// How the server ended.
    exit: Option<ProcessExit>,
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// The tree was asked to exit.
    Asked {
        kill_at: Instant,
    },
    /// All processes found are killed.
    Killing {
        give_up_at: Instant,
        pause: Duration,
    },
}

impl ReaperWatch {
    fn run(mut self) -> ProcessExit {
        loop {
            if let TreeStatus::Gone = self.reap() {
                return self.exit.unwrap_or(ProcessExit::Signal(0));
            }
            if let Some(left) = self.advance() {
                report_to(&self.report, ReaperReport::LeftBehind(left));
                return self.exit.unwrap_or(ProcessExit::Signal(0));
            }
            self.pause();
            while let Ok(Some(signal)) = self.signals.read_signal() {
                if signal.ssi_signo != Signal::SIGCHLD as u32 {
                    self.ask(GRACE);
                }
            }
            self.read_orders();
        }
    }

    /// Reaps all child processes that ended.
    fn reap(&mut self) -> TreeStatus {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => self.ended(pid, ProcessExit::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.ended(pid, ProcessExit::Signal(signal as i32))
                }
                Ok(WaitStatus::StillAlive) => return TreeStatus::Left,
                Ok(_) | Err(Errno::EINTR) => {}
                // The child was reaped, but ended by a signal that this library does not know: check whether
                // it was the server.
                Err(Errno::EINVAL) => {
                    if self.exit.is_none() && kill(self.server, None) == Err(Errno::ESRCH) {
                        self.ended(self.server, ProcessExit::Signal(0));
                    }
                }
                Err(_) => return TreeStatus::Gone,
            }
        }
    }

    fn ended(&mut self, pid: Pid, exit: ProcessExit) {
        if pid != self.server {
            return;
        }
        self.exit = Some(exit);
        report_to(&self.report, ReaperReport::Ended(exit));
        let kill_at = Instant::now() + LEFTOVER_GRACE;
        match &mut self.phase {
            Phase::Running => self.phase = Phase::Asked { kill_at },
            Phase::Asked { kill_at: earlier } => *earlier = kill_at.min(*earlier),
            Phase::Killing { .. } => return,
        }
        tree::signal(&tree::descendants(getpid()), Signal::SIGTERM);
    }

    /// Asks the server's group to exit, once.
    fn ask(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace;
        match &mut self.phase {
            Phase::Running => {
                self.phase = Phase::Asked { kill_at };
                // The server was not reaped yet, so its group id is still its own.
                let _ = killpg(self.server, Signal::SIGTERM);
                let _ = killpg(self.server, Signal::SIGCONT);
            }
            Phase::Asked { kill_at: earlier } => *earlier = kill_at.min(*earlier),
            Phase::Killing { .. } => {}
        }
    }

    fn kill(&mut self) {
        if !matches!(self.phase, Phase::Killing { .. }) {
            self.phase = Phase::Killing { give_up_at: Instant::now() + GIVE_UP, pause: SHORTEST_PAUSE };
        }
    }

    /// Performs the steps that are due; `Some` is the number of processes that could not be killed.
    fn advance(&mut self) -> Option<usize> {
        let now = Instant::now();
        if matches!(self.phase, Phase::Asked { kill_at } if now >= kill_at) {
            self.kill();
        }
        let Phase::Killing { give_up_at, pause } = self.phase else { return None };
        let left = sweep();
        self.phase = Phase::Killing { give_up_at, pause: LONGEST_PAUSE.min(pause * 2) };
        (now >= give_up_at).then_some(left)
    }

    /// Sleeps until an event or the next due step.
    fn pause(&self) {
        let timeout = match self.phase {
            Phase::Running => PollTimeout::NONE,
            Phase::Asked { kill_at } => until(kill_at.saturating_duration_since(Instant::now())),
            Phase::Killing { pause, .. } => until(pause),
        };
        let mut descriptors = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(self.control.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        // Everything is checked afterwards, even if the poll was interrupted.
        let _ = poll(&mut descriptors, timeout);
    }

    /// Reads the gateway's orders; the end of the pipe counts as one.
    fn read_orders(&mut self) {
        let Some(control) = &mut self.control else { return };
        let mut orders = [0; 16];
        let count = match control.read(&mut orders) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return;
            }
            Err(_) => 0,
        };
        if count == 0 {
            self.control = None;
            self.ask(GRACE);
        }
        for order in &orders[..count] {
            match *order {
                TERMINATE => self.ask(WATCHED_GRACE),
                KILL => self.kill(),
                _ => {}
            }
        }
    }
}

enum TreeStatus {
    Left,
    Gone,
}

/// Kills all descendants, repeatedly while new ones appear; returns how many the last look found.
fn sweep() -> usize {
    let mut before = Vec::new();
    for _ in 0..LOOKS_PER_SWEEP {
        let mut found = tree::descendants(getpid());
        tree::signal(&found, Signal::SIGKILL);
        found.sort_unstable();
        if found.iter().all(|pid| before.contains(pid)) {
            return found.len();
        }
        before = found;
    }
    before.len()
}

/// Rounds up, so that a wait below a millisecond does not become a busy loop.
fn until(wait: Duration) -> PollTimeout {
    PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
}
