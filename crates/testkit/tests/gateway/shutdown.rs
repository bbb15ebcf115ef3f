//! Shutdown and restart: no server process outlives the gateway, and restarts leak nothing.

use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Home, TEST_TIMEOUT, TestClient, poll, processes, token};

#[tokio::test]
async fn gateway_killed_under_load_leaves_no_process() {
    let token = token("family");
    let mut deaf = hostile(&["ignores-term", &token]);
    deaf["connect_timeout"] = json!(60);
    let servers = [
        ("family", hostile(&["grandchildren", &token, "2"])),
        ("echo", hostile(&["echo", &token])),
        ("deaf", deaf),
    ];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["family", "echo", "deaf"]).await;
    // Three reapers and servers; two each of sleeper, session sleeper and daemon.
    processes::wait_for_marked(&token, 12).await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let load: Vec<_> = ["family_ok", "echo_ok", "deaf_ok"]
        .into_iter()
        .cycle()
        .take(12)
        .map(|tool| {
            let client = client.clone();
            tokio::spawn(async move {
                loop {
                    client.call(tool, json!({})).await;
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(load.iter().all(|task| !task.is_finished()), "calls are running");
    gateway.kill().await;
    processes::wait_until_gone(&token, Duration::from_secs(5)).await;
    for task in load {
        task.abort();
    }
}

#[tokio::test]
async fn sigterm_ends_all_server_processes() {
    let token = token("polite");
    let home = Home::new(&[
        ("family", hostile(&["grandchildren", &token, "1"])),
        ("deaf", hostile(&["ignores-term", &token])),
    ]);
    let gateway = home.start().await;
    gateway.connected(&["family", "deaf"]).await;
    let (status, took) = gateway.stop().await;
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(10), "it took {took:?}");
    assert_eq!(processes::marked(&token), Vec::<u32>::new(), "all processes ended before the gateway");
}

/// Endless streams do not delay the shutdown.
#[tokio::test]
async fn open_streams_end_at_shutdown() {
    let home = Home::new(&[("srv", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let modern = TestClient::of(TestEra::Modern, gateway.address).await;
    let legacy = TestClient::of(TestEra::Legacy, gateway.address).await;
    let (mut one, mut two) = (modern.listen(&[]).await, legacy.listen(&[]).await);
    let ending = tokio::spawn(gateway.stop());
    let last = one.last(Duration::from_secs(8)).await.expect("a modern stream ends with its result");
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    assert_eq!(two.last(Duration::from_secs(8)).await, None, "a legacy stream just ends");
    let (status, took) = ending.await.unwrap();
    assert!(status.success() && took < Duration::from_secs(5), "{status} after {took:?}");
}

/// Calls that run at SIGTERM are finished first.
#[tokio::test]
async fn running_call_finishes_before_shutdown() {
    let home = Home::new(&[("srv", fixture_on_stdio("modern"))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let params = json!({ "name": "srv_slow", "arguments": { "ms": 1000, "steps": 50 }, "_meta": { "progressToken": 1 } });
    let exchange = client.start("tools/call", params).await;
    let ending = tokio::spawn(gateway.stop());
    let reply = exchange.finish().await;
    assert_eq!(reply.text(), "Done in 50 steps.");
    assert!(ending.await.unwrap().0.success());
}

#[tokio::test]
async fn two_hundred_restarts_leak_no_descriptor_or_process() {
    let token = token("lives");
    let home = Home::new(&[("srv", hostile(&["echo", &token]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let again = async || {
        gateway.act("srv", "disconnect").await;
        let shown = gateway.act("srv", "connect").await;
        assert_eq!(shown["state"], "connected", "{shown}");
    };
    // The first restarts open files that stay open: the store and the runtime's own files.
    for _ in 0..3 {
        again().await;
    }
    assert_eq!(client.call("srv_ok", json!({})).await.text(), "ok");
    let settled = || {
        let gone = processes::children(gateway.pid());
        (
            processes::open_files(gateway.pid()),
            gone.zombies.len(),
            gone.living.len(),
            processes::marked(&token).len(),
        )
    };
    // One reaper and its server.
    let quiet = async || {
        let calm =
            poll(Duration::from_secs(5), || async { (settled().1 == 0 && settled().2 == 1).then(settled) });
        calm.await.unwrap_or_else(settled)
    };
    let before = quiet().await;
    for _ in 0..200 {
        again().await;
    }
    assert_eq!(client.call("srv_ok", json!({})).await.text(), "ok");
    let after = quiet().await;
    assert_eq!((after.1, after.2, after.3), (0, 1, 2), "zombies, children, processes of the server");
    assert!(after.0 <= before.0 + 2, "{} descriptors became {}", before.0, after.0);
}

/// `restart` starts a new process each time, also in quick succession.
#[tokio::test]
async fn restarts_in_quick_succession_end_in_one_process() {
    let token = token("restarts");
    let home = Home::new(&[("srv", hostile(&["echo", &token]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let before: Vec<u32> = processes::marked(&token);
    for _ in 0..10 {
        gateway.act("srv", "restart").await;
    }
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let settled = poll(TEST_TIMEOUT, || async {
        let now = processes::marked(&token);
        let fresh = now.len() == 2 && now.iter().all(|pid| !before.contains(pid));
        let works =
            fresh && client.call("srv_ok", json!({})).await.answer["result"]["content"][0]["text"] == "ok";
        works.then_some(())
    });
    assert!(
        settled.await.is_some(),
        "{:?} after {before:?}: {}",
        processes::marked(&token),
        gateway.server("srv").await
    );
    assert_eq!(processes::children(gateway.pid()).zombies, Vec::<u32>::new());
}

/// A command that does not exist is reported with its name.
#[tokio::test]
async fn missing_command_is_reported() {
    let home =
        Home::new(&[("gone", json!({ "command": "no-such-command-anywhere" })), ("srv", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    gateway.wait_for_state("gone", "error").await;
    let shown: Value = gateway.server("gone").await;
    assert_eq!(shown["code"], "server.command-not-found", "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("no-such-command-anywhere"), "{shown}");
    assert!(shown["hint"].is_string(), "{shown}");
}

/// Maintenance that is under way when the gateway stops ends before the store is closed.
#[tokio::test]
async fn a_gateway_that_stops_at_once_logs_no_error_of_its_store() {
    let home = Home::new(&[]);
    for _ in 0..4 {
        home.start().await.stop().await;
    }
    let log = home.start().await.log();
    assert!(!log.contains("the store is closed"), "{log}");
}
