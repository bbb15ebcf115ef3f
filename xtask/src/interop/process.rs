//! The processes of this machine, as far as they are ours: which ones a gateway started, and which of them still run.
//!
//! Read from `/proc`, so there is nothing to see on other systems than Linux.

use anyhow::{Result, bail};
use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

/// The variable that marks the processes of a gateway's servers.
pub const MARK: &str = "TOOLBOOTH_INTEROP_MARK";

/// A process that runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    id: u32,
    parent: u32,
    /// When it started: an id alone may be given again.
    started: u64,
}

/// The processes of one gateway.
#[derive(Debug)]
pub struct Family {
    mark: String,
    members: BTreeSet<(u32, u64)>,
}

impl Family {
    /// Everything that descends from `gateway` now, and everything that will ever carry the mark.
    pub fn of(gateway: u32, mark: &str) -> Self {
        let all = running();
        let mut members = BTreeSet::new();
        let mut parents = vec![gateway];
        while let Some(parent) = parents.pop() {
            for child in all.iter().filter(|process| process.parent == parent) {
                if members.insert((child.id, child.started)) {
                    parents.push(child.id);
                }
            }
        }
        Self { mark: mark.to_owned(), members }
    }

    /// How many descendants there were.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Waits until all are gone.
    pub fn is_gone_within(&self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let left = self.left();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("still running after {} s: {}", limit.as_secs(), left.join("; "));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The command lines of those that still run.
    fn left(&self) -> Vec<String> {
        let variable = format!("{MARK}={}", self.mark);
        let is_ours = |process: &&Process| {
            self.members.contains(&(process.id, process.started)) || carries(process.id, &variable)
        };
        running().iter().filter(is_ours).map(command_line).collect()
    }
}

fn carries(id: u32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
}

fn command_line(process: &Process) -> String {
    let words = fs::read(format!("/proc/{}/cmdline", process.id)).unwrap_or_default();
    format!("{} ({})", String::from_utf8_lossy(&words).replace('\0', " ").trim(), process.id)
}

fn running() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(read).collect()
}

fn read(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    parse(id, &stat)
}

fn parse(id: u32, stat: &str) -> Option<Process> {
    // The name stands in parentheses and may hold anything, so the fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // A zombie has ended; only its parent has not looked yet.
    if fields.first() == Some(&"Z") {
        return None;
    }
    Some(Process { id, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let rest = "7 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 4711 9 9";
        let expected = Some(Process { id: 8, parent: 7, started: 4711 });
        for name in ["node", "a (b) c", ") S 1 ("] {
            assert_eq!(parse(8, &format!("8 ({name}) S {rest}")), expected, "{name}");
        }
        assert_eq!(parse(8, &format!("8 (node) Z {rest}")), None);
    }
}
