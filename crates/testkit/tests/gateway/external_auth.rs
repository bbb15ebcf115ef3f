//! External authentication: a proxy, an identity provider, a group service; and refused configurations.

use crate::callers::{ERAS, http_as};
use crate::issuer::{Provider, Signer};
use crate::token_users::{bearer, run};
use ::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Home, Http, TEST_TIMEOUT, TestClient, poll};

#[tokio::test]
async fn proxy_must_send_its_secret() {
    let header = json!({ "secret": "${PROXY_SECRET:-a long and winding word}" });
    let settings = json!({ "policy": { "consent": "client" }, "auth": { "mode": "header", "header": header }, "groups": { "staff": ["ann@x.example"], "admin": ["root"] } });
    let mut desk = hostile(&["echo"]);
    desk["groups"] = json!(["staff"]);
    let home = Home::with_settings(settings, &[("desk", desk)]);
    let mut gateway = home.start().await;
    let shown = |user: &str| {
        vec![
            ("x-user-email".to_owned(), user.to_owned()),
            ("x-proxy-secret".to_owned(), "a long and winding word".to_owned()),
        ]
    };
    gateway.headers = shown("root");
    gateway.connected(&["desk"]).await;
    for era in ERAS {
        let ann = TestClient::with_headers(era, gateway.address, "/mcp", &shown("ann@x.example")).await;
        assert_eq!(ann.call("desk_ok", json!({})).await.text(), "ok");
        let bob = TestClient::with_headers(era, gateway.address, "/mcp", &shown("bob@x.example")).await;
        assert!(bob.names("tools/list", "tools").await.is_empty());
    }
    let http = Http::new(gateway.address);
    for headers in [
        &[("x-user-email", "root")][..],
        &[("x-user-email", "root"), ("x-proxy-secret", "guess")],
        &[("x-proxy-secret", "a long and winding word")],
        &[("x-user-email", "root"), ("x-user-email", "ann"), ("x-proxy-secret", "a long and winding word")],
    ] {
        for path in ["/mcp", "/tools"] {
            let reply = http.send(Method::GET, path, headers, "").await;
            assert_eq!(reply.status, 401, "{path} {headers:?}");
        }
    }
    let reply = http.send(Method::GET, "/.well-known/oauth-protected-resource", &[], "").await;
    assert_eq!(reply.status, 404, "the token endpoint does not exist");
}

#[tokio::test]
async fn insecure_configurations_do_not_start() {
    let cases = [
        (json!({}), "0.0.0.0:0", "config.open-door"),
        (json!({ "auth": { "mode": "header" } }), "127.0.0.1:0", "config.no-proxy-secret"),
        (json!({ "auth": { "mode": "jwt" } }), "127.0.0.1:0", "config.jwt-incomplete"),
        (
            json!({ "auth": { "mode": "jwt", "jwt": { "issuer": "http://id.example", "audience": "x" } } }),
            "127.0.0.1:0",
            "auth.plain-http",
        ),
        (
            json!({ "auth": { "mode": "token", "console": { "client_id": "x" } } }),
            "127.0.0.1:0",
            "config.console-login",
        ),
        (
            json!({ "auth": {
                "mode": "jwt",
                "jwt": { "issuer": "http://id.example", "audience": "x", "jwks_url": "https://id.example/keys" },
                "console": { "client_id": "x" },
            } }),
            "127.0.0.1:0",
            "auth.plain-http",
        ),
    ];
    for (settings, address, code) in cases {
        let home = Home::with_settings(settings, &[("s", hostile(&["echo"]))]);
        let output = run(&home, &["serve", "--listen", address], None);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{code}: {stderr}");
        assert!(stderr.contains(code), "{code}: {stderr}");
    }
}

#[tokio::test]
async fn signed_tokens_are_accepted_and_keys_can_rotate() {
    let (first, second) = (Signer::new("one"), Signer::new("two"));
    let provider = Provider::start(&first).await;
    let jwt = json!({ "issuer": provider.url, "audience": "booth", "claims": { "compliance_level": "level", "persona": "persona" } });
    let settings = json!({ "policy": { "consent": "client" }, "auth": { "mode": "jwt", "jwt": jwt }, "personas": { "none": {} } });
    let (mut desk, mut plain) = (hostile(&["echo"]), hostile(&["echo"]));
    desk["groups"] = json!(["staff"]);
    plain["compliance_level"] = json!("Public");
    let home = Home::with_settings(settings, &[("desk", desk), ("plain", plain)]);
    let mut gateway = home.start().await;
    let token = |signer: &Signer, more: Value| signer.token(&provider.url, more);
    gateway.headers = bearer(&token(&first, json!({ "groups": ["admin"] })));
    gateway.connected(&["desk", "plain"]).await;

    for era in ERAS {
        let ann =
            TestClient::with_headers(era, gateway.address, "/mcp", &bearer(&token(&first, json!({})))).await;
        assert_eq!(ann.call("desk_ok", json!({})).await.text(), "ok");
        let shown = bearer(&token(&first, json!({ "groups": [], "level": "HIPAA" })));
        let bob = TestClient::with_headers(era, gateway.address, "/mcp", &shown).await;
        let names = bob.names("tools/list", "tools").await;
        assert_eq!(names, [""; 0], "no server is compatible with the caller's level");
        assert_eq!(bob.call("plain_ok", json!({})).await.fault(), "call.compliance");
        let shown = bearer(&token(&first, json!({ "persona": "none" })));
        let none = TestClient::with_headers(era, gateway.address, "/mcp", &shown).await;
        assert!(none.names("tools/list", "tools").await.is_empty());
    }
    let status =
        async |token: &str| http_as(&gateway, token).send(Method::GET, "/tools", &[], "").await.status;
    for more in [json!({ "aud": "other" }), json!({ "iss": "https://evil.example" }), json!({ "exp": 1 })] {
        assert_eq!(status(&token(&first, more.clone())).await, 401, "{more}");
    }
    let unsigned = token(&first, json!({}));
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let unsigned = format!("{none}.{}.", unsigned.split('.').nth(1).unwrap());
    assert_eq!(status(&unsigned).await, 401);
    let document = Http::new(gateway.address).get_json("/.well-known/oauth-protected-resource/mcp").await;
    assert_eq!(document["authorization_servers"], json!([provider.url]));

    provider.publish(&second);
    let fresh = token(&second, json!({ "x": 1 }));
    let taken = poll(TEST_TIMEOUT, || async { (status(&fresh).await == 200).then_some(()) }).await;
    assert!(taken.is_some(), "the new key is found");
    assert_eq!(status(&token(&first, json!({ "x": 2 }))).await, 401, "the old key is no longer accepted");
}

#[tokio::test]
async fn group_service_is_queried_only_for_groups_in_use() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/member", listener.local_addr().unwrap());
    let asked: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let heard = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut text = Vec::new();
            while !text.ends_with(b"}") {
                if stream.read_buf(&mut text).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            let text = String::from_utf8(text).unwrap();
            let question: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
            heard.lock().unwrap().insert(question["group_id"].as_str().unwrap().to_owned());
            let member = [("ann", "staff"), ("root", "admin")]
                .iter()
                .any(|(user, group)| question["user_id"] == *user && question["group_id"] == *group);
            let body = json!({ "is_member": member }).to_string();
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
        }
    });
    let header = json!({ "secret": "a long and winding word" });
    let settings = json!({ "policy": { "consent": "client" }, "auth": { "mode": "header", "header": header }, "groups": { "service_url": url, "cache_seconds": 60 } });
    let mut desk = hostile(&["echo"]);
    desk["groups"] = json!(["staff", "users-of-desk"]);
    let home = Home::with_settings(settings, &[("desk", desk)]);
    let mut gateway = home.start().await;
    let shown = |user: &str| {
        let secret = ("x-proxy-secret".to_owned(), "a long and winding word".to_owned());
        vec![("x-user-email".to_owned(), user.to_owned()), secret]
    };
    gateway.headers = shown("root");
    gateway.connected(&["desk"]).await;
    for era in ERAS {
        let ann = TestClient::with_headers(era, gateway.address, "/mcp", &shown("ann")).await;
        assert_eq!(ann.call("desk_ok", json!({})).await.text(), "ok");
        let bob = TestClient::with_headers(era, gateway.address, "/mcp", &shown("bob")).await;
        assert!(bob.names("tools/list", "tools").await.is_empty());
    }
    let asked: Vec<String> = asked.lock().unwrap().iter().cloned().collect();
    assert_eq!(asked, ["admin", "staff", "users-of-desk"], "other groups are not queried");
}
