//! Launch of server processes: environment, arguments, files, signals, and errors.

use crate::support::{LineProtocolClient, TEST_TIMEOUT, hostile, launch, program, server_pid, shell, stat};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use toolbooth_core::fault::Fault;
use toolbooth_core::secret::SecretText;
use toolbooth_upstream::process::{Launch, ProcessExit, Reaper, ServerProcess, clean_environment};

async fn output(mut process: ServerProcess) -> (String, ProcessExit) {
    let mut text = String::new();
    timeout(TEST_TIMEOUT, process.stdout.take().unwrap().read_to_string(&mut text)).await.unwrap().unwrap();
    (text, timeout(TEST_TIMEOUT, process.gone()).await.unwrap())
}

#[tokio::test]
async fn environment_is_exactly_the_configured_one() {
    let host: BTreeMap<_, _> = std::env::vars().collect();
    let allowed = ["PATH", "HOME", "LANG", "LC_*", "TMPDIR", "USER"].map(str::to_owned);
    let own = [("TOKEN".to_owned(), SecretText::expanded("${T}", "hunter2"))].into_iter().collect();
    let env = clean_environment(&host, &allowed, &own);
    let process = Launch { env: env.clone(), ..launch(program(), &["env"]) }.spawn().unwrap();
    let seen = LineProtocolClient::new(process).call("env", json!({})).await;
    let seen: BTreeMap<String, String> = serde_json::from_str(&seen).unwrap();
    let given: BTreeMap<String, String> =
        env.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
    assert!(host.keys().any(|name| name.starts_with("CARGO")), "the host environment has more variables");
    assert_eq!(seen, given);
}

#[tokio::test]
async fn empty_environment_stays_empty() {
    let process = Launch { env: Vec::new(), ..launch(program(), &["env"]) }.spawn().unwrap();
    assert_eq!(LineProtocolClient::new(process).call("env", json!({})).await, "{}");
}

#[tokio::test]
async fn arguments_are_passed_unchanged() {
    let args = ["-c", r#"printf '%s|' "$0" "$@""#, "$(reboot)", "--", "--exec", "", "a b", "ä\n"];
    let (text, exit) = output(launch("sh", &args).spawn().unwrap()).await;
    assert_eq!((text.as_str(), exit), ("$(reboot)|--|--exec||a b|ä\n|", ProcessExit::Code(0)));
}

#[tokio::test]
async fn server_has_three_files_its_own_group_and_no_blocked_signals() {
    let (text, _) = output(shell("ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status")).await;
    let words: Vec<&str> = text.split_whitespace().collect();
    // The fourth file is the folder that `ls` lists.
    assert_eq!(words[..5], ["0", "1", "2", "3", "SigBlk:"]);
    assert_eq!(u64::from_str_radix(words[5], 16).unwrap(), 0);
    // Signals above 31 are reserved by the C library, which ignores them in child processes.
    assert_eq!(u64::from_str_radix(words[7], 16).unwrap() & 0x7fff_ffff, 0);
    let process = hostile(&["echo"]);
    let server = server_pid(&process).await;
    assert_eq!(stat(server, 1), process.pid().to_string(), "the reaper is its parent");
    assert_eq!(stat(server, 2), server.to_string(), "it is the leader of its own group");
    assert_eq!(stat(server, 3), process.pid().to_string(), "in the reaper's session");
    assert_eq!(stat(server, 4), "0", "without a terminal");
}

#[tokio::test]
async fn working_folder_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    std::fs::write(cwd.join("run.sh"), "#!/bin/sh\npwd\n").unwrap();
    std::fs::set_permissions(cwd.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let process = Launch { cwd: Some(cwd.clone()), ..launch("./run.sh", &[]) }.spawn().unwrap();
    assert_eq!(output(process).await.0.trim(), cwd.to_str().unwrap());
}

#[tokio::test]
async fn exit_status_is_reported_exactly() {
    let cases = [
        ("exit 0", ProcessExit::Code(0)),
        ("exit 7", ProcessExit::Code(7)),
        ("exit 137", ProcessExit::Code(137)),
        ("kill -KILL $$", ProcessExit::Signal(9)),
        ("kill -TERM $$", ProcessExit::Signal(15)),
    ];
    for (script, expected) in cases {
        let mut process = shell(script);
        assert_eq!(timeout(TEST_TIMEOUT, process.wait()).await.unwrap(), expected, "{script}");
        assert_eq!(timeout(TEST_TIMEOUT, process.gone()).await.unwrap(), expected, "{script}");
    }
}

#[tokio::test]
async fn file_that_cannot_be_executed_differs_from_a_failed_exit() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/tmp\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut process = launch(script.to_str().unwrap(), &[]).spawn().unwrap();
    let exit = timeout(TEST_TIMEOUT, process.wait()).await.unwrap();
    assert_eq!(exit.to_string(), "could not be run: Permission denied");
}

#[tokio::test]
async fn launch_errors_are_detected_before_the_start() {
    let reaper = || Reaper { program: PathBuf::from("/no/such/toolbooth"), args: Vec::new() };
    let huge = "x".repeat(4 << 20);
    let cases = [
        (launch("no-such-command", &[]), "server.command-not-found"),
        (launch("/etc/passwd", &[]), "server.not-executable"),
        (Launch { cwd: Some("/no/such".into()), ..launch("sh", &[]) }, "server.folder-missing"),
        (Launch { reaper: reaper(), ..launch("sh", &[]) }, "server.no-reaper"),
        (launch("sh", &[&huge]), "server.command-line-too-long"),
        (launch("sh", &["a\0b"]), "server.unpassable-value"),
    ];
    for (launch, code) in cases {
        let error = launch.spawn().expect_err(code);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
}

#[test]
fn reaper_run_by_hand_prints_an_explanation() {
    let output = std::process::Command::new(program()).arg("reaper").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("do not run it by hand"));
}

#[tokio::test]
async fn closed_pipes_are_detected_on_both_sides() {
    let mut client = LineProtocolClient::connect(&["echo"]).await;
    assert_eq!(client.call("echo", json!({"a": 1})).await, Value::to_string(&json!({"a": 1})));
    let LineProtocolClient { mut process, stdin, mut lines, .. } = client;
    drop(stdin);
    assert_eq!(timeout(TEST_TIMEOUT, lines.next()).await.unwrap().unwrap(), None);
    assert_eq!(timeout(TEST_TIMEOUT, process.wait()).await.unwrap(), ProcessExit::Code(0));
}
