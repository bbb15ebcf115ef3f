//! The reaper: a small process between the gateway and one server, which ends the server's whole tree.
//!
//! It runs before any runtime or thread exists, as the same executable.

mod tree;
mod watch;

pub(super) use tree::kill_session;

use super::exit::Report;
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

/// Where a reaper finds the read end of its control pipe.
pub(super) const CONTROL_FD: RawFd = 3;
/// Where a reaper finds the write end of its report pipe.
pub(super) const REPORT_FD: RawFd = 4;
/// The control byte that asks the server's group to leave.
pub(super) const TERMINATE: u8 = b'T';
/// The control byte that kills the tree.
pub(super) const KILL: u8 = b'K';
/// The argument that makes a reaper.
pub(super) const WATCH: &str = "--watch";

/// What a reaper was asked to run.
struct Arguments {
    /// The server's executable.
    file: OsString,
    /// The name it is told.
    name: OsString,
    /// Its arguments.
    args: Vec<OsString>,
}

/// Runs as a reaper. Call it first thing in `main`, before any thread exists.
pub fn reaper_main() -> ExitCode {
    let Some(arguments) = Arguments::read(env::args_os().skip(1).collect()) else {
        eprintln!("error: `reaper` is how toolbooth watches its own servers; it is not for use by hand");
        return ExitCode::from(2);
    };
    watch::watch(arguments).unwrap_or_else(|error| {
        eprintln!("error: the reaper could not begin: {error}");
        ExitCode::from(2)
    })
}

impl Arguments {
    fn read(all: Vec<OsString>) -> Option<Self> {
        // What leads to `reaper_main` comes first; none of it begins with `--`.
        let mut rest =
            all.into_iter().skip_while(|argument| !argument.as_encoded_bytes().starts_with(b"--")).peekable();
        rest.next_if(|argument| argument == WATCH)?;
        rest.next_if(|argument| argument == "--")?;
        Some(Self { file: rest.next()?, name: rest.next()?, args: rest.collect() })
    }

    /// The command that starts the server as a group of its own, which ends with the reaper in whatever way that ends.
    #[allow(unsafe_code)]
    fn server(&self) -> Command {
        let reaper = getpid();
        let mut command = Command::new(&self.file);
        command.arg0(&self.name).args(&self.args).process_group(0);
        let tie = move || {
            // Lasts through `exec`; if the reaper died before this line, its death will not be told again.
            set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != reaper {
                return Err(Errno::ESRCH.into());
            }
            Ok(SigSet::empty().thread_set_mask()?)
        };
        // SAFETY: `tie` runs between `fork` and `exec`, where only what is safe in a signal handler may be called. It
        // makes three system calls, takes no memory, and this process has but one thread. Why there: ADR 3.
        unsafe { command.pre_exec(tie) };
        command
    }
}

/// Takes over a pipe end that was inherited under a known number; no child of this process will inherit it.
fn claim(number: RawFd, options: &OpenOptions) -> io::Result<File> {
    // There is no safe way to own a bare number; but it can be opened by name.
    let pipe = options.clone().custom_flags(libc::O_NONBLOCK).open(format!("/proc/self/fd/{number}"))?;
    if !pipe.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other(format!("descriptor {number} is not a pipe")));
    }
    close(number)?;
    Ok(pipe)
}

/// Closes everything that was inherited besides the standard three and the two pipes.
///
/// The gateway's own files close by themselves, but its parent may have left some open for it.
fn close_strays() -> io::Result<()> {
    let numbers: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > REPORT_FD) {
        // One of them listed the folder and is closed already.
        let _ = close(number);
    }
    Ok(())
}

/// Tells the gateway; if it is gone, nobody needs to know.
fn tell(mut pipe: &File, report: Report) {
    let _ = pipe.write_all(format!("{report}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(words: &str) -> Option<Arguments> {
        Arguments::read(words.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn a_server_may_have_any_arguments() {
        let arguments = read("reaper --watch -- /bin/x x --watch -- y").unwrap();
        assert_eq!((arguments.file, arguments.name), ("/bin/x".into(), "x".into()));
        assert_eq!(arguments.args, ["--watch", "--", "y"]);
    }

    #[test]
    fn use_by_hand_is_refused() {
        for words in
            ["reaper", "reaper --watch", "reaper --watch -- x", "reaper --help", "reaper --exec -- a b"]
        {
            assert!(read(words).is_none(), "{words}");
        }
    }
}
