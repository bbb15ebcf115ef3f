//! Tools that are requests to HTTP services: they reach only the configured hosts.

use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolbooth_testkit::chat::{ChatReply, ChatServer};
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home};

/// Starts a service that answers by path; returns its URL and the requests it received.
async fn service(
    answer: impl Fn(&str) -> (u16, String, String) + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let journal = seen.clone();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (journal, answer) = (journal.clone(), answer.clone());
            tokio::spawn(async move {
                let mut read = vec![0; 65536];
                while let Ok(length @ 1..) = stream.read(&mut read).await {
                    let asked = String::from_utf8_lossy(&read[..length]).into_owned();
                    let target = asked.split(' ').nth(1).unwrap_or_default().to_owned();
                    let (status, more, body) = answer(&target);
                    journal.lock().unwrap().push(asked);
                    let length = body.len();
                    let reply =
                        format!("HTTP/1.1 {status} Some\r\ncontent-length: {length}\r\n{more}\r\n{body}");
                    if stream.write_all(reply.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, seen)
}

async fn gateway(tools: &Value) -> (Home, Gateway) {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    std::fs::create_dir_all(home.path("tools")).unwrap();
    std::fs::write(home.path("tools/all.json"), tools.to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["echo"]).await;
    (home, gateway)
}

fn http_tool(name: &str, config: Value) -> Value {
    json!({ "name": name, "side_effects": "read_external_service", "default_timeout": 5,
            "parameters": { "type": "object", "additionalProperties": true },
            "providers": [{ "name": "http", "config": config, "health_check_interval": 0 }] })
}

async fn call(gateway: &Gateway, tool: &str, arguments: Value) -> (u16, Value) {
    let body = json!({ "arguments": arguments }).to_string();
    gateway.http().post_json(&format!("/tools/{tool}/call"), &body).await
}

#[tokio::test]
async fn rest_tool_sends_a_request_and_escapes_its_arguments() {
    let (url, seen) = service(|target| match target {
        "/wrong/x" => (404, String::new(), "no such thing".into()),
        _ => (200, "content-type: application/json\r\n".into(), r#"{"temp":{"c":21},"list":[1]}"#.into()),
    })
    .await;
    let tools = json!([
        http_tool(
            "weather",
            json!({ "url": format!("{url}/v1/{{city}}"), "result": { "celsius": "{temp.c}" } })
        ),
        http_tool("wrong", json!({ "url": format!("{url}/wrong/{{x}}") })),
        http_tool(
            "post",
            json!({ "method": "POST", "url": format!("{url}/items"),
            "headers": { "authorization": "Bearer hunter2-hunter2" }, "body": { "item": "{name}" } })
        ),
    ]);
    let (_home, gateway) = gateway(&tools).await;
    let (status, answer) = call(&gateway, "weather", json!({ "city": "Bern", "q": "a b&c" })).await;
    assert_eq!(
        (status, &answer["result"]["structuredContent"]),
        (200, &json!({ "celsius": 21 })),
        "{answer}"
    );
    assert_eq!(answer["provider"], "http");
    let (status, answer) = call(&gateway, "wrong", json!({ "x": "x" })).await;
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(true)), "{answer}");
    assert_eq!(call(&gateway, "post", json!({ "name": "n" })).await.0, 200);
    {
        let seen = seen.lock().unwrap();
        assert!(seen[0].starts_with("GET /v1/Bern?q=a%20b%26c HTTP/1.1"), "{}", seen[0]);
        let post = seen.last().unwrap();
        assert!(post.contains("Bearer hunter2-hunter2") && post.ends_with(r#"{"item":"n"}"#), "{post}");
    }
    // An argument is always one path segment: these requests were not sent.
    let before = seen.lock().unwrap().len();
    for city in ["..", "../admin", "a/../../b", "%2e%2e%2fadmin", "..\\b", "", "a\r\nhost: evil"] {
        let (status, answer) = call(&gateway, "weather", json!({ "city": city })).await;
        assert!(status >= 400 && answer["code"] == "provider.bad-request", "{city:?}: {answer}");
    }
    assert_eq!(seen.lock().unwrap().len(), before);
    for city in ["@evil.example", "//evil.example", "evil.example:80/x?y#z"] {
        assert_eq!(call(&gateway, "weather", json!({ "city": city })).await.0, 200, "{city}");
    }
    assert_eq!(seen.lock().unwrap().len(), before + 3, "all of them reached the service");
}

#[tokio::test]
async fn rest_tools_refuse_metadata_addresses_and_foreign_redirects() {
    let (inside, caught) = service(|_| (200, String::new(), "secret".into())).await;
    let to = inside.clone();
    let (url, _) = service(move |target| match target {
        "/same" => (302, "location: /there\r\n".into(), String::new()),
        "/there" => (200, String::new(), "still here".into()),
        _ => (302, format!("location: {to}/x\r\n"), String::new()),
    })
    .await;
    let tools = json!([
        http_tool("metadata", json!({ "url": "http://169.254.169.254/latest/{x}" })),
        http_tool("mapped", json!({ "url": "http://[::ffff:169.254.169.254]/{x}" })),
        http_tool("away", json!({ "url": format!("{url}/away") })),
        http_tool("same", json!({ "url": format!("{url}/same") })),
        http_tool(
            "userinfo",
            json!({ "url": format!("http://user@{}/x", inside.trim_start_matches("http://")) })
        ),
    ]);
    let (_home, gateway) = gateway(&tools).await;
    let cases = [
        ("metadata", json!({ "x": "meta-data" }), "provider.blocked-address"),
        ("mapped", json!({ "x": "y" }), "provider.blocked-address"),
        ("away", json!({}), "provider.redirected"),
        ("userinfo", json!({}), "call.no-healthy-provider"),
    ];
    for (tool, arguments, code) in cases {
        let (status, answer) = call(&gateway, tool, arguments).await;
        assert!(status >= 400 && answer["code"] == code, "{tool}: {answer}");
    }
    assert_eq!(caught.lock().unwrap().len(), 0, "no request reached the internal service");
    let (status, answer) = call(&gateway, "same", json!({})).await;
    assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("still here")), "{answer}");
}

#[tokio::test]
async fn failed_service_fails_over_to_a_server_and_returns() {
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = broken.clone();
    let (url, _) = service(move |_| match state.load(std::sync::atomic::Ordering::Relaxed) {
        true => (503, "retry-after: 1\r\n".into(), String::new()),
        false => (200, String::new(), "well".into()),
    })
    .await;
    let mut tool = http_tool("look", json!({ "url": url }));
    let second = json!({ "name": "mcp", "priority": 10, "config": { "server": "echo", "tool": "echo" } });
    tool["providers"].as_array_mut().unwrap().push(second);
    let (_home, gateway) = gateway(&json!([tool])).await;
    for _ in 0..5 {
        let (status, answer) = call(&gateway, "look", json!({})).await;
        assert_eq!((status, &answer["provider"]), (200, &json!("mcp:echo")), "{answer}");
    }
    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    let back = toolbooth_testkit::world::poll(toolbooth_testkit::world::TEST_TIMEOUT, || async {
        let (_, answer) = call(&gateway, "look", json!({})).await;
        (answer["provider"] == "http").then_some(())
    });
    assert!(back.await.is_some(), "traffic returns to the service");
}

#[tokio::test]
async fn model_or_built_in_tool_can_be_a_provider() {
    let chat = ChatServer::start([ChatReply::says("Bern")]).await.unwrap();
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let of = |provider: Value| {
        json!({ "side_effects": "none", "description": "Names a capital.",
        "parameters": parameters, "providers": [provider] })
    };
    let mut capital = of(json!({ "name": "openai", "config": { "model": "small-2" } }));
    capital["name"] = "capital".into();
    let mut echoed = of(json!({ "name": "builtin", "config": { "tool": "demo.echo" } }));
    echoed["name"] = "echoed".into();
    let settings = json!({ "llm": { "base_url": chat.url, "model": "small-1" } });
    let home = Home::with_settings(settings, &[("demo", json!({ "bundled": "demo" }))]);
    std::fs::create_dir_all(home.path("tools")).unwrap();
    std::fs::write(home.path("tools/all.json"), json!([capital, echoed]).to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let (status, answer) = call(&gateway, "capital", json!({ "text": "Switzerland" })).await;
    assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("Bern")), "{answer}");
    assert_eq!(answer["provider"], "openai");
    let seen = chat.seen();
    assert_eq!(seen[0]["model"], "small-2");
    let asked = seen[0]["messages"].to_string();
    assert!(asked.contains("Names a capital.") && asked.contains("Switzerland"), "{asked}");
    let (status, answer) = call(&gateway, "echoed", json!({ "text": "hi" })).await;
    assert!(status == 200 && answer["result"].to_string().contains("hi"), "{answer}");
    assert_eq!(answer["provider"], "builtin");
}
