//! The life of a reaper: wait for an order, for the gateway's death or the server's end, then end the tree.
//!
//! All of the tree are descendants of this process, because an orphan goes to the nearest subreaper above it. So the
//! system's word that there is no child left means that nothing is left at all.

use super::super::exit::{Exit, Report};
use super::{Arguments, CONTROL_FD, KILL, REPORT_FD, TERMINATE, claim, close_strays, tell, tree};
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

/// How long the server may take to leave when its gateway is gone.
const GRACE: Duration = Duration::from_secs(2);
/// How long it may take when the gateway asked and watches; the gateway's own order to kill comes earlier.
const WATCHED_GRACE: Duration = Duration::from_secs(5);
/// How long the rest of the tree may take when the server left by itself.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// When killing has been in vain, for processes of another user or stuck in the system.
const GIVE_UP: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// One sweep looks again at once while it keeps finding new processes, at most this often.
const LOOKS_PER_SWEEP: usize = 50;

/// Starts the server and stays until nothing is left of its tree.
pub(super) fn watch(arguments: Arguments) -> io::Result<ExitCode> {
    close_strays()?;
    default_signals();
    let control = claim(CONTROL_FD, File::options().read(true))?;
    let report = claim(REPORT_FD, File::options().write(true))?;
    set_child_subreaper(true)?;
    // A name that `pkill toolbooth` does not match: whoever kills the gateway so still wants the tree ended.
    set_name(c"tb-reaper")?;
    // Away from the terminal of the gateway: its Ctrl-C is the gateway's to pass on, and no server may ask there.
    setsid()?;
    let signals = listen()?;
    let server = match arguments.server().spawn() {
        Ok(child) => Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?),
        Err(error) => {
            tell(&report, Report::Ended(Exit::NotStarted(error.raw_os_error().unwrap_or(0))));
            return Ok(ExitCode::from(126));
        }
    };
    let_go();
    tell(&report, Report::Running(server.as_raw().unsigned_abs()));
    let watch = Watch { control: Some(control), report, signals, server, exit: None, phase: Phase::Running };
    Ok(ExitCode::from(watch.run().shell_status()))
}

/// Takes back what the gateway's own parent may have said about signals: what is ignored stays so through `exec`, and a
/// server that inherited ignored signals cannot be stopped with them. An ignored SIGCHLD would also take away
/// this process's news of its children.
#[allow(unsafe_code)]
fn default_signals() {
    for number in 1..=libc::SIGRTMAX() {
        // The runtime ignores it for this process, and `Command` gives it back to the server.
        if number != libc::SIGPIPE {
            // SAFETY: sets no handler, and no thread exists that could be in one. Numbers that cannot be set are refused.
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

/// Lets go of the server's pipes, so that each side sees the other's end, and of its folder.
fn let_go() {
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

struct Watch {
    /// Absent once the gateway closed it.
    control: Option<File>,
    report: File,
    signals: SignalFd,
    server: Pid,
    /// How the server ended.
    exit: Option<Exit>,
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// The tree was asked to leave.
    Asked {
        kill_at: Instant,
    },
    /// Whatever is found is killed.
    Killing {
        give_up_at: Instant,
        pause: Duration,
    },
}

impl Watch {
    fn run(mut self) -> Exit {
        loop {
            if let Family::Gone = self.reap() {
                return self.exit.unwrap_or(Exit::Signal(0));
            }
            if let Some(left) = self.advance() {
                tell(&self.report, Report::LeftBehind(left));
                return self.exit.unwrap_or(Exit::Signal(0));
            }
            self.pause();
            while let Ok(Some(signal)) = self.signals.read_signal() {
                if signal.ssi_signo != Signal::SIGCHLD as u32 {
                    self.ask(GRACE);
                }
            }
            self.hear();
        }
    }

    /// Collects every child that ended.
    fn reap(&mut self) -> Family {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => self.ended(pid, Exit::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => self.ended(pid, Exit::Signal(signal as i32)),
                Ok(WaitStatus::StillAlive) => return Family::Left,
                Ok(_) | Err(Errno::EINTR) => {}
                // The child was collected, but by a signal this library has no name for: see who is missing.
                Err(Errno::EINVAL) => {
                    if self.exit.is_none() && kill(self.server, None) == Err(Errno::ESRCH) {
                        self.ended(self.server, Exit::Signal(0));
                    }
                }
                Err(_) => return Family::Gone,
            }
        }
    }

    fn ended(&mut self, pid: Pid, exit: Exit) {
        if pid != self.server {
            return;
        }
        self.exit = Some(exit);
        tell(&self.report, Report::Ended(exit));
        let kill_at = Instant::now() + LEFTOVER_GRACE;
        match &mut self.phase {
            Phase::Running => self.phase = Phase::Asked { kill_at },
            Phase::Asked { kill_at: earlier } => *earlier = kill_at.min(*earlier),
            Phase::Killing { .. } => return,
        }
        tree::signal(&tree::descendants(getpid()), Signal::SIGTERM);
    }

    /// Asks the server's group to leave, once.
    fn ask(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace;
        match &mut self.phase {
            Phase::Running => {
                self.phase = Phase::Asked { kill_at };
                // The server was not collected yet, so the number of its group is still its own.
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

    /// Does what the time has come for; `Some` is how many processes resisted to the end.
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

    /// Sleeps until something happens or is due.
    fn pause(&self) {
        let timeout = match self.phase {
            Phase::Running => PollTimeout::NONE,
            Phase::Asked { kill_at } => until(kill_at.saturating_duration_since(Instant::now())),
            Phase::Killing { pause, .. } => until(pause),
        };
        let mut descriptors = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(self.control.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        // Interrupted or not: everything is looked at afterwards.
        let _ = poll(&mut descriptors, timeout);
    }

    /// Hears the gateway's orders; the end of the pipe is one too.
    fn hear(&mut self) {
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

enum Family {
    Left,
    Gone,
}

/// Kills all descendants and looks again while there are new ones; tells how many the last look found.
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

/// Rounds up, lest a wait of less than a millisecond becomes a busy one.
fn until(wait: Duration) -> PollTimeout {
    PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
}
