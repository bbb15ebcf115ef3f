//! Files: uploads, access, and the URLs that tools fetch them with.

use crate::token_users::{TokenUsers, bearer, make_token, run};
use ::http::Method;
use bytes::Bytes;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{
    Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, poll, processes,
};

const KEY: &str = "3f1c7a94e02b85d6c1709be35a48f2d0";
const MIB: usize = 1 << 20;

/// A tool with a file argument, and one with several.
const TOOLS: &str = r#"[{"name":"read","inputSchema":{"type":"object","properties":{
    "filename":{"type":"string"},"original_filename":{"type":"string"},"file_url":{"type":"string"}}}},
    {"name":"merge","inputSchema":{"type":"object","properties":{
    "file_names":{"type":"array","items":{"type":"string"}},"file_urls":{"type":"array"}}}}]"#;

/// A gateway with a scripted server whose tools take files.
struct FileSetup {
    home: Home,
    gateway: Gateway,
    upstream: ScriptedServer,
}

impl FileSetup {
    async fn new(files: Value) -> Self {
        let upstream = ScriptedServer::start(TestEra::Modern).await;
        upstream.list(TOOLS);
        let mut entry = upstream.entry();
        entry["inject"] = true.into();
        let home = Home::with_settings(json!({ "files": files }), &[("srv", entry)]);
        let gateway = home.start().await;
        gateway.connected(&["srv"]).await;
        Self { home, gateway, upstream }
    }

    async fn put(&self, name: &str, content: impl Into<Bytes>) -> Value {
        put(&self.gateway.http(), name, content).await
    }

    /// Starts an endless call with this file; returns the arguments at the server and a handle that ends the call.
    async fn call(&self, name: &str) -> (Value, RunningCall) {
        self.upstream.answer(ScriptedAnswer::Stalls { text: String::new(), length: 100 });
        let calls = self.upstream.seen("tools/call").len();
        let client = TestClient::with_capabilities(TestEra::Modern, self.gateway.address, json!({})).await;
        let arguments = json!({ "filename": name });
        let calling =
            RunningCall(tokio::spawn(async move { drop(client.call("srv_read", arguments).await) }));
        let seen =
            poll(TEST_TIMEOUT, || async { self.upstream.seen("tools/call").get(calls).cloned() }).await;
        let body: Value = serde_json::from_str(&seen.expect("the call arrived").body).unwrap();
        (body["params"]["arguments"].clone(), calling)
    }

    /// Fetches a file URL as a server would.
    async fn fetch(&self, url: &str) -> (u16, Bytes) {
        let path = path_of(url);
        let reply = Http::new(self.gateway.address).send(Method::GET, path, &[], "").await;
        (reply.status, reply.bytes().await)
    }
}

/// A running call; dropping it closes the client's connection.
struct RunningCall(tokio::task::JoinHandle<()>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn path_of(url: &str) -> &str {
    &url[url.find("/files/download/").unwrap_or_else(|| panic!("not a file URL: {url}"))..]
}

async fn put(http: &Http, name: &str, content: impl Into<Bytes>) -> Value {
    let reply = http.send(Method::POST, &format!("/files?name={name}"), &[], content.into()).await;
    assert_eq!(reply.status, 201);
    reply.json().await
}

fn form(boundary: &str, parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().map(|(head, body)| {
        format!("--{boundary}\r\ncontent-disposition: form-data; {head}\r\n\r\n{body}\r\n")
    });
    format!("{}--{boundary}--\r\n", parts.collect::<String>())
}

/// The number of files below a folder.
fn below(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { below(&entry.path()) } else { 1 }).sum()
}

#[tokio::test]
async fn tool_gets_a_file_url_instead_of_a_name_and_can_fetch_it() {
    let scene = FileSetup::new(json!({})).await;
    let file = scene.put("r%C3%A9sum%C3%A9.txt", "hello").await;
    let (arguments, _calling) = scene.call("résumé.txt").await;
    let url = arguments["filename"].as_str().unwrap();
    let (address, id) = (scene.gateway.address, file["id"].as_str().unwrap());
    let named = format!("http://{address}/files/download/{id}/r%C3%A9sum%C3%A9.txt?token=");
    assert!(url.starts_with(&named), "{url}");
    assert_eq!(arguments["file_url"], url);
    assert_eq!(arguments["original_filename"], "résumé.txt");
    assert_eq!(scene.fetch(url).await, (200, Bytes::from("hello")));
    // URLs without the name still work.
    let unnamed = url.replace("/r%C3%A9sum%C3%A9.txt?", "?");
    assert_eq!(scene.fetch(&unnamed).await, (200, Bytes::from("hello")));
    let reply = scene.gateway.http().send(Method::HEAD, path_of(url), &[], "").await;
    let headers: Vec<_> = ["content-length", "content-type", "content-disposition", "x-content-type-options"]
        .map(|name| reply.header(name).unwrap_or_default().to_owned())
        .into();
    assert_eq!(
        headers,
        [
            "5",
            "text/plain; charset=utf-8",
            "inline; filename=\"r_sum_.txt\"; filename*=UTF-8''r%C3%A9sum%C3%A9.txt",
            "nosniff"
        ]
    );
    // Neither the log nor the audit contains the token.
    let token = url.split_once("token=").unwrap().1;
    let audit = scene.gateway.http().get_json("/audit").await.to_string();
    assert!(!scene.gateway.log().contains(token) && !audit.contains(token));
}

// Once, names that are not files were refused by default, so tools with an output name could not be called.
#[tokio::test]
async fn values_that_are_not_files_are_sent_with_a_warning_or_refused_as_configured() {
    let scene = FileSetup::new(json!({})).await;
    scene.put("a.txt", "aaaa").await;
    scene.upstream.answer(ScriptedAnswer::result(r#"{"content":[],"resultType":"complete"}"#));
    let client = TestClient::of(TestEra::Modern, scene.gateway.address).await;
    for name in ["", "nope.txt", "https://files.example/a.txt"] {
        let transcript = client.call("srv_read", json!({ "filename": name })).await;
        let seen = scene.upstream.seen("tools/call").pop().unwrap();
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        assert_eq!(body["params"]["arguments"]["filename"], name);
        let warned = transcript.answer.to_string();
        assert!(warned.contains("is not one of your files"), "{warned}");
    }
    let strict = FileSetup::new(json!({ "unknown": "error" })).await;
    strict.put("a.txt", "aaaa").await;
    let client = TestClient::of(TestEra::Modern, strict.gateway.address).await;
    let transcript = client.call("srv_merge", json!({ "file_names": ["a.txt", "nope.txt"] })).await;
    assert_eq!(transcript.fault(), "call.unknown-file", "{}", transcript.answer);
    assert_eq!(strict.upstream.seen("tools/call").len(), 0);
}

#[tokio::test]
async fn every_file_token_gets_its_status() {
    let scene = FileSetup::new(json!({ "key": KEY, "grace_seconds": 1 })).await;
    scene.put("a.txt", "aaaa").await;
    let other = scene.put("b.txt", "bbbb").await["id"].as_str().unwrap().to_owned();
    let gone = scene.put("c.txt", "cccc").await["id"].as_str().unwrap().to_owned();
    let (arguments, calling) = scene.call("a.txt").await;
    let url = arguments["filename"].as_str().unwrap().to_owned();
    let (path, token) = path_of(&url).split_once("?token=").unwrap();
    let (removed, _calling) = scene.call("c.txt").await;
    let removed = removed["filename"].as_str().unwrap().to_owned();
    let deleted = scene.gateway.http().send(Method::DELETE, &format!("/files/{gone}"), &[], "").await;
    assert_eq!(deleted.status, 200);
    let altered = format!("{path}?token={}A{}", &token[..20], &token[21..]);
    let cases = [
        ("good", path_of(&url).to_owned(), 200),
        ("good again", path_of(&url).to_owned(), 200),
        ("missing", path.to_owned(), 401),
        ("empty", format!("{path}?token="), 401),
        ("altered", altered, 401),
        ("too long", format!("{path}?token={}", "x".repeat(5_000)), 401),
        ("other file", format!("/files/download/{other}?token={token}"), 403),
        ("other file by name", format!("/files/download/{other}/a.txt?token={token}"), 403),
        ("no file", format!("/files/download/nonsense?token={token}"), 403),
        ("gone", path_of(&removed).to_owned(), 404),
    ];
    for (case, path, status) in cases {
        let reply = scene.gateway.http().send(Method::GET, &path, &[], "").await;
        assert_eq!(reply.status, status, "{case}");
        let tell = String::from_utf8_lossy(&reply.bytes().await).into_owned();
        assert_eq!(status == 200, tell == "aaaa", "{case}: {tell}");
    }
    // A gateway with the same key accepts the token but has no such file; one with another key rejects it.
    for (key, status) in [(KEY, 404), ("00112233445566778899aabbccddeeff", 401)] {
        let twin = Home::with_settings(json!({ "files": { "key": key } }), &[]);
        let twin = twin.start().await;
        let reply = Http::new(twin.address).send(Method::GET, path_of(&url), &[], "").await;
        assert_eq!(reply.status, status, "{key}");
    }
    // The token ends with its call, after the grace period.
    drop(calling);
    let ended = poll(TEST_TIMEOUT, || async { (scene.fetch(&url).await.0 == 401).then_some(()) }).await;
    assert!(ended.is_some(), "a token outlives its call");
}

#[tokio::test]
async fn file_token_expires_is_used_up_and_survives_a_restart_for_the_grace_period() {
    let scene = FileSetup::new(json!({ "single_use": true, "url_seconds": 3 })).await;
    scene.put("a.txt", "aaaa").await;
    let (arguments, _calling) = scene.call("a.txt").await;
    let url = arguments["filename"].as_str().unwrap().to_owned();
    assert_eq!(scene.fetch(&url).await.0, 200);
    assert_eq!(scene.fetch(&url).await.0, 401, "used up");
    let (arguments, _calling) = scene.call("a.txt").await;
    let url = arguments["filename"].as_str().unwrap().to_owned();
    let start = Instant::now();
    let head = async || scene.gateway.http().send(Method::HEAD, path_of(&url), &[], "").await.status;
    while head().await == 200 {
        assert!(start.elapsed() < TEST_TIMEOUT);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(10), "it expires in time");

    for (grace, status) in [(60, 200), (0, 401)] {
        let scene = FileSetup::new(json!({ "grace_seconds": grace })).await;
        scene.put("a.txt", "aaaa").await;
        let (arguments, _calling) = scene.call("a.txt").await;
        let url = arguments["filename"].as_str().unwrap().to_owned();
        assert_eq!(scene.fetch(&url).await.0, 200);
        scene.gateway.kill().await;
        let gateway = scene.home.start().await;
        let reply = Http::new(gateway.address).send(Method::GET, path_of(&url), &[], "").await;
        assert_eq!(reply.status, status, "grace {grace}");
    }
}

#[tokio::test]
async fn echoed_file_url_does_not_reach_the_model() {
    let scene = FileSetup::new(json!({})).await;
    scene.put("a.txt", "aaaa").await;
    let client = TestClient::of(TestEra::Modern, scene.gateway.address).await;
    scene.upstream.answer(ScriptedAnswer::Echo);
    let transcript = client.call("srv_read", json!({ "filename": "a.txt" })).await;
    assert!(
        transcript.text().contains("/files/download/") && transcript.text().contains("token=[redacted]"),
        "{}",
        transcript.answer
    );
    assert!(!transcript.text().contains("token=v1"), "{}", transcript.answer);
}

#[tokio::test]
async fn weak_file_keys_prevent_the_start() {
    for key in ["changeme-changeme-changeme-changeme", "short", &"a".repeat(40)] {
        let home = Home::with_settings(json!({ "files": { "key": key } }), &[]);
        let output = home.command("serve").args(["--listen", "127.0.0.1:0"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("config.weak-key"), "{key}: {said}");
    }
}

#[tokio::test]
async fn file_of_another_user_is_indistinguishable_from_none() {
    let known = TokenUsers::start().await;
    let ann = Http::new(known.gateway.address).sending(&bearer(&known.ann.0));
    let bob = Http::new(known.gateway.address).sending(&bearer(&known.bob));
    let file = put(&ann, "secret.txt", "of ann").await;
    let id = file["id"].as_str().unwrap();
    let unknown = "01a1de93-0a4b-73f3-b494-d0636a86ce78";
    for (method, path) in
        [(Method::GET, "/files/ID"), (Method::GET, "/files/ID/content"), (Method::DELETE, "/files/ID")]
    {
        let ask = async |id: &str| {
            let reply = bob.send(method.clone(), &path.replace("ID", id), &[], "").await;
            (reply.status, reply.json().await)
        };
        assert_eq!(ask(id).await, ask(unknown).await, "{method} {path}");
        assert_eq!(ask(id).await.0, 404);
    }
    assert_eq!(bob.get_json("/files").await, json!({ "files": [] }));
    assert_eq!(bob.get_json("/files?name=secret.txt").await, json!({ "files": [] }));
    let page = bob.get_json(&format!("/files?before={id}")).await;
    assert_eq!(page, json!({ "files": [] }));
    let anonymous =
        Http::new(known.gateway.address).send(Method::GET, &format!("/files/{id}/content"), &[], "").await;
    assert_eq!(anonymous.status, 401);
    let own = ann.send(Method::GET, &format!("/files/{id}/content"), &[], "").await;
    assert_eq!((own.status, own.bytes().await), (200, Bytes::from("of ann")));
}

#[tokio::test]
async fn files_of_the_session_are_found_first() {
    let scene = FileSetup::new(json!({})).await;
    let http = scene.gateway.http();
    scene.put("a.txt", "shared").await;
    let headers = [("toolbooth-session", "s1")];
    let reply = http.send(Method::POST, "/files?name=a.txt", &headers, "of s1").await;
    assert_eq!(reply.json().await["session"], "s1");
    let of_form = form("x", &[("name=\"session\"", "s2"), ("name=\"file\"; filename=\"a.txt\"", "of s2")]);
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let reply = http.send(Method::POST, "/files", &headers, of_form).await;
    assert_eq!(reply.json().await["session"], "s2");
    for (era, session, expected) in [
        (TestEra::Modern, Some("s1"), "of s1"),
        (TestEra::Legacy, Some("s1"), "of s1"),
        (TestEra::Modern, Some("s2"), "of s2"),
        (TestEra::Modern, Some("s3"), "shared"),
        (TestEra::Modern, None, "shared"),
        (TestEra::Legacy, None, "shared"),
    ] {
        scene.upstream.answer(ScriptedAnswer::result(r#"{"content":[],"resultType":"complete"}"#));
        let headers: Vec<(String, String)> =
            session.map(|session| ("toolbooth-session".to_owned(), session.to_owned())).into_iter().collect();
        let client = TestClient::with_headers(era, scene.gateway.address, "/mcp", &headers).await;
        client.call("srv_read", json!({ "filename": "a.txt" })).await;
        let seen = scene.upstream.seen("tools/call").pop().unwrap();
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let url = body["params"]["arguments"]["filename"].as_str().unwrap();
        assert_eq!(scene.fetch(url).await.1, expected, "{era:?} {session:?}");
    }
    let listed = http.get_json("/files?session=s1").await;
    let names: Vec<&Value> =
        listed["files"].as_array().unwrap().iter().map(|file| &file["session"]).collect();
    assert_eq!(names, [&json!("s1"), &Value::Null]);
    let bad = http.send(Method::GET, "/files", &[("toolbooth-session", "")], "").await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn range_requests_follow_the_standard() {
    let scene = FileSetup::new(json!({})).await;
    let content: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    let file = scene.put("x.bin", content.clone()).await;
    let path = format!("/files/{}/content", file["id"].as_str().unwrap());
    let http = scene.gateway.http();
    let cases: [(&str, u16, Option<&str>, std::ops::Range<usize>); 6] = [
        ("bytes=0-9", 206, Some("bytes 0-9/300000"), 0..10),
        ("bytes=299990-", 206, Some("bytes 299990-299999/300000"), 299_990..300_000),
        ("bytes=-5", 206, Some("bytes 299995-299999/300000"), 299_995..300_000),
        ("bytes=100000-199999", 206, Some("bytes 100000-199999/300000"), 100_000..200_000),
        ("bytes=300000-", 416, Some("bytes */300000"), 0..0),
        ("bytes=x", 200, None, 0..300_000),
    ];
    for (range, status, content_range, bytes) in cases {
        let reply = http.send(Method::GET, &path, &[("range", range)], "").await;
        assert_eq!((reply.status, reply.header("content-range")), (status, content_range), "{range}");
        match status {
            416 => assert_eq!(reply.json().await["code"], "request.bad-range", "{range}"),
            _ => assert_eq!(reply.bytes().await, content[bytes], "{range}"),
        }
    }
    let tag = http.send(Method::HEAD, &path, &[], "").await.header("etag").unwrap().to_owned();
    let same = http.send(Method::GET, &path, &[("if-none-match", &tag)], "").await;
    assert_eq!((same.status, same.bytes().await.len()), (304, 0));
    for (known, status) in [(tag.as_str(), 206), ("\"other\"", 200)] {
        let reply = http.send(Method::GET, &path, &[("range", "bytes=0-0"), ("if-range", known)], "").await;
        assert_eq!(reply.status, status, "{known}");
    }
}

#[tokio::test]
async fn active_content_is_not_served_inline() {
    let scene = FileSetup::new(json!({})).await;
    for (name, kind, how) in [
        ("a.svg", "image/svg+xml", "attachment"),
        ("a.html", "text/html", "attachment"),
        ("a.txt", "text/html", "attachment"),
        ("a.png", "image/png", "inline"),
        ("a.html", "image/png", "inline"),
    ] {
        let headers = [("content-type", kind)];
        let reply =
            scene.gateway.http().send(Method::POST, &format!("/files?name={name}"), &headers, "<x>").await;
        let id = reply.json().await["id"].as_str().unwrap().to_owned();
        let reply = scene.gateway.http().send(Method::GET, &format!("/files/{id}/content"), &[], "").await;
        let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
        assert!(header("content-disposition").starts_with(how), "{name} {kind}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert!(header("content-security-policy").contains("sandbox"));
    }
}

#[tokio::test]
async fn hostile_file_names_are_sanitized() {
    let scene = FileSetup::new(json!({})).await;
    let cases = [
        ("../../../../tmp/evil", "evil"),
        ("..%2F..%2Fevil", "evil"),
        ("C:%5CWindows%5Cevil.exe", "evil.exe"),
        ("%2e%2e%2f.bashrc", "bashrc"),
        ("a%00b%0d%0ac.txt", "abc.txt"),
        ("nul.txt", "_nul.txt"),
    ];
    for (name, expected) in cases {
        assert_eq!(scene.put(name, "x").await["name"], expected, "{name}");
    }
    let long = scene.put(&format!("{}.txt", "n".repeat(20_000)), "x").await;
    assert_eq!(long["name"].as_str().unwrap().len(), 150);
    for name in ["", "..", "%2F", "%00"] {
        let reply = scene.gateway.http().send(Method::POST, &format!("/files?name={name}"), &[], "x").await;
        assert_eq!(
            (reply.status, reply.json().await["code"].clone()),
            (400, json!("file.bad-name")),
            "{name:?}"
        );
    }
    let blobs = scene.home.data().join("blobs");
    assert_eq!(below(&blobs), cases.len() + 1);
}

#[tokio::test]
async fn oversized_forms_are_refused_in_bounded_memory() {
    let scene = FileSetup::new(json!({ "max_upload_bytes": 64 * MIB })).await;
    let before = processes::peak_mib(scene.gateway.pid());
    let file = "name=\"file\"; filename=\"a.txt\"";
    let many: Vec<(&str, &str)> = vec![("name=\"name\"", "x"); 10_000];
    let long = "h".repeat(40 * MIB);
    let headed =
        format!("--x\r\ncontent-disposition: form-data; {file}\r\nx-long: {long}\r\n\r\nbody\r\n--x--\r\n");
    let cases = [
        ("many parts", form("x", &many)),
        ("a long header", headed),
        ("a long preamble", format!("{long}{}", form("x", &[(file, "body")]))),
        ("a long text", form("x", &[("name=\"description\"", &long), (file, "body")])),
        ("two files", form("x", &[(file, "one"), (file, "two")])),
        ("no file", form("x", &[("name=\"name\"", "a.txt")])),
        ("an unknown field", form("x", &[("name=\"nmae\"", "a.txt"), (file, "body")])),
        ("cut short", form("x", &[(file, "body")])[..60].to_owned()),
        ("not closed", form("x", &[(file, "body")]).replace("--x--\r\n", "")),
        ("nothing", String::new()),
    ];
    for (case, body) in cases {
        let headers = [("content-type", "multipart/form-data; boundary=x")];
        let reply = scene.gateway.http().send(Method::POST, "/files", &headers, body).await;
        let (status, problem) = (reply.status, reply.json().await);
        assert_eq!(status, 400, "{case}: {problem}");
    }
    let no_boundary = [("content-type", "multipart/form-data")];
    let reply = scene.gateway.http().send(Method::POST, "/files", &no_boundary, "x").await;
    assert_eq!(reply.status, 400);
    let grown = processes::peak_mib(scene.gateway.pid()) - before;
    assert!(grown < 16, "the gateway grew by {grown} MiB");
    assert_eq!(scene.gateway.http().get_json("/files").await, json!({ "files": [] }));
    let blobs = scene.home.data().join("blobs");
    let gone = poll(TEST_TIMEOUT, || async { (below(&blobs) == 0).then_some(()) }).await;
    assert!(gone.is_some(), "refused uploads left a file");
}

/// Sends the head of an upload, then pieces until the gateway answers; returns the pieces sent and the answer.
async fn pour(gateway: &Gateway, length: Option<usize>, pieces: usize) -> (usize, String) {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let framing = match length {
        Some(length) => format!("content-length: {length}"),
        None => "transfer-encoding: chunked".to_owned(),
    };
    let head = format!("POST /files?name=big.bin HTTP/1.1\r\nhost: {}\r\n{framing}\r\n\r\n", gateway.address);
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; MIB];
    let mut sent = 0;
    for _ in 0..pieces {
        let written = match length {
            Some(_) => stream.write_all(&piece).await,
            None => stream.write_all(&[format!("{MIB:x}\r\n").as_bytes(), &piece, b"\r\n"].concat()).await,
        };
        if written.is_err() {
            break;
        }
        sent += 1;
        // Stop sending once there is an answer.
        let answered = async { stream.peek(&mut [0]).await };
        if tokio::time::timeout(Duration::from_millis(5), answered).await.is_ok() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut answer)).await;
    (sent, String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn oversized_upload_is_refused_while_it_is_received() {
    let scene = FileSetup::new(json!({ "max_upload_bytes": 8 * MIB })).await;
    let is_refused = |answer: &str| answer.starts_with("HTTP/1.1 413 ") && answer.contains("file.too-large");
    let (sent, answer) = pour(&scene.gateway, Some(100 * MIB), 100).await;
    assert!(sent < 5 && is_refused(&answer), "refused by `Content-Length`: {sent} {answer}");
    let (sent, answer) = pour(&scene.gateway, None, 100).await;
    assert!((8..30).contains(&sent) && is_refused(&answer), "refused by the bytes received: {sent} {answer}");
    // An upload slightly over the limit, sent to its end, can still read the answer.
    let http = scene.gateway.http();
    let reply = http.send(Method::POST, "/files?name=x", &[], vec![0; 8 * MIB + 1]).await;
    assert_eq!((reply.status, reply.json().await["code"].clone()), (413, json!("file.too-large")));
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let body = form("x", &[("name=\"file\"; filename=\"a\"", &"x".repeat(8 * MIB + 1))]);
    assert_eq!(http.send(Method::POST, "/files", &headers, body).await.status, 413);
    put(&http, "just.bin", vec![0; 8 * MIB]).await;
    assert_eq!(http.get_json("/files").await["files"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn two_hundred_mebibytes_are_transferred_in_little_memory() {
    const SIZE: usize = 200 * MIB;
    let scene = FileSetup::new(json!({})).await;
    // One of each kind first, so that the first use is not measured.
    scene.put("small.bin", vec![7; MIB]).await;
    let (arguments, _calling) = scene.call("small.bin").await;
    scene.fetch(arguments["filename"].as_str().unwrap()).await;
    let before = processes::peak_mib(scene.gateway.pid());
    let content = Bytes::from(vec![7_u8; SIZE]);
    assert_eq!(scene.put("big.bin", content.clone()).await["size_bytes"], SIZE);
    let head = b"--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"big.bin\"\r\n\r\n";
    let body = [&head[..], &content, b"\r\n--x--\r\n"].concat();
    drop(content);
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let reply = scene.gateway.http().send(Method::POST, "/files", &headers, body).await;
    let file = reply.json().await;
    assert_eq!((file["size_bytes"].clone(), file["version"].clone()), (json!(SIZE), json!(2)));
    let (arguments, _calling) = scene.call("big.bin").await;
    let path = path_of(arguments["filename"].as_str().unwrap()).to_owned();
    let reply = Http::new(scene.gateway.address).send(Method::GET, &path, &[], "").await;
    assert_eq!(reply.length().await, SIZE as u64);
    let grown = processes::peak_mib(scene.gateway.pid()) - before;
    assert!(grown < 16, "the gateway grew by {grown} MiB");
}

#[tokio::test]
async fn interrupted_upload_leaves_no_file() {
    let scene = FileSetup::new(json!({})).await;
    let blobs = scene.home.data().join("blobs");
    scene.put("kept.txt", "kept").await;
    let mut stream = TcpStream::connect(scene.gateway.address).await.unwrap();
    let head = format!(
        "POST /files?name=cut.bin HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        scene.gateway.address,
        100 * MIB
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; 4 * MIB]).await.unwrap();
    let begun = poll(TEST_TIMEOUT, || async { (below(&blobs) == 2).then_some(()) }).await;
    assert!(begun.is_some(), "the upload is on the disk");
    scene.gateway.kill().await;
    // Complete content without a row.
    let orphan = blobs.join("78/01a1de93-0a4b-73f3-b494-d0636a86ce78");
    std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    std::fs::write(&orphan, "orphan").unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let gateway = scene.home.start().await;
    let listed = gateway.http().get_json("/files").await;
    let names: Vec<&Value> = listed["files"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
    assert_eq!(names, ["kept.txt"]);
    let swept = poll(TEST_TIMEOUT, || async { (below(&blobs) == 1).then_some(()) }).await;
    assert!(swept.is_some(), "{} files are left", below(&blobs));
    let id = listed["files"][0]["id"].as_str().unwrap();
    let reply = gateway.http().send(Method::GET, &format!("/files/{id}/content"), &[], "").await;
    assert_eq!(reply.bytes().await, "kept");
    // An upload whose client disconnects leaves no file either.
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream
        .write_all(head.replace(&scene_host(&head), &gateway.address.to_string()).as_bytes())
        .await
        .unwrap();
    stream.write_all(&vec![b'x'; 4 * MIB]).await.unwrap();
    assert!(poll(TEST_TIMEOUT, || async { (below(&blobs) == 2).then_some(()) }).await.is_some());
    drop(stream);
    assert!(poll(TEST_TIMEOUT, || async { (below(&blobs) == 1).then_some(()) }).await.is_some());
}

fn scene_host(head: &str) -> String {
    head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

// audit: file URLs outlived the loss of rights, and had unlimited uses.
#[tokio::test]
async fn file_url_ends_when_its_owner_loses_the_right_or_it_is_used_up() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(TOOLS);
    let mut entry = upstream.entry();
    entry["inject"] = true.into();
    let settings = json!({
        "auth": { "mode": "token" }, "policy": { "consent": "client" }, "files": { "max_uses": 2 },
    });
    let home = Home::with_settings(settings, &[("srv", entry)]);
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let (ann, ann_id) = make_token(&home, None, "ann", &[]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&root);
    gateway.connected(&["srv"]).await;
    let http = Http::new(gateway.address).sending(&bearer(&ann));
    put(&http, "a.txt", "aaaa").await;
    upstream.answer(ScriptedAnswer::Stalls { text: String::new(), length: 100 });
    let mut urls = Vec::new();
    let mut calling = Vec::new();
    for number in 0..2 {
        let http = http.clone();
        calling.push(RunningCall(tokio::spawn(async move {
            let body = r#"{"arguments":{"filename":"a.txt"}}"#;
            drop(http.try_post("/tools/srv_read/call", body).await);
        })));
        let seen = poll(TEST_TIMEOUT, || async { upstream.seen("tools/call").get(number).cloned() }).await;
        let body: Value = serde_json::from_str(&seen.expect("the call arrived").body).unwrap();
        urls.push(body["params"]["arguments"]["filename"].as_str().unwrap().to_owned());
    }
    let fetch = async |url: &str| {
        let reply = Http::new(gateway.address).send(Method::GET, path_of(url), &[], "").await;
        reply.status
    };
    let used = [fetch(&urls[0]).await, fetch(&urls[0]).await, fetch(&urls[0]).await];
    assert_eq!(used, [200, 200, 401], "the limit is two uses");
    assert_eq!(fetch(&urls[1]).await, 200);
    assert!(run(&home, &["tokens", "revoke", &ann_id], Some(&root)).status.success());
    assert_eq!(fetch(&urls[1]).await, 401, "ann has no rights any more");
}

// audit: a server that left the catalog was still permitted.
#[tokio::test]
async fn file_url_ends_when_its_server_leaves_the_catalog() {
    let scene = FileSetup::new(json!({})).await;
    scene.put("a.txt", "aaaa").await;
    let (arguments, _calling) = scene.call("a.txt").await;
    let url = arguments["filename"].as_str().unwrap();
    assert_eq!(scene.fetch(url).await, (200, Bytes::from("aaaa")));
    // The call ends with its server. Its file URLs would be valid for another minute, the default grace.
    scene.home.configure(json!({ "files": {} }), &[]);
    let client = TestClient::of(TestEra::Modern, scene.gateway.address).await;
    let left = poll(TEST_TIMEOUT, || async {
        let names = client.names("tools/list", "tools").await;
        (!names.iter().any(|name| name == "srv_read")).then_some(())
    });
    assert!(left.await.is_some(), "the server is still listed");
    assert_eq!(scene.fetch(url).await.0, 401);
}
