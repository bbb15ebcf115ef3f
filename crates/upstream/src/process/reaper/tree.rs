//! The processes below one process, as `/proc` tells.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the gateway goes on killing what a dead reaper left.
const SESSION_PATIENCE: Duration = Duration::from_secs(2);

/// What is read of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    pid: i32,
    parent: i32,
    session: i32,
    state: char,
}

/// All living processes below `root`; the dead that nobody collected yet are not among them.
pub(super) fn descendants(root: Pid) -> Vec<Pid> {
    below(&entries(), |entry| entry.parent == root.as_raw())
}

/// Kills the session that a dead reaper led, with all descendants of its members.
///
/// A daemon that left the session *and* lost its parent cannot be told from any other process any more.
pub(in crate::process) fn kill_session(session: u32) {
    let Ok(session) = i32::try_from(session) else { return };
    let end = Instant::now() + SESSION_PATIENCE;
    loop {
        let left = below(&entries(), |entry| entry.session == session);
        if left.is_empty() || Instant::now() > end {
            return;
        }
        signal(&left, Signal::SIGKILL);
        sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to each; one that ended meanwhile or may not be signalled is passed over.
pub(super) fn signal(processes: &[Pid], signal: Signal) {
    for pid in processes {
        let _ = kill(*pid, signal);
    }
}

fn entries() -> Vec<Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        // A process that ended since the folder was listed has no file any more. Names are bytes, not text.
        .filter_map(|entry| fs::read(entry.path().join("stat")).ok())
        .filter_map(|stat| parse(&String::from_utf8_lossy(&stat)))
        .collect()
}

/// `pid (name) state parent group session …`, where the name may hold anything, parentheses included.
fn parse(stat: &str) -> Option<Entry> {
    let (pid, rest) = stat.split_once(" (")?;
    let mut fields = rest.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Entry { pid: pid.parse().ok()?, parent, session, state })
}

/// The living among those that `first` picks and everything below them.
fn below(entries: &[Entry], first: impl Fn(&Entry) -> bool) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<&Entry>> = HashMap::new();
    for entry in entries {
        children.entry(entry.parent).or_default().push(entry);
    }
    let mut seen = HashSet::new();
    let mut open: Vec<&Entry> = entries.iter().filter(|entry| first(entry)).collect();
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let entry = parse("12 (a) R 1 (b c) S 7 12 9 0 -1 4194560 0").unwrap();
        assert_eq!(entry, Entry { pid: 12, parent: 7, session: 9, state: 'S' });
        assert_eq!(parse("12 (cut"), None);
    }

    #[test]
    fn everything_below_is_found_and_nothing_beside() {
        let line = |pid, parent, state| Entry { pid, parent, session: 1, state };
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
