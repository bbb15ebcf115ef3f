//! How a server process ended, and the report format of its reaper.

use std::fmt;

/// How a server process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal; 0 if the signal is unknown.
    Signal(i32),
    /// The system refused to run it, with this error number.
    NotStarted(i32),
    /// Its reaper ended without a report, probably killed. All processes of the tree that could be found were
    /// killed too.
    ReaperLost,
}

impl ProcessExit {
    /// Whether it exited with code 0.
    pub fn is_clean(self) -> bool {
        self == Self::Code(0)
    }

    /// The status that a shell would show: the code, or 128 plus the signal number.
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            Self::Signal(signal) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(u8::MAX),
            Self::NotStarted(_) => 126,
            Self::ReaperLost => 137,
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(number) => match nix::sys::signal::Signal::try_from(*number) {
                Ok(signal) => write!(f, "was ended by {signal}"),
                Err(_) => write!(f, "was ended by signal {number}"),
            },
            Self::NotStarted(number) => {
                write!(f, "could not be run: {}", nix::errno::Errno::from_raw(*number).desc())
            }
            Self::ReaperLost => f.write_str("was lost together with its reaper process"),
        }
    }
}

impl From<std::process::ExitStatus> for ProcessExit {
    fn from(status: std::process::ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// One line that a reaper writes to its gateway.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReaperReport {
    /// The server is running with this process id.
    Running(u32),
    /// The server ended.
    Ended(ProcessExit),
    /// The reaper gave up on this number of processes that it could not kill.
    LeftBehind(usize),
}

#[cfg(target_os = "linux")]
impl ReaperReport {
    /// Parses a line; `None` for an unknown one.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ')?;
        Some(match word {
            "pid" => Self::Running(number.parse().ok()?),
            "code" => Self::Ended(ProcessExit::Code(number.parse().ok()?)),
            "signal" => Self::Ended(ProcessExit::Signal(number.parse().ok()?)),
            "refused" => Self::Ended(ProcessExit::NotStarted(number.parse().ok()?)),
            "left" => Self::LeftBehind(number.parse().ok()?),
            _ => return None,
        })
    }
}

#[cfg(target_os = "linux")]
impl fmt::Display for ReaperReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(pid) => write!(f, "pid {pid}"),
            Self::Ended(ProcessExit::Code(code)) => write!(f, "code {code}"),
            Self::Ended(ProcessExit::Signal(signal)) => write!(f, "signal {signal}"),
            Self::Ended(ProcessExit::NotStarted(number)) => write!(f, "refused {number}"),
            Self::Ended(ProcessExit::ReaperLost) => f.write_str("lost"),
            Self::LeftBehind(count) => write!(f, "left {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_described_in_words() {
        let cases = [
            (ProcessExit::Code(3), "exited with code 3", 3),
            (ProcessExit::Signal(9), "was ended by SIGKILL", 137),
            (ProcessExit::Signal(40), "was ended by signal 40", 168),
            (ProcessExit::NotStarted(8), "could not be run: Exec format error", 126),
            (ProcessExit::ReaperLost, "was lost together with its reaper process", 137),
        ];
        for (exit, sentence, status) in cases {
            assert_eq!((exit.to_string().as_str(), exit.shell_status()), (sentence, status));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reports_survive_a_round_trip() {
        let reports = [
            ReaperReport::Running(7),
            ReaperReport::Ended(ProcessExit::Code(1)),
            ReaperReport::Ended(ProcessExit::Signal(15)),
            ReaperReport::Ended(ProcessExit::NotStarted(13)),
            ReaperReport::LeftBehind(2),
        ];
        for report in reports {
            assert_eq!(ReaperReport::parse(&report.to_string()), Some(report));
        }
        assert_eq!(ReaperReport::parse("pid x"), None);
    }
}
