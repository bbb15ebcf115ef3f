//! Servers are strangers: endless requests, lists and repetitions, and unreadable answers affect no one else.

use crate::known::{bearer, make_token, settings};
use crate::scene::{MOST_MEMORY_MIB, Scene, fault};
use ::http::Method;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::home::{hostile, shell};
use toolbooth_testkit::world::upstream::{Answer, ID};
use toolbooth_testkit::world::{Client, Gateway, Home, Http, PATIENCE, Upstream, eyes, poll};

/// What servers are given and must not repeat.
const SECRET: &str = "correct-horse-battery";
/// The same in a JSON string of an encoder that escapes more than it must.
const ESCAPED_SECRET: &str = r"\u0063orrect\u002dhorse-battery";

// H4
#[tokio::test]
async fn a_server_that_asks_without_end_loses_its_connection_alone() {
    let scene = Scene::new(hostile(&["asks-endlessly"])).await;
    scene.gateway.connected(&["bad"]).await;
    let reply = scene.gateway.http().send(Method::GET, "/events?types=server.error", &[], "").await;
    let mut events = reply.events();
    // Memory and the good server are looked at there.
    let (told, took) = scene.provoke("flood", json!({})).await;
    assert_eq!(fault(&told), "server.flood", "{}", told.text());
    assert!(told.text().contains("requests"), "it says why: {}", told.text());
    assert!(took < Duration::from_secs(10), "it took {took:?}");
    let event = events.next_within(PATIENCE).await.expect("an event");
    assert_eq!(event["server"], "bad", "{event}");
    assert!(scene.gateway.log().contains("is disconnected: it sent more than"), "{}", scene.gateway.log());
    scene.bad_recovers().await;
}

// H4: over HTTP each answer is a POST, and each POST takes a descriptor.
#[tokio::test]
async fn a_flood_of_requests_over_http_takes_no_descriptors() {
    let upstream = Upstream::start(Era::Legacy).await;
    let scene = Scene::new(upstream.entry()).await;
    scene.gateway.connected(&["bad"]).await;
    let before = eyes::open_files(scene.gateway.pid());
    let ping =
        |number: u32| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":\"p{number}\",\"method\":\"ping\"}}\n\n");
    let body: String = (0..3000).map(ping).collect();
    upstream.answer(Answer::Raw { status: 200, kind: "text/event-stream".into(), body });
    let (told, _) = scene.provoke("take", json!({})).await;
    assert_eq!(fault(&told), "server.flood", "{}", told.text());
    let now = eyes::open_files(scene.gateway.pid());
    assert!(now < before + 40, "{before} descriptors before, {now} now");
    upstream.answer(Answer::result(r#"{"content":[{"type":"text","text":"well again"}]}"#));
    let well = poll(PATIENCE, || async {
        let told = scene.client.call("bad_take", json!({})).await;
        (told.answer["result"]["content"][0]["text"] == "well again").then_some(())
    });
    assert!(well.await.is_some(), "{}", scene.gateway.server("bad").await);
}

/// A gateway that knows its callers, with one server, and tokens for an administrator, ann and bob.
struct Users {
    _home: Home,
    gateway: Gateway,
    ann: String,
    bob: String,
}

impl Users {
    async fn of(server: Value) -> Self {
        let home = Home::with_settings(settings(), &[("bad", server)]);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let mut gateway = home.start().await;
        gateway.showing = bearer(&root);
        let by = Some(root.as_str());
        let (ann, _) = make_token(&home, by, "ann", &[]);
        let (bob, _) = make_token(&home, by, "bob", &[]);
        Self { _home: home, gateway, ann, bob }
    }

    async fn call(&self, token: &str, tool: &str, capabilities: Value) -> String {
        let address = self.gateway.address;
        let client = Client::showing("2025-11-25", address, "/mcp", &bearer(token), capabilities).await;
        client.call(tool, json!({})).await.answer.to_string()
    }

    fn processes(&self) -> usize {
        eyes::children(self.gateway.pid()).living.len()
    }
}

// M5: 258 variants of capabilities started 256 processes.
#[tokio::test]
async fn spellings_of_client_capabilities_start_no_more_processes() {
    let users = Users::of(hostile(&["echo"])).await;
    users.gateway.connected(&["bad"]).await;
    for number in 0..12 {
        let capabilities = json!({ "roots": { "n": number }, format!("x{number}"): {} });
        let told = users.call(&users.ann, "bad_ok", capabilities).await;
        assert!(told.contains("\"ok\""), "{told}");
    }
    // The gateway's own and ann's.
    assert!(users.processes() <= 2, "{} processes", users.processes());
}

// M5
#[tokio::test]
async fn a_user_has_a_share_of_a_servers_processes_and_others_have_theirs() {
    let mut entry = hostile(&["never-answers"]);
    entry["share"] = json!("session");
    let users = Users::of(entry).await;
    users.gateway.connected(&["bad"]).await;
    let call = |token: String, session: String, tool: &'static str| {
        let http = Http::new(users.gateway.address).sending(&bearer(&token));
        async move {
            let body = json!({ "arguments": {}, "session": session }).to_string();
            http.post_json(&format!("/tools/bad_{tool}/call"), &body).await.1.to_string()
        }
    };
    // Idle connections make room: many conversations in turn are served with a bounded number of processes.
    for number in 0..40 {
        let told = call(users.ann.clone(), format!("s{number}"), "ok").await;
        assert!(told.contains("ok") && !told.contains("server.busy"), "{number}: {told}");
    }
    let bounded =
        poll(PATIENCE, || async { (eyes::children(users.gateway.pid()).living.len() <= 34).then_some(()) });
    assert!(bounded.await.is_some(), "{:?}", eyes::children(users.gateway.pid()));
    // Those in use do not: of 40 calls that are never answered, 32 wait and the others are refused.
    let mut hanging = tokio::task::JoinSet::new();
    for number in 0..40 {
        hanging.spawn(call(users.ann.clone(), format!("s{number}"), "hang"));
    }
    for _ in 32..40 {
        let told = hanging.join_next().await.expect("a call").expect("an answer in time");
        assert!(told.contains("server.busy") && told.contains("your share"), "{told}");
    }
    let told = call(users.bob.clone(), "mine".to_owned(), "ok").await;
    assert!(!told.contains("server.busy") && told.contains("ok"), "{told}");
    assert_eq!(hanging.len(), 32);
    assert!(hanging.try_join_next().is_none(), "those within the share go on");
}

#[tokio::test]
async fn users_share_a_remote_server_unless_it_has_sessions() {
    for (sessions, handshakes) in [(false, 2), (true, 3)] {
        let upstream = Upstream::start(Era::Legacy).await;
        if sessions {
            upstream.opens_sessions();
        }
        let users = Users::of(upstream.entry()).await;
        users.gateway.connected(&["bad"]).await;
        for token in [&users.ann, &users.bob, &users.ann] {
            users.call(token, "bad_take", json!({})).await;
        }
        // The gateway's own connection, and one for all or one for each.
        assert_eq!(upstream.seen("initialize").len(), handshakes, "sessions: {sessions}");
    }
    let upstream = Upstream::start(Era::Modern).await;
    let users = Users::of(upstream.entry()).await;
    users.gateway.connected(&["bad"]).await;
    for token in [&users.ann, &users.bob] {
        users.call(token, "bad_take", json!({})).await;
    }
    assert_eq!(upstream.seen("server/discover").len(), 1, "stateless: one for all");
}

// Audit: a gateway started with signals ignored passed that on.
#[tokio::test]
async fn a_server_process_starts_with_default_signals() {
    let home = Home::new(&[("bad", hostile(&["env"]))]);
    let serve = home.command("serve");
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" INT TERM HUP QUIT USR1 CHLD; exec "$0" "$@" 9</dev/null"#]);
    command.arg(serve.get_program()).args(serve.get_args()).env_clear();
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(home.path(""));
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = Client::of(Era::Modern, gateway.address).await;
    let told = client.call("bad_process", json!({})).await;
    let mut began: Value = serde_json::from_str(told.text()).unwrap();
    // Signals 32 and 33 are the C library's own; it lets no program change them.
    let ignored = u64::from_str_radix(began["ignored"].as_str().unwrap(), 16).unwrap();
    began["ignored"] = format!("{:016x}", ignored & !(0b11 << 31)).into();
    // A Rust program ignores SIGPIPE by itself.
    let expected = json!({ "ignored": "0000000000001000", "blocked": "0000000000000000",
        "descriptors": [0, 1, 2], "leads_group": true });
    assert_eq!(began, expected);
}

// Audit: unreadable answers became time-outs.
#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_call_at_once() {
    let scene = Scene::new(hostile(&["unreadable"])).await;
    scene.gateway.connected(&["bad"]).await;
    let odd = ["text-id", "fraction-id", "batch", "no-version"];
    for how in ["both", "neither", "version", "nul", "utf8", "no-id"].into_iter().chain(odd) {
        let start = Instant::now();
        let told = scene.client.call("bad_garble", json!({ "how": how })).await;
        assert_eq!(fault(&told), "server.bad-answer", "{how}: {}", told.text());
        assert!(start.elapsed() < Duration::from_secs(5), "{how} took {:?}", start.elapsed());
        assert_eq!(scene.client.call("bad_ok", json!({})).await.text(), "ok", "{how}");
    }
    // The number tells whose answer it is: a call beside it goes on waiting, and the connection stays.
    for how in odd {
        let waiting = scene.client.call("bad_wait", json!({}));
        tokio::pin!(waiting);
        tokio::select! {
            told = &mut waiting => panic!("{how} is not an answer to this call: {}", told.answer),
            told = scene.client.call("bad_garble", json!({ "how": how })) => {
                assert_eq!(fault(&told), "server.bad-answer", "{how}: {}", told.text());
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
async fn an_event_that_cannot_be_read_fails_its_call_at_once() {
    let upstream = Upstream::start(Era::Legacy).await;
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
        upstream.answer(Answer::Event(event.clone()));
        let (told, took) = scene.provoke("take", json!({})).await;
        assert_eq!(fault(&told), "server.bad-answer", "{event}: {}", told.text());
        assert!(took < Duration::from_secs(5), "{event} took {took:?}");
    }
}

// Audit: endless paging was not shown as cut short.
#[tokio::test]
async fn an_endless_list_is_truncated_and_reported() {
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

// Audit: a server that repeats its own `${SECRET}` showed it in logs and to callers.
#[tokio::test]
async fn a_servers_own_secret_is_masked_wherever_it_repeats_it() {
    let mut entry = hostile(&["leaks"]);
    entry["env"] = json!({ "LEAK": "${LEAK_SECRET}" });
    let home = Home::new(&[("bad", entry)]);
    let gateway = Gateway::start(with_secret(&home), &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = Client::of(Era::Modern, gateway.address).await;
    for how in ["result", "tool-error", "error"] {
        let told = client.call("bad_leak", json!({ "how": how })).await.answer.to_string();
        assert!(told.contains("the key is [redacted].") && !told.contains(SECRET), "{how}: {told}");
    }
    let logs = poll(PATIENCE, || async {
        let logs = gateway.http().get_json("/servers/bad/logs").await.to_string();
        (logs.contains("connecting with") && logs.contains("using ")).then_some(logs)
    });
    let logs = logs.await.expect("both lines");
    assert!(logs.contains("connecting with [redacted]") && logs.contains("using [redacted]"), "{logs}");
    assert!(!logs.contains(SECRET), "{logs}");
    assert!(!gateway.log().contains(SECRET), "the gateway's own log shows it");
}

// Audit: the value of every variable was masked in results, also where it is a plain word.
#[tokio::test]
async fn a_plain_word_that_a_variable_stands_for_is_not_masked_in_results() {
    let mut entry = hostile(&["leaks"]);
    entry["env"] = json!({ "LEAK": "${LEAK_TABLE}" });
    let home = Home::new(&[("bad", entry)]);
    let mut command = with_secret(&home);
    command.env("LEAK_TABLE", "customers");
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = Client::of(Era::Modern, gateway.address).await;
    let told = client.call("bad_leak", json!({ "how": "result" })).await;
    assert_eq!(told.text(), "the key is customers.");
}

// Audit: the gateway's own upstream credential, repeated in an answer, reached callers.
#[tokio::test]
async fn the_gateways_own_credential_is_masked_in_server_text() {
    let upstream = Upstream::start(Era::Legacy).await;
    let mut entry = upstream.entry();
    entry["headers"] = json!({ "authorization": "Bearer ${LEAK_SECRET}" });
    let home = Home::new(&[("bad", entry)]);
    let gateway = Gateway::start(with_secret(&home), &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = Client::of(Era::Modern, gateway.address).await;
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
        upstream.answer(Answer::Body(format!(r#"{{"jsonrpc":"2.0","id":{ID},{answer}}}"#)));
        let told = client.call("bad_take", json!({})).await.answer.to_string();
        assert!(!told.contains(SECRET), "{}", told.replace(&long, "…"));
    }
    upstream.answer(Answer::result(r#"{"content":[{"type":"text","text":"nothing to hide"}]}"#));
    assert_eq!(client.call("bad_take", json!({})).await.text(), "nothing to hide");
}

// Audit: guests saw the command path of a failing server.
#[tokio::test]
async fn commands_are_shown_to_administrators_only() {
    let users = Users::of(json!({ "command": "/opt/hidden/place/server" })).await;
    users.gateway.reaches("bad", "error").await;
    assert!(users.gateway.server("bad").await.to_string().contains("/opt/hidden/place"));
    let http = Http::new(users.gateway.address).sending(&bearer(&users.ann));
    for path in ["/servers", "/servers/bad"] {
        let shown = http.get_json(path).await.to_string();
        assert!(shown.contains("\"error\"") && !shown.contains("/opt/hidden"), "{path}: {shown}");
    }
}

// Audit: unsolicited and second answers were not counted.
#[tokio::test]
async fn unsolicited_answers_are_counted_and_logged_once() {
    let scene = Scene::new(hostile(&["id-confusion"])).await;
    scene.gateway.connected(&["bad"]).await;
    for nonce in ["a", "b"] {
        let told = scene.client.call("bad_confuse", json!({ "nonce": nonce })).await;
        assert_eq!(told.text(), format!("right {nonce}"));
    }
    let counted = poll(PATIENCE, || async {
        let reply = scene.gateway.http().send(Method::GET, "/metrics", &[], "").await;
        let page = String::from_utf8(reply.bytes().await.to_vec()).unwrap();
        let line = page.lines().find(|line| line.starts_with("toolbooth_unsolicited_answers_total"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok().filter(|count| *count >= 10.0)
    });
    assert!(counted.await.is_some(), "{}", scene.gateway.log());
    assert_eq!(scene.gateway.log().matches("an unsolicited answer").count(), 1);
}

// Audit: a server that asked one question after another held its call for ever.
#[tokio::test]
async fn a_server_that_asks_one_question_after_another_loses_its_call() {
    let scene = Scene::new(hostile(&["asks"])).await;
    scene.gateway.connected(&["bad"]).await;
    let client = Client::of(Era::Legacy, scene.gateway.address).await;
    let told = client.call("bad_interrogate", json!({})).await;
    assert_eq!(fault(&told), "server.asked-too-much", "{}", told.text());
    assert_eq!(told.questions.len(), 100);
    // The server was told, and the next call may ask again.
    let told = client.call("bad_ask_name", json!({})).await;
    assert!(!told.is_error(), "{}", told.answer);
    assert_eq!(told.questions.len(), 1);
}

/// A server that answers the requests it expects before they come.
const FORESEES: &str = r#"
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

// Audit: ids on shared processes are sequential. Guessing one gains nothing: an answer counts only while its
// request waits, and only the server itself can send one.
#[tokio::test]
async fn a_guessed_request_id_has_no_effect() {
    let scene = Scene::new(shell(FORESEES)).await;
    scene.gateway.connected(&["bad"]).await;
    for _ in 0..4 {
        assert_eq!(scene.client.call("bad_say", json!({})).await.text(), "in time");
    }
}

/// A server with a prompt that it never hands out.
const KEEPS_PROMPTS: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"prompts/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"prompts":[{"name":"slow"}]}}\n' "$id" ;;
  esac
done"#;

// Audit: prompts, resources and completions waited for an hour and left no row in the audit.
#[tokio::test]
async fn a_prompt_is_under_the_servers_deadline_and_in_the_audit() {
    let mut entry = shell(KEEPS_PROMPTS);
    entry["timeout"] = json!(1);
    let scene = Scene::new(entry).await;
    scene.gateway.connected(&["bad"]).await;
    let start = Instant::now();
    let told = scene.client.ask("prompts/get", json!({ "name": "bad_slow" })).await;
    assert!(told.answer.to_string().contains("call.timeout"), "{}", told.answer);
    assert!(start.elapsed() < Duration::from_secs(10), "it took {:?}", start.elapsed());
    let row = poll(PATIENCE, || async {
        let rows = scene.gateway.http().get_json("/audit?limit=50").await.to_string();
        (rows.contains("prompts/get") && rows.contains("call.timeout")).then_some(())
    });
    assert!(row.await.is_some(), "{}", scene.gateway.http().get_json("/audit?limit=50").await);
    assert!(eyes::peak_mib(scene.gateway.pid()) < MOST_MEMORY_MIB);
}
