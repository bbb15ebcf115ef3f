//! CPU time and memory of a process and its descendants, read from `/proc` (Linux).

use std::collections::{HashMap, HashSet};
use std::fs;

/// A snapshot of the processes of a tree.
#[derive(Debug, Clone)]
pub struct ProcessTree {
    pids: Vec<u32>,
}

/// CPU time by thread, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct CpuTime {
    threads: HashMap<(u32, u32), u64>,
}

impl CpuTime {
    /// The CPU time used since an earlier snapshot, in milliseconds.
    ///
    /// Threads that ended in between are not counted; the threads of gateways do not end.
    pub fn since_ms(&self, earlier: &Self) -> f64 {
        let used = |(thread, now): (&(u32, u32), &u64)| {
            now.saturating_sub(earlier.threads.get(thread).copied().unwrap_or(0))
        };
        self.threads.iter().map(used).sum::<u64>() as f64 / 1e6
    }
}

impl ProcessTree {
    /// Finds the descendants of `root`; programs with the name `leave_out` and their descendants do not count.
    pub fn of(root: u32, leave_out: Option<&str>) -> Self {
        let children = children();
        let (mut pids, mut seen, mut waiting) = (Vec::new(), HashSet::new(), vec![root]);
        while let Some(pid) = waiting.pop() {
            if !seen.insert(pid) || (leave_out.is_some() && name(pid).as_deref() == leave_out) {
                continue;
            }
            pids.push(pid);
            waiting.extend(children.get(&pid).into_iter().flatten());
        }
        Self { pids }
    }

    /// The number of processes.
    pub fn len(&self) -> usize {
        self.pids.len()
    }

    /// Whether the tree has no processes.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// The CPU time so far.
    pub fn cpu_time(&self) -> CpuTime {
        let mut threads = HashMap::new();
        for &pid in &self.pids {
            for thread in numbers(&format!("/proc/{pid}/task")) {
                // The scheduler's statistics are exact to the nanosecond; `stat` counts in steps of 10 ms.
                let account = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"));
                let used = account.ok().and_then(|text| text.split(' ').next()?.parse().ok());
                threads.insert((pid, thread), used.unwrap_or(0));
            }
        }
        CpuTime { threads }
    }

    /// The resident memory in KiB; shared pages count for each process.
    pub fn resident_kib(&self) -> u64 {
        self.pids.iter().filter_map(|pid| status(*pid, "VmRSS:")).sum()
    }
}

fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

fn status(pid: u32, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_whitespace().next()?.parse().ok()
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn children() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in numbers("/proc") {
        if let Some(parent) = status(pid, "PPid:") {
            children.entry(parent as u32).or_default().push(pid);
        }
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn work_shows_as_cpu_time_and_memory() {
        let tree = ProcessTree::of(std::process::id(), None);
        let before = tree.cpu_time();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {
            std::hint::black_box(begun);
        }
        std::thread::sleep(Duration::from_millis(5)); // The statistics are updated when the thread leaves its core.
        assert!(tree.cpu_time().since_ms(&before) > 1.0);
        assert!(tree.resident_kib() > 100);
    }
}
