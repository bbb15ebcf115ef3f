//! The process tree below a process, read from `/proc`.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the gateway keeps killing the session of a dead reaper.
const SESSION_KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// The fields read for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessEntry {
    pid: i32,
    parent: i32,
    session: i32,
    state: char,
}

/// All living processes below `root`, without zombies.
pub(super) fn descendants(root: Pid) -> Vec<Pid> {
    below(&entries(), |entry| entry.parent == root.as_raw())
}

/// Kills the session that a dead reaper led, with all descendants of its members.
///
/// A daemon that left the session *and* lost its parent can no longer be identified.
pub(in crate::process) fn kill_session(session: u32) {
    let Ok(session) = i32::try_from(session) else { return };
    let end = Instant::now() + SESSION_KILL_TIMEOUT;
    loop {
        let left = below(&entries(), |entry| entry.session == session);
        if left.is_empty() || Instant::now() > end {
            return;
        }
        signal(&left, Signal::SIGKILL);
        sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to each process; those that have ended or may not be signalled are skipped.
pub(super) fn signal(processes: &[Pid], signal: Signal) {
    for pid in processes {
        let _ = kill(*pid, signal);
    }
}

fn entries() -> Vec<ProcessEntry> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        // A process that ended since the folder was listed has no file. Names are bytes, not UTF-8.
        .filter_map(|entry| fs::read(entry.path().join("stat")).ok())
        .filter_map(|stat| parse(&String::from_utf8_lossy(&stat)))
        .collect()
}

/// `pid (name) state parent group session …`; the name may contain anything, including parentheses.
fn parse(stat: &str) -> Option<ProcessEntry> {
    let (pid, rest) = stat.split_once(" (")?;
    let mut fields = rest.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(ProcessEntry { pid: pid.parse().ok()?, parent, session, state })
}

/// The living processes among those that `first` selects, and all their descendants.
fn below(entries: &[ProcessEntry], first: impl Fn(&ProcessEntry) -> bool) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<&ProcessEntry>> = HashMap::new();
    for entry in entries {
        children.entry(entry.parent).or_default().push(entry);
    }
    let mut seen = HashSet::new();
    let mut open: Vec<&ProcessEntry> = entries.iter().filter(|entry| first(entry)).collect();
    let mut living = Vec::new();
    while let Some(entry) = open.pop() {
        if !seen.insert(entry.pid) {
            continue;
        }
        if !matches!(entry.state, 'Z' | 'X') {
            living.push(Pid::from_raw(entry.pid));
        }
        open.extend(children.get(&entry.pid).into_iter().flatten());
    }
    living
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let entry = parse("12 (a) R 1 (b c) S 7 12 9 0 -1 4194560 0").unwrap();
        assert_eq!(entry, ProcessEntry { pid: 12, parent: 7, session: 9, state: 'S' });
        assert_eq!(parse("12 (cut"), None);
    }

    #[test]
    fn only_descendants_are_found() {
        let line = |pid, parent, state| ProcessEntry { pid, parent, session: 1, state };
        let entries = [
            line(5, 4, 'S'), // listed before its parent
            line(2, 1, 'S'),
            line(3, 2, 'Z'),
            line(4, 2, 'S'),
            line(9, 1, 'S'),
        ];
        let mut found = below(&entries, |entry| entry.parent == 2 || entry.pid == 2);
        found.sort();
        assert_eq!(found, [2, 4, 5].map(Pid::from_raw));
    }

    #[test]
    fn this_process_is_below_its_parent() {
        assert!(descendants(nix::unistd::getppid()).contains(&nix::unistd::getpid()));
    }
}
