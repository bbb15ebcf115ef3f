//! The reaper: a small process between the gateway and one server that ends the server's whole process tree.
//!
//! It is the same executable and runs before any runtime or thread exists.

mod tree;
mod watch;

pub(super) use tree::kill_session;

use super::exit::ReaperReport;
use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{close, getpid, getppid};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The descriptor of a reaper's control pipe (read end).
pub(super) const CONTROL_FD: RawFd = 3;
/// The descriptor of a reaper's report pipe (write end).
pub(super) const REPORT_FD: RawFd = 4;
/// The control byte that asks the server's group to exit.
pub(super) const TERMINATE: u8 = b'T';
/// The control byte that kills the tree.
pub(super) const KILL: u8 = b'K';
/// The argument that selects the reaper mode.
pub(super) const WATCH: &str = "--watch";

/// The arguments of a reaper.
struct ReaperArguments {
    /// The server's executable.
    file: OsString,
    /// The server's `argv[0]`.
    name: OsString,
    /// Its arguments.
    args: Vec<OsString>,
}

/// Runs as a reaper. Call it at the start of `main`, before any thread exists.
pub fn reaper_main() -> ExitCode {
    let Some(arguments) = ReaperArguments::read(env::args_os().skip(1).collect()) else {
        eprintln!(
            "error: `reaper` is used internally by toolbooth to watch its servers; do not run it by hand"
        );
        return ExitCode::from(2);
    };
    watch::watch(arguments).unwrap_or_else(|error| {
        eprintln!("error: the reaper could not start: {error}");
        ExitCode::from(2)
    })
}

impl ReaperArguments {
    fn read(all: Vec<OsString>) -> Option<Self> {
        // The arguments that select `reaper_main` come first; none of them begins with `--`.
        let mut rest =
            all.into_iter().skip_while(|argument| !argument.as_encoded_bytes().starts_with(b"--")).peekable();
        rest.next_if(|argument| argument == WATCH)?;
        rest.next_if(|argument| argument == "--")?;
        Some(Self { file: rest.next()?, name: rest.next()?, args: rest.collect() })
    }

    /// The command that starts the server in its own group. The server is killed if the reaper dies.
    #[allow(unsafe_code, reason = "`pre_exec` has no safe form")]
    fn server(&self) -> Command {
        let reaper = getpid();
        let mut command = Command::new(&self.file);
        command.arg0(&self.name).args(&self.args).process_group(0);
        let tie = move || {
            // Survives `exec`. If the reaper died before this line, no signal will be sent.
            set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != reaper {
                return Err(Errno::ESRCH.into());
            }
            Ok(SigSet::empty().thread_set_mask()?)
        };
        // SAFETY: `tie` runs between `fork` and `exec`, where only async-signal-safe functions may be called.
        // It makes three system calls, allocates nothing, and this process has one thread. Reasons: ADR 3.
        unsafe { command.pre_exec(tie) };
        command
    }
}

/// Takes over a pipe inherited under a known descriptor number; child processes will not inherit it.
fn claim(number: RawFd, options: &OpenOptions) -> io::Result<File> {
    // There is no safe way to own a raw descriptor, but it can be opened by name.
    let pipe = options.clone().custom_flags(libc::O_NONBLOCK).open(format!("/proc/self/fd/{number}"))?;
    if !pipe.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other(format!("descriptor {number} is not a pipe")));
    }
    close(number)?;
    Ok(pipe)
}

/// Closes all inherited descriptors except the standard three and the two pipes.
///
/// The gateway's own files are close-on-exec, but its parent may have left others open.
fn close_strays() -> io::Result<()> {
    let numbers: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > REPORT_FD) {
        // The descriptor that listed the folder is already closed.
        let _ = close(number);
    }
    Ok(())
}

/// Reports to the gateway; errors are ignored because the gateway may be gone.
fn report_to(mut pipe: &File, report: ReaperReport) {
    let _ = pipe.write_all(format!("{report}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn read(words: &str) -> Option<ReaperArguments> {
        ReaperArguments::read(words.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn a_server_may_have_any_arguments() {
        let arguments = read("reaper --watch -- /bin/x x --watch -- y").unwrap();
        assert_eq!((arguments.file, arguments.name), ("/bin/x".into(), "x".into()));
        assert_eq!(arguments.args, ["--watch", "--", "y"]);
    }

    #[test]
    fn manual_use_is_refused() {
        for words in
            ["reaper", "reaper --watch", "reaper --watch -- x", "reaper --help", "reaper --exec -- a b"]
        {
            assert!(read(words).is_none(), "{words}");
        }
    }
}
