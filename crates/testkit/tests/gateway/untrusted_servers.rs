//! Untrusted servers: endless requests and lists, repeated secrets and unreadable answers affect no other client.

use crate::scene::{MOST_MEMORY_MIB, Scene, fault};
use crate::token_users::{bearer, make_token, settings};
use ::http::Method;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{hostile, shell};
use toolbooth_testkit::world::scripted_server::{ID, ScriptedAnswer};
use toolbooth_testkit::world::{
    Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, poll, processes,
};

/// The secret of a server, which must be masked.
const SECRET: &str = "correct-horse-battery";
/// The same secret in a JSON string with unnecessary escapes.
const ESCAPED_SECRET: &str = r"\u0063orrect\u002dhorse-battery";

// H4
#[tokio::test]
async fn flooding_server_loses_only_its_own_connection() {
    let scene = Scene::new(hostile(&["asks-endlessly"])).await;
    scene.gateway.connected(&["bad"]).await;
    let reply = scene.gateway.http().send(Method::GET, "/events?types=server.error", &[], "").await;
    let mut events = reply.events();
    // `provoke` also checks memory and the good server.
    let (response, took) = scene.provoke("flood", json!({})).await;
    assert_eq!(fault(&response), "server.flood", "{}", response.text());
    assert!(response.text().contains("requests"), "the message has the reason: {}", response.text());
    assert!(took < Duration::from_secs(10), "it took {took:?}");
    let event = events.next_within(TEST_TIMEOUT).await.expect("an event");
    assert_eq!(event["server"], "bad", "{event}");
    assert!(scene.gateway.log().contains("is disconnected: it sent more than"), "{}", scene.gateway.log());
    scene.bad_recovers().await;
}

// H4: over HTTP each answer is a POST, and each POST takes a descriptor.
#[tokio::test]
async fn request_flood_over_http_uses_no_descriptors() {
    let upstream = ScriptedServer::start(TestEra::Legacy).await;
    let scene = Scene::new(upstream.entry()).await;
    scene.gateway.connected(&["bad"]).await;
    let before = processes::open_files(scene.gateway.pid());
    let ping =
        |number: u32| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":\"p{number}\",\"method\":\"ping\"}}\n\n");
    let body: String = (0..3000).map(ping).collect();
    upstream.answer(ScriptedAnswer::Raw { status: 200, kind: "text/event-stream".into(), body });
    let (response, _) = scene.provoke("take", json!({})).await;
    assert_eq!(fault(&response), "server.flood", "{}", response.text());
    let now = processes::open_files(scene.gateway.pid());
    assert!(now < before + 40, "{before} descriptors before, {now} now");
    upstream.answer(ScriptedAnswer::result(r#"{"content":[{"type":"text","text":"well again"}]}"#));
    let well = poll(TEST_TIMEOUT, || async {
        let response = scene.client.call("bad_take", json!({})).await;
        (response.answer["result"]["content"][0]["text"] == "well again").then_some(())
    });
    assert!(well.await.is_some(), "{}", scene.gateway.server("bad").await);
}

/// A gateway with token authentication, one server, and tokens for an administrator, ann and bob.
struct ServerUsers {
    _home: Home,
    gateway: Gateway,
    ann: String,
    bob: String,
}

impl ServerUsers {
    async fn of(server: Value) -> Self {
        let home = Home::with_settings(settings(), &[("bad", server)]);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let mut gateway = home.start().await;
        gateway.headers = bearer(&root);
        let by = Some(root.as_str());
        let (ann, _) = make_token(&home, by, "ann", &[]);
        let (bob, _) = make_token(&home, by, "bob", &[]);
        Self { _home: home, gateway, ann, bob }
    }

    async fn call(&self, token: &str, tool: &str, capabilities: Value) -> String {
        let address = self.gateway.address;
        let client =
            TestClient::with_revision("2025-11-25", address, "/mcp", &bearer(token), capabilities).await;
        client.call(tool, json!({})).await.answer.to_string()
    }

    fn processes(&self) -> usize {
        processes::children(self.gateway.pid()).living.len()
    }
}

// M5: 258 variants of capabilities started 256 processes.
#[tokio::test]
async fn notations_of_client_capabilities_start_no_more_processes() {
    let users = ServerUsers::of(hostile(&["echo"])).await;
    users.gateway.connected(&["bad"]).await;
    for number in 0..12 {
        let capabilities = json!({ "roots": { "n": number }, format!("x{number}"): {} });
        let response = users.call(&users.ann, "bad_ok", capabilities).await;
        assert!(response.contains("\"ok\""), "{response}");
    }
    // The gateway's own and ann's.
    assert!(users.processes() <= 2, "{} processes", users.processes());
}

// M5
#[tokio::test]
async fn processes_of_a_server_are_limited_per_user() {
    let mut entry = hostile(&["never-answers"]);
    entry["share"] = json!("session");
    let users = ServerUsers::of(entry).await;
    users.gateway.connected(&["bad"]).await;
    let call = |token: String, session: String, tool: &'static str| {
        let http = Http::new(users.gateway.address).sending(&bearer(&token));
        async move {
            let body = json!({ "arguments": {}, "session": session }).to_string();
            http.post_json(&format!("/tools/bad_{tool}/call"), &body).await.1.to_string()
        }
    };
    // Idle connections are closed first: many sessions in turn are served with a bounded number of processes.
    for number in 0..40 {
        let response = call(users.ann.clone(), format!("s{number}"), "ok").await;
        assert!(response.contains("ok") && !response.contains("server.busy"), "{number}: {response}");
    }
    let bounded = poll(TEST_TIMEOUT, || async {
        (processes::children(users.gateway.pid()).living.len() <= 34).then_some(())
    });
    assert!(bounded.await.is_some(), "{:?}", processes::children(users.gateway.pid()));
    // Busy connections are not closed: of 40 calls that are never answered, 32 wait and the others are refused.
    let mut hanging = tokio::task::JoinSet::new();
    for number in 0..40 {
        hanging.spawn(call(users.ann.clone(), format!("s{number}"), "hang"));
    }
    for _ in 32..40 {
        let response = hanging.join_next().await.expect("a call").expect("an answer in time");
        assert!(response.contains("server.busy") && response.contains("limit per user"), "{response}");
    }
    let response = call(users.bob.clone(), "mine".to_owned(), "ok").await;
    assert!(!response.contains("server.busy") && response.contains("ok"), "{response}");
    assert_eq!(hanging.len(), 32);
    assert!(hanging.try_join_next().is_none(), "calls within the limit continue");
}

#[tokio::test]
async fn users_share_a_remote_server_unless_it_has_sessions() {
    for (sessions, handshakes) in [(false, 2), (true, 3)] {
        let upstream = ScriptedServer::start(TestEra::Legacy).await;
        if sessions {
            upstream.opens_sessions();
        }
        let users = ServerUsers::of(upstream.entry()).await;
        users.gateway.connected(&["bad"]).await;
        for token in [&users.ann, &users.bob, &users.ann] {
            users.call(token, "bad_take", json!({})).await;
        }
        // The gateway's own connection, and one for all users or one for each.
        assert_eq!(upstream.seen("initialize").len(), handshakes, "sessions: {sessions}");
    }
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let users = ServerUsers::of(upstream.entry()).await;
    users.gateway.connected(&["bad"]).await;
    for token in [&users.ann, &users.bob] {
        users.call(token, "bad_take", json!({})).await;
    }
    assert_eq!(upstream.seen("server/discover").len(), 1, "stateless: one connection for all users");
}

// Ignored signals of the gateway must not be inherited.
#[tokio::test]
async fn server_process_starts_with_default_signals() {
    let home = Home::new(&[("bad", hostile(&["env"]))]);
    let serve = home.command("serve");
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" INT TERM HUP QUIT USR1 CHLD; exec "$0" "$@" 9</dev/null"#]);
    command.arg(serve.get_program()).args(serve.get_args()).env_clear();
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(home.path(""));
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let response = client.call("bad_process", json!({})).await;
    let mut began: Value = serde_json::from_str(response.text()).unwrap();
    // Signals 32 and 33 are reserved by the C library and cannot be changed.
    let ignored = u64::from_str_radix(began["ignored"].as_str().unwrap(), 16).unwrap();
    began["ignored"] = format!("{:016x}", ignored & !(0b11 << 31)).into();
    // Rust programs ignore SIGPIPE by default.
    let expected = json!({ "ignored": "0000000000001000", "blocked": "0000000000000000",
        "descriptors": [0, 1, 2], "leads_group": true });
    assert_eq!(began, expected);
}

#[tokio::test]
async fn unreadable_answer_fails_its_call_at_once() {
    let scene = Scene::new(hostile(&["unreadable"])).await;
    scene.gateway.connected(&["bad"]).await;
    let odd = ["text-id", "fraction-id", "batch", "no-version"];
    for how in ["both", "neither", "version", "nul", "utf8", "no-id"].into_iter().chain(odd) {
        let start = Instant::now();
        let response = scene.client.call("bad_garble", json!({ "how": how })).await;
        assert_eq!(fault(&response), "server.bad-answer", "{how}: {}", response.text());
        assert!(start.elapsed() < Duration::from_secs(5), "{how} took {:?}", start.elapsed());
        assert_eq!(scene.client.call("bad_ok", json!({})).await.text(), "ok", "{how}");
    }
    // The number identifies the call: other calls keep waiting, and the connection stays open.
    for how in odd {
        let waiting = scene.client.call("bad_wait", json!({}));
        tokio::pin!(waiting);
        tokio::select! {
            response = &mut waiting => panic!("{how} is not an answer to this call: {}", response.answer),
            response = scene.client.call("bad_garble", json!({ "how": how })) => {
                assert_eq!(fault(&response), "server.bad-answer", "{how}: {}", response.text());
            }
        }
    }
    // Its call is unknown: both calls fail, and the server is reconnected.
    let start = Instant::now();
    let (waited, garbled) = tokio::join!(scene.client.call("bad_wait", json!({})), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        scene.client.call("bad_garble", json!({ "how": "no-id" })).await
    });
    assert_eq!((fault(&waited), fault(&garbled)), ("server.bad-answer", "server.bad-answer"));
    assert!(start.elapsed() < Duration::from_secs(8), "they took {:?}", start.elapsed());
    scene.bad_recovers().await;
}

#[tokio::test]
async fn unreadable_event_fails_its_call_at_once() {
    let upstream = ScriptedServer::start(TestEra::Legacy).await;
    let scene = Scene::new(upstream.entry()).await;
    scene.gateway.connected(&["bad"]).await;
    let both = format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{{}},"error":{{"code":1,"message":"m"}}}}"#);
    let odd = [
        both,
        format!(r#"{{"jsonrpc":"2.0","id":"{ID}","result":{{}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{ID}.0,"result":{{}}}}"#),
        format!(r#"[{{"jsonrpc":"2.0","id":{ID},"result":{{}}}}]"#),
        format!(r#"{{"id":{ID},"result":{{}}}}"#),
    ];
    for event in odd {
        upstream.answer(ScriptedAnswer::Event(event.clone()));
        let (response, took) = scene.provoke("take", json!({})).await;
        assert_eq!(fault(&response), "server.bad-answer", "{event}: {}", response.text());
        assert!(took < Duration::from_secs(5), "{event} took {took:?}");
    }
}

#[tokio::test]
async fn endless_list_is_truncated_and_reported() {
    let scene = Scene::new(hostile(&["pages-endlessly"])).await;
    scene.gateway.connected(&["bad"]).await;
    let shown = scene.gateway.server("bad").await;
    let found = shown["set_aside"].as_array().unwrap().iter().find(|aside| aside["kind"] == "list");
    let reason = found.unwrap_or_else(|| panic!("{shown}"))["reason"].as_str().unwrap();
    assert!(reason.contains("cut short after 1000 entries"), "{reason}");
    scene.good_is_brisk().await;
}

fn with_secret(home: &Home) -> Command {
    let mut command = home.command("serve");
    command.env("LEAK_SECRET", SECRET).env("TOOLBOOTH_LOG", "debug");
    command
}

// A server that repeats its own `${SECRET}` must not show it in logs or to callers.
#[tokio::test]
async fn repeated_server_secret_is_masked() {
    let mut entry = hostile(&["leaks"]);
    entry["env"] = json!({ "LEAK": "${LEAK_SECRET}" });
    let home = Home::new(&[("bad", entry)]);
    let gateway = Gateway::start(with_secret(&home), &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    for how in ["result", "tool-error", "error"] {
        let response = client.call("bad_leak", json!({ "how": how })).await.answer.to_string();
        assert!(
            response.contains("the key is [redacted].") && !response.contains(SECRET),
            "{how}: {response}"
        );
    }
    let logs = poll(TEST_TIMEOUT, || async {
        let logs = gateway.http().get_json("/servers/bad/logs").await.to_string();
        (logs.contains("connecting with") && logs.contains("using ")).then_some(logs)
    });
    let logs = logs.await.expect("both lines");
    assert!(logs.contains("connecting with [redacted]") && logs.contains("using [redacted]"), "{logs}");
    assert!(!logs.contains(SECRET), "{logs}");
    assert!(!gateway.log().contains(SECRET), "the gateway's own log shows it");
}

#[tokio::test]
async fn plain_word_in_a_variable_is_not_masked_in_results() {
    let mut entry = hostile(&["leaks"]);
    entry["env"] = json!({ "LEAK": "${LEAK_TABLE}" });
    let home = Home::new(&[("bad", entry)]);
    let mut command = with_secret(&home);
    command.env("LEAK_TABLE", "customers");
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let response = client.call("bad_leak", json!({ "how": "result" })).await;
    assert_eq!(response.text(), "the key is customers.");
}

// A server may repeat the gateway's credential in an answer; callers must not see it.
#[tokio::test]
async fn upstream_credential_is_masked_in_server_text() {
    let upstream = ScriptedServer::start(TestEra::Legacy).await;
    let mut entry = upstream.entry();
    entry["headers"] = json!({ "authorization": "Bearer ${LEAK_SECRET}" });
    let home = Home::new(&[("bad", entry)]);
    let gateway = Gateway::start(with_secret(&home), &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let long = "x".repeat(100_000);
    let answers = [
        format!(r#""error":{{"code":-32000,"message":"bad key {SECRET}","data":{{"key":"{SECRET}"}}}}"#),
        format!(r#""result":{{"content":[{{"type":"text","text":"{SECRET}"}}],"isError":true}}"#),
        format!(r#""result":{{"content":[{{"type":"text","text":"{long} {SECRET} {long}"}}]}}"#),
        // Encoders may escape any character.
        format!(r#""result":{{"content":[{{"type":"text","text":"{ESCAPED_SECRET}"}}]}}"#),
        format!(r#""result":{{"content":[{{"type":"text","text":"{long} {ESCAPED_SECRET} {long}"}}]}}"#),
    ];
    for answer in answers {
        upstream.answer(ScriptedAnswer::Body(format!(r#"{{"jsonrpc":"2.0","id":{ID},{answer}}}"#)));
        let response = client.call("bad_take", json!({})).await.answer.to_string();
        assert!(!response.contains(SECRET), "{}", response.replace(&long, "…"));
    }
    upstream.answer(ScriptedAnswer::result(r#"{"content":[{"type":"text","text":"nothing to hide"}]}"#));
    assert_eq!(client.call("bad_take", json!({})).await.text(), "nothing to hide");
}

// The error of a failing server contains its command.
#[tokio::test]
async fn commands_are_shown_to_administrators_only() {
    let users = ServerUsers::of(json!({ "command": "/opt/hidden/place/server" })).await;
    users.gateway.wait_for_state("bad", "error").await;
    assert!(users.gateway.server("bad").await.to_string().contains("/opt/hidden/place"));
    let http = Http::new(users.gateway.address).sending(&bearer(&users.ann));
    for path in ["/servers", "/servers/bad"] {
        let shown = http.get_json(path).await.to_string();
        assert!(shown.contains("\"error\"") && !shown.contains("/opt/hidden"), "{path}: {shown}");
    }
}

#[tokio::test]
async fn unsolicited_answers_are_counted_and_logged_once() {
    let scene = Scene::new(hostile(&["id-confusion"])).await;
    scene.gateway.connected(&["bad"]).await;
    for nonce in ["a", "b"] {
        let response = scene.client.call("bad_confuse", json!({ "nonce": nonce })).await;
        assert_eq!(response.text(), format!("right {nonce}"));
    }
    let counted = poll(TEST_TIMEOUT, || async {
        let reply = scene.gateway.http().send(Method::GET, "/metrics", &[], "").await;
        let page = String::from_utf8(reply.bytes().await.to_vec()).unwrap();
        let line = page.lines().find(|line| line.starts_with("toolbooth_unsolicited_answers_total"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok().filter(|count| *count >= 10.0)
    });
    assert!(counted.await.is_some(), "{}", scene.gateway.log());
    assert_eq!(scene.gateway.log().matches("an unsolicited answer").count(), 1);
}

// Otherwise such a server would keep its call open forever.
#[tokio::test]
async fn endless_questions_end_the_call() {
    let scene = Scene::new(hostile(&["asks"])).await;
    scene.gateway.connected(&["bad"]).await;
    let client = TestClient::of(TestEra::Legacy, scene.gateway.address).await;
    let response = client.call("bad_interrogate", json!({})).await;
    assert_eq!(fault(&response), "server.asked-too-much", "{}", response.text());
    assert_eq!(response.questions.len(), 100);
    // The server was notified, and the next call can ask again.
    let response = client.call("bad_ask_name", json!({})).await;
    assert!(!response.is_error(), "{}", response.answer);
    assert_eq!(response.questions.len(), 1);
}

/// A server that sends answers before the requests arrive.
const ANSWERS_EARLY: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"tools/call"'*)
      for next in 1 2 3; do printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"too early"}]}}\n' $((id + next)); done
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"in time"}]}}\n' "$id" ;;
  esac
done"#;

// Ids on shared processes are sequential. Guessing one has no effect: an answer is accepted only while its
// request waits, and only the server itself can send one.
#[tokio::test]
async fn guessed_request_id_has_no_effect() {
    let scene = Scene::new(shell(ANSWERS_EARLY)).await;
    scene.gateway.connected(&["bad"]).await;
    for _ in 0..4 {
        assert_eq!(scene.client.call("bad_say", json!({})).await.text(), "in time");
    }
}

/// A server with a prompt that it never returns.
const HANGS_ON_PROMPTS: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"prompts/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"prompts":[{"name":"slow"}]}}\n' "$id" ;;
  esac
done"#;

// Resources and completions have the same limits.
#[tokio::test]
async fn prompts_have_a_deadline_and_an_audit_row() {
    let mut entry = shell(HANGS_ON_PROMPTS);
    entry["timeout"] = json!(1);
    let scene = Scene::new(entry).await;
    scene.gateway.connected(&["bad"]).await;
    let start = Instant::now();
    let response = scene.client.ask("prompts/get", json!({ "name": "bad_slow" })).await;
    assert!(response.answer.to_string().contains("call.timeout"), "{}", response.answer);
    assert!(start.elapsed() < Duration::from_secs(10), "it took {:?}", start.elapsed());
    let row = poll(TEST_TIMEOUT, || async {
        let rows = scene.gateway.http().get_json("/audit?limit=50").await.to_string();
        (rows.contains("prompts/get") && rows.contains("call.timeout")).then_some(())
    });
    assert!(row.await.is_some(), "{}", scene.gateway.http().get_json("/audit?limit=50").await);
    assert!(processes::peak_mib(scene.gateway.pid()) < MOST_MEMORY_MIB);
}
