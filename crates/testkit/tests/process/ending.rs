//! Termination: no process of a server's tree is left, however the server or the gateway ends.

use crate::support::{
    TEST_TIMEOUT, hostile, marked, program, server_pid, shell, token, wait_for_marked, wait_until_gone,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use toolbooth_upstream::process::{ProcessExit, ServerProcess, StopPlan};

const NO_PROCESSES: [i32; 0] = [];

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

/// Starts a server with a child that ignores signals, one in its own session, and a daemon.
async fn server_with_descendants(token: &str) -> ServerProcess {
    let process = hostile(&["grandchildren", token, "1"]);
    // The reaper and the server have the token too; the daemon's first process has exited.
    wait_for_marked(token, 5).await;
    process
}

#[tokio::test]
async fn stopping_ends_descendants_of_every_kind() {
    let token = token();
    let mut process = server_with_descendants(&token).await;
    let exit = timeout(Duration::from_secs(5), process.stop(StopPlan::default())).await.unwrap();
    assert_eq!((exit, marked(&token)), (ProcessExit::Code(0), vec![]));
}

#[tokio::test]
async fn dropping_the_handle_ends_the_process_tree() {
    let token = token();
    drop(server_with_descendants(&token).await);
    wait_until_gone(&token).await;
}

#[tokio::test]
async fn process_tree_ends_with_its_server() {
    let token = token();
    let mut process = server_with_descendants(&token).await;
    send(server_pid(&process).await, Signal::SIGKILL);
    let start = Instant::now();
    assert_eq!(timeout(TEST_TIMEOUT, process.wait()).await.unwrap(), ProcessExit::Signal(9));
    assert!(start.elapsed() < Duration::from_millis(450), "pending calls must not wait for the tree");
    timeout(Duration::from_secs(5), process.gone()).await.unwrap();
    assert_eq!(marked(&token), NO_PROCESSES);
}

#[tokio::test]
async fn server_that_ignores_signals_is_killed_within_the_stop_plan() {
    let token = token();
    let mut process = hostile(&["ignores-term", &token]);
    wait_for_marked(&token, 2).await;
    let start = Instant::now();
    let exit = process.stop(StopPlan::default()).await;
    assert_eq!((exit, marked(&token)), (ProcessExit::Signal(9), vec![]));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(start.elapsed() >= Duration::from_secs(3), "it had time to exit");
}

#[tokio::test]
async fn stop_plan_without_timeouts_kills_at_once() {
    let token = token();
    let mut process = server_with_descendants(&token).await;
    let start = Instant::now();
    // Its input is closed first, so it may exit before the signal.
    let exit = process.stop(StopPlan::at_once()).await;
    assert!(matches!(exit, ProcessExit::Code(0) | ProcessExit::Signal(9)), "{exit:?}");
    assert_eq!(marked(&token), NO_PROCESSES);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn server_can_clean_up_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidied");
    let script = format!(
        "trap 'sleep 0.2; echo done > {}; exit 5' TERM; while :; do sleep 0.01; done",
        file.display()
    );
    let mut process = shell(&script);
    server_pid(&process).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(process.stop(StopPlan::default()).await, ProcessExit::Code(5));
    assert_eq!(fs::read_to_string(file).unwrap(), "done\n");
}

#[tokio::test]
async fn suspended_process_can_be_stopped() {
    let mut process = hostile(&["silent"]);
    let server = server_pid(&process).await;
    send(server, Signal::SIGSTOP);
    let exit = timeout(Duration::from_secs(5), process.stop(StopPlan::default())).await.unwrap();
    assert!(matches!(exit, ProcessExit::Code(0) | ProcessExit::Signal(15)), "{exit:?}");
}

#[tokio::test]
async fn respawning_process_chain_is_ended() {
    let token = token();
    // Each process runs for a millisecond or two and starts the next one.
    let mut process = shell(&format!("{} rabbit {token} 100000; exec sleep 300", program()));
    server_pid(&process).await;
    wait_for_marked(&token, 2).await;
    timeout(Duration::from_secs(5), process.stop(StopPlan::at_once())).await.unwrap();
    assert_eq!(marked(&token), NO_PROCESSES);
}

#[tokio::test]
async fn killing_the_gateway_ends_all_processes() {
    for round in 0..3 {
        let token = token();
        let mut command = Command::new(program());
        let mut gateway = command.args(["gateway", &token, "5"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        if round > 0 {
            // The gateway, and for each server: reaper, server, sleeper, session sleeper, daemon.
            wait_for_marked(&token, 26).await;
        }
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        wait_until_gone(&token).await;
    }
}

#[tokio::test]
async fn killed_reaper_is_detected_and_its_tree_ended() {
    let token = token();
    let program = program();
    let mut process = shell(&format!("{program} sleeper {token} & exec {program} ignores-term {token}"));
    // The reaper and the two processes of its tree.
    wait_for_marked(&token, 3).await;
    send(process.pid(), Signal::SIGKILL);
    assert_eq!(timeout(TEST_TIMEOUT, process.gone()).await.unwrap(), ProcessExit::ReaperLost);
    assert_eq!(marked(&token), NO_PROCESSES);
}

#[tokio::test]
async fn termination_signals_to_a_reaper_end_its_tree() {
    let token = token();
    let mut process = server_with_descendants(&token).await;
    send(process.pid(), Signal::SIGTERM);
    timeout(Duration::from_secs(5), process.gone()).await.unwrap();
    assert_eq!(marked(&token), NO_PROCESSES);
}

#[test]
fn two_hundred_starts_leave_no_zombie_and_no_open_file() {
    // In a separate process, so that other tests do not open files.
    let output = Command::new(program()).args(["lives", "200"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "more files: 0, zombies: 0, children: 0\n");
}
