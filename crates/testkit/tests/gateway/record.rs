//! The record: what was acknowledged is in the audit, whatever happens to the gateway afterwards.

use crate::known::{make_token, read, run};
use crate::ledger::{Ledger, entry};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Gateway, Home, Http, PATIENCE, binaries, poll};

/// A gateway with a ledger, `led`, and a server whose tool says nothing of what it does, `odd`.
async fn scene(settings: Value) -> Ledger {
    let home = Home::with_settings(settings, &[("odd", hostile(&["echo"]))]);
    let ledger = Ledger::at(home, &entry()).await.ready().await;
    ledger.gateway.connected(&["odd"]).await;
    ledger
}

/// How many rows of calls there are, by tool and outcome.
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
async fn rows_of_answered_calls_outlive_a_kill_right_after_the_answer() {
    let mut ledger = scene(json!({})).await;
    for round in 1..=20 {
        let http = ledger.gateway.http();
        let body = json!({ "arguments": { "text": format!("round-{round}") } }).to_string();
        // The last one differs from round to round: it is the one that is answered a moment before the kill.
        let mut order = ["odd_echo", "led_read_entries", "led_write_entry"];
        order.rotate_left(round % 3);
        for tool in order {
            let (status, answer) = http.post_json(&format!("/tools/{tool}/call"), &body).await;
            assert_eq!(status, 200, "{tool}: {answer}");
        }
        ledger.gateway.signal(nix::sys::signal::Signal::SIGKILL);
        ledger = ledger.reborn().await.ready().await;
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

// audit: tools of unknown effect write no intent row.
#[tokio::test]
async fn a_call_of_unknown_effect_that_was_cut_off_is_told_of_after_a_kill() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["never-answers"]))]);
    let gateway = home.start().await;
    gateway.connected(&["odd"]).await;
    let hanging = {
        let http = gateway.http();
        tokio::spawn(async move { http.try_post("/tools/odd_hang/call", "{}").await })
    };
    let sent = poll(PATIENCE, || async {
        let spooled = ["toolbooth.db-spool-0", "toolbooth.db-spool-1"]
            .iter()
            .any(|file| std::fs::metadata(home.data().join(file)).is_ok_and(|file| file.len() > 0));
        spooled.then_some(())
    });
    assert!(sent.await.is_some(), "an intent is noted before the call is sent");
    gateway.kill().await;
    let _ = hanging.await;
    let gateway = home.start().await;
    let unknown = poll(PATIENCE, || async {
        let counts = calls(&gateway.http()).await;
        counts.keys().any(|(_, outcome)| outcome == "unknown").then_some(())
    });
    assert!(unknown.await.is_some(), "{:?}", calls(&gateway.http()).await);
    assert!(run(&home, &["audit", "verify"], None).status.success());
}

// M8: token creation and revocation, reload, sign-in leave no audit row.
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
    ledger.home.write_config("{ this is no configuration");
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

#[tokio::test]
async fn acts_of_commands_leave_rows_when_no_gateway_runs() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["echo"]))]);
    let (_, id) = make_token(&home, None, "ann", &[]);
    assert!(run(&home, &["tokens", "revoke", &id], None).status.success());
    let shown = read(&run(&home, &["audit", "--json", "--kind", "token"], None));
    let rows = shown["rows"].as_array().unwrap_or_else(|| panic!("{shown}"));
    let outcomes: Vec<&str> = rows.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["revoked", "created"]);
    assert!(!shown.to_string().contains("tb_"), "the token itself is nowhere: {shown}");

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

// T50, F21: no disk for the record means no write; reads go on.
#[tokio::test]
async fn what_cannot_be_recorded_is_not_sent_and_reads_go_on() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["echo"]))]);
    // The gateway is started in a shell that lets no file grow beyond some hundred KiB: the disk is full then.
    let config = std::fs::read_to_string(home.config()).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let mut led = entry();
    led["args"][1] = home.path("ledger.txt").display().to_string().into();
    config["servers"]["led"] = led;
    home.write_config(&config.to_string());
    let plain = home.command("serve");
    let mut command = Command::new("bash");
    command
        .args(["-c", "ulimit -S -f 700; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args());
    command.env_clear().current_dir(home.path(""));
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.env("TOOLBOOTH_LOG", "error").stdin(Stdio::null());
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["led", "odd"]).await;
    let http = gateway.http();
    let (mut answered, mut refused) = (0, 0);
    for number in 0..4_000 {
        let body = json!({ "arguments": { "text": format!("entry-{number}") } }).to_string();
        let (status, answer) = http.post_json("/tools/led_write_entry/call", &body).await;
        match status {
            200 => answered += 1,
            _ => {
                let code = answer["code"].as_str().unwrap_or_default();
                assert!(code.starts_with("store."), "{answer}");
                refused += 1;
            }
        }
        if refused == 5 {
            break;
        }
    }
    assert_eq!(refused, 5, "the disk did not fill up after {answered} writes");
    let ledger = std::fs::read_to_string(home.path("ledger.txt")).unwrap_or_default();
    assert_eq!(ledger.lines().count(), answered, "what was refused was not sent");
    let (status, answer) = http.post_json("/tools/led_read_entries/call", "{}").await;
    assert_eq!(status, 200, "reads go on: {answer}");
    // Room again: the limit was a soft one.
    let raised =
        Command::new("prlimit").args(["--pid", &gateway.pid().to_string(), "--fsize=unlimited"]).status();
    if raised.is_ok_and(|status| status.success()) {
        let (status, answer) =
            http.post_json("/tools/led_write_entry/call", r#"{"arguments":{"text":"after"}}"#).await;
        assert_eq!(status, 200, "{answer}");
        assert!(run(&home, &["audit", "verify"], None).status.success());
    }
}

// audit: kept arguments are masked by key name only.
#[tokio::test]
async fn secrets_in_values_are_masked_wherever_arguments_are_kept() {
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

// audit: the sealing key lies in the same file as what it seals; a key that is gone is never replaced.
#[tokio::test]
async fn a_gateway_does_not_start_without_the_keys_its_database_was_used_with() {
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
    assert!(!keys.exists(), "no new key over old data");
}

// Retention: what is dropped is dropped from the beginning, and the rest can be verified.
#[tokio::test]
async fn an_audit_that_was_trimmed_is_still_verified() {
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
    let trimmed = poll(PATIENCE, || async {
        let (_, verified) = http.post_json("/audit/verify", "").await;
        verified["purged_to"].as_u64().is_some_and(|seq| seq > 0).then_some(verified)
    });
    let verified = trimmed.await.expect("the audit is trimmed");
    assert_eq!(verified["ok"], true, "{verified}");
    assert!(verified["rows"].as_u64().is_some_and(|rows| (1..200).contains(&rows)), "{verified}");
}

// audit: blobs 0666 under umask 0.
#[tokio::test]
async fn nothing_in_the_data_folder_is_open_to_others_under_an_open_umask() {
    let home = Home::with_settings(json!({}), &[("odd", hostile(&["echo"]))]);
    let plain = home.command("serve");
    let mut command = Command::new("bash");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    command.env_clear().current_dir(home.path(""));
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
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
    assert!(seen > 5 && open.is_empty(), "{seen} looked at, open to others: {open:?}");
}
