//! Eyes on `/proc`: who is alive, how much they hold, and what they left behind.

use super::PATIENCE;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir("/proc").expect("this is Linux").flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// The living processes whose command line holds the token, in order.
pub fn marked(token: &str) -> Vec<u32> {
    let carries = |path: &PathBuf| {
        fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(token))
    };
    let mut found: Vec<u32> = processes().filter(|(_, path)| carries(path)).map(|(pid, _)| pid).collect();
    found.sort_unstable();
    found
}

/// Waits until at least as many processes carry the token.
pub async fn marked_reach(token: &str, count: usize) -> Vec<u32> {
    let start = Instant::now();
    loop {
        let found = marked(token);
        if found.len() >= count {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "only {found:?} of {count} processes came up");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until no process carries the token, and tells how long that took.
pub async fn marked_vanish(token: &str, within: Duration) -> Duration {
    let start = Instant::now();
    loop {
        let found = marked(token);
        if found.is_empty() {
            return start.elapsed();
        }
        assert!(start.elapsed() < within, "left after {within:?}: {found:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn status_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The memory a process holds now, in MiB.
pub fn resident_mib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS") / 1024
}

/// The most memory a process ever held, in MiB.
pub fn peak_mib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM") / 1024
}

/// How many descriptors a process has open.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The children of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Children {
    /// Those that run.
    pub living: Vec<u32>,
    /// Those that ended and were not waited for.
    pub zombies: Vec<u32>,
}

/// The children of a process.
pub fn children(parent: u32) -> Children {
    let mut children = Children::default();
    for (pid, path) in processes() {
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let (state, of) = (fields.next(), fields.next());
        if of.and_then(|of| of.parse().ok()) == Some(parent) {
            let list = if state == Some("Z") { &mut children.zombies } else { &mut children.living };
            list.push(pid);
        }
    }
    children
}
