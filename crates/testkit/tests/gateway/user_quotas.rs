//! Limits per user: a client that takes all it can get does not keep the gateway from serving others.

use crate::token_users::{bearer, make_token};
use ::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::client::{modern_body, modern_headers};
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, TestClient, poll, processes};

/// Descriptors of the gateway: enough for 128 connections, at most 32 of one user.
const DESCRIPTORS: usize = 256;
const OF_USER: usize = DESCRIPTORS / 8;
/// The longest answer time on a loaded machine.
const BRISK: Duration = Duration::from_secs(5);

struct LimitedGateway {
    _home: Home,
    gateway: Gateway,
    ann: String,
    bob: String,
}

impl LimitedGateway {
    async fn start(settings: Value) -> Self {
        Self::with_descriptors(settings, DESCRIPTORS).await
    }

    async fn with_descriptors(mut settings: Value, descriptors: usize) -> Self {
        settings["auth"] = json!({ "mode": "token" });
        settings["policy"] = json!({ "consent": "client" });
        let home = Home::with_settings(settings, &[("demo", json!({ "bundled": "demo" }))]);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let (ann, _) = make_token(&home, None, "ann", &[]);
        let (bob, _) = make_token(&home, None, "bob", &[]);
        let mut gateway = home.start_with_descriptors(descriptors).await;
        gateway.headers = bearer(&root);
        gateway.connected(&["demo"]).await;
        Self { _home: home, gateway, ann, bob }
    }

    /// Calls a tool as bob, over a new connection.
    async fn bob_is_served(&self) {
        let start = Instant::now();
        let http = Http::new(self.gateway.address).sending(&bearer(&self.bob));
        let (status, answer) = http.post_json("/tools/demo_hash/call", r#"{"arguments":{"text":"x"}}"#).await;
        assert_eq!(status, 200, "{answer}");
        assert!(start.elapsed() < BRISK, "{:?}", start.elapsed());
    }
}

/// Whether the gateway has closed a connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut piece = [0; 1024];
    loop {
        match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut piece)).await {
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => {}
            Err(_) => return false,
        }
    }
}

// audit: one user's 10,000 `subscriptions/listen` streams were all accepted, and another user's calls timed out.
#[tokio::test]
async fn streams_are_limited_per_user() {
    let limited = LimitedGateway::start(json!({})).await;
    let http = Http::new(limited.gateway.address).sending(&bearer(&limited.ann));
    let headers = modern_headers("subscriptions/listen");
    let body = modern_body("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..60 {
        let reply = http.send(Method::POST, "/mcp", &headers, body.clone()).await;
        if reply.status == 200 {
            open.push(reply);
        } else {
            assert_eq!(reply.status, 429);
            let answer = reply.json().await;
            assert_eq!(answer["error"]["data"]["toolbooth"]["code"], "request.too-many-streams", "{answer}");
            refused += 1;
        }
    }
    assert_eq!((open.len(), refused), (OF_USER / 2, 60 - OF_USER / 2));
    limited.bob_is_served().await;
    // A closed stream frees its place.
    open.clear();
    let again = poll(TEST_TIMEOUT, || async {
        let reply = http.send(Method::POST, "/mcp", &headers, body.clone()).await;
        (reply.status == 200).then_some(())
    });
    assert!(again.await.is_some());
}

// audit: 10,050 idle connections without a credential blocked all clients; the bound was per thread.
#[tokio::test]
async fn unidentified_connections_do_not_block_other_clients() {
    let limited = LimitedGateway::start(json!({})).await;
    let mut idle = Vec::new();
    for number in 0..400 {
        if let Ok(mut stream) = TcpStream::connect(limited.gateway.address).await {
            if number % 2 == 0 {
                let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: ").await;
            }
            idle.push(stream);
        }
        if number % 100 == 99 {
            limited.bob_is_served().await;
        }
    }
    assert!(processes::open_files(limited.gateway.pid()) < DESCRIPTORS * 3 / 4);
    // Connections without a request are closed after a short time.
    let start = Instant::now();
    while !idle.is_empty() {
        assert!(start.elapsed() < TEST_TIMEOUT, "{} are open", idle.len());
        let mut open = Vec::new();
        for mut stream in idle {
            if !is_closed(&mut stream).await {
                open.push(stream);
            }
        }
        idle = open;
    }
    limited.bob_is_served().await;
}

#[tokio::test]
async fn connections_are_limited_per_user() {
    let limited = LimitedGateway::start(json!({})).await;
    let request =
        format!("GET /me HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n", limited.ann);
    let mut of_ann = Vec::new();
    for _ in 0..OF_USER * 3 {
        let mut stream = TcpStream::connect(limited.gateway.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 4096];
        let length = tokio::time::timeout(TEST_TIMEOUT, stream.read(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200"), "the newest connection is not served: {answer}");
        of_ann.push(stream);
    }
    limited.bob_is_served().await;
    let mut open = 0;
    for stream in &mut of_ann {
        open += usize::from(!is_closed(stream).await);
    }
    assert!(open <= OF_USER, "{open} connections of ann are open");
}

/// Opens a hundred connections of one client and sends one request on each; all are answered and stay open.
async fn answers_a_burst(gateway: &Gateway, headers: &str) {
    // All are open before the first request, so that none replaces another.
    let opening = (0..100).map(|_| TcpStream::connect(gateway.address));
    let opened: io::Result<Vec<TcpStream>> = join_all(opening).await.into_iter().collect();
    let mut streams = opened.expect("every connection is accepted");
    let request = format!("GET /me HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let asking = streams.iter_mut().enumerate().map(|(number, stream)| {
        let request = request.as_bytes();
        async move {
            let mut start = [0; 12];
            let asked = async {
                stream.write_all(request).await?;
                stream.read_exact(&mut start).await
            };
            let asked = tokio::time::timeout(TEST_TIMEOUT, asked).await.expect("an answer in time");
            asked.unwrap_or_else(|error| panic!("connection {number} was cut off: {error}"));
            assert_eq!(&start, b"HTTP/1.1 200", "connection {number}");
        }
    });
    join_all(asking).await;
    for (number, stream) in streams.iter_mut().enumerate() {
        assert!(!is_closed(stream).await, "connection {number} was closed");
    }
}

// A burst of one client is within the limits for 1,024 descriptors, a common default.
#[tokio::test]
async fn burst_of_connections_of_one_client_is_answered() {
    let home = Home::new(&[]);
    let gateway = home.start_with_descriptors(1_024).await;
    answers_a_burst(&gateway, "").await;
    let limited = LimitedGateway::with_descriptors(json!({}), 1_024).await;
    answers_a_burst(&limited.gateway, &format!("authorization: Bearer {}\r\n", limited.ann)).await;
    limited.bob_is_served().await;
}

// M6: one user who opened all sessions evicted another's.
#[tokio::test]
async fn sessions_over_the_user_limit_evict_that_users_oldest() {
    let limited = LimitedGateway::start(json!({ "limits": { "sessions": 16 } })).await;
    let address = limited.gateway.address;
    let bob = TestClient::with_headers(TestEra::Legacy, address, "/mcp", &bearer(&limited.bob)).await;
    for _ in 0..40 {
        TestClient::with_headers(TestEra::Legacy, address, "/mcp", &bearer(&limited.ann)).await;
    }
    let listed = bob.ask("tools/list", json!({})).await;
    assert!(listed.code().is_none(), "{}", listed.answer);
    let ready = limited.gateway.http().get_json("/ready").await;
    assert_eq!(ready["sessions"], 5, "a quarter of all sessions for ann, and one of bob");
}

// M6: 60 sessions with 3.9 MiB of `clientInfo` kept 230 MiB.
#[tokio::test]
async fn session_stores_a_bounded_client_info() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let open = async |info: Value, capabilities: Value| {
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let headers =
            [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let reply = gateway.http().send(Method::POST, "/mcp", &headers, body.to_string()).await;
        (reply.status, reply.json().await)
    };
    let big = json!({ "name": "n".repeat(1_000), "version": "1", "padding": "x".repeat(3_900_000) });
    let mut before = 0;
    for number in 0..60 {
        let (status, answer) = open(big.clone(), json!({})).await;
        assert_eq!(status, 200, "{answer}");
        if number == 9 {
            before = processes::resident_mib(gateway.pid());
        }
    }
    let after = processes::resident_mib(gateway.pid());
    assert!(after < before + 60, "{before} MiB became {after} MiB with 50 sessions more");
    let (status, answer) = open(json!({ "name": "n" }), json!({ "x": "y".repeat(20_000) })).await;
    assert_eq!((status, answer["error"]["code"].as_i64()), (400, Some(-32602)), "{answer}");
}

/// Sends a request with an unfinished body; returns how long it was kept open, and the answer.
async fn unfinished(gateway: &Gateway, head: &str) -> (Duration, String) {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{\"a\":"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let start = Instant::now();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(90), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "{head} stayed open");
    (start.elapsed(), String::from_utf8_lossy(&answer).into_owned())
}

// M7: request bodies had neither a total nor an idle deadline.
#[tokio::test]
async fn unfinished_request_body_times_out() {
    let home = Home::new(&[("demo", json!({ "bundled": "demo" }))]);
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let (mcp, call, upload) = tokio::join!(
        unfinished(&gateway, "POST /mcp"),
        unfinished(&gateway, "POST /tools/demo_hash/call"),
        unfinished(&gateway, "POST /files?name=a.txt"),
    );
    for (what, (kept, answer), longest) in [("mcp", mcp, 30), ("call", call, 30), ("upload", upload, 60)] {
        assert!(answer.starts_with("HTTP/1.1 408"), "{what}: {answer}");
        assert!(
            answer.contains("request.too-slow") && answer.contains("connection: close"),
            "{what}: {answer}"
        );
        assert!(kept < Duration::from_secs(longest), "{what}: {kept:?}");
    }
    assert_eq!(gateway.http().get_json("/files").await["files"], json!([]));
}

// audit: an unread stream was never closed.
#[tokio::test]
async fn client_that_does_not_read_is_disconnected() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(gateway.address).await.unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // The first request identifies the caller: unidentified connections have less time.
    let known = "GET /me HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(format!("{known}{}", request.repeat(400)).as_bytes()).await.unwrap();
    let start = Instant::now();
    // Writing to a closed connection fails.
    let cut = poll(Duration::from_secs(90), || async {
        stream.try_write(b" ").is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock).then_some(())
    });
    assert!(cut.await.is_some(), "it is still open after {:?}", start.elapsed());
    assert!(start.elapsed() > Duration::from_secs(20), "it was closed too early: {:?}", start.elapsed());
}
