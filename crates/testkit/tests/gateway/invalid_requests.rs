//! Invalid requests are refused with the exact status and code.

use ::http::Method;
use serde_json::{Value, json};
use toolbooth_testkit::fixture::{LEGACY, MODERN, TestEra};
use toolbooth_testkit::world::http::Headers;
use toolbooth_testkit::world::{Gateway, Home, TestClient, home};

pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const VERSION: (&str, &str) = ("mcp-protocol-version", MODERN);
const ECHO: (&str, &str) = ("mcp-name", "srv_echo");
const CALL: (&str, &str) = ("mcp-method", "tools/call");
const LIST: (&str, &str) = ("mcp-method", "tools/list");
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

pub async fn open() -> (Home, Gateway) {
    let home = Home::new(&[("srv", home::fixture_on_stdio("modern")), ("old", home::hostile(&["asks"]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv", "old"]).await;
    (home, gateway)
}

/// Posts a body; returns the status and the error code, 0 for a result.
pub async fn post(
    gateway: &Gateway,
    headers: Headers<'_>,
    body: impl Into<bytes::Bytes>,
) -> (u16, i64, Value) {
    let reply = gateway.http().send(Method::POST, "/mcp", headers, body).await;
    let status = reply.status;
    let answer = if reply.is_events() {
        let mut events = reply.events();
        let mut last = Value::Null;
        while let Some(message) = events.next().await {
            last = message;
        }
        last
    } else {
        reply.json().await
    };
    let code = match (answer.get("result"), answer["error"]["code"].as_i64()) {
        (Some(_), _) => 0,
        (None, Some(code)) => code,
        (None, None) => i64::MIN,
    };
    (status, code, answer)
}

fn nested(depth: usize) -> String {
    // The envelope has three levels: the message, its params, its arguments.
    let inner = depth - 3;
    format!("{}1{}", r#"{"a":"#.repeat(inner), "}".repeat(inner))
}

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"srv_echo","arguments":{arguments},{META}}}}}"#
    )
}

#[tokio::test]
async fn invalid_messages_are_refused_with_the_exact_code() {
    let (_home, gateway) = open().await;
    let modern = &[JSON, ACCEPT, VERSION, CALL, ECHO][..];
    let no_value = i64::MIN;
    let deepest = call(&format!(r#"{{"x":{}}}"#, nested(64)));
    let too_deep = call(&format!(r#"{{"x":{}}}"#, nested(65)));
    let full = call(&format!(r#"{{"x":"{}"}}"#, "y".repeat(4 * 1024 * 1024 - 1024)));
    let too_long = call(&format!(r#"{{"x":"{}"}}"#, "y".repeat(4 * 1024 * 1024)));
    let cases: Vec<(&str, Headers<'_>, Vec<u8>, u16, i64)> = vec![
        ("a good call", modern, call("{}").into(), 200, 0),
        ("no JSON", modern, b"hello".to_vec(), 400, -32700),
        ("nothing", modern, b"".to_vec(), 400, -32700),
        ("half a message", modern, call("{}").as_bytes()[..60].to_vec(), 400, -32700),
        ("trailing data", modern, format!("{} {{}}", call("{}")).into(), 400, -32700),
        (
            "invalid UTF-8",
            modern,
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}".to_vec(),
            400,
            -32700,
        ),
        ("a byte order mark", modern, format!("\u{feff}{}", call("{}")).into(), 400, -32700),
        (
            "duplicate keys",
            modern,
            br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_vec(),
            400,
            -32600,
        ),
        ("duplicate keys in arguments", modern, call(r#"{"a":1,"a":2}"#).into(), 400, -32600),
        ("duplicate keys, one escaped", modern, call(r#"{"a":1,"\u0061":2}"#).into(), 400, -32600),
        ("64 levels", modern, deepest.into(), 200, 0),
        ("65 levels", modern, too_deep.into(), 400, -32600),
        ("100,000 levels", modern, "[".repeat(100_000).into(), 400, -32600),
        ("a body just within the limit", modern, full.into(), 200, 0),
        ("a body over the limit", modern, too_long.into(), 413, -32600),
        (
            "`Method` in the wrong case",
            modern,
            br#"{"jsonrpc":"2.0","id":1,"Method":"tools/list"}"#.to_vec(),
            400,
            -32600,
        ),
        ("no `jsonrpc`", modern, br#"{"id":1,"method":"tools/list"}"#.to_vec(), 400, -32600),
        ("`jsonrpc` 1.0", modern, br#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#.to_vec(), 400, -32600),
        (
            "an id that is null",
            modern,
            br#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#.to_vec(),
            400,
            -32600,
        ),
        (
            "an id that is an object",
            modern,
            br#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#.to_vec(),
            400,
            -32600,
        ),
        (
            "an id with a fraction",
            modern,
            br#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#.to_vec(),
            400,
            -32600,
        ),
        (
            "a method that is a number",
            modern,
            br#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_vec(),
            400,
            -32600,
        ),
        (
            "params that are a list",
            modern,
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#.to_vec(),
            400,
            -32600,
        ),
        ("a number", modern, b"42".to_vec(), 400, -32600),
        ("a text", modern, br#""tools/list""#.to_vec(), 400, -32600),
        ("an empty batch", modern, b"[]".to_vec(), 400, -32600),
        ("arguments that are a list", modern, call("[1]").into(), 400, -32602),
        (
            "the wrong media type",
            &[("content-type", "text/plain"), ACCEPT, VERSION, CALL, ECHO],
            call("{}").into(),
            415,
            -32600,
        ),
        (
            "a modern notification",
            modern,
            br#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#.to_vec(),
            202,
            no_value,
        ),
    ];
    let mut wrong = Vec::new();
    for (what, headers, body, status, code) in cases {
        let (got_status, got_code, answer) = post(&gateway, headers, body).await;
        if (got_status, got_code) != (status, code) {
            let text: String = answer.to_string().chars().take(200).collect();
            wrong.push(format!("{what}: expected {status} {code}, got {got_status} {got_code} {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn invalid_headers_and_meta_are_refused_with_the_exact_code() {
    let (_home, gateway) = open().await;
    let good = call("{}");
    let list = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{META}}}}}"#);
    let own = format!("http://{}", gateway.address);
    let ours = [JSON, ACCEPT, VERSION, LIST, ("origin", own.as_str())];
    let with_meta = |meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{{meta}}}}}}}"#)
    };
    let version = |version: &str| format!(r#""io.modelcontextprotocol/protocolVersion":"{version}""#);
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    let method =
        |method: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{META}}}}}"#);
    let cases: Vec<(&str, Headers<'_>, String, u16, i64)> = vec![
        ("no version header", &[JSON, ACCEPT, CALL, ECHO], good.clone(), 400, -32020),
        ("no method header", &[JSON, ACCEPT, VERSION, ECHO], good.clone(), 400, -32020),
        ("no name header", &[JSON, ACCEPT, VERSION, CALL], good.clone(), 400, -32020),
        (
            "another version in the header",
            &[JSON, ACCEPT, ("mcp-protocol-version", LEGACY), CALL, ECHO],
            good.clone(),
            400,
            -32020,
        ),
        ("another method in the header", &[JSON, ACCEPT, VERSION, LIST, ECHO], good.clone(), 400, -32020),
        (
            "another name in the header",
            &[JSON, ACCEPT, VERSION, CALL, ("mcp-name", "srv_add")],
            good.clone(),
            400,
            -32020,
        ),
        ("the method header twice", &[JSON, ACCEPT, VERSION, CALL, CALL, ECHO], good.clone(), 400, -32020),
        (
            "a method header in the wrong case",
            &[JSON, ACCEPT, VERSION, ("mcp-method", "Tools/Call"), ECHO],
            good.clone(),
            400,
            -32020,
        ),
        (
            "a name in base64",
            &[JSON, ACCEPT, VERSION, CALL, ("mcp-name", "=?base64?c3J2X2VjaG8=?=")],
            good.clone(),
            200,
            0,
        ),
        (
            "a name in broken base64",
            &[JSON, ACCEPT, VERSION, CALL, ("mcp-name", "=?base64?***?=")],
            good.clone(),
            400,
            -32020,
        ),
        ("a good list", &[JSON, ACCEPT, VERSION, LIST], list.clone(), 200, 0),
        (
            "a session id on a modern request",
            &[JSON, ACCEPT, VERSION, LIST, ("mcp-session-id", "nonsense")],
            list.clone(),
            200,
            0,
        ),
        (
            "no `_meta`",
            &[JSON, ACCEPT, VERSION, LIST],
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into(),
            400,
            -32602,
        ),
        ("no version in `_meta`", &[JSON, ACCEPT, VERSION, LIST], with_meta(capabilities), 400, -32602),
        (
            "no capabilities in `_meta`",
            &[JSON, ACCEPT, VERSION, LIST],
            with_meta(&version(MODERN)),
            400,
            -32602,
        ),
        (
            "`_meta` that is a list",
            &[JSON, ACCEPT, VERSION, LIST],
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":[]}}"#.into(),
            400,
            -32602,
        ),
        (
            "an unknown future version",
            &[JSON, ACCEPT, ("mcp-protocol-version", "2099-01-01"), LIST],
            with_meta(&format!("{},{capabilities}", version("2099-01-01"))),
            400,
            -32022,
        ),
        (
            "a legacy version in `_meta`",
            &[JSON, ACCEPT, ("mcp-protocol-version", LEGACY), LIST],
            with_meta(&format!("{},{capabilities}", version(LEGACY))),
            400,
            -32022,
        ),
        (
            "an unknown method",
            &[JSON, ACCEPT, VERSION, ("mcp-method", "tools/dance")],
            method("tools/dance"),
            404,
            -32601,
        ),
        (
            "a legacy-only method",
            &[JSON, ACCEPT, VERSION, ("mcp-method", "ping")],
            method("ping"),
            404,
            -32601,
        ),
        (
            "a listen without a filter",
            &[JSON, ACCEPT, VERSION, ("mcp-method", "subscriptions/listen")],
            method("subscriptions/listen"),
            400,
            -32602,
        ),
        (
            "an unknown cursor",
            &[JSON, ACCEPT, VERSION, LIST],
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"cursor":"x",{META}}}}}"#),
            400,
            -32602,
        ),
        (
            "a foreign Origin",
            &[JSON, ACCEPT, VERSION, LIST, ("origin", "https://evil.example")],
            list.clone(),
            403,
            i64::MIN,
        ),
        (
            "the Origin `null`",
            &[JSON, ACCEPT, VERSION, LIST, ("origin", "null")],
            list.clone(),
            403,
            i64::MIN,
        ),
        (
            "an Origin that only looks local",
            &[JSON, ACCEPT, VERSION, LIST, ("origin", "http://localhost.evil.example")],
            list.clone(),
            403,
            i64::MIN,
        ),
        (
            "a local Origin on another port",
            &[JSON, ACCEPT, VERSION, LIST, ("origin", "http://localhost:3000")],
            list.clone(),
            403,
            i64::MIN,
        ),
        ("our own Origin", &ours, list.clone(), 200, 0),
        (
            "a foreign Host",
            &[JSON, ACCEPT, VERSION, LIST, ("host", "evil.example")],
            list.clone(),
            403,
            i64::MIN,
        ),
        ("localhost as Host", &[JSON, ACCEPT, VERSION, LIST, ("host", "localhost:1")], list.clone(), 200, 0),
        (
            "no session and no `_meta`",
            &[JSON, ACCEPT],
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into(),
            400,
            -32600,
        ),
        (
            "an unknown session",
            &[JSON, ACCEPT, ("mcp-session-id", "0123456789abcdef")],
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into(),
            404,
            -32600,
        ),
    ];
    let mut wrong = Vec::new();
    for (what, headers, body, status, code) in cases {
        let (got_status, got_code, answer) = post(&gateway, headers, body).await;
        if (got_status, got_code) != (status, code) {
            wrong.push(format!("{what}: expected {status} {code}, got {got_status} {got_code} {answer}"));
        }
        if code == -32022 {
            assert!(
                answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!(MODERN)),
                "{what}"
            );
            assert!(answer["error"]["data"]["requested"].is_string(), "{what}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn get_and_delete_need_a_session() {
    let (_home, gateway) = open().await;
    let http = gateway.http();
    let client = TestClient::of(TestEra::Legacy, gateway.address).await;
    let session = ("mcp-session-id", client.session().unwrap());
    let unknown = ("mcp-session-id", "0123456789abcdef0123456789abcdef");
    let events = ("accept", "text/event-stream");
    type Headers<'a> = Vec<(&'a str, &'a str)>;
    let cases: Vec<(&str, Method, Headers<'_>, u16)> = vec![
        ("GET without a session", Method::GET, vec![events], 405),
        ("DELETE without a session", Method::DELETE, vec![], 405),
        ("PUT", Method::PUT, vec![session], 405),
        ("PATCH", Method::PATCH, vec![], 405),
        ("GET of an unknown session", Method::GET, vec![events, unknown], 404),
        ("DELETE of an unknown session", Method::DELETE, vec![unknown], 404),
        ("GET that takes no events", Method::GET, vec![session, ("accept", "text/html")], 406),
        (
            "GET of a foreign page",
            Method::GET,
            vec![session, events, ("origin", "https://evil.example")],
            403,
        ),
        ("GET", Method::GET, vec![session, events], 200),
        (
            "an unknown revision on a session",
            Method::GET,
            vec![session, events, ("mcp-protocol-version", "1999-01-01")],
            400,
        ),
        ("DELETE", Method::DELETE, vec![session], 200),
        ("DELETE again", Method::DELETE, vec![session], 404),
    ];
    for (what, method, headers, status) in cases {
        let reply = http.send(method, "/mcp", &headers, "").await;
        assert_eq!(reply.status, status, "{what}");
        if status == 405 {
            assert!(reply.header("allow").unwrap_or_default().contains("POST"), "{what}");
        }
    }
    let response = client.ask("tools/list", json!({})).await;
    assert_eq!(response.status, 404, "an ended session is unknown");
}
