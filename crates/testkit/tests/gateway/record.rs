//! The audit: every acknowledged call and administrative act has a row, also after a kill.

use crate::callers::http_as;
use crate::ledger::{LedgerGateway, entry};
use crate::token_users::{TokenUsers, make_token, read, recorded, run};
use ::http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, binaries, poll};

/// A gateway with a ledger, `led`, and a server whose tool declares no effect, `odd`.
async fn scene(settings: Value) -> LedgerGateway {
    let home = Home::with_settings(settings, &[("odd", hostile(&["echo"]))]);
    let ledger = LedgerGateway::at(home, &entry()).await.ready().await;
    ledger.gateway.connected(&["odd"]).await;
    ledger
}

/// The number of rows of calls, by tool and outcome.
async fn calls(http: &Http) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    let mut before = String::new();
    loop {
        let page = http.get_json(&format!("/audit?kind=call&limit=1000{before}")).await;
        let rows = page["rows"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
        let Some(last) = rows.last() else { return counts };
        before = format!("&before={}", last["seq"]);
        for row in rows {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            *counts.entry((text("tool"), text("outcome"))).or_default() += 1;
        }
    }
}

fn done(counts: &BTreeMap<(String, String), usize>, tool: &str) -> usize {
    counts.get(&(tool.to_owned(), "done".to_owned())).copied().unwrap_or(0)
}

/// The rows of one kind, newest first, as `outcome by user`.
async fn acts(http: &Http, kind: &str) -> Vec<String> {
    let page = http.get_json(&format!("/audit?kind={kind}")).await;
    let rows = page["rows"].as_array().unwrap_or_else(|| panic!("{page}"));
    rows.iter().map(|row| row["outcome"].as_str().unwrap().to_owned()).collect()
}

// H7: acknowledged audit rows are lost on kill -9, also those of writes.
#[tokio::test]
async fn rows_of_answered_calls_survive_a_kill_right_after_the_answer() {
    let mut ledger = scene(json!({})).await;
    for round in 1..=20 {
        let http = ledger.gateway.http();
        let body = json!({ "arguments": { "text": format!("round-{round}") } }).to_string();
        // The last call differs from round to round: it is answered right before the kill.
        let mut order = ["odd_echo", "led_read_entries", "led_write_entry"];
        order.rotate_left(round % 3);
        for tool in order {
            let (status, answer) = http.post_json(&format!("/tools/{tool}/call"), &body).await;
            assert_eq!(status, 200, "{tool}: {answer}");
        }
        ledger.gateway.signal(nix::sys::signal::Signal::SIGKILL);
        ledger = ledger.restarted().await.ready().await;
        ledger.gateway.connected(&["odd"]).await;
        let counts = calls(&ledger.gateway.http()).await;
        for tool in ["echo", "read_entries", "write_entry"] {
            assert_eq!(done(&counts, tool), round, "round {round}: {tool}: {counts:?}");
        }
    }
    assert_eq!(ledger.entries().len(), 20);
    let verified = ledger.run(&["audit", "verify"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

// audit: tools of unknown effect wrote no intent row.
#[tokio::test]
async fn interrupted_call_of_unknown_effect_is_recorded_after_a_kill() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["never-answers"]))]);
    let gateway = home.start().await;
    gateway.connected(&["odd"]).await;
    let hanging = {
        let http = gateway.http();
        tokio::spawn(async move { http.try_post("/tools/odd_hang/call", "{}").await })
    };
    let sent = poll(TEST_TIMEOUT, || async {
        let spooled = ["toolbooth.db-spool/0", "toolbooth.db-spool/1"]
            .iter()
            .any(|file| std::fs::metadata(home.data().join(file)).is_ok_and(|file| file.len() > 0));
        spooled.then_some(())
    });
    assert!(sent.await.is_some(), "no intent was written before the call was sent");
    gateway.kill().await;
    let _ = hanging.await;
    let gateway = home.start().await;
    let unknown = poll(TEST_TIMEOUT, || async {
        let counts = calls(&gateway.http()).await;
        counts.keys().any(|(_, outcome)| outcome == "unknown").then_some(())
    });
    assert!(unknown.await.is_some(), "{:?}", calls(&gateway.http()).await);
    assert!(run(&home, &["audit", "verify"], None).status.success());
}

// M8: token creation and revocation, reload and sign-in left no audit row.
#[tokio::test]
async fn administrative_acts_leave_rows() {
    let ledger = scene(json!({})).await;
    let http = ledger.gateway.http();
    let (_, id) = make_token(&ledger.home, None, "ann", &["--groups", "staff"]);
    assert!(ledger.run(&["tokens", "revoke", &id]).status.success());
    assert_eq!(acts(&http, "token").await, ["revoked", "created"]);
    let row = http.get_json("/audit?kind=token&limit=1").await["rows"][0].clone();
    assert_eq!((&row["user"], &row["detail"]["token"]), (&json!("ann"), &json!(id)), "{row}");
    assert_eq!(row["by"], json!(ledger.user().await), "{row}");

    assert!(ledger.run(&["reload"]).status.success());
    let reloads = acts(&http, "config").await;
    assert_eq!(reloads.first().map(String::as_str), Some("reloaded"));
    ledger.home.write_config("{ not a configuration");
    assert!(!ledger.run(&["reload"]).status.success());
    let rows = http.get_json("/audit?kind=config").await;
    let failed = rows["rows"].as_array().unwrap().iter().find(|row| row["outcome"] == "failed").cloned();
    assert!(
        failed.is_some_and(|row| row["code"].as_str().is_some_and(|code| code.starts_with("config."))),
        "{rows}"
    );

    ledger.gateway.act("odd", "restart").await;
    assert_eq!(acts(&http, "server").await, ["restart"]);
    let (status, plan) = http.post_json("/plans", "{}").await;
    assert!(status < 300, "{plan}");
    assert!(acts(&http, "plan").await.contains(&"opened".to_owned()));
    std::fs::write(ledger.home.path("note.txt"), "hello").unwrap();
    let note = ledger.home.path("note.txt").display().to_string();
    let put = ledger.json(&["files", "put", &note]);
    let file =
        put["id"].as_str().or(put["files"][0]["id"].as_str()).unwrap_or_else(|| panic!("{put}")).to_owned();
    assert!(ledger.run(&["files", "rm", &file]).status.success());
    assert_eq!(acts(&http, "file").await, ["deleted"]);
    assert!(ledger.run(&["audit", "verify"]).status.success());
}

// M8: the same over REST, by an administrator with a token.
#[tokio::test]
async fn tokens_created_and_revoked_over_rest_leave_rows() {
    let known = TokenUsers::start().await;
    let root = known.gateway.http();
    let (status, made) = root.post_json("/tokens", r#"{"user":"dan","groups":["staff"]}"#).await;
    assert_eq!(status, 201, "{made}");
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    // A refused request is not an act: ann is not an administrator.
    let ann = http_as(&known.gateway, &known.ann.0);
    assert_eq!(ann.send(Method::DELETE, &format!("/tokens/{id}"), &[], "").await.status, 403);
    assert_eq!(root.send(Method::DELETE, &format!("/tokens/{id}"), &[], "").await.status, 200);
    let page = root.get_json("/audit?kind=token").await;
    let rows = page["rows"].as_array().unwrap_or_else(|| panic!("{page}"));
    let of_dan: Vec<&Value> = rows.iter().filter(|row| row["user"] == "dan").collect();
    let outcomes: Vec<&str> = of_dan.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["revoked", "created"], "{page}");
    for row in of_dan {
        assert_eq!((&row["by"], &row["detail"]["token"]), (&json!("root"), &json!(id)), "{row}");
    }
    assert!(!page.to_string().contains(token), "the token is in the audit: {page}");
    // A revoked token is refused, which is an event and a row.
    let dan = http_as(&known.gateway, token);
    assert_eq!(dan.send(Method::GET, "/me", &[], "").await.status, 401);
    let row = recorded(&root, "auth.refused").await;
    assert!(!row.to_string().contains(token), "{row}");
}

#[tokio::test]
async fn acts_of_commands_leave_rows_when_no_gateway_runs() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["echo"]))]);
    let (_, id) = make_token(&home, None, "ann", &[]);
    assert!(run(&home, &["tokens", "revoke", &id], None).status.success());
    let shown = read(&run(&home, &["audit", "--json", "--kind", "token"], None));
    let rows = shown["rows"].as_array().unwrap_or_else(|| panic!("{shown}"));
    let outcomes: Vec<&str> = rows.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["revoked", "created"]);
    assert!(!shown.to_string().contains("tb_"), "the token is in the audit: {shown}");

    // Trust in a project's file.
    let project = home.path("project");
    std::fs::create_dir_all(&project).unwrap();
    let servers = json!({ "mcpServers": { "theirs": { "command": "true" } } });
    std::fs::write(project.join(".mcp.json"), servers.to_string()).unwrap();
    let trust = |words: &[&str]| {
        let mut command = Command::new(binaries::toolbooth());
        command.args(words).arg("--data-dir").arg(home.data()).current_dir(&project);
        command
            .env_clear()
            .env("HOME", home.path(""))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    trust(&["trust", "--yes"]);
    trust(&["trust", "--forget"]);
    let shown = read(&run(&home, &["audit", "--json", "--kind", "trust"], None));
    let rows = shown["rows"].as_array().unwrap_or_else(|| panic!("{shown}"));
    let outcomes: Vec<&str> = rows.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["forgotten", "trusted"], "{shown}");
    assert!(shown.to_string().contains("theirs"), "{shown}");
}

/// Calls a tool until five calls are refused because the disk is full. Returns the number of answered calls, and of
/// calls that ran without a result because the disk became full between their intent and their end.
async fn fill_disk(http: &Http, tool: &str, text: &str) -> (usize, usize) {
    let (mut answered, mut withheld, mut refused) = (0, 0, 0);
    for number in 0..4_000 {
        let body = json!({ "arguments": { "text": format!("{text}-{number}") } }).to_string();
        let (status, answer) = http.post_json(&format!("/tools/{tool}/call"), &body).await;
        match (status, answer["code"].as_str().unwrap_or_default()) {
            (200, _) => answered += 1,
            (_, "call.unrecorded") => withheld += 1,
            (_, code) => {
                assert!(code.starts_with("store."), "{answer}");
                refused += 1;
            }
        }
        if refused == 5 {
            return (answered, withheld);
        }
    }
    panic!("the disk did not fill up after {answered} calls");
}

/// Lifts the soft limit on the file size; returns whether that is possible here.
fn free_disk(gateway: &Gateway) -> bool {
    let pid = gateway.pid().to_string();
    let lifted = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
    lifted.is_ok_and(|status| status.success())
}

// T50, F21: without disk space for the audit row, writes are refused; reads continue.
#[tokio::test]
async fn writes_that_cannot_be_recorded_are_refused_and_reads_continue() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["echo"]))]);
    // The gateway runs in a shell that limits files to some hundred KiB, which simulates a full disk.
    let config = std::fs::read_to_string(home.config()).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let mut led = entry();
    led["args"][1] = home.path("ledger.txt").display().to_string().into();
    config["servers"]["led"] = led;
    home.write_config(&config.to_string());
    let mut command = home.serve_through("bash", &["-c", "ulimit -S -f 900; exec \"$0\" \"$@\""]);
    command.env("TOOLBOOTH_LOG", "error");
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["led", "odd"]).await;
    let http = gateway.http();
    let (answered, withheld) = fill_disk(&http, "led_write_entry", "entry").await;
    let ledger = std::fs::read_to_string(home.path("ledger.txt")).unwrap_or_default();
    assert_eq!(ledger.lines().count(), answered + withheld, "a refused call was sent");
    let (status, answer) = http.post_json("/tools/led_read_entries/call", "{}").await;
    assert_eq!(status, 200, "a read failed: {answer}");
    if free_disk(&gateway) {
        let (status, answer) =
            http.post_json("/tools/led_write_entry/call", r#"{"arguments":{"text":"after"}}"#).await;
        assert_eq!(status, 200, "{answer}");
        // The rows of the calls whose result was withheld follow, one each.
        let made = answered + withheld + 1;
        let written =
            poll(TEST_TIMEOUT, || async { (done(&calls(&http).await, "write_entry") >= made).then_some(()) });
        assert!(written.await.is_some(), "{made} calls were made: {:?}", calls(&http).await);
        assert_eq!(done(&calls(&http).await, "write_entry"), made);
        assert!(run(&home, &["audit", "verify"], None).status.success());
    }
}

// F21: on a full disk, a call of unknown effect was answered without an audit row.
#[tokio::test]
async fn call_of_unknown_effect_returns_no_result_without_an_audit_row() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["echo"]))]);
    let mut command = home.serve_through("bash", &["-c", "ulimit -S -f 900; exec \"$0\" \"$@\""]);
    command.env("TOOLBOOTH_LOG", "error");
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["odd"]).await;
    let http = gateway.http();
    // Long rows and short intents: the last intents fit into the spool, the rows of their calls do not.
    let (answered, withheld) = fill_disk(&http, "odd_echo", &"word ".repeat(100)).await;
    let metrics = http.send(::http::Method::GET, "/metrics", &[], "").await.bytes().await;
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let count = metrics.lines().find_map(|line| line.strip_prefix("toolbooth_unrecorded_calls_total "));
    let count: f64 = count.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap();
    // Refused calls have rows too, which may be missing as well.
    assert!(count >= withheld as f64, "{count} counted, {withheld} withheld");
    if !free_disk(&gateway) {
        return;
    }
    let (status, answer) = http.post_json("/tools/odd_echo/call", "{}").await;
    assert_eq!(status, 200, "{answer}");
    // Each call that ran has one row: rows that waited in memory are written now.
    let made = answered + withheld + 1;
    let written = poll(TEST_TIMEOUT, || async { (done(&calls(&http).await, "echo") == made).then_some(()) });
    assert!(written.await.is_some(), "{made} calls were made: {:?}", calls(&http).await);
    gateway.stop().await;
    let gateway = home.start().await;
    let counts = calls(&gateway.http()).await;
    assert_eq!(done(&counts, "echo"), made, "{counts:?}");
    assert!(!counts.keys().any(|(_, outcome)| outcome == "unknown"), "{counts:?}");
    assert!(run(&home, &["audit", "verify"], None).status.success());
}

// audit: kept arguments are masked by key name only.
#[tokio::test]
async fn secrets_in_stored_arguments_are_masked() {
    let mut odd = hostile(&["echo"]);
    odd["env"] = json!({ "API_TOKEN": "${RECORD_TEST_SECRET}" });
    let home = Home::with_settings(json!({}), &[("odd", odd)]);
    let mut command = home.command("serve");
    command.env("RECORD_TEST_SECRET", "correct-horse-battery-staple");
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["odd"]).await;
    let http = gateway.http();
    let secrets = [
        "correct-horse-battery-staple",
        "glpat-abcdefghij0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "4111 1111 1111 1111",
        "hunter2hunter2",
    ];
    let arguments = json!({
        "note": format!("it is {}, mind", secrets[0]),
        "text": format!("use {} and {} now", secrets[1], secrets[2]),
        "pay": format!("card {}", secrets[3]),
        "link": format!("https://h.example/x?token={}&y=1", secrets[4]),
    });
    let (status, answer) =
        http.post_json("/tools/odd_echo/call", &json!({ "arguments": arguments }).to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let rows = http.get_json("/audit?kind=call&limit=1").await.to_string();
    assert!(rows.contains("[redacted]"), "{rows}");
    gateway.stop().await;
    for secret in secrets {
        assert!(!rows.contains(secret), "{secret} in {rows}");
        for file in std::fs::read_dir(home.data()).unwrap().flatten() {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} in {}", file.path().display());
        }
    }
}

// audit: the sealing key was in the same file as the sealed data; a lost key is never replaced.
#[tokio::test]
async fn gateway_does_not_start_without_the_keys_of_its_database() {
    let home = Home::with_settings(json!({}), &[("odd", fixture_on_stdio("modern"))]);
    home.start().await.stop().await;
    let keys = home.data().join("toolbooth.db.keys");
    assert!(keys.is_file());
    std::fs::remove_file(&keys).unwrap();
    let mut command = home.command("serve");
    let output = command.args(["--listen", "127.0.0.1:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("store.keys-missing"), "{said}");
    assert!(!keys.exists(), "a new key was created for old data");
}

// Retention: the oldest rows are dropped, and the rest can be verified.
#[tokio::test]
async fn trimmed_audit_can_still_be_verified() {
    let home =
        Home::with_settings(json!({ "audit": { "keep_bytes": 20_000 } }), &[("odd", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["odd"]).await;
    for number in 0..200 {
        let body = json!({ "arguments": { "number": number } }).to_string();
        let (status, answer) = gateway.http().post_json("/tools/odd_echo/call", &body).await;
        assert_eq!(status, 200, "{answer}");
    }
    gateway.stop().await;
    let gateway = home.start().await;
    let http = gateway.http();
    let trimmed = poll(TEST_TIMEOUT, || async {
        let (_, verified) = http.post_json("/audit/verify", "").await;
        verified["purged_to"].as_u64().is_some_and(|seq| seq > 0).then_some(verified)
    });
    let verified = trimmed.await.expect("the audit is trimmed");
    assert_eq!(verified["ok"], true, "{verified}");
    assert!(verified["rows"].as_u64().is_some_and(|rows| (1..200).contains(&rows)), "{verified}");
}

// audit: blobs 0666 under umask 0.
#[tokio::test]
async fn data_folder_is_private_under_an_open_umask() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["echo"]))]);
    let command = home.serve_through("bash", &["-c", "umask 0; exec \"$0\" \"$@\""]);
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["odd"]).await;
    let http = gateway.http();
    let (status, answer) = http.post_json("/tools/odd_echo/call", "{}").await;
    assert_eq!(status, 200, "{answer}");
    std::fs::write(home.path("note.txt"), "hello").unwrap();
    assert!(
        run(&home, &["files", "put", &home.path("note.txt").display().to_string()], None).status.success()
    );
    let mut folders = vec![home.data()];
    let mut open = Vec::new();
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let about = entry.path().symlink_metadata().unwrap();
            seen += 1;
            if about.is_dir() {
                folders.push(entry.path());
            }
            if std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 != 0 {
                open.push(entry.path());
            }
        }
    }
    assert!(seen > 5 && open.is_empty(), "{seen} files checked, accessible to others: {open:?}");
}
