//! Nothing of a server's tree is left, however it or the gateway ends.

use crate::support::{
    PATIENCE, hostile, marked, marked_reach, marked_vanish, program, server_pid, shell, token,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use toolbooth_upstream::process::{Exit, Process, StopPlan};

const NOBODY: [i32; 0] = [];

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

/// A server with a deaf child, a deaf child in its own session and a daemon, all up.
async fn family(token: &str) -> Process {
    let process = hostile(&["grandchildren", token, "1"]);
    // The reaper and the server carry the token too; the daemon's first half has left.
    marked_reach(token, 5).await;
    process
}

#[tokio::test]
async fn stopping_ends_descendants_of_every_kind() {
    let token = token();
    let mut process = family(&token).await;
    let exit = timeout(Duration::from_secs(5), process.stop(StopPlan::default())).await.unwrap();
    assert_eq!((exit, marked(&token)), (Exit::Code(0), vec![]));
}

#[tokio::test]
async fn dropping_ends_the_tree_too() {
    let token = token();
    drop(family(&token).await);
    marked_vanish(&token).await;
}

#[tokio::test]
async fn a_server_that_ends_takes_its_tree_along() {
    let token = token();
    let mut process = family(&token).await;
    send(server_pid(&process).await, Signal::SIGKILL);
    let told = Instant::now();
    assert_eq!(timeout(PATIENCE, process.wait()).await.unwrap(), Exit::Signal(9));
    assert!(told.elapsed() < Duration::from_millis(450), "pending calls must not wait for the tree");
    timeout(Duration::from_secs(5), process.gone()).await.unwrap();
    assert_eq!(marked(&token), NOBODY);
}

#[tokio::test]
async fn a_deaf_server_is_killed_within_the_plan() {
    let token = token();
    let mut process = hostile(&["ignores-term", &token]);
    marked_reach(&token, 2).await;
    let start = Instant::now();
    let exit = process.stop(StopPlan::default()).await;
    assert_eq!((exit, marked(&token)), (Exit::Signal(9), vec![]));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(start.elapsed() >= Duration::from_secs(3), "it was given its time");
}

#[tokio::test]
async fn a_plan_without_patience_kills_at_once() {
    let token = token();
    let mut process = family(&token).await;
    let start = Instant::now();
    // Its input is closed first, so it may be faster than the signal.
    let exit = process.stop(StopPlan::at_once()).await;
    assert!(matches!(exit, Exit::Code(0) | Exit::Signal(9)), "{exit:?}");
    assert_eq!(marked(&token), NOBODY);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_server_may_tidy_up_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidied");
    let script = format!(
        "trap 'sleep 0.2; echo done > {}; exit 5' TERM; while :; do sleep 0.01; done",
        file.display()
    );
    let mut process = shell(&script);
    server_pid(&process).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(process.stop(StopPlan::default()).await, Exit::Code(5));
    assert_eq!(fs::read_to_string(file).unwrap(), "done\n");
}

#[tokio::test]
async fn a_stopped_process_ends_like_any_other() {
    let mut process = hostile(&["silent"]);
    let server = server_pid(&process).await;
    send(server, Signal::SIGSTOP);
    let exit = timeout(Duration::from_secs(5), process.stop(StopPlan::default())).await.unwrap();
    assert!(matches!(exit, Exit::Code(0) | Exit::Signal(15)), "{exit:?}");
}

#[tokio::test]
async fn a_chain_of_processes_cannot_run_away() {
    let token = token();
    // Each lives a millisecond or two and leaves the next behind.
    let mut process = shell(&format!("{} rabbit {token} 100000; exec sleep 300", program()));
    server_pid(&process).await;
    marked_reach(&token, 2).await;
    timeout(Duration::from_secs(5), process.stop(StopPlan::at_once())).await.unwrap();
    assert_eq!(marked(&token), NOBODY);
}

#[tokio::test]
async fn killing_the_gateway_leaves_nothing() {
    for round in 0..3 {
        let token = token();
        let mut command = Command::new(program());
        let mut gateway = command.args(["gateway", &token, "5"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        if round > 0 {
            // The gateway, and for each server: reaper, server, sleeper, session sleeper, daemon.
            marked_reach(&token, 26).await;
        }
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        marked_vanish(&token).await;
    }
}

#[tokio::test]
async fn a_killed_reaper_is_noticed_and_replaced_by_the_gateway() {
    let token = token();
    let program = program();
    let mut process = shell(&format!("{program} sleeper {token} & exec {program} ignores-term {token}"));
    // The reaper and the two of its tree.
    marked_reach(&token, 3).await;
    send(process.pid(), Signal::SIGKILL);
    assert_eq!(timeout(PATIENCE, process.gone()).await.unwrap(), Exit::ReaperLost);
    assert_eq!(marked(&token), NOBODY);
}

#[tokio::test]
async fn polite_signals_to_a_reaper_end_its_tree() {
    let token = token();
    let mut process = family(&token).await;
    send(process.pid(), Signal::SIGTERM);
    timeout(Duration::from_secs(5), process.gone()).await.unwrap();
    assert_eq!(marked(&token), NOBODY);
}

#[test]
fn two_hundred_lives_leave_no_zombie_and_no_open_file() {
    // In a process of their own, where nobody else opens files.
    let output = Command::new(program()).args(["lives", "200"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "more files: 0, zombies: 0, children: 0\n");
}
