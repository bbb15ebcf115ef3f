//! Reads `/proc`: running processes, their memory and open files, and their children.

use super::TEST_TIMEOUT;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir("/proc").expect("`/proc` exists on Linux").flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// The running processes whose command line contains the token, in order.
pub fn marked(token: &str) -> Vec<u32> {
    let contains_token = |path: &PathBuf| {
        fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(token))
    };
    let mut found: Vec<u32> =
        processes().filter(|(_, path)| contains_token(path)).map(|(pid, _)| pid).collect();
    found.sort_unstable();
    found
}

/// Waits until at least `count` processes have the token in their command line.
pub async fn wait_for_marked(token: &str, count: usize) -> Vec<u32> {
    let start = Instant::now();
    loop {
        let found = marked(token);
        if found.len() >= count {
            return found;
        }
        assert!(start.elapsed() < TEST_TIMEOUT, "only {found:?} of {count} processes started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until no process has the token in its command line; returns the time that took.
pub async fn wait_until_gone(token: &str, within: Duration) -> Duration {
    let start = Instant::now();
    loop {
        let found = marked(token);
        if found.is_empty() {
            return start.elapsed();
        }
        assert!(start.elapsed() < within, "still running after {within:?}: {found:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn status_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The resident memory of a process, in MiB.
pub fn resident_mib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS") / 1024
}

/// The peak resident memory of a process, in MiB.
pub fn peak_mib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM") / 1024
}

/// The number of open descriptors of a process.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The children of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Children {
    /// Children that run.
    pub living: Vec<u32>,
    /// Children that ended and were not waited for.
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
