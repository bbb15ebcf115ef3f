//! Hostile servers do not affect others: beside each, a good server must keep working.

use crate::scene::{BRISK, MOST_MEMORY_MIB, Scene, fault};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::client::all_capabilities;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile, quoted, shell};
use toolbooth_testkit::world::{
    Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient, binaries, poll, processes, token,
};

#[tokio::test]
async fn garbage_between_messages_is_skipped() {
    let scene = Scene::new(hostile(&["garbage"])).await;
    scene.gateway.connected(&["bad"]).await;
    for number in 0..6 {
        let (reply, _) = scene.provoke("echo", json!({ "number": number, "text": "é\n" })).await;
        assert_eq!(reply.result()["structuredContent"], json!({ "number": number, "text": "é\n" }));
    }
}

#[tokio::test]
async fn crashed_server_fails_its_call_at_once_and_is_restarted() {
    let scene = Scene::new(hostile(&["dies"])).await;
    scene.gateway.connected(&["bad"]).await;
    for _ in 0..2 {
        let (reply, took) = scene.provoke("die", json!({})).await;
        assert_eq!(fault(&reply), "server.lost");
        assert!(
            reply.text().contains("exit code 3") || reply.text().contains('3'),
            "the message contains the exit status: {}",
            reply.text()
        );
        assert!(took < Duration::from_secs(3), "the pending call waited {took:?}");
        scene.bad_recovers().await;
    }
}

#[tokio::test]
async fn unanswered_call_times_out() {
    let mut entry = hostile(&["never-answers"]);
    entry["timeout"] = json!(1);
    let scene = Scene::new(entry).await;
    scene.gateway.connected(&["bad"]).await;
    let (reply, took) = scene.provoke("hang", json!({})).await;
    assert_eq!(fault(&reply), "call.timeout");
    assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&took), "it took {took:?}");
    assert_eq!(scene.client.call("bad_ok", json!({})).await.text(), "ok", "other calls are still answered");
}

#[tokio::test]
async fn server_that_stops_reading_fails_in_time_and_delays_no_other_call() {
    let mut entry = hostile(&["stops-reading"]);
    entry["timeout"] = json!(1);
    let scene = Scene::new(entry).await;
    scene.gateway.connected(&["bad"]).await;
    let long = "x".repeat(256 * 1024);
    let calls = (0..40).map(|_| scene.client.call("bad_ok", json!({ "long": long })));
    let start = Instant::now();
    let (reply, ()) = tokio::join!(futures_util::future::join_all(calls), scene.good_is_brisk());
    assert!(start.elapsed() < Duration::from_secs(15), "they took {:?}", start.elapsed());
    for reply in &reply {
        assert!(
            matches!(fault(reply), "call.timeout" | "server.busy" | "server.lost" | "server.not-connected"),
            "{}",
            reply.fault()
        );
    }
    let held = processes::peak_mib(scene.gateway.pid());
    assert!(held < MOST_MEMORY_MIB, "the gateway used {held} MiB");
}

#[tokio::test]
async fn silent_server_delays_no_other_server() {
    let start = Instant::now();
    let mut entry = hostile(&["silent"]);
    entry["connect_timeout"] = json!(3);
    let scene = Scene::new(entry).await;
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "the good server was connected after {:?}",
        start.elapsed()
    );
    scene.good_is_brisk().await;
    let reply = scene.client.call("bad_ok", json!({})).await;
    assert_eq!(reply.code(), Some(-32602), "a tool that was never listed is unknown: {}", reply.answer);
    scene.gateway.wait_for_state("bad", "error").await;
    let shown = scene.gateway.server("bad").await;
    assert_eq!(shown["reason"], "server `bad` did not finish the handshake within 3 s", "{shown}");
    assert_eq!(shown["code"], "server.start-timeout", "{shown}");
    assert!(shown["hint"].as_str().unwrap().contains("connect_timeout"), "{shown}");
    assert!(shown["retry_in_seconds"].is_u64(), "{shown}");
}

/// The error of a server that exits before it is connected includes its standard error.
#[tokio::test]
async fn stderr_of_a_server_that_exits_at_once_is_shown() {
    let scene = Scene::new(shell("echo 'no module named nope' >&2; exit 7")).await;
    scene.gateway.wait_for_state("bad", "error").await;
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
async fn slow_server_is_added_later_and_delays_no_other_server() {
    // Longer than the first list waits.
    let scene = Scene::new(hostile(&["slow-start", "6000"])).await;
    let mut changes = scene.client.listen(&[]).await;
    let (names, ()) = tokio::join!(scene.client.names("tools/list", "tools"), scene.good_is_brisk());
    assert_eq!(names, ["good_echo", "good_ok"]);
    changes.wait_for("notifications/tools/list_changed", TEST_TIMEOUT).await.expect("a notification");
    let names = scene.client.names("tools/list", "tools").await;
    assert_eq!(names, ["bad_echo", "bad_ok", "good_echo", "good_ok"]);
}

#[tokio::test]
async fn stderr_flood_is_drained_and_bounded() {
    let scene = Scene::new(hostile(&["stderr-flood", "8"])).await;
    scene.gateway.connected(&["bad"]).await;
    let (reply, _) = scene.provoke("flood", json!({ "mib": 8 })).await;
    assert_eq!(reply.text(), "flooded");
    let logs = scene.gateway.http().get_json("/servers/bad/logs").await;
    let lines = logs["lines"].as_array().unwrap();
    assert!(lines.len() <= 200 && !lines.is_empty(), "{} lines are kept", lines.len());
    assert!(logs["total"].as_u64().unwrap() > 100_000, "all were counted: {}", logs["total"]);
    assert!(!lines.iter().any(|line| line.to_string().contains("\\u001b")), "no escape sequence is kept");
}

#[tokio::test]
async fn ten_thousand_tools_are_listed_and_invalid_ones_set_aside() {
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
    assert_eq!(names.len(), 10_002, "no other tools are listed");
    let (reply, _) = scene.provoke("tool_9999", json!({ "value": "x" })).await;
    assert_eq!(reply.text(), "tool_9999");
    let shown = scene.gateway.server("bad").await;
    assert_eq!(shown["set_aside"].as_array().unwrap().len(), 7, "{}", shown["set_aside"]);
    for aside in shown["set_aside"].as_array().unwrap() {
        assert!(!aside["reason"].as_str().unwrap().is_empty(), "{aside}");
    }
}

/// `connected` means that the handshake and the tool list are complete.
#[tokio::test]
async fn connected_server_has_listed_its_tools() {
    let mut entry = hostile(&["many-tools", "5000"]);
    entry["connect_timeout"] = json!(60);
    let scene = Scene::with_settings(json!({ "exposure": { "mode": "full" } }), entry).await;
    scene.gateway.connected(&["bad"]).await;
    assert_eq!(scene.client.names("tools/list", "tools").await.len(), 5002);
}

/// A long call delays neither other servers nor other calls of its own server.
async fn quick_behind_slow(era: &str, capabilities: Value) {
    let mut scene = Scene::new(fixture_on_stdio(era)).await;
    scene.gateway.connected(&["bad"]).await;
    scene.client = TestClient::with_capabilities(TestEra::Modern, scene.gateway.address, capabilities).await;
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
async fn slow_call_delays_no_other_call() {
    tokio::join!(
        quick_behind_slow("legacy", json!({})),
        quick_behind_slow("legacy", all_capabilities()),
        quick_behind_slow("modern", all_capabilities()),
    );
}

#[tokio::test]
async fn answers_with_wrong_ids_are_ignored_over_a_thousand_calls() {
    let scene = Scene::new(hostile(&["id-confusion"])).await;
    scene.gateway.connected(&["bad"]).await;
    let callers = (0..16).map(|caller| {
        let client = scene.client.clone();
        async move {
            for number in 0..63 {
                let nonce = format!("{caller}-{number}");
                let reply = client.call("bad_confuse", json!({ "nonce": nonce })).await;
                assert_eq!(reply.text(), format!("right {nonce}"));
            }
        }
    });
    tokio::join!(futures_util::future::join_all(callers), scene.good_is_brisk());
}

#[tokio::test]
async fn huge_line_within_the_limit_is_delivered() {
    let any_length = json!({ "limits": { "result_tokens": 0 } });
    let scene = Scene::with_settings(any_length, hostile(&["huge-line"])).await;
    scene.gateway.connected(&["bad"]).await;
    for id_last in [false, true] {
        let (reply, _) = scene.provoke("huge", json!({ "mib": 20, "id_last": id_last })).await;
        assert_eq!(reply.text().len(), 20 * 1024 * 1024);
    }
}

#[tokio::test]
async fn line_over_the_limit_fails_at_once() {
    let settings = json!({ "limits": { "upstream_bytes": 1024 * 1024 } });
    let scene = Scene::with_settings(settings, hostile(&["huge-line"])).await;
    scene.gateway.connected(&["bad"]).await;
    for (mib, id_last) in [(2, false), (2, true), (64, false), (64, true)] {
        let (reply, took) = scene.provoke("huge", json!({ "mib": mib, "id_last": id_last })).await;
        assert_eq!(fault(&reply), "server.answer-too-large", "{mib} MiB");
        assert!(
            reply.text().contains("limits.upstream_bytes"),
            "the message names the setting: {}",
            reply.text()
        );
        assert!(took < Duration::from_secs(10), "{mib} MiB took {took:?}");
        assert_eq!(scene.client.call("bad_ok", json!({})).await.text(), "ok", "the connection is kept");
    }
    assert_eq!(scene.gateway.server("bad").await["state"], "connected");
}

/// An answer over the limit fails its own call, not concurrent calls.
#[tokio::test]
async fn answer_over_the_limit_fails_only_its_own_call() {
    let settings = json!({ "limits": { "upstream_bytes": 1024 * 1024 } });
    let scene = Scene::with_settings(settings, hostile(&["huge-line"])).await;
    scene.gateway.connected(&["bad"]).await;
    for id_last in [false, true] {
        let huge = scene.client.call("bad_huge", json!({ "mib": 2, "id_last": id_last }));
        let beside = (0..8).map(|_| scene.client.call("bad_ok", json!({})));
        let (huge, beside) = tokio::join!(huge, futures_util::future::join_all(beside));
        assert_eq!(fault(&huge), "server.answer-too-large");
        for reply in beside {
            assert_eq!(reply.text(), "ok", "id last: {id_last}");
        }
    }
}

#[tokio::test]
async fn storm_of_false_notifications_causes_one_listing_and_no_notification() {
    let home = Home::new(&[]);
    let seen = home.path("requests");
    let script = format!("tee {} | {} storm", quoted(&seen), quoted(&binaries::hostile()));
    home.configure(json!({}), &[("bad", shell(&script)), ("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["bad", "good"]).await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let scene = Scene { _home: home, gateway, client };
    let listings = || std::fs::read_to_string(&seen).unwrap_or_default().matches(r#""tools/list""#).count();
    let before = listings();
    let mut changes = scene.client.listen(&[]).await;
    let (reply, _) = scene.provoke("storm", json!({ "count": 5000 })).await;
    assert_eq!(reply.text(), "the storm is over");
    let listed_again = poll(Duration::from_secs(5), || async { (listings() > before).then_some(()) });
    listed_again.await.expect("the gateway lists again once it is quiet");
    let heard = changes.gather(Duration::from_millis(700)).await;
    assert!(listings() - before <= 3, "the gateway listed {} times", listings() - before);
    assert_eq!(heard, Vec::<Value>::new(), "nothing has changed, so no client is notified");
}

#[tokio::test]
async fn storm_of_real_changes_causes_few_listings_and_notifications() {
    for era in [TestEra::Legacy, TestEra::Modern] {
        let upstream = ScriptedServer::start(era).await;
        let mut looks = 0;
        upstream.list_by(move || {
            looks += 1;
            format!(r#"[{{"name":"look_{looks}","inputSchema":{{"type":"object"}}}}]"#)
        });
        let scene = Scene::new(upstream.entry()).await;
        scene.gateway.connected(&["bad"]).await;
        poll(TEST_TIMEOUT, || async { upstream.has_subscribers().then_some(()) })
            .await
            .expect("the gateway subscribes");
        let mut changes = scene.client.listen(&[]).await;
        let before = upstream.seen("tools/list").len();
        for _ in 0..5000 {
            upstream.announce("notifications/tools/list_changed");
        }
        changes.wait_for("notifications/tools/list_changed", TEST_TIMEOUT).await.expect("a notification");
        scene.good_is_brisk().await;
        let more = changes.gather(Duration::from_millis(700)).await.len();
        let listings = upstream.seen("tools/list").len() - before;
        assert!(listings <= 3 && more < 3, "{era:?}: {listings} listings, {} notifications", more + 1);
        let last = format!("bad_look_{}", before + listings);
        assert!(scene.client.names("tools/list", "tools").await.contains(&last), "the newest list is served");
    }
}

/// A server request outside of a call is answered by the gateway, never forwarded to the next caller.
#[tokio::test]
async fn server_requests_outside_a_call_reach_no_client() {
    let settings = json!({ "roots": ["file:///from/the/configuration"] });
    let scene = Scene::with_settings(settings, hostile(&["asks", "roots"])).await;
    scene.gateway.connected(&["bad"]).await;
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(era, scene.gateway.address).await;
        for _ in 0..3 {
            let reply = client.call("bad_ok", json!({})).await;
            assert_eq!((reply.text(), reply.questions.len()), ("ok", 0), "{:?}", reply.questions);
        }
        let reply = client.call("bad_roots", json!({})).await;
        assert!(
            reply.text().contains("file:///home/ann"),
            "a call's own question goes to its client: {}",
            reply.text()
        );
    }
    scene.good_is_brisk().await;
}

/// On stdio a question does not name its call, so calls that may ask run one at a time per connection.
#[tokio::test]
async fn concurrent_questions_reach_their_own_clients() {
    let scene = Scene::new(hostile(&["asks"])).await;
    scene.gateway.connected(&["bad"]).await;
    let person = async |era: TestEra, name: &'static str| {
        let client = TestClient::of(era, scene.gateway.address).await;
        let client = client.answering(move |_, _| json!({ "action": "accept", "content": { "name": name } }));
        for _ in 0..5 {
            let reply = client.call("bad_ask_name", json!({})).await;
            assert!(reply.text().contains(name), "{name} got {}", reply.text());
            assert_eq!(reply.questions.len(), 1);
        }
    };
    tokio::join!(
        person(TestEra::Legacy, "Ann"),
        person(TestEra::Modern, "Bob"),
        person(TestEra::Legacy, "Cem"),
        person(TestEra::Modern, "Dai"),
    );
}

#[tokio::test]
async fn servers_get_a_clean_environment() {
    let mut entry = hostile(&["env"]);
    entry["env"] = json!({ "GIVEN": "yes" });
    let home = Home::new(&[("bad", entry)]);
    let mut command = home.command("serve");
    command.env("SECRET_OF_THE_HOST", "hush").env("AWS_SECRET_ACCESS_KEY", "hush");
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["bad"]).await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let reply = client.call("bad_env", json!({})).await;
    let seen: serde_json::Map<String, Value> = serde_json::from_str(reply.text()).unwrap();
    assert_eq!(seen["GIVEN"], "yes");
    let allowed = |name: &str| {
        matches!(name, "PATH" | "HOME" | "LANG" | "TMPDIR" | "USER" | "GIVEN") || name.starts_with("LC_")
    };
    let foreign: Vec<&String> = seen.keys().filter(|name| !allowed(name)).collect();
    assert_eq!(foreign, Vec::<&String>::new());
}

/// A lazy server is started once by concurrent first calls.
#[tokio::test]
async fn lazy_server_is_started_once() {
    let home = Home::new(&[]);
    let starts = home.path("starts");
    let script =
        format!("echo x >> {}; sleep 0.3; exec {} echo", quoted(&starts), quoted(&binaries::hostile()));
    let started = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    home.configure(json!({}), &[("bad", shell(&script))]);
    {
        // One connection, so that the catalog knows its tools.
        let gateway = home.start().await;
        gateway.connected(&["bad"]).await;
        gateway.stop().await;
    }
    let mut lazy = shell(&script);
    lazy["lazy"] = json!(true);
    home.configure(json!({}), &[("bad", lazy)]);
    let before = started();
    let gateway = home.start().await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    assert!(client.names("tools/list", "tools").await.contains(&"bad_echo".to_owned()), "{}", gateway.log());
    assert_eq!(started(), before, "it has not been called yet");
    let calls = (0..20).map(|number| {
        let client = client.clone();
        async move { client.call("bad_echo", json!({ "number": number })).await }
    });
    for (number, reply) in futures_util::future::join_all(calls).await.iter().enumerate() {
        assert_eq!(reply.result()["structuredContent"]["number"], number, "{}", reply.answer);
    }
    assert_eq!(started() - before, 1, "twenty concurrent first calls start it once");
}

/// A client is notified of tools that its own call added.
#[tokio::test]
async fn list_change_caused_by_a_call_is_notified() {
    let scene = Scene::new(fixture_on_stdio("legacy")).await;
    scene.gateway.connected(&["bad"]).await;
    let client = TestClient::of(TestEra::Legacy, scene.gateway.address).await;
    let mut changes = client.listen(&[]).await;
    let extra = token("extra").replace('-', "_");
    client.call("bad_change_tools", json!({ "tool": extra })).await;
    changes
        .wait_for("notifications/tools/list_changed", Duration::from_secs(5))
        .await
        .expect("a notification");
    assert!(client.names("tools/list", "tools").await.contains(&format!("bad_{extra}")));
}
