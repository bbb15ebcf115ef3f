//! How the life of a server process ended, and the words in which its reaper tells so.

use std::fmt;

/// How a server process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It left with this code.
    Code(i32),
    /// This signal ended it; 0 where the system did not tell which.
    Signal(i32),
    /// The system refused to run it, with this error number.
    NotStarted(i32),
    /// Its reaper ended without a word, most likely killed; what could be found of the tree was killed too.
    ReaperLost,
}

impl Exit {
    /// Whether it left by itself and said that all was well.
    pub fn is_clean(self) -> bool {
        self == Self::Code(0)
    }

    /// The status a shell would show: the code, or 128 and the signal.
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            Self::Signal(signal) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(u8::MAX),
            Self::NotStarted(_) => 126,
            Self::ReaperLost => 137,
        }
    }
}

impl fmt::Display for Exit {
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

impl From<std::process::ExitStatus> for Exit {
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
pub(super) enum Report {
    /// The server runs under this process id.
    Running(u32),
    /// The server ended.
    Ended(Exit),
    /// The reaper gives up on this many processes that it may not kill.
    LeftBehind(usize),
}

#[cfg(target_os = "linux")]
impl Report {
    /// Reads a line; what is not understood is nothing.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ')?;
        Some(match word {
            "pid" => Self::Running(number.parse().ok()?),
            "code" => Self::Ended(Exit::Code(number.parse().ok()?)),
            "signal" => Self::Ended(Exit::Signal(number.parse().ok()?)),
            "refused" => Self::Ended(Exit::NotStarted(number.parse().ok()?)),
            "left" => Self::LeftBehind(number.parse().ok()?),
            _ => return None,
        })
    }
}

#[cfg(target_os = "linux")]
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(pid) => write!(f, "pid {pid}"),
            Self::Ended(Exit::Code(code)) => write!(f, "code {code}"),
            Self::Ended(Exit::Signal(signal)) => write!(f, "signal {signal}"),
            Self::Ended(Exit::NotStarted(number)) => write!(f, "refused {number}"),
            Self::Ended(Exit::ReaperLost) => f.write_str("lost"),
            Self::LeftBehind(count) => write!(f, "left {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_read_as_sentences() {
        let cases = [
            (Exit::Code(3), "exited with code 3", 3),
            (Exit::Signal(9), "was ended by SIGKILL", 137),
            (Exit::Signal(40), "was ended by signal 40", 168),
            (Exit::NotStarted(8), "could not be run: Exec format error", 126),
            (Exit::ReaperLost, "was lost together with its reaper process", 137),
        ];
        for (exit, sentence, status) in cases {
            assert_eq!((exit.to_string().as_str(), exit.shell_status()), (sentence, status));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reports_are_read_as_they_were_written() {
        let reports = [
            Report::Running(7),
            Report::Ended(Exit::Code(1)),
            Report::Ended(Exit::Signal(15)),
            Report::Ended(Exit::NotStarted(13)),
            Report::LeftBehind(2),
        ];
        for report in reports {
            assert_eq!(Report::parse(&report.to_string()), Some(report));
        }
        assert_eq!(Report::parse("pid x"), None);
    }
}
