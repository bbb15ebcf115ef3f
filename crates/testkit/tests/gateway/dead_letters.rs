//! Dead letters: failed calls are kept and replayed once as their original caller.

use crate::ledger::{LedgerGateway, entry};
use crate::token_users::{bearer, make_token};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

const LETTERS: usize = 100;
/// Two tools; one of them writes.
const TOOLS: &str = r#"[
    {"name":"send_note","inputSchema":{"type":"object","properties":{"note":{"type":"string"},"username":{"type":"string"}},"required":["note"]}},
    {"name":"list_notes","inputSchema":{"type":"object","properties":{"username":{"type":"string"}}}}
]"#;

fn ok() -> ScriptedAnswer {
    ScriptedAnswer::result(r#"{"content":[{"type":"text","text":"done"}]}"#)
}

/// The answer of a broken server.
fn broken() -> ScriptedAnswer {
    ScriptedAnswer::Raw { status: 500, kind: "text/plain".into(), body: "out of order".into() }
}

/// Makes the command of `led` a link, which can be removed. Changing the command would make it another server, whose
/// tools are unknown.
fn link_command(ledger: &LedgerGateway, settings: Value) {
    let mut led = entry();
    led["args"][1] = ledger.home.path("ledger.txt").display().to_string().into();
    led["command"] = ledger.home.path("led-server").display().to_string().into();
    ledger.home.configure(settings, &[("led", led)]);
}

/// Creates or removes the link to the command of `led`.
fn set_health(ledger: &LedgerGateway, healthy: bool) {
    let link = ledger.home.path("led-server");
    let command = entry()["command"].as_str().expect("a command").to_owned();
    let done = if healthy { std::os::unix::fs::symlink(command, link) } else { std::fs::remove_file(link) };
    done.expect("the link is changed");
}

#[tokio::test]
async fn status_and_doctor_count_what_waits_for_a_decision() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    let idle = ledger.json(&["status"]);
    assert_eq!((&idle["held_calls"], &idle["dead_letters"]), (&json!(0), &json!(0)), "{idle}");
    set_health(&ledger, true);
    link_command(&ledger, json!({}));
    let ledger = ledger.survive().await.ready().await;
    set_health(&ledger, false);
    let ledger = ledger.survive().await;
    let failed = ledger.run(&["call", "led_write_entry", "text=lost"]);
    assert!(!failed.status.success(), "{failed:?}");
    link_command(&ledger, json!({ "approval": { "default": "writes" } }));
    let reloaded = ledger.run(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    let held = ledger.run(&["call", "led_write_entry", "text=held"]);
    assert_eq!(held.status.code(), Some(4), "{held:?}");
    let waiting = ledger.json(&["status"]);
    assert_eq!((&waiting["held_calls"], &waiting["dead_letters"]), (&json!(1), &json!(1)), "{waiting}");
    let text = |words: &[&str]| String::from_utf8(ledger.run(words).stdout).unwrap();
    for (command, expected) in [
        ("status", "held      1 call waits for approval: `toolbooth approvals`"),
        ("status", "failed    1 dead letter: `toolbooth dead-letters`"),
        ("doctor", "1 call waits for approval"),
        ("doctor", "1 dead letter"),
    ] {
        let output = text(&[command]);
        assert!(output.contains(expected), "{output}");
    }
    assert!(!text(&["doctor"]).contains("No problems found"));
}

#[tokio::test]
async fn hundred_dead_letters_survive_a_kill_and_are_replayed_once() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    set_health(&ledger, true);
    link_command(&ledger, json!({}));
    let ledger = ledger.survive().await.ready().await;
    set_health(&ledger, false);
    let ledger = ledger.survive().await;
    let http = ledger.gateway.http();
    let mut ids = BTreeMap::new();
    for number in 0..LETTERS {
        let body = json!({ "arguments": { "text": format!("note-{number}") } }).to_string();
        let (status, problem) = http.post_json("/tools/led_write_entry/call", &body).await;
        assert_eq!(status, 502, "{problem}");
        let hint = problem["hint"].as_str().unwrap_or_default().to_owned();
        let id = hint.split("dead letter ").nth(1).and_then(|rest| rest.split(':').next());
        ids.insert(id.unwrap_or_else(|| panic!("no letter in {hint:?}")).to_owned(), number);
    }
    set_health(&ledger, true);
    // The gateway is killed, not stopped: acknowledged dead letters are on disk.
    let ledger = ledger.survive().await.ready().await;
    assert!(ledger.entries().is_empty(), "nothing reached the server");
    let waiting = ledger.json(&["dead-letters", "list", "--limit", "1000"]);
    let waiting = waiting["dead_letters"].as_array().unwrap();
    assert_eq!(waiting.len(), LETTERS);
    for letter in waiting {
        assert!(ids.contains_key(letter["id"].as_str().unwrap()), "{letter}");
        assert_eq!((&letter["state"], &letter["may_have_happened"]), (&json!("pending"), &json!(false)));
        assert_eq!(letter["attempts"][0]["provider"], "mcp:led");
    }
    // Two concurrent replays of all dead letters run each call once.
    let command = |words: &'static [&'static str]| {
        let (home, words) = (ledger.home.config(), words);
        let data = ledger.home.data();
        tokio::task::spawn_blocking(move || {
            let mut command = std::process::Command::new(toolbooth_testkit::world::binaries::toolbooth());
            command.args(words).arg("--config").arg(home).arg("--data-dir").arg(data).output().unwrap()
        })
    };
    let all: &[&str] = &["dead-letters", "replay", "--all", "--json"];
    let (one, two) = tokio::join!(command(all), command(all));
    let resolved = |output: &std::process::Output| {
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        summary["resolved"].as_array().unwrap().len()
    };
    assert_eq!(resolved(&one.unwrap()) + resolved(&two.unwrap()), LETTERS);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in ledger.entries() {
        *counts.entry(entry.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(counts.len(), LETTERS);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let http = ledger.gateway.http();
    let page = http.get_json("/dead-letters?state=resolved&tool=led_write_entry&limit=60").await;
    assert_eq!(page["dead_letters"].as_array().unwrap().len(), 60);
    let next = page["next_cursor"].as_str().unwrap();
    let page = http.get_json(&format!("/dead-letters?state=resolved&limit=60&cursor={next}")).await;
    assert_eq!((page["dead_letters"].as_array().unwrap().len(), &page["next_cursor"]), (40, &Value::Null));
    let (status, problem) =
        http.post_json(&format!("/dead-letters/{}/replay", ids.keys().next().unwrap()), "").await;
    assert_eq!((status, &problem["code"]), (409, &json!("dead-letter.over")));
    assert!(ledger.run(&["audit", "verify"]).status.success());
}

/// A gateway with a server `mail` for `staff`, and tokens of root, ann and bob.
struct MailSetup {
    home: Home,
    gateway: Gateway,
    mail: ScriptedServer,
    tokens: [String; 3],
    settings: Value,
}

impl MailSetup {
    async fn open(more: Value) -> Self {
        let mail = ScriptedServer::start(TestEra::Modern).await;
        mail.list(TOOLS);
        mail.answer(broken());
        let mut settings = json!({
            "auth": { "mode": "token" },
            "policy": { "consent": "client" },
            "groups": { "staff": ["ann", "bob"] },
            // One attempt per call, so that the requests to the server can be counted.
            "retry": { "attempts": 1 },
        });
        settings["dead_letters"] = more;
        let home = Home::with_settings(settings.clone(), &[("mail", Self::entry(&mail))]);
        let tokens = [("root", &["--groups", "admin"][..]), ("ann", &[]), ("bob", &[])];
        let tokens = tokens.map(|(user, more)| make_token(&home, None, user, more).0);
        let mut gateway = home.start().await;
        gateway.headers = bearer(&tokens[0]);
        gateway.connected(&["mail"]).await;
        Self { home, gateway, mail, tokens, settings }
    }

    fn entry(mail: &ScriptedServer) -> Value {
        let mut entry = mail.entry();
        entry["groups"] = json!(["staff"]);
        entry["inject"] = true.into();
        entry["timeout"] = json!(1);
        // Its name alone does not make it safe.
        entry["tools"] =
            json!({ "overrides": { "list_notes": { "side_effects": "read_external_service" } } });
        entry
    }

    fn http(&self, user: usize) -> Http {
        Http::new(self.gateway.address).sending(&bearer(&self.tokens[user]))
    }

    /// Makes a failed call as Ann; returns the id of its dead letter.
    async fn fail(&self, tool: &str, arguments: Value) -> String {
        let body = json!({ "arguments": arguments, "session": "work" }).to_string();
        let (status, problem) = self.http(ANN).post_json(&format!("/tools/mail_{tool}/call"), &body).await;
        assert!(status >= 500, "{problem}");
        let found = self.http(ANN).get_json("/dead-letters?limit=1").await;
        let id = found["dead_letters"][0]["id"].as_str().unwrap_or_else(|| panic!("{problem}")).to_owned();
        assert!(problem["hint"].as_str().unwrap().contains(&id), "{problem}");
        id
    }

    async fn replay(&self, user: usize, id: &str, body: &str) -> (u16, Value) {
        self.http(user).post_json(&format!("/dead-letters/{id}/replay"), body).await
    }

    async fn letter(&self, id: &str) -> Value {
        self.http(ANN).get_json(&format!("/dead-letters/{id}")).await
    }

    async fn restarted(self) -> Self {
        let Self { home, gateway, mail, tokens, settings } = self;
        gateway.gone().await;
        let mut gateway = home.start().await;
        gateway.headers = bearer(&tokens[0]);
        gateway.connected(&["mail"]).await;
        Self { home, gateway, mail, tokens, settings }
    }

    /// The caller of each request to the server.
    fn users(&self) -> Vec<String> {
        let seen = self.mail.seen("tools/call").into_iter();
        seen.map(|seen| {
            let body: Value = serde_json::from_str(&seen.body).unwrap();
            body["params"]["arguments"]["username"].as_str().unwrap_or("no user").to_owned()
        })
        .collect()
    }
}

const ROOT: usize = 0;
const ANN: usize = 1;
const BOB: usize = 2;
const ANYWAY: &str = r#"{"anyway":true}"#;

#[tokio::test]
async fn replay_runs_as_the_original_caller() {
    let post = MailSetup::open(json!({})).await;
    let secret = json!({ "note": "hello", "username": "root" });
    let id = post.fail("send_note", json!({ "note": "hello" })).await;
    let forged = post.fail("send_note", secret).await;
    let letter = post.letter(&id).await;
    assert_eq!((&letter["user"], &letter["may_have_happened"]), (&json!("ann"), &json!(true)), "{letter}");
    assert_eq!((&letter["replaying"], &letter["next_retry_ms"]), (&json!("by_hand"), &Value::Null));
    // A dead letter of another user is unknown.
    let nowhere = "00000000-0000-0000-0000-000000000000".to_owned();
    let bob = post.http(BOB);
    for unknown in [&id, &nowhere] {
        let shown = bob.get_json(&format!("/dead-letters/{unknown}")).await;
        let (status, replayed) = post.replay(BOB, unknown, ANYWAY).await;
        let dropped = bob.send(http::Method::DELETE, &format!("/dead-letters/{unknown}"), &[], "").await;
        assert_eq!((status, dropped.status), (404, 404));
        for answer in [shown, replayed, dropped.json().await] {
            let expected = json!({
                "type": "urn:toolbooth:fault:dead-letter.unknown",
                "title": format!("there is no dead letter {unknown}"),
                "status": 404, "code": "dead-letter.unknown", "blame": "caller",
                "hint": "`toolbooth dead-letters list --all` lists yours",
            });
            assert_eq!(answer, expected);
        }
    }
    assert_eq!(bob.get_json("/dead-letters").await["dead_letters"], json!([]));
    assert_eq!(post.http(ROOT).get_json("/dead-letters").await["dead_letters"].as_array().unwrap().len(), 2);
    // A replay cannot name a user, and a write with unknown outcome needs `anyway`.
    post.mail.answer(ok());
    let (status, refused) = post.replay(ROOT, &id, r#"{"anyway":true,"user":"root"}"#).await;
    assert_eq!((status, &refused["code"]), (400, &json!("request.bad-body")));
    let (status, warned) = post.replay(ROOT, &id, "").await;
    assert_eq!((status, &warned["code"]), (409, &json!("dead-letter.may-have-happened")));
    assert_eq!(post.users().len(), 2, "only the failed calls were sent");
    for id in [&id, &forged] {
        let (status, made) = post.replay(ROOT, id, ANYWAY).await;
        assert_eq!((status, &made["dead_letter"]["state"]), (200, &json!("resolved")), "{made}");
        assert_eq!(made["result"], Value::Null, "the result belongs to Ann");
    }
    assert_eq!(post.users(), ["ann"; 4]);
    let audit = post.http(ROOT).get_json("/audit?limit=100").await;
    let rows = audit["rows"].as_array().unwrap();
    for kind in ["dead_letter", "call"] {
        let both = |row: &&Value| row["kind"] == kind && row["user"] == "ann" && row["by"] == "root";
        assert_eq!(rows.iter().filter(both).count(), 2, "{audit}");
    }
}

#[tokio::test]
async fn replay_needs_the_current_rights_of_the_caller() {
    let post = MailSetup::open(json!({})).await;
    let id = post.fail("list_notes", json!({})).await;
    post.mail.answer(ok());
    let mut settings = post.settings.clone();
    settings["groups"] = json!({ "staff": ["bob"] });
    post.home.configure(settings, &[("mail", MailSetup::entry(&post.mail))]);
    let http = post.http(ANN);
    let gone =
        poll(TEST_TIMEOUT, || async { (http.get_json("/tools").await["tools"] == json!([])).then_some(()) });
    gone.await.expect("Ann loses her rights");
    let calls = post.users().len();
    for user in [ANN, ROOT] {
        let (status, problem) = post.replay(user, &id, "").await;
        assert_eq!((status, &problem["code"]), (403, &json!("call.rights-gone")), "{problem}");
    }
    assert_eq!(post.users().len(), calls, "nothing was sent");
    let letter = post.letter(&id).await;
    assert_eq!((&letter["state"], &letter["next_retry_ms"]), (&json!("pending"), &Value::Null));
    post.home.configure(post.settings.clone(), &[("mail", MailSetup::entry(&post.mail))]);
    let made = poll(TEST_TIMEOUT, || async {
        let (status, made) = post.replay(ANN, &id, "").await;
        (status == 200).then_some(made)
    });
    let made = made.await.expect("the call runs once the rights are back");
    assert_eq!(made["result"]["content"][0]["text"], "done");
    assert_eq!(post.users().last().map(String::as_str), Some("ann"));
}

// A replay has the client name of its first call.
#[tokio::test]
async fn client_rules_apply_to_replays() {
    let post = MailSetup::open(json!({})).await;
    let shown = format!("Bearer {}", post.tokens[ANN]);
    let client = TestClient::named("scribe", TestEra::Modern, post.gateway.address).await;
    let client = client.sending("authorization", &shown);
    client.call("mail_list_notes", json!({})).await;
    let letters = post.http(ANN).get_json("/dead-letters?limit=1").await;
    let of_scribe = letters["dead_letters"][0]["id"].as_str().expect("a letter").to_owned();
    let of_another = post.fail("list_notes", json!({})).await;
    post.mail.answer(ok());
    let mut settings = post.settings.clone();
    settings["policy"]["rules"] =
        json!([{ "subject": "client:scribe", "tools": "mail_list_notes", "effect": "deny" }]);
    post.home.configure(settings, &[("mail", MailSetup::entry(&post.mail))]);
    let (status, report) = post.http(ROOT).post_json("/servers/reload", "").await;
    assert_eq!(status, 200, "{report}");
    let sent = post.users().len();
    for user in [ANN, ROOT] {
        let (status, problem) = post.replay(user, &of_scribe, "").await;
        assert_eq!((status, &problem["code"]), (403, &json!("call.refused")), "{problem}");
    }
    assert_eq!(post.users().len(), sent, "nothing was sent");
    assert_eq!(post.replay(ANN, &of_another, "").await.0, 200, "the rule applies to that client only");
}

#[tokio::test]
async fn kill_during_a_replay_leaves_only_writes_in_doubt() {
    let post = MailSetup::open(json!({})).await;
    let write = post.fail("send_note", json!({ "note": "once" })).await;
    let read = post.fail("list_notes", json!({})).await;
    post.mail.answer(ScriptedAnswer::Stalls { text: "{".into(), length: 100 });
    let before = post.users().len();
    for id in [&write, &read] {
        let (http, path) = (post.http(ROOT), format!("/dead-letters/{id}/replay"));
        tokio::spawn(async move { http.try_post(&path, ANYWAY).await });
    }
    let both = poll(TEST_TIMEOUT, || async { (post.users().len() == before + 2).then_some(()) });
    both.await.expect("both are running");
    assert_eq!(post.letter(&write).await["state"], "retrying");
    let (status, busy) = post.replay(ANN, &write, ANYWAY).await;
    assert_eq!((status, &busy["code"]), (409, &json!("dead-letter.retrying")));
    post.gateway.signal(nix::sys::signal::Signal::SIGKILL);
    post.mail.answer(ok());
    let post = post.restarted().await;
    let (write, read) = (post.letter(&write).await, post.letter(&read).await);
    assert_eq!((&write["state"], &write["may_have_happened"]), (&json!("pending"), &json!(true)), "{write}");
    assert_eq!((&read["state"], &read["may_have_happened"]), (&json!("pending"), &json!(false)), "{read}");
    assert_eq!((write["next_retry_ms"].is_i64(), read["next_retry_ms"].is_i64()), (false, true));
    assert_eq!((&write["replays"], &read["replays"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn only_safe_calls_are_replayed_automatically() {
    let post = MailSetup::open(json!({ "schedule_seconds": [1], "max_replays": 2 })).await;
    let write = post.fail("send_note", json!({ "note": "once" })).await;
    let read = post.fail("list_notes", json!({})).await;
    assert!(post.letter(&read).await["next_retry_ms"].is_i64());
    post.mail.answer(ok());
    let long = Duration::from_secs(30);
    let over = poll(long, || async { (post.letter(&read).await["state"] == "resolved").then_some(()) });
    over.await.unwrap_or_else(|| panic!("{}", post.gateway.log()));
    assert_eq!(post.letter(&write).await["state"], "pending");
    assert_eq!(post.users(), ["ann"; 3]);
}

#[tokio::test]
async fn only_accepted_calls_that_failed_become_dead_letters() {
    let post = MailSetup::open(json!({})).await;
    let http = post.http(ANN);
    post.mail.answer(ScriptedAnswer::result(r#"{"content":[],"isError":true}"#));
    let cases = [
        ("mail_send_note", json!({ "note": "the tool's own error" }), 200),
        ("mail_send_note", json!({ "nope": 1 }), 400),
        ("mail_nothing", json!({}), 404),
    ];
    for (tool, arguments, expected) in cases {
        let body = json!({ "arguments": arguments }).to_string();
        let (status, answer) = http.post_json(&format!("/tools/{tool}/call"), &body).await;
        assert_eq!(status, expected, "{tool} {answer}");
    }
    // A call whose client disconnects is not kept.
    post.mail.answer(ScriptedAnswer::Stalls { text: "{".into(), length: 100 });
    let body = json!({ "arguments": { "note": "hung up" } }).to_string();
    let hanging = {
        let http = http.clone();
        tokio::spawn(async move { http.try_post("/tools/mail_send_note/call", &body).await })
    };
    let sent = poll(TEST_TIMEOUT, || async { (post.users().len() == 2).then_some(()) });
    sent.await.expect("it is running");
    hanging.abort();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(http.get_json("/dead-letters").await["dead_letters"], json!([]));
    // A timeout leaves a dead letter; a write then has an unknown outcome.
    let id = post.fail("send_note", json!({ "note": "late", "password": "hunter2" })).await;
    let letter = post.letter(&id).await;
    assert_eq!(
        (&letter["error"]["code"], &letter["may_have_happened"]),
        (&json!("call.timeout"), &json!(true))
    );
    assert!(!letter.to_string().contains("hunter2"), "{letter}");
    for file in ["toolbooth.db", "toolbooth.db-wal"] {
        let bytes = std::fs::read(post.home.data().join(file)).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"), "{file} contains a secret");
    }
    let dropped = http.send(http::Method::DELETE, &format!("/dead-letters/{id}"), &[], "").await;
    assert_eq!((dropped.status, &dropped.json().await["state"]), (200, &json!("dropped")));
    let (status, problem) = post.replay(ANN, &id, ANYWAY).await;
    assert_eq!((status, &problem["code"]), (409, &json!("dead-letter.over")));
}

#[tokio::test]
async fn dead_letter_without_its_key_can_be_read_but_not_replayed() {
    let (first, second) = ("1f".repeat(32), "2e".repeat(32));
    let mut post = MailSetup::open(json!({ "key": first })).await;
    let id = post.fail("list_notes", json!({})).await;
    post.mail.answer(ok());
    let calls = post.users().len();
    for (key, expected) in [(&second, (500, json!("dead-letter.key-lost"))), (&first, (200, Value::Null))] {
        post.settings["dead_letters"]["key"] = key.as_str().into();
        post.home.configure(post.settings.clone(), &[("mail", MailSetup::entry(&post.mail))]);
        post.gateway.signal(nix::sys::signal::Signal::SIGTERM);
        post = post.restarted().await;
        let letter = post.letter(&id).await;
        assert_eq!((&letter["state"], &letter["user"]), (&json!("pending"), &json!("ann")), "{letter}");
        let (status, answer) = post.replay(ANN, &id, "").await;
        assert_eq!((status, answer["code"].clone()), expected, "{answer}");
    }
    assert_eq!(post.users().len(), calls + 1);
}
