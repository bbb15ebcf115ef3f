//! HTTP connections: endless request heads, bodies in pieces, pipelined requests.

use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolbooth_testkit::world::{Gateway, Home, TEST_TIMEOUT};

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pieces","version":"1"}}}"#;

/// Sends `start`, then `more` every second; returns how long the connection stayed open and the data received.
async fn kept(gateway: &Gateway, start: &str, more: &str) -> (Duration, String) {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let began = Instant::now();
    stream.write_all(start.as_bytes()).await.unwrap();
    let (mut reply, mut piece) = (Vec::new(), [0; 4096]);
    while began.elapsed() < Duration::from_secs(45) {
        match tokio::time::timeout(Duration::from_secs(1), stream.read(&mut piece)).await {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(length)) => reply.extend_from_slice(&piece[..length]),
            Err(_) if more.is_empty() => {}
            // The next read detects a closed connection.
            Err(_) => drop(stream.write_all(more.as_bytes()).await),
        }
    }
    (began.elapsed(), String::from_utf8_lossy(&reply).into_owned())
}

#[tokio::test]
async fn request_heads_time_out_sooner_on_unidentified_connections() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let head = "GET /health HTTP/1.1\r\nhost: localhost\r\nx: ";
    let answered = format!("{HEALTH}{HEALTH}{head}");
    let known = format!("GET /me HTTP/1.1\r\nhost: localhost\r\n\r\n{head}");
    let (silent, dripping, late, mine, busy) = tokio::join!(
        kept(&gateway, "", ""),
        kept(&gateway, head, "a"),
        kept(&gateway, &answered, "a"),
        kept(&gateway, &known, "a"),
        kept(&gateway, HEALTH, HEALTH),
    );
    let cases = [
        ("silent", 0, 9..20, silent),
        ("dripping", 0, 9..20, dripping),
        ("late", 2, 9..20, late),
        ("known", 1, 28..40, mine),
    ];
    for (name, answers, seconds, (kept, reply)) in cases {
        assert!(seconds.contains(&kept.as_secs()), "{name}: {kept:?}");
        assert_eq!(reply.matches("HTTP/1.1 200").count(), answers, "{name}: {reply}");
    }
    assert!(busy.0.as_secs() >= 45, "an active connection stays open: {:?}", busy.0);
    assert!(busy.1.matches("HTTP/1.1 200").count() > 30, "{}", busy.1);
}

/// Reads until `count` answers have arrived.
async fn answers(stream: &mut TcpStream, count: usize) -> String {
    let (mut reply, mut piece) = (Vec::new(), [0; 4096]);
    let reading = async {
        while String::from_utf8_lossy(&reply).matches("HTTP/1.1 ").count() < count {
            match stream.read(&mut piece).await.unwrap() {
                0 => break,
                length => reply.extend_from_slice(&piece[..length]),
            }
        }
    };
    let _ = tokio::time::timeout(TEST_TIMEOUT, reading).await;
    String::from_utf8_lossy(&reply).into_owned()
}

fn post(framing: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{framing}\r\n\r\n")
}

#[tokio::test]
async fn split_bodies_and_pipelined_requests_are_served() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let length = format!("content-length: {}", INITIALIZE.len());
    let (first, second) = INITIALIZE.split_at(40);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());

    // Each piece separately; all at once; the end of one request together with the next.
    let chunked = post("transfer-encoding: chunked");
    let cases: [(&str, usize, Vec<String>); 5] = [
        ("with a length", 1, vec![post(&length), first.into(), second.into()]),
        ("in chunks", 1, vec![chunked.clone(), chunk(first), chunk(second), "0\r\n\r\n".into()]),
        ("chunks at once", 1, vec![format!("{chunked}{}{}0\r\n\r\n", chunk(first), chunk(second))]),
        ("three at once", 3, vec![format!("{0}{INITIALIZE}{0}{INITIALIZE}{HEALTH}", post(&length))]),
        ("the next with the end", 2, vec![format!("{}{first}", post(&length)), format!("{second}{HEALTH}")]),
    ];
    for (name, count, pieces) in cases {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let reply = answers(&mut stream, count).await;
        assert_eq!(reply.matches("HTTP/1.1 200").count(), count, "{name}: {reply}");
        assert!(reply.contains("serverInfo"), "{name}: {reply}");
        // The connection can still be used.
        stream.write_all(HEALTH.as_bytes()).await.unwrap();
        assert!(answers(&mut stream, 1).await.contains("HTTP/1.1 200"), "{name}");
    }
}
