//! Hostile servers harm only themselves: beside each stands a good one that must not notice.

use crate::scene::{BRISK, MOST_MEMORY_MIB, Scene, fault};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::client::everything;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile, quoted, shell};
use toolbooth_testkit::world::{Client, Gateway, Home, PATIENCE, Upstream, binaries, eyes, poll, token};

#[tokio::test]
async fn a_server_that_writes_garbage_is_understood() {
    let scene = Scene::new(hostile(&["garbage"])).await;
    scene.gateway.connected(&["bad"]).await;
    for number in 0..6 {
        let (told, _) = scene.provoke("echo", json!({ "number": number, "text": "é\n" })).await;
        assert_eq!(told.result()["structuredContent"], json!({ "number": number, "text": "é\n" }));
    }
}

#[tokio::test]
async fn a_server_that_dies_fails_its_call_at_once_and_comes_back() {
    let scene = Scene::new(hostile(&["dies"])).await;
    scene.gateway.connected(&["bad"]).await;
    for _ in 0..2 {
        let (told, took) = scene.provoke("die", json!({})).await;
        assert_eq!(fault(&told), "server.lost");
        assert!(
            told.text().contains("exit code 3") || told.text().contains('3'),
            "it says how: {}",
            told.text()
        );
        assert!(took < Duration::from_secs(3), "the pending call waited {took:?}");
        scene.bad_recovers().await;
    }
}

#[tokio::test]
async fn a_call_that_is_never_answered_ends_in_time() {
    let mut entry = hostile(&["never-answers"]);
    entry["timeout"] = json!(1);
    let scene = Scene::new(entry).await;
    scene.gateway.connected(&["bad"]).await;
    let (told, took) = scene.provoke("hang", json!({})).await;
    assert_eq!(fault(&told), "call.timeout");
    assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&took), "it took {took:?}");
    assert_eq!(scene.client.call("bad_ok", json!({})).await.text(), "ok", "others are still answered");
}

#[tokio::test]
async fn a_server_that_stops_reading_fails_in_time_and_holds_nobody_up() {
    let mut entry = hostile(&["stops-reading"]);
    entry["timeout"] = json!(1);
    let scene = Scene::new(entry).await;
    scene.gateway.connected(&["bad"]).await;
    let long = "x".repeat(256 * 1024);
    let calls = (0..40).map(|_| scene.client.call("bad_ok", json!({ "long": long })));
    let start = Instant::now();
    let (told, ()) = tokio::join!(futures_util::future::join_all(calls), scene.good_is_brisk());
    assert!(start.elapsed() < Duration::from_secs(15), "they took {:?}", start.elapsed());
    for told in &told {
        assert!(
            matches!(fault(told), "call.timeout" | "server.busy" | "server.lost" | "server.not-connected"),
            "{}",
            told.fault()
        );
    }
    let held = eyes::peak_mib(scene.gateway.pid());
    assert!(held < MOST_MEMORY_MIB, "the gateway held {held} MiB");
}

#[tokio::test]
async fn a_silent_server_delays_nobody() {
    let start = Instant::now();
    let mut entry = hostile(&["silent"]);
    entry["connect_timeout"] = json!(3);
    let scene = Scene::new(entry).await;
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "the good server was there after {:?}",
        start.elapsed()
    );
    scene.good_is_brisk().await;
    let told = scene.client.call("bad_ok", json!({})).await;
    assert_eq!(told.code(), Some(-32602), "what was never listed is unknown: {}", told.answer);
    scene.gateway.reaches("bad", "error").await;
    let shown = scene.gateway.server("bad").await;
    assert_eq!(shown["reason"], "server `bad` did not finish the handshake within 3 s", "{shown}");
    assert_eq!(shown["code"], "server.start-timeout", "{shown}");
    assert!(shown["hint"].as_str().unwrap().contains("connect_timeout"), "{shown}");
    assert!(shown["retry_in_seconds"].is_u64(), "{shown}");
}

/// A server that ends before it is connected has broken no call, and says itself why it ended.
#[tokio::test]
async fn a_server_that_ends_at_once_is_quoted() {
    let scene = Scene::new(shell("echo 'no module named nope' >&2; exit 7")).await;
    scene.gateway.reaches("bad", "error").await;
    let shown = scene.gateway.server("bad").await;
    let reason = "server `bad` failed during start-up: its process ended (exited with code 7)";
    assert_eq!(
        (&shown["code"], &shown["reason"]),
        (&json!("server.start-failed"), &json!(reason)),
        "{shown}"
    );
    assert!(shown["hint"].as_str().unwrap().contains("no module named nope"), "{shown}");
    scene.good_is_brisk().await;
}

#[tokio::test]
async fn a_slow_server_joins_late_and_delays_nobody() {
    // Longer than a first list waits.
    let scene = Scene::new(hostile(&["slow-start", "6000"])).await;
    let mut changes = scene.client.listen(&[]).await;
    let (names, ()) = tokio::join!(scene.client.names("tools/list", "tools"), scene.good_is_brisk());
    assert_eq!(names, ["good_echo", "good_ok"]);
    changes.wait_for("notifications/tools/list_changed", PATIENCE).await.expect("a notice");
    let names = scene.client.names("tools/list", "tools").await;
    assert_eq!(names, ["bad_echo", "bad_ok", "good_echo", "good_ok"]);
}

#[tokio::test]
async fn a_flood_on_standard_error_is_drained_and_bounded() {
    let scene = Scene::new(hostile(&["stderr-flood", "8"])).await;
    scene.gateway.connected(&["bad"]).await;
    let (told, _) = scene.provoke("flood", json!({ "mib": 8 })).await;
    assert_eq!(told.text(), "flooded");
    let logs = scene.gateway.http().get_json("/servers/bad/logs").await;
    let lines = logs["lines"].as_array().unwrap();
    assert!(lines.len() <= 200 && !lines.is_empty(), "{} lines are kept", lines.len());
    assert!(logs["total"].as_u64().unwrap() > 100_000, "all were counted: {}", logs["total"]);
    assert!(!lines.iter().any(|line| line.to_string().contains("\\u001b")), "no escape sequence is kept");
}

#[tokio::test]
async fn ten_thousand_tools_are_listed_and_the_unreadable_ones_set_aside() {
    let mut entry = hostile(&["many-tools", "10000"]);
    entry["connect_timeout"] = json!(60);
    let scene = Scene::with_settings(json!({ "exposure": { "mode": "full" } }), entry).await;
    scene.gateway.connected(&["bad"]).await;
    let names = poll(Duration::from_secs(10), || async {
        let names = scene.client.names("tools/list", "tools").await;
        (names.len() > 2).then_some(names)
    });
    let names = names.await.expect("the list of the bad server");
    assert_eq!(names.iter().filter(|name| name.starts_with("bad_tool_")).count(), 10_000);
    assert_eq!(names.len(), 10_002, "and nothing else");
    let (told, _) = scene.provoke("tool_9999", json!({ "value": "x" })).await;
    assert_eq!(told.text(), "tool_9999");
    let shown = scene.gateway.server("bad").await;
    assert_eq!(shown["set_aside"].as_array().unwrap().len(), 7, "{}", shown["set_aside"]);
    for aside in shown["set_aside"].as_array().unwrap() {
        assert!(!aside["reason"].as_str().unwrap().is_empty(), "{aside}");
    }
}

/// `connected` promises handshake and tool list.
#[tokio::test]
async fn a_connected_server_is_listed() {
    let mut entry = hostile(&["many-tools", "5000"]);
    entry["connect_timeout"] = json!(60);
    let scene = Scene::with_settings(json!({ "exposure": { "mode": "full" } }), entry).await;
    scene.gateway.connected(&["bad"]).await;
    assert_eq!(scene.client.names("tools/list", "tools").await.len(), 5002);
}

/// A call that takes long holds up neither the other servers nor its own.
async fn quick_behind_slow(era: &str, capabilities: Value) {
    let mut scene = Scene::new(fixture_on_stdio(era)).await;
    scene.gateway.connected(&["bad"]).await;
    scene.client = Client::with_capabilities(Era::Modern, scene.gateway.address, capabilities).await;
    let slow = scene.client.call("bad_slow", json!({ "ms": 4000, "steps": 1 }));
    let quick = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let start = Instant::now();
        assert_eq!(scene.client.call("bad_add", json!({ "a": 1, "b": 2 })).await.text(), "3");
        start.elapsed()
    };
    let (slow, took, ()) = tokio::join!(slow, quick, scene.good_is_brisk());
    assert_eq!(slow.text(), "Done in 1 steps.");
    assert!(took < BRISK, "{era}: a quick call waited {took:?} behind a slow one");
}

#[tokio::test]
async fn a_slow_call_holds_nobody_up() {
    tokio::join!(
        quick_behind_slow("legacy", json!({})),
        quick_behind_slow("legacy", everything()),
        quick_behind_slow("modern", everything()),
    );
}

#[tokio::test]
async fn a_thousand_calls_through_confused_ids_come_to_their_callers() {
    let scene = Scene::new(hostile(&["id-confusion"])).await;
    scene.gateway.connected(&["bad"]).await;
    let callers = (0..16).map(|caller| {
        let client = scene.client.clone();
        async move {
            for number in 0..63 {
                let nonce = format!("{caller}-{number}");
                let told = client.call("bad_confuse", json!({ "nonce": nonce })).await;
                assert_eq!(told.text(), format!("right {nonce}"));
            }
        }
    });
    tokio::join!(futures_util::future::join_all(callers), scene.good_is_brisk());
}

#[tokio::test]
async fn a_huge_line_within_the_limit_arrives_whole() {
    let any_length = json!({ "limits": { "result_tokens": 0 } });
    let scene = Scene::with_settings(any_length, hostile(&["huge-line"])).await;
    scene.gateway.connected(&["bad"]).await;
    for id_last in [false, true] {
        let (told, _) = scene.provoke("huge", json!({ "mib": 20, "id_last": id_last })).await;
        assert_eq!(told.text().len(), 20 * 1024 * 1024);
    }
}

#[tokio::test]
async fn a_line_over_the_limit_is_an_error_at_once() {
    let settings = json!({ "limits": { "upstream_bytes": 1024 * 1024 } });
    let scene = Scene::with_settings(settings, hostile(&["huge-line"])).await;
    scene.gateway.connected(&["bad"]).await;
    for (mib, id_last) in [(2, false), (2, true), (64, false), (64, true)] {
        let (told, took) = scene.provoke("huge", json!({ "mib": mib, "id_last": id_last })).await;
        assert_eq!(fault(&told), "server.answer-too-large", "{mib} MiB");
        assert!(told.text().contains("limits.upstream_bytes"), "it says what to do: {}", told.text());
        assert!(took < Duration::from_secs(10), "{mib} MiB took {took:?}");
        assert_eq!(scene.client.call("bad_ok", json!({})).await.text(), "ok", "the connection is kept");
    }
    assert_eq!(scene.gateway.server("bad").await["state"], "connected");
}

/// One long answer over the limit fails its own caller, not those who wait beside it.
#[tokio::test]
async fn an_answer_over_the_limit_fails_its_own_caller_only() {
    let settings = json!({ "limits": { "upstream_bytes": 1024 * 1024 } });
    let scene = Scene::with_settings(settings, hostile(&["huge-line"])).await;
    scene.gateway.connected(&["bad"]).await;
    for id_last in [false, true] {
        let huge = scene.client.call("bad_huge", json!({ "mib": 2, "id_last": id_last }));
        let beside = (0..8).map(|_| scene.client.call("bad_ok", json!({})));
        let (huge, beside) = tokio::join!(huge, futures_util::future::join_all(beside));
        assert_eq!(fault(&huge), "server.answer-too-large");
        for told in beside {
            assert_eq!(told.text(), "ok", "id last: {id_last}");
        }
    }
}

#[tokio::test]
async fn a_storm_of_notices_is_one_look_and_no_notice() {
    let home = Home::new(&[]);
    let seen = home.path("requests");
    let script = format!("tee {} | {} storm", quoted(&seen), quoted(&binaries::hostile()));
    home.configure(json!({}), &[("bad", shell(&script)), ("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["bad", "good"]).await;
    let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
    let scene = Scene { _home: home, gateway, client };
    let looks = || std::fs::read_to_string(&seen).unwrap_or_default().matches(r#""tools/list""#).count();
    let before = looks();
    let mut changes = scene.client.listen(&[]).await;
    let (told, _) = scene.provoke("storm", json!({ "count": 5000 })).await;
    assert_eq!(told.text(), "the storm is over");
    let looked = poll(Duration::from_secs(5), || async { (looks() > before).then_some(()) });
    looked.await.expect("the gateway looks once it is quiet");
    let heard = changes.gather(Duration::from_millis(700)).await;
    assert!(looks() - before <= 3, "the gateway looked {} times", looks() - before);
    assert_eq!(heard, Vec::<Value>::new(), "nothing has changed, so nobody is told");
}

#[tokio::test]
async fn a_storm_of_real_changes_is_few_looks_and_few_notices() {
    for era in [Era::Legacy, Era::Modern] {
        let upstream = Upstream::start(era).await;
        let mut looks = 0;
        upstream.list_by(move || {
            looks += 1;
            format!(r#"[{{"name":"look_{looks}","inputSchema":{{"type":"object"}}}}]"#)
        });
        let scene = Scene::new(upstream.entry()).await;
        scene.gateway.connected(&["bad"]).await;
        poll(PATIENCE, || async { upstream.is_heard().then_some(()) }).await.expect("the gateway listens");
        let mut changes = scene.client.listen(&[]).await;
        let before = upstream.seen("tools/list").len();
        for _ in 0..5000 {
            upstream.announce("notifications/tools/list_changed");
        }
        changes.wait_for("notifications/tools/list_changed", PATIENCE).await.expect("a notice");
        scene.good_is_brisk().await;
        let more = changes.gather(Duration::from_millis(700)).await.len();
        let looked = upstream.seen("tools/list").len() - before;
        assert!(looked <= 3 && more < 3, "{era:?}: {looked} looks, {} notices", more + 1);
        let last = format!("bad_look_{}", before + looked);
        assert!(scene.client.names("tools/list", "tools").await.contains(&last), "the newest list is shown");
    }
}

/// A question that belongs to no call is answered by the gateway, never handed to the next caller.
#[tokio::test]
async fn questions_out_of_nowhere_reach_nobody() {
    let settings = json!({ "roots": ["file:///from/the/configuration"] });
    let scene = Scene::with_settings(settings, hostile(&["asks", "roots"])).await;
    scene.gateway.connected(&["bad"]).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = Client::of(era, scene.gateway.address).await;
        for _ in 0..3 {
            let told = client.call("bad_ok", json!({})).await;
            assert_eq!((told.text(), told.questions.len()), ("ok", 0), "{:?}", told.questions);
        }
        let told = client.call("bad_roots", json!({})).await;
        assert!(
            told.text().contains("file:///home/ann"),
            "a call's own question goes to its client: {}",
            told.text()
        );
    }
    scene.good_is_brisk().await;
}

/// On stdio nothing links a question to its call, so nobody else's call may be under way meanwhile.
#[tokio::test]
async fn two_who_are_asked_at_once_get_their_own_questions() {
    let scene = Scene::new(hostile(&["asks"])).await;
    scene.gateway.connected(&["bad"]).await;
    let person = async |era: Era, name: &'static str| {
        let client = Client::of(era, scene.gateway.address).await;
        let client = client.answering(move |_, _| json!({ "action": "accept", "content": { "name": name } }));
        for _ in 0..5 {
            let told = client.call("bad_ask_name", json!({})).await;
            assert!(told.text().contains(name), "{name} got {}", told.text());
            assert_eq!(told.questions.len(), 1);
        }
    };
    tokio::join!(
        person(Era::Legacy, "Ann"),
        person(Era::Modern, "Bob"),
        person(Era::Legacy, "Cem"),
        person(Era::Modern, "Dai"),
    );
}

#[tokio::test]
async fn a_server_gets_a_clean_environment() {
    let mut entry = hostile(&["env"]);
    entry["env"] = json!({ "GIVEN": "yes" });
    let home = Home::new(&[("bad", entry)]);
    let mut command = home.command("serve");
    command.env("SECRET_OF_THE_HOST", "hush").env("AWS_SECRET_ACCESS_KEY", "hush");
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
    let told = client.call("bad_env", json!({})).await;
    let seen: serde_json::Map<String, Value> = serde_json::from_str(told.text()).unwrap();
    assert_eq!(seen["GIVEN"], "yes");
    let allowed = |name: &str| {
        matches!(name, "PATH" | "HOME" | "LANG" | "TMPDIR" | "USER" | "GIVEN") || name.starts_with("LC_")
    };
    let foreign: Vec<&String> = seen.keys().filter(|name| !allowed(name)).collect();
    assert_eq!(foreign, Vec::<&String>::new());
}

/// A lazy server is started once, however many call it first.
#[tokio::test]
async fn a_lazy_server_is_started_once() {
    let home = Home::new(&[]);
    let starts = home.path("starts");
    let script =
        format!("echo x >> {}; sleep 0.3; exec {} echo", quoted(&starts), quoted(&binaries::hostile()));
    let started = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    home.configure(json!({}), &[("bad", shell(&script))]);
    {
        // Once, so that the catalog knows its tools.
        let gateway = home.start().await;
        gateway.connected(&["bad"]).await;
        gateway.stop().await;
    }
    let mut lazy = shell(&script);
    lazy["lazy"] = json!(true);
    home.configure(json!({}), &[("bad", lazy)]);
    let before = started();
    let gateway = home.start().await;
    let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
    assert!(client.names("tools/list", "tools").await.contains(&"bad_echo".to_owned()), "{}", gateway.log());
    assert_eq!(started(), before, "nobody has called it yet");
    let calls = (0..20).map(|number| {
        let client = client.clone();
        async move { client.call("bad_echo", json!({ "number": number })).await }
    });
    for (number, told) in futures_util::future::join_all(calls).await.iter().enumerate() {
        assert_eq!(told.result()["structuredContent"]["number"], number, "{}", told.answer);
    }
    assert_eq!(started() - before, 1, "twenty first callers start it once");
}

/// Tools that appear when a client has done something are seen by that client.
#[tokio::test]
async fn a_change_in_a_callers_own_process_is_seen() {
    let scene = Scene::new(fixture_on_stdio("legacy")).await;
    scene.gateway.connected(&["bad"]).await;
    let client = Client::of(Era::Legacy, scene.gateway.address).await;
    let mut changes = client.listen(&[]).await;
    let extra = token("extra").replace('-', "_");
    client.call("bad_change_tools", json!({ "tool": extra })).await;
    changes.wait_for("notifications/tools/list_changed", Duration::from_secs(5)).await.expect("a notice");
    assert!(client.names("tools/list", "tools").await.contains(&format!("bad_{extra}")));
}
