//! How servers start: what they are given, what they are not, and what is said when it fails.

use crate::support::{Client, PATIENCE, hostile, launch, program, server_pid, shell, stat};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use toolbooth_core::fault::Fault;
use toolbooth_core::secret::SecretText;
use toolbooth_upstream::process::{Exit, Launch, Process, Reaper, clean_environment};

async fn output(mut process: Process) -> (String, Exit) {
    let mut text = String::new();
    timeout(PATIENCE, process.stdout.take().unwrap().read_to_string(&mut text)).await.unwrap().unwrap();
    (text, timeout(PATIENCE, process.gone()).await.unwrap())
}

#[tokio::test]
async fn the_environment_is_exactly_the_clean_one() {
    let host: BTreeMap<_, _> = std::env::vars().collect();
    let allowed = ["PATH", "HOME", "LANG", "LC_*", "TMPDIR", "USER"].map(str::to_owned);
    let own = [("TOKEN".to_owned(), SecretText::expanded("${T}", "hunter2"))].into_iter().collect();
    let env = clean_environment(&host, &allowed, &own);
    let process = Launch { env: env.clone(), ..launch(program(), &["env"]) }.spawn().unwrap();
    let seen = Client::new(process).call("env", json!({})).await;
    let seen: BTreeMap<String, String> = serde_json::from_str(&seen).unwrap();
    let given: BTreeMap<String, String> =
        env.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
    assert!(host.keys().any(|name| name.starts_with("CARGO")), "the host has more than that");
    assert_eq!(seen, given);
}

#[tokio::test]
async fn an_empty_environment_stays_empty() {
    let process = Launch { env: Vec::new(), ..launch(program(), &["env"]) }.spawn().unwrap();
    assert_eq!(Client::new(process).call("env", json!({})).await, "{}");
}

#[tokio::test]
async fn arguments_arrive_as_they_are() {
    let args = ["-c", r#"printf '%s|' "$0" "$@""#, "$(reboot)", "--", "--exec", "", "a b", "ä\n"];
    let (text, exit) = output(launch("sh", &args).spawn().unwrap()).await;
    assert_eq!((text.as_str(), exit), ("$(reboot)|--|--exec||a b|ä\n|", Exit::Code(0)));
}

#[tokio::test]
async fn a_server_has_three_files_a_group_and_no_blocked_signals() {
    let (text, _) = output(shell("ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status")).await;
    let words: Vec<&str> = text.split_whitespace().collect();
    // The fourth file is the folder that `ls` lists.
    assert_eq!(words[..5], ["0", "1", "2", "3", "SigBlk:"]);
    assert_eq!(u64::from_str_radix(words[5], 16).unwrap(), 0);
    // Beyond 31 are signals that the C library keeps for itself and ignores in everything it spawns.
    assert_eq!(u64::from_str_radix(words[7], 16).unwrap() & 0x7fff_ffff, 0);
    let process = hostile(&["echo"]);
    let server = server_pid(&process).await;
    assert_eq!(stat(server, 1), process.pid().to_string(), "the reaper is its parent");
    assert_eq!(stat(server, 2), server.to_string(), "it leads its own group");
    assert_eq!(stat(server, 3), process.pid().to_string(), "in the reaper's session");
    assert_eq!(stat(server, 4), "0", "without a terminal");
}

#[tokio::test]
async fn the_working_folder_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    std::fs::write(cwd.join("run.sh"), "#!/bin/sh\npwd\n").unwrap();
    std::fs::set_permissions(cwd.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let process = Launch { cwd: Some(cwd.clone()), ..launch("./run.sh", &[]) }.spawn().unwrap();
    assert_eq!(output(process).await.0.trim(), cwd.to_str().unwrap());
}

#[tokio::test]
async fn endings_are_told_exactly() {
    let cases = [
        ("exit 0", Exit::Code(0)),
        ("exit 7", Exit::Code(7)),
        ("exit 137", Exit::Code(137)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -TERM $$", Exit::Signal(15)),
    ];
    for (script, expected) in cases {
        let mut process = shell(script);
        assert_eq!(timeout(PATIENCE, process.wait()).await.unwrap(), expected, "{script}");
        assert_eq!(timeout(PATIENCE, process.gone()).await.unwrap(), expected, "{script}");
    }
}

#[tokio::test]
async fn a_file_the_system_will_not_run_is_told_apart_from_a_bad_exit() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/tmp\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut process = launch(script.to_str().unwrap(), &[]).spawn().unwrap();
    let exit = timeout(PATIENCE, process.wait()).await.unwrap();
    assert_eq!(exit.to_string(), "could not be run: Permission denied");
}

#[tokio::test]
async fn faults_are_found_before_anything_runs() {
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
fn a_reaper_run_by_hand_explains_itself() {
    let output = std::process::Command::new(program()).arg("reaper").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not for use by hand"));
}

#[tokio::test]
async fn closing_the_pipes_reaches_both_sides() {
    let mut client = Client::connect(&["echo"]).await;
    assert_eq!(client.call("echo", json!({"a": 1})).await, Value::to_string(&json!({"a": 1})));
    let Client { mut process, stdin, mut lines, .. } = client;
    drop(stdin);
    assert_eq!(timeout(PATIENCE, lines.next()).await.unwrap().unwrap(), None);
    assert_eq!(timeout(PATIENCE, process.wait()).await.unwrap(), Exit::Code(0));
}
