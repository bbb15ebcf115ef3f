//! Finds the processes that a gateway started, and checks which of them still run.
//!
//! Reads `/proc`, so it finds no processes on systems other than Linux.

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

/// The variable that marks the processes of a gateway's servers.
pub const MARK: &str = "TOOLBOOTH_INTEROP_MARK";

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RunningProcess {
    id: u32,
    parent: u32,
    /// When it started, since ids are reused.
    started: u64,
}

/// The child processes of one gateway.
#[derive(Debug)]
pub struct GatewayProcesses {
    mark: String,
    members: BTreeSet<(u32, u64)>,
}

impl GatewayProcesses {
    /// All current descendants of `gateway`, and all present and future processes with the mark.
    pub fn of(gateway: u32, mark: &str) -> Self {
        Self { mark: mark.to_owned(), members: descendants(gateway) }
    }

    /// The number of descendants.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Waits until all have exited.
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

    /// The command lines of the processes that still run.
    fn left(&self) -> Vec<String> {
        let variable = format!("{MARK}={}", self.mark);
        let is_ours = |process: &&RunningProcess| {
            self.members.contains(&(process.id, process.started)) || carries(process.id, &variable)
        };
        running().iter().filter(is_ours).map(command_line).collect()
    }
}

/// Kills a process and all its current descendants.
pub fn kill_tree(id: u32) {
    // Before they lose their parent.
    let descendants = descendants(id);
    for id in descendants.iter().map(|(id, _)| *id).chain([id]) {
        let _ = kill(Pid::from_raw(id.cast_signed()), Signal::SIGKILL);
    }
}

/// The current descendants of a process, with the times when they started.
fn descendants(id: u32) -> BTreeSet<(u32, u64)> {
    let all = running();
    let mut members = BTreeSet::new();
    let mut parents = vec![id];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|process| process.parent == parent) {
            if members.insert((child.id, child.started)) {
                parents.push(child.id);
            }
        }
    }
    members
}

/// The resident memory of a process, in KiB.
pub fn memory_kib(id: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    words.context("the system does not report the memory of the process")
}

/// The number of children of a process that have exited and that it has not waited for.
pub fn zombies(parent: u32) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_zombie = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let fields =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().take(2).collect::<Vec<_>>());
        fields.is_some_and(|fields| fields == ["Z", &parent.to_string()])
    };
    ids.filter(is_zombie).count()
}

fn carries(id: u32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
}

fn command_line(process: &RunningProcess) -> String {
    let words = fs::read(format!("/proc/{}/cmdline", process.id)).unwrap_or_default();
    format!("{} ({})", String::from_utf8_lossy(&words).replace('\0', " ").trim(), process.id)
}

fn running() -> Vec<RunningProcess> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(read).collect()
}

fn read(id: u32) -> Option<RunningProcess> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    parse(id, &stat)
}

fn parse(id: u32, stat: &str) -> Option<RunningProcess> {
    // The name is in parentheses and may contain any character, so fields are counted after the last one.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // A zombie has exited; its parent has not waited for it yet.
    if fields.first() == Some(&"Z") {
        return None;
    }
    Some(RunningProcess { id, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_any_name_is_read() {
        let rest = "7 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 4711 9 9";
        let expected = Some(RunningProcess { id: 8, parent: 7, started: 4711 });
        for name in ["node", "a (b) c", ") S 1 ("] {
            assert_eq!(parse(8, &format!("8 ({name}) S {rest}")), expected, "{name}");
        }
        assert_eq!(parse(8, &format!("8 (node) Z {rest}")), None);
    }
}
