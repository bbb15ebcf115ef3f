//! Overload: redirect loops, servers that all return at once, and a machine short of descriptors or memory. Existing
//! clients are still served.

use crate::scene::Scene;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{
    Gateway, Home, OAuthServer, ScriptedServer, TEST_TIMEOUT, TestClient, poll, processes,
};

/// Starts a server that answers every request with `answer`; returns its URL and a request counter.
async fn always(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (count, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer(&url)));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (counted, answer) = (counted.clone(), answer.clone());
            tokio::spawn(async move {
                let mut read = vec![0; 65536];
                while let Ok(1..) = stream.read(&mut read).await {
                    counted.fetch_add(1, Ordering::Relaxed);
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, count)
}

/// F11: a redirect to itself, an endless challenge, a `Retry-After` of eleven days.
#[tokio::test]
async fn redirect_and_challenge_loops_are_ended() {
    let redirect = |url: &str| format!("HTTP/1.1 307 Again\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n");
    let challenge =
        |_: &str| "HTTP/1.1 401 No\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\n\r\n".to_owned();
    let later = |_: &str| "HTTP/1.1 503 Later\r\nretry-after: 999999\r\ncontent-length: 0\r\n\r\n".to_owned();
    type Responder = Box<dyn Fn(&str) -> String + Send + Sync>;
    let answers: [(&str, Responder); 3] =
        [("redirect", Box::new(redirect)), ("challenge", Box::new(challenge)), ("later", Box::new(later))];
    for (name, answer) in answers {
        let (url, count) = always(answer).await;
        let scene = Scene::new(json!({ "url": url, "connect_timeout": 3 })).await;
        let settled = poll(TEST_TIMEOUT, || async {
            let state = scene.gateway.server("bad").await["state"].clone();
            (state == "error" || state == "needs_auth").then_some(())
        });
        assert!(settled.await.is_some(), "{name}: {}", scene.gateway.server("bad").await);
        let first = count.load(Ordering::Relaxed);
        assert!(first <= 12, "{name}: one attempt took {first} requests");
        scene.good_is_brisk().await;
        let response = scene.client.call("bad_ok", json!({})).await;
        assert!(response.code().is_some() || response.is_error(), "{name}: {}", response.answer);
    }
}

/// F11: tokens that are refused at once are not requested endlessly.
#[tokio::test]
async fn token_that_is_always_refused_is_not_renewed_endlessly() {
    let oauth = OAuthServer::start(TestEra::Modern).await;
    let home = Home::new(&[("oauth", oauth.entry()), ("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    gateway.wait_for_state("oauth", "needs_auth").await;
    oauth.server.admit_by(|_| Some("Bearer error=\"invalid_token\"".to_owned()));
    for _ in 0..3 {
        gateway.act("oauth", "connect").await;
    }
    let tally = oauth.counts();
    assert!(tally.registrations + tally.logins + tally.renewals <= 3, "{tally:?}");
}

/// F11: a service requests a pause longer than the deadline of the call.
#[tokio::test]
async fn retry_after_cannot_exceed_the_deadline() {
    let later = |_: &str| "HTTP/1.1 429 Later\r\nretry-after: 999999\r\ncontent-length: 0\r\n\r\n".to_owned();
    let (url, count) = always(later).await;
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    std::fs::create_dir_all(home.path("tools")).unwrap();
    let tool = json!({ "name": "lookup", "side_effects": "none", "default_timeout": 5,
        "providers": [{ "name": "http", "config": { "url": url }, "health_check_interval": 0 }] });
    std::fs::write(home.path("tools/all.json"), tool.to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    for _ in 0..5 {
        let start = Instant::now();
        let response = client.call("lookup", json!({})).await;
        assert!(response.is_error() || response.code().is_some(), "{}", response.answer);
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    }
    assert!(count.load(Ordering::Relaxed) <= 15, "{count:?}");
}

/// A server asks for a pause until a date, and its own `Date` says how long that is.
#[tokio::test]
async fn retry_after_a_date_is_waited_for() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let (retry_after, date) = ("Wed, 18 Nov 2026 00:00:03 GMT", "Wed, 18 Nov 2026 00:00:00 GMT");
    upstream.answer(ScriptedAnswer::Later { retry_after, date });
    let home = Home::new(&[("up", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["up"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let start = Instant::now();
    let recovering = async {
        let refused = || async { (upstream.seen("tools/call").len() == 1).then_some(()) };
        poll(TEST_TIMEOUT, refused).await.expect("the call arrives");
        upstream.answer(ScriptedAnswer::result(r#"{"content":[],"resultType":"complete"}"#));
    };
    let (response, ()) = tokio::join!(client.call("up_take", json!({})), recovering);
    assert!(response.code().is_none() && !response.is_error(), "{}", response.answer);
    assert_eq!(upstream.seen("tools/call").len(), 2);
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
}

/// A time-out names the provider by its configured name, not `_manifest`.
#[tokio::test]
async fn timeout_of_a_manifest_tool_names_its_provider() {
    let slow = ScriptedServer::start(TestEra::Modern).await;
    slow.answer(ScriptedAnswer::Stalls { text: "{".into(), length: 100 });
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let home = Home::new(&[("slow", slow.entry())]);
    std::fs::create_dir_all(home.path("tools")).unwrap();
    let spare = json!({ "name": "http", "priority": 9, "config": { "url": url } });
    let own = json!({ "name": "mcp", "config": { "server": "slow", "tool": "take" } });
    let tools = json!([
        { "name": "web", "default_timeout": 1, "providers": [spare] },
        { "name": "both", "default_timeout": 1, "providers": [own, spare] },
    ]);
    std::fs::write(home.path("tools/all.json"), tools.to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["slow"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    for tool in ["web", "both"] {
        let response = client.call(tool, json!({})).await;
        assert_eq!(response.fault(), "call.timeout", "{}", response.answer);
        let said = response.answer.to_string();
        assert!(!said.contains("_manifest"), "{said}");
        assert!(said.contains("`http`") || said.contains("`mcp:slow`"), "{said}");
    }
}

/// F13: many servers behind one address that recovers: connections are limited, and all servers reconnect.
#[tokio::test]
async fn servers_that_return_together_are_connected_in_batches() {
    const SERVERS: usize = 100;
    /// The limit of concurrent connection attempts (`CONNECT_AT_ONCE` of the engine).
    const AT_ONCE: usize = 64;
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let behind = upstream.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (is_back, back) = tokio::sync::watch::channel(false);
    let (waiting, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, highest) = (waiting.clone(), peak.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut back, behind) = (back.clone(), behind.clone());
            let (counting, highest) = (counting.clone(), highest.clone());
            tokio::spawn(async move {
                if !*back.borrow() {
                    highest.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // Silent until it recovers: no client times out before that.
                    drop(back.wait_for(|is_back| *is_back).await);
                    counting.fetch_sub(1, Ordering::SeqCst);
                }
                if let Ok(mut other) = TcpStream::connect(behind).await {
                    drop(tokio::io::copy_bidirectional(&mut stream, &mut other).await);
                }
            });
        }
    });
    let names: Vec<String> = (0..SERVERS).map(|number| format!("s{number}")).collect();
    let entry = json!({ "url": url, "connect_timeout": 20 });
    let entries: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), entry.clone())).collect();
    let home = Home::new(&entries);
    let gateway = home.start().await;
    let full = poll(TEST_TIMEOUT, || async { (waiting.load(Ordering::SeqCst) >= AT_ONCE).then_some(()) });
    assert!(full.await.is_some(), "{waiting:?} {}", gateway.log());
    is_back.send(true).unwrap();
    let up = poll(TEST_TIMEOUT, || async {
        let listed = gateway.http().get_json("/servers").await;
        let servers = listed["servers"].as_array().unwrap();
        (servers.iter().filter(|server| server["state"] == "connected").count() == SERVERS).then_some(())
    });
    assert!(up.await.is_some(), "{}", gateway.http().get_json("/servers").await);
    assert!(peak.load(Ordering::SeqCst) <= AT_ONCE, "{peak:?} concurrent attempts");
}

/// Many commands on a small machine would share its cores until no handshake is in time, so they start in batches.
#[tokio::test]
async fn commands_start_in_batches() {
    // `start_at_once` of the engine.
    let at_once = (8 * std::thread::available_parallelism().unwrap().get()).min(64);
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let script = format!("echo started >> '{}'; exec sleep 60", starts.display());
    let names: Vec<String> = (0..at_once + 4).map(|number| format!("s{number}")).collect();
    // They never answer, so none of them makes room for another one.
    let entry = json!({ "command": "/bin/sh", "args": ["-c", script], "connect_timeout": 60 });
    let entries: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), entry.clone())).collect();
    let home = Home::new(&entries);
    let gateway = home.start().await;
    let started = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    let full = poll(TEST_TIMEOUT, || async { (started() >= at_once).then_some(()) });
    assert!(full.await.is_some(), "{} {}", started(), gateway.log());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(started(), at_once);
}

/// A persistent connection.
struct PersistentConnection(TcpStream);

impl PersistentConnection {
    async fn open(gateway: &Gateway) -> Self {
        Self(TcpStream::connect(gateway.address).await.unwrap())
    }

    /// Calls a tool; `None` if no answer comes in time.
    async fn call(&mut self, gateway: &Gateway, number: usize) -> Option<String> {
        let body = format!(r#"{{"arguments":{{"number":{number}}}}}"#);
        let request = format!(
            "POST /tools/good_echo/call HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            gateway.address,
            body.len()
        );
        self.0.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        let mut piece = [0; 4096];
        let reading = async {
            // Only the number in the result is checked.
            while !text.contains(&format!("\"number\":{number}")) || !text.ends_with('}') {
                match self.0.read(&mut piece).await {
                    Ok(length @ 1..) => text.push_str(&String::from_utf8_lossy(&piece[..length])),
                    _ => return None,
                }
            }
            Some(())
        };
        tokio::time::timeout(Duration::from_secs(10), reading).await.ok().flatten()?;
        text.starts_with("HTTP/1.1 200").then_some(text)
    }
}

/// F19: no descriptors are left for new clients; connected clients are served, and the gateway recovers.
#[tokio::test]
async fn gateway_without_descriptors_keeps_serving_and_recovers() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    let gateway = home.start_with_descriptors(256).await;
    gateway.connected(&["good"]).await;
    let mut old = PersistentConnection::open(&gateway).await;
    assert!(old.call(&gateway, 0).await.is_some(), "the first call is not answered: {}", gateway.log());
    let mut crowd = Vec::new();
    // More than there are descriptors; the kernel keeps the rest until they are accepted.
    for _ in 0..300 {
        let opening = TcpStream::connect(gateway.address);
        crowd.extend(
            tokio::time::timeout(Duration::from_millis(500), opening).await.ok().and_then(Result::ok),
        );
    }
    // Unidentified connections are bounded: descriptors are left for the rest.
    let held = processes::open_files(gateway.pid());
    assert!(held < 200, "{held} files are open");
    for number in 1..=20 {
        let start = Instant::now();
        assert!(
            old.call(&gateway, number).await.is_some(),
            "call {number} with {held} files: {}",
            gateway.log()
        );
        assert!(start.elapsed() < Duration::from_secs(5), "call {number} took {:?}", start.elapsed());
    }
    drop(crowd);
    let recovered = poll(TEST_TIMEOUT, || async {
        let mut new = PersistentConnection::open(&gateway).await;
        new.call(&gateway, 99).await.map(drop)
    });
    assert!(recovered.await.is_some(), "new clients are not served again: {}", gateway.log());
    assert!(old.call(&gateway, 100).await.is_some());
}

/// F20: many long results at once are not buffered for clients that have not read them yet.
#[tokio::test]
async fn many_concurrent_long_results_are_not_buffered() {
    const MIB: usize = 1 << 20;
    const CALLS: usize = 40;
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let text = "x".repeat(8 * MIB);
    upstream.answer(ScriptedAnswer::result(
        &json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }).to_string(),
    ));
    // The server is in this process; only the gateway's memory is measured.
    let settings = json!({ "limits": { "result_tokens": 0 } });
    let home = Home::with_settings(settings, &[("long", upstream.entry()), ("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["long", "good"]).await;
    let calls = (0..CALLS).map(|_| async {
        let client = TestClient::of(TestEra::Modern, gateway.address).await;
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "long_take", "arguments": {},
            "_meta": client.modern_meta().into_iter().collect::<serde_json::Map<String, Value>>() } });
        let reply = client.post(&body.to_string(), &client.mirrored("tools/call", Some("long_take"))).await;
        reply.length().await
    });
    let canary = async {
        let client = TestClient::of(TestEra::Modern, gateway.address).await;
        for number in 0..5 {
            let response = client.call("good_echo", json!({ "number": number })).await;
            assert_eq!(response.result()["structuredContent"]["number"], number);
        }
    };
    let (lengths, ()) = tokio::join!(futures_util::future::join_all(calls), canary);
    assert!(lengths.iter().all(|length| *length > 8 * MIB as u64), "{lengths:?}");
    let peak = processes::peak_mib(gateway.pid());
    println!("{CALLS} results of 8 MiB: the gateway held {peak} MiB at most");
    assert!(peak < 300, "the gateway used {peak} MiB");
}

/// F25: an unresolvable host delays only its own server.
#[tokio::test]
async fn unresolvable_host_delays_no_other_server() {
    let entry = json!({ "url": "http://no-such-host.invalid/mcp", "connect_timeout": 2 });
    let home = Home::new(&[("bad", entry.clone()), ("worse", entry), ("good", hostile(&["echo"]))]);
    std::fs::create_dir_all(home.path("tools")).unwrap();
    let tool = json!({ "name": "lookup", "default_timeout": 2,
        "providers": [{ "name": "http", "config": { "url": "http://no-such-host.invalid/" }, "health_check_interval": 0 }] });
    std::fs::write(home.path("tools/all.json"), tool.to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let start = Instant::now();
    let response = client.call("lookup", json!({})).await;
    assert!(response.is_error() || response.code().is_some(), "{}", response.answer);
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    for number in 0..20 {
        let start = Instant::now();
        let response = client.call("good_echo", json!({ "number": number })).await;
        assert_eq!(response.result()["structuredContent"]["number"], number);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
    for server in ["bad", "worse"] {
        gateway.wait_for_state(server, "error").await;
    }
}
