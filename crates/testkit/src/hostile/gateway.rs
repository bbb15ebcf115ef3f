//! Minimal gateways: one that waits to be killed, one that starts and stops servers.

use super::LIFETIME;
use std::env;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolbooth_core::secret::SecretText;
use toolbooth_upstream::process::{Launch, Reaper, ServerProcess, StopPlan};

/// Starts `count` servers whose descendants have the token in their command line, prints `ready` and waits to be killed.
pub fn run(token: &str, count: u64) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut processes: Vec<ServerProcess> =
            (0..count).map(|_| start(&["grandchildren", token, "1"])).collect();
        for process in &mut processes {
            if let Some(stdin) = &mut process.stdin {
                let _ = stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await;
            }
            while process.server_pid().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        println!("ready");
        tokio::time::sleep(LIFETIME).await;
    });
    ExitCode::SUCCESS
}

/// Starts and stops servers one after the other, and prints the files and children that remain.
pub fn live(count: u64) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // The runtime opens its own files during the first run.
        start_and_stop().await;
        let before = open_files();
        for _ in 0..count {
            start_and_stop().await;
        }
        let (zombies, children) = children();
        println!(
            "more files: {}, zombies: {zombies}, children: {children}",
            open_files().saturating_sub(before)
        );
    });
    ExitCode::SUCCESS
}

async fn start_and_stop() {
    let mut process = start(&["echo"]);
    let mut answer = [0; 8];
    if let (Some(stdin), Some(stdout)) = (&mut process.stdin, &mut process.stdout) {
        stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.expect("it reads");
        stdout.read_exact(&mut answer).await.expect("it answers");
    }
    assert!(
        process.stop(StopPlan::default()).await.is_clean(),
        "a well-behaved server exits when its input ends"
    );
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// The numbers of zombies and of running children of this process.
fn children() -> (usize, usize) {
    let this = format!(" {} ", std::process::id());
    let stats = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let zombie_flags = stats.filter_map(|stat| {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest[1..].starts_with(&this).then(|| rest.starts_with('Z'))
    });
    let (dead, living): (Vec<bool>, Vec<bool>) = zombie_flags.partition(|dead| *dead);
    (dead.len(), living.len())
}

fn start(arguments: &[&str]) -> ServerProcess {
    let this = env::current_exe().expect("the system knows this executable");
    let launch = Launch {
        command: SecretText::plain(this.to_string_lossy()),
        args: arguments.iter().map(|argument| SecretText::plain(*argument)).collect(),
        cwd: None,
        env: Vec::new(),
        reaper: Reaper { program: this, args: vec!["reaper".into()] },
    };
    launch.spawn().expect("the server starts")
}
