//! Checks the OpenAPI document against the gateway that serves it.

use hyper::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use toolbooth_testkit::world::{Gateway, Home};

async fn gateway() -> (Home, Gateway) {
    let home = Home::new(&[]);
    home.configure(json!({}), &[("demo", json!({ "bundled": "demo" }))]);
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    (home, gateway)
}

#[tokio::test]
async fn every_path_accepts_exactly_the_documented_methods() {
    let (_home, gateway) = gateway().await;
    let http = gateway.http();
    let document = http.get_json("/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 30, "{}", paths.len());
    let mut ids = BTreeSet::new();
    for (path, item) in paths {
        let filled: String = path
            .split('/')
            .map(|segment| if segment.starts_with('{') { "none" } else { segment })
            .collect::<Vec<_>>()
            .join("/");
        for method in ["get", "post", "put", "patch", "delete", "trace"] {
            let reply = http
                .send(
                    Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method"),
                    &filled,
                    &[],
                    "",
                )
                .await;
            let operation = &item[method];
            assert_eq!(reply.status == 405, operation.is_null(), "{method} {path}: {}", reply.status);
            if operation.is_null() {
                assert!(reply.header("allow").is_some(), "{method} {path}");
                assert_eq!(reply.json().await["code"], "request.bad-method", "{method} {path}");
                continue;
            }
            assert!(ids.insert(operation["operationId"].as_str().expect("an id")), "{operation}");
            let status = reply.status.to_string();
            assert!(!operation["responses"][&status].is_null(), "{method} {path} answered with {status}");
        }
    }
    let mut references = Vec::new();
    gather(&document, &mut references);
    for reference in references {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference} does not resolve");
    }
}

fn gather<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|field| gather(field, references));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, references)),
        _ => {}
    }
}

#[tokio::test]
async fn openapi_page_loads_only_local_resources() {
    let (_home, gateway) = gateway().await;
    let http = gateway.http();
    for (path, kind) in
        [("/docs", "text/html"), ("/docs/docs.js", "text/javascript"), ("/docs/docs.css", "text/css")]
    {
        let reply = http.send(Method::GET, path, &[], "").await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.header("content-type").is_some_and(|found| found.starts_with(kind)), "{path}");
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let text = String::from_utf8(reply.bytes().await.to_vec()).expect("text");
        assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
    }
    let strange = [
        (Method::GET, "/tools/%FF", 400, "request.bad-path"),
        (Method::GET, "/health?x=1", 400, "request.bad-query"),
        (Method::GET, "/nowhere", 404, "request.not-found"),
        (Method::POST, "/docs", 405, "request.bad-method"),
    ];
    for (method, path, status, code) in strange {
        let reply = http.send(method, path, &[], "").await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
        assert_eq!(reply.json().await["code"], code, "{path}");
    }
    // Found by a fuzzer: a list was read as the fields of a body, and text that the store rejects was a server error.
    for (path, body, code) in [
        ("/plans", "[null, null]", "request.bad-body"),
        ("/tokens", "[\"ann\", [], null, null, null]", "request.bad-body"),
        ("/files?name=a.txt&description=a%00b", "{}", "store.unfit"),
    ] {
        let (status, problem) = http.post_json(path, body).await;
        assert_eq!(
            (status, &problem["code"], &problem["blame"]),
            (400, &json!(code), &json!("caller")),
            "{path}"
        );
    }
    let long = format!("{{\"arguments\": {{\"text\": \"{}\"}}}}", "x".repeat(5 << 20));
    let (status, problem) = http.post_json("/tools/demo_echo/call", &long).await;
    assert_eq!((status, &problem["code"]), (413, &json!("request.too-large")));
    let foreign = http.send(Method::GET, "/tools", &[("origin", "https://evil.example")], "").await;
    assert_eq!(foreign.status, 403);
    assert_eq!(foreign.json().await["code"], "request.bad-origin");
}
