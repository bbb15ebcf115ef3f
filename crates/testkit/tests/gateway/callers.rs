//! Callers: every interface shows a caller exactly the permitted entries and does not reveal others.

use crate::ledger::{LedgerGateway, entry, over, said};
use crate::token_users::{TokenUsers, bearer, make_token, read, run};
use ::http::Method;
use serde_json::json;
use std::collections::BTreeSet;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::client::OWN_TOOL;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, binaries};

pub const ERAS: [TestEra; 2] = [TestEra::Legacy, TestEra::Modern];

pub fn servers_of<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let names = names.into_iter().filter(|name| *name != OWN_TOOL);
    names.map(|name| name.split(['_', ':']).next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_interface_shows_exactly_the_permitted_tools() {
    let known = TokenUsers::start().await;
    let cases: [(&str, &[&str]); 4] = [
        (&known.ann.0, &["desk", "open"]),
        (&known.bob, &["open", "vault"]),
        (&known.cat, &["open"]),
        (&known.root, &["open"]), // an administrator, but in no group of a server
    ];
    for (token, servers) in cases {
        let expected: BTreeSet<String> = servers.iter().map(|name| (*name).to_owned()).collect();
        let may_vault = servers.contains(&"vault");
        for era in ERAS {
            let client = known.client(era, token).await;
            let tools = client.names("tools/list", "tools").await;
            assert_eq!(servers_of(tools.iter().map(String::as_str)), expected, "{era:?}");
            for (method, member) in [
                ("prompts/list", "prompts"),
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
            ] {
                let transcript = client.ask(method, json!({})).await;
                let listed = transcript.result()[member].as_array().map_or(0, Vec::len);
                assert_eq!(listed > 0, may_vault, "{era:?} {method}");
            }
            let transcript = client.call("vault_echo", json!({ "message": "x" })).await;
            assert_eq!(transcript.code().is_none(), may_vault, "{era:?} {}", transcript.answer);
            let reference = json!({ "type": "ref/prompt", "name": "vault_test_prompt_with_arguments" });
            let params = json!({ "ref": reference, "argument": { "name": "arg1", "value": "" } });
            let transcript = client.ask("completion/complete", params).await;
            assert_eq!(transcript.code().is_none(), may_vault, "{era:?} {}", transcript.answer);
        }
        let http = Http::new(known.gateway.address).sending(&bearer(token));
        let listed = http.get_json("/tools?limit=1000").await;
        let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        assert_eq!(servers_of(names), expected, "REST");
        let listed = read(&run(&known.home, &["tools", "list", "--json"], Some(token)));
        let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        assert_eq!(servers_of(names), expected, "the command line");
        let shown = http.get_json("/servers").await;
        let names: BTreeSet<&str> = shown["servers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|server| server["name"].as_str().unwrap())
            .collect();
        match token == known.root {
            true => assert_eq!(names, BTreeSet::from(["desk", "open", "vault"]), "administrators see all"),
            false => {
                assert_eq!(names, servers.iter().copied().collect());
                assert!(!shown.to_string().contains("target"), "commands are not shown: {shown}");
            }
        }
    }
}

/// An answer without the requested name.
fn without(text: &str, name: &str) -> String {
    text.replace(name, "NAME")
}

#[tokio::test]
async fn hidden_tools_are_indistinguishable_from_unknown_tools() {
    let known = TokenUsers::start().await;
    for era in ERAS {
        // Two clients that send the same requests use the same ids.
        let (one, two) = (known.client(era, &known.cat).await, known.client(era, &known.cat).await);
        for (hidden, unknown) in [("vault_echo", "vault_ecco"), ("mcp.vault.echo", "mcp.vault.ecco")] {
            let hid = one.call_text(hidden, "{}").await;
            let none = two.call_text(unknown, "{}").await;
            assert_eq!((hid.0, without(&hid.1, hidden)), (none.0, without(&none.1, unknown)), "{era:?}");
        }
        for (method, key, hidden, unknown) in [
            ("prompts/get", "name", "vault_test_simple_prompt", "vault_test_simple_nothing"),
            ("resources/read", "uri", "test://static-text", "test://static-nope"),
        ] {
            let hid = one.ask(method, json!({ key: hidden })).await;
            let none = two.ask(method, json!({ key: unknown })).await;
            assert!(hid.code().is_some(), "{}", hid.answer);
            let texts =
                (without(&hid.answer.to_string(), hidden), without(&none.answer.to_string(), unknown));
            assert_eq!((hid.status, texts.0), (none.status, texts.1), "{era:?} {method}");
        }
    }
    let http = Http::new(known.gateway.address).sending(&bearer(&known.cat));
    for (method, hidden, unknown) in [
        (Method::POST, "/tools/vault_echo/call", "/tools/vault_ecco/call"),
        (Method::GET, "/tools/vault_echo", "/tools/vault_ecco"),
        (Method::GET, "/servers/vault", "/servers/vaunt"),
    ] {
        let mut texts = Vec::new();
        for path in [hidden, unknown] {
            let reply = http.send(method.clone(), path, &[], "").await;
            let (status, text) = (reply.status, String::from_utf8(reply.bytes().await.to_vec()).unwrap());
            texts.push((status, text.replace("vault_ecco", "vault_echo").replace("vaunt", "vault")));
        }
        assert_eq!(texts[0].0, 404);
        assert_eq!(texts[0], texts[1], "{hidden}");
    }
}

/// A server must not answer for a resource of another one, such as the app of a tool.
#[tokio::test]
async fn a_resource_can_be_read_from_one_server_alone() {
    let known = TokenUsers::start().await;
    let cases = [
        (&known.bob, json!(null), 200),
        (&known.bob, json!("vault"), 200),
        (&known.bob, json!("open"), 404),
        (&known.bob, json!("nowhere"), 404),
        (&known.cat, json!("vault"), 404),
        (&known.bob, json!("not a name"), 400),
        (&known.bob, json!(""), 400),
        (&known.bob, json!(7), 400),
    ];
    let mut unknown = Vec::new();
    for (token, server, expected) in cases {
        let http = Http::new(known.gateway.address).sending(&bearer(token));
        let body = json!({ "uri": "test://static-text", "server": server }).to_string();
        let (status, answer) = http.post_json("/resources/read", &body).await;
        assert_eq!(status, expected, "{server}: {answer}");
        if status == 404 {
            unknown.push((answer["code"].clone(), answer["title"].clone()));
        }
    }
    assert_eq!(unknown[0].0, "resource.unknown");
    assert!(unknown.iter().all(|answer| *answer == unknown[0]), "hidden servers look unknown: {unknown:?}");
}

#[tokio::test]
async fn requests_without_a_credential_get_only_the_sign_in_metadata() {
    let known = TokenUsers::start().await;
    let address = known.gateway.address;
    let http = Http::new(address);
    let closed = [
        (Method::POST, "/mcp"),
        (Method::GET, "/mcp"),
        (Method::DELETE, "/mcp"),
        (Method::POST, "/mcp/p/dev"),
        (Method::GET, "/tools"),
        (Method::GET, "/tools/open_ok"),
        (Method::POST, "/tools/open_ok/call"),
        (Method::GET, "/servers"),
        (Method::GET, "/servers/open"),
        (Method::GET, "/servers/open/logs"),
        (Method::POST, "/servers/open/restart"),
        (Method::POST, "/servers/reload"),
        (Method::GET, "/tokens"),
        (Method::POST, "/tokens"),
        (Method::DELETE, "/tokens/x"),
        (Method::GET, "/manifests"),
        (Method::GET, "/me"),
        (Method::GET, "/approvals"),
        (Method::GET, "/approvals/x"),
        (Method::POST, "/approvals/x/approve"),
        (Method::POST, "/approvals/x/reject"),
        (Method::GET, "/events"),
        (Method::GET, "/events/recent"),
        (Method::GET, "/metrics"),
        (Method::GET, "/plans"),
        (Method::POST, "/plans"),
        (Method::DELETE, "/plans"),
        (Method::GET, "/plans/x"),
        (Method::POST, "/plans/x/approve"),
        (Method::POST, "/plans/x/reject"),
        (Method::GET, "/consents"),
        (Method::DELETE, "/consents/x"),
        (Method::GET, "/audit"),
        (Method::POST, "/audit/verify"),
    ];
    let well_known = format!("http://{address}/.well-known/oauth-protected-resource");
    let wrong = [("authorization", "Bearer tb_0000"), ("content-type", "application/json")];
    for (method, path) in closed {
        let suffix = if path.starts_with("/mcp") { path } else { "" };
        for (headers, error) in [(&wrong[1..], ""), (&wrong[..], "error=\"invalid_token\", ")] {
            let reply = http.send(method.clone(), path, headers, "{}").await;
            let challenge = reply.header("www-authenticate").unwrap_or_default().to_owned();
            assert_eq!(reply.status, 401, "{method} {path}");
            assert_eq!(
                challenge,
                format!("Bearer {error}resource_metadata=\"{well_known}{suffix}\""),
                "{path}"
            );
        }
    }
    let document = http.get_json("/.well-known/oauth-protected-resource/mcp").await;
    assert_eq!(document["resource"], format!("http://{address}/mcp"));
    assert_eq!(document["bearer_methods_supported"], json!(["header"]));
    assert_eq!(
        http.get_json("/.well-known/oauth-protected-resource").await["resource"],
        format!("http://{address}")
    );
    assert_eq!(http.get_json("/health").await["status"], "ok");
    assert_eq!(
        http.get_json("/ready").await,
        json!({ "status": "ready" }),
        "details are not shown without a credential"
    );
    // A token in the URL is ignored: URLs are written to logs.
    let reply = http.send(Method::GET, &format!("/tools?access_token={}", known.cat), &[], "").await;
    assert_eq!(reply.status, 401);
    // With `--url` a command uses the network; without it, the same user's commands use the control socket.
    let url = format!("http://{address}");
    let output = run(&known.home, &["tools", "list", "--url", &url], None);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("TOOLBOOTH_TOKEN"));
    // A request of a web page is refused before its token is checked.
    let headers = [("origin", "https://evil.example"), ("authorization", &format!("Bearer {}", known.cat))];
    assert_eq!(http.send(Method::GET, "/tools", &headers, "").await.status, 403);
}

#[tokio::test]
async fn only_administrators_can_manage_the_gateway() {
    let known = TokenUsers::start().await;
    let routes = [
        (Method::GET, "/servers/open/logs"),
        (Method::POST, "/servers/open/refresh"),
        (Method::POST, "/servers/reload"),
        (Method::GET, "/tokens"),
        (Method::POST, "/tokens"),
        (Method::DELETE, "/tokens/unknown"),
        (Method::POST, "/audit/verify"),
    ];
    for (method, path) in routes {
        let as_user = |token: &str| Http::new(known.gateway.address).sending(&bearer(token));
        let body = r#"{"user":"eve","groups":["admin"]}"#;
        let json_type = [("content-type", "application/json")];
        let refused = as_user(&known.ann.0).send(method.clone(), path, &json_type, body).await;
        assert_eq!(
            (refused.status, refused.json().await["code"].clone()),
            (403, json!("auth.admin-only")),
            "{path}"
        );
        let status = as_user(&known.root).send(method.clone(), path, &json_type, body).await.status;
        assert!(matches!(status, 200 | 201 | 404), "{method} {path}: {status}");
    }
}

#[tokio::test]
async fn revoked_token_is_refused_at_once() {
    let known = TokenUsers::start().await;
    let (token, id) = &known.ann;
    let listed = read(&run(&known.home, &["tokens", "list", "--json"], Some(&known.root)));
    let mine = listed["tokens"].as_array().unwrap().iter().find(|token| token["id"] == *id).unwrap().clone();
    assert_eq!(
        (&mine["user"], &mine["note"], &mine["standing"]),
        (&json!("ann"), &json!("for a test"), &json!("live"))
    );
    assert!(!listed.to_string().contains(token) && !listed.to_string().contains("hash"));

    let client = known.client(TestEra::Legacy, token).await;
    let mut changes = client.listen(&[]).await;
    assert_eq!(client.call("desk_ok", json!({})).await.text(), "ok");
    let output = run(&known.home, &["tokens", "revoke", id], Some(&known.root));
    assert!(output.status.success(), "{output:?}");
    let reply = client.post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &[]).await;
    assert_eq!(reply.status, 401, "at once");
    let ended =
        tokio::time::timeout(TEST_TIMEOUT, changes.wait_for("notifications/never", TEST_TIMEOUT)).await;
    assert!(ended.is_ok_and(|heard| heard.is_none()), "the stream ends");
    let again = run(&known.home, &["tokens", "revoke", "unknown", "--json"], Some(&known.root));
    assert_eq!(read(&again)["error"]["code"], "token.unknown");
}

#[tokio::test]
async fn session_belongs_to_the_caller_that_opened_it() {
    let known = TokenUsers::start().await;
    let ann = known.client(TestEra::Legacy, &known.ann.0).await;
    let session = ann.session().unwrap().to_owned();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let mut answers = Vec::new();
    for id in [session.as_str(), "0123456789abcdef0123456789abcdef"] {
        let http = Http::new(known.gateway.address).sending(&bearer(&known.bob));
        let headers = [("mcp-session-id", id), ("content-type", "application/json")];
        let asked = http.send(Method::POST, "/mcp", &headers, body).await;
        let status = asked.status;
        answers.push((status, asked.bytes().await));
        for method in [Method::DELETE, Method::GET] {
            assert_eq!(http.send(method, "/mcp", &headers, "").await.status, 404);
        }
    }
    assert_eq!(answers[0].0, 404);
    assert_eq!(answers[0], answers[1], "a session of another caller is unknown");
    assert!(!ann.names("tools/list", "tools").await.is_empty(), "its opener can still use it");
    // Another token of the same user has its own rights in the session, not those of the opener.
    let (narrow, _) = make_token(&known.home, Some(&known.root), "ann", &["--persona", "dev"]);
    let http = Http::new(known.gateway.address).sending(&bearer(&narrow));
    let headers = [("mcp-session-id", session.as_str()), ("content-type", "application/json")];
    let listed = http.send(Method::POST, "/mcp", &headers, body).await.json().await;
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["artifact_read", "open_ok"]);
}

#[tokio::test]
async fn persona_restricts_every_interface() {
    let known = TokenUsers::start().await;
    for era in ERAS {
        let dev = known.client_at(era, "/mcp/p/dev", &known.bob).await;
        assert_eq!(dev.names("tools/list", "tools").await, ["open_ok"]);
        assert_eq!(dev.names("prompts/list", "prompts").await, ["vault_test_simple_prompt"]);
        assert_eq!(dev.names("resources/list", "resources").await, Vec::<String>::new());
        assert!(dev.call("vault_echo", json!({})).await.code().is_some());
        assert!(dev.ask("resources/read", json!({ "uri": "test://static-text" })).await.code().is_some());
        assert!(dev.ask("prompts/get", json!({ "name": "vault_test_simple_prompt" })).await.code().is_none());
        let all = known.client_at(era, "/mcp/p/all", &known.cat).await;
        let names = all.names("tools/list", "tools").await;
        assert_eq!(
            servers_of(names.iter().map(String::as_str)),
            BTreeSet::from(["open".to_owned()]),
            "the persona adds no rights"
        );
    }
    let http = Http::new(known.gateway.address).sending(&bearer(&known.bob));
    let mut answers = Vec::new();
    for name in ["audit", "nooop"] {
        let text = |text: String| text.replace("nooop", "audit");
        let header = [("x-toolbooth-persona", name), ("content-type", "application/json")];
        for (method, path, headers, body) in [
            (
                Method::POST,
                format!("/mcp/p/{name}"),
                &header[1..],
                r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            ),
            (Method::POST, "/mcp".to_owned(), &header[..], r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            (Method::GET, "/tools".to_owned(), &header[..1], ""),
            (Method::GET, format!("/tools?persona={name}"), &[], ""),
        ] {
            let reply = http.send(method, &path, headers, body).await;
            let status = reply.status;
            let body = String::from_utf8(reply.bytes().await.to_vec()).unwrap();
            assert_eq!(status, 403, "{path} {body}");
            assert!(!path.starts_with("/mcp") || body.contains("-32602"), "{body}");
            answers.push(text(body));
        }
        let body = format!(r#"{{"persona":"{name}"}}"#);
        let called = http.send(Method::POST, "/tools/open_ok/call", &header[1..], body).await;
        assert_eq!(called.status, 403);
        answers.push(text(called.json().await.to_string()));
    }
    let half = answers.len() / 2;
    assert_eq!(
        answers[..half],
        answers[half..],
        "a forbidden persona is indistinguishable from an unknown one"
    );
    let listed = read(&run(&known.home, &["tools", "list", "--json", "--persona", "dev"], Some(&known.bob)));
    assert_eq!(listed["tools"].as_array().unwrap().len(), 1);
    assert_eq!(
        run(&known.home, &["tools", "list", "--persona", "audit"], Some(&known.bob)).status.code(),
        Some(3)
    );

    // A token bound to a persona cannot use another one.
    let (bound, _) =
        make_token(&known.home, Some(&known.root), "bob", &["--groups", "ops", "--persona", "dev"]);
    assert_eq!(known.client(TestEra::Modern, &bound).await.names("tools/list", "tools").await, ["open_ok"]);
    let reply = http_as(&known.gateway, &bound).send(Method::GET, "/tools?persona=all", &[], "").await;
    assert_eq!(reply.status, 403);
    let refused = run(
        &known.home,
        &["tokens", "create", "--user", "x", "--persona", "nooop", "--json"],
        Some(&known.root),
    );
    assert_eq!(read(&refused)["error"]["code"], "token.bad");
}

pub fn http_as(gateway: &Gateway, token: &str) -> Http {
    Http::new(gateway.address).sending(&bearer(token))
}

#[tokio::test]
async fn incompatible_compliance_levels_are_not_mixed() {
    let known = TokenUsers::start().await;
    for era in ERAS {
        let mut shown = bearer(&known.cat);
        shown.push(("x-toolbooth-compliance".into(), "HIPAA".into()));
        let client = TestClient::with_headers(era, known.gateway.address, "/mcp", &shown).await;
        let transcript = client.call("open_ok", json!({})).await;
        assert_eq!(
            (transcript.is_error(), transcript.fault()),
            (true, "call.compliance"),
            "{}",
            transcript.answer
        );
        let listed = client.names("tools/list", "tools").await;
        assert!(!listed.contains(&"open_ok".to_owned()), "lists and calls agree: {listed:?}");
        shown[1].1 = "Public".into();
        let client = TestClient::with_headers(era, known.gateway.address, "/mcp", &shown).await;
        assert!(client.names("tools/list", "tools").await.contains(&"open_ok".to_owned()));
        assert_eq!(client.call("open_ok", json!({})).await.text(), "ok");
    }
    let headers = [("x-toolbooth-compliance", "HIPAA"), ("content-type", "application/json")];
    let reply =
        http_as(&known.gateway, &known.cat).send(Method::POST, "/tools/open_ok/call", &headers, "{}").await;
    assert_eq!((reply.status, reply.json().await["code"].clone()), (403, json!("call.compliance")));
}

#[tokio::test]
async fn local_socket_identifies_users_with_configured_rights() {
    let known = TokenUsers::start().await;
    let script = r#"(printf '%s\n' "$1"; sleep 2) | "$0" stdio --config "$2" --data-dir "$3" $4"#;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    for (persona, expected) in [("", "open"), ("--persona=dev", "open_ok"), ("--persona=audit", "-32602")] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).arg(binaries::toolbooth()).arg(list);
        command.arg(known.home.config()).arg(known.home.data()).arg(persona);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(expected), "{persona}: {text}");
        assert!(!text.contains("vault_") && !text.contains("desk_"), "{persona}: {text}");
    }
}

#[tokio::test]
async fn credentials_are_not_sent_to_servers_or_logged() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let legacy = ScriptedServer::start(TestEra::Legacy).await;
    let home = Home::with_settings(
        json!({ "policy": { "consent": "client" }, "auth": { "mode": "token" } }),
        &[("new", upstream.entry()), ("old", legacy.entry())],
    );
    let (token, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let mut command = home.command("serve");
    command.env("TOOLBOOTH_LOG", "trace");
    let mut gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.headers = bearer(&token);
    gateway.connected(&["new", "old"]).await;
    for era in ERAS {
        let client = TestClient::with_headers(era, gateway.address, "/mcp", &bearer(&token)).await;
        for tool in ["new_take", "old_take"] {
            assert!(client.call(tool, json!({})).await.code().is_none());
        }
    }
    let wrong = format!("{token}x");
    assert_eq!(http_as(&gateway, &wrong).send(Method::GET, "/tools", &[], "").await.status, 401);
    for seen in [upstream.seen("tools/call"), legacy.seen("tools/call")].concat() {
        let whole = format!("{}{}", seen.headers, seen.body).to_lowercase();
        assert!(!whole.contains("authorization") && !whole.contains(&token), "{whole}");
    }
    assert_eq!(upstream.seen("tools/call").len() + legacy.seen("tools/call").len(), 4);
    assert!(!gateway.log().contains(&token[3..]), "no token in the log");
    let kept = std::fs::read(home.data().join("toolbooth.db")).unwrap();
    assert!(!kept.windows(token.len()).any(|part| part == token.as_bytes()), "no token in the store");
}

#[tokio::test]
async fn saved_login_is_used_for_its_gateway_only() {
    let known = TokenUsers::start().await;
    let url = format!("http://{}", known.gateway.address);
    let wrong = run(&known.home, &["login", "--url", &url, "--json"], Some("tb_wrong"));
    assert_eq!((wrong.status.code(), &read(&wrong)["error"]["code"]), (Some(3), &json!("auth.refused")));
    let kept = known.home.path(".config/toolbooth/credentials.json");
    assert!(!kept.exists(), "an invalid token is not saved");
    let me = read(&run(&known.home, &["login", "--url", &url, "--json"], Some(&known.ann.0)));
    assert_eq!((&me["user"], &me["groups"], &me["admin"]), (&json!("ann"), &json!(["staff"]), &json!(false)));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&kept).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let called = run(&known.home, &["call", "desk_ok", "--url", &url], None);
    assert!(called.status.success(), "{called:?}");
    // The token is not sent to another gateway.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let elsewhere = format!("http://{}", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = vec![0; 4096];
        let read = stream.read(&mut head).unwrap();
        drop(stream.write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"));
        String::from_utf8_lossy(&head[..read]).to_lowercase()
    });
    assert_eq!(run(&known.home, &["tools", "show", "x", "--url", &elsewhere], None).status.code(), Some(5));
    let heard = heard.join().unwrap();
    assert!(heard.starts_with("get /tools/x") && !heard.contains("authorization"), "{heard}");
    assert!(run(&known.home, &["login", "--url", &url, "--forget"], None).status.success());
    assert_eq!(run(&known.home, &["call", "desk_ok", "--url", &url], None).status.code(), Some(3));
}

// A network user with the name of the local operator must not see or answer the operator's held calls, and the calls do
// not run with the rights of that user.
#[tokio::test]
async fn held_call_of_the_operator_is_not_shared_with_a_user_of_the_same_name() {
    let settings = json!({
        "auth": { "mode": "token" },
        "approval": { "default": "writes", "wait_seconds": 1 },
        "policy": { "consent": "client" },
    });
    let home = Home::with_settings(settings, &[]);
    let account = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().expect("an account").name;
    let (namesake, _) = make_token(&home, None, &account, &[]);
    let (keeper, _) = make_token(&home, None, "keeper", &["--groups", "admin"]);
    // This group is empty; the local operator needs no group.
    let mut server = entry();
    server["groups"] = json!(["staff"]);
    let mut ledger = LedgerGateway::at(home, &server).await;
    ledger.gateway.headers = bearer(&keeper);
    let ledger = ledger.ready().await;
    let held = ledger.run(&["call", "led_write_entry", "text=mine"]);
    assert_eq!(held.status.code(), Some(4), "{held:?}");
    let id = said(&held);

    let namesake = Http::new(ledger.gateway.address).sending(&bearer(&namesake));
    assert_eq!(namesake.get_json("/me").await["user"], account.as_str());
    assert_eq!(namesake.get_json("/approvals").await["approvals"], json!([]));
    let (status, problem) = namesake.post_json(&format!("/approvals/{id}/approve"), "").await;
    assert_eq!((status, &problem["code"]), (404, &json!("approval.unknown")), "{problem}");

    let keeper = ledger.gateway.http();
    let (status, approved) = keeper.post_json(&format!("/approvals/{id}/approve"), "").await;
    assert_eq!(status, 200, "{approved}");
    let ended = over(&keeper, &id).await;
    assert_eq!(ended["state"], "done", "{ended}");
    assert_eq!(ledger.entries(), [format!("mine by operator:{account}")]);
}

// Only the local machine can identify the operator.
#[tokio::test]
async fn tokens_cannot_be_created_for_the_operator_name() {
    let known = TokenUsers::start().await;
    let words = ["tokens", "create", "--json", "--user", "operator:root"];
    let refused = run(&known.home, &words, Some(&known.root));
    assert!(!refused.status.success() && read(&refused)["error"]["code"] == "token.bad", "{refused:?}");
}
