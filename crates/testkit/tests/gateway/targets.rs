//! Arguments and metadata cannot choose a server, start a command or forge a record.

use crate::token_users::{bearer, make_token, read, run};
use hyper::Method;
use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::terminal::Terminal;
use toolbooth_testkit::world::{Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, poll, processes};

fn calls(upstream: &ScriptedServer) -> Vec<String> {
    upstream.seen("tools/call").into_iter().map(|seen| seen.body).collect()
}

fn manifests(home: &Home, entries: &Value) {
    std::fs::create_dir_all(home.path("tools")).unwrap();
    std::fs::write(home.path("tools/all.json"), entries.to_string()).unwrap();
}

/// T21: arguments that name another target.
#[tokio::test]
async fn arguments_never_choose_the_target() {
    let (a, b) = (ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Modern).await);
    let open = json!([{ "name": "take", "description": "Takes.",
        "inputSchema": { "type": "object", "additionalProperties": true } }]);
    for upstream in [&a, &b] {
        upstream.list(open.to_string());
        upstream.answer(ScriptedAnswer::Echo);
    }
    let home = Home::new(&[("a", a.entry()), ("b", b.entry())]);
    let provider = |arguments: Value| {
        let spare = json!({ "name": "http", "priority": 9, "config": { "url": "http://127.0.0.1:9/" } });
        json!([{ "name": "mcp", "config": { "server": "a", "tool": "take" }, "arguments": arguments }, spare])
    };
    let parameters = json!({ "type": "object", "additionalProperties": true });
    manifests(
        &home,
        &json!([
            { "name": "whole", "parameters": parameters, "providers": provider(json!("{.}")) },
            { "name": "parts", "parameters": parameters,
              "providers": provider(json!({ "server": "{server}", "tool": "{tool}", "name": "{name}" })) },
        ]),
    );
    let gateway = home.start().await;
    gateway.connected(&["a", "b"]).await;
    let arguments = json!({
        "server": "b", "tool": "take", "name": "b_take", "provider": "mcp:b", "_server": "b",
        "config": { "server": "b", "tool": "take" }, "method": "tools/list",
        "params": { "name": "b_take" }, "_meta": { "toolbooth/server": "b" }, "url": b.url, "jsonrpc": "1.0", "id": 7,
    });
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(era, gateway.address).await;
        for tool in ["a_take", "whole", "parts", "mcp.a.take"] {
            let before = calls(&a).len();
            let response = client.call(tool, arguments.clone()).await;
            assert!(!response.is_error() && response.code().is_none(), "{tool}: {}", response.answer);
            let reached = calls(&a);
            assert_eq!(reached.len(), before + 1, "{tool}");
            let sent: Value = serde_json::from_str(reached.last().unwrap()).unwrap();
            assert_eq!((&sent["method"], &sent["params"]["name"]), (&json!("tools/call"), &json!("take")));
            assert_eq!(
                sent["params"]["arguments"]["server"], "b",
                "the arguments are passed as data: {sent}"
            );
        }
    }
    let body = json!({ "arguments": arguments, "server": "b", "tool": "b_take", "provider": "mcp:b" });
    gateway.http().post_json("/tools/a_take/call", &body.to_string()).await;
    assert_eq!(calls(&b), Vec::<String>::new(), "no call reached the other server");
}

/// T39: shell syntax in arguments is not executed.
#[tokio::test]
async fn no_argument_reaches_a_shell() {
    let home = Home::new(&[]);
    let mark = home.path("mark").display().to_string();
    let tricks = [
        format!("$(touch {mark})"),
        format!("`touch {mark}`"),
        format!("; touch {mark} #"),
        format!("'\"; touch {mark}; echo \""),
        format!("| touch {mark}"),
        format!("\n touch {mark}\n"),
        "--help".to_owned(),
        "${HOME}".to_owned(),
    ];
    // The operator's `args` is a list that no shell interprets.
    let entry = hostile(&["echo", &tricks[0], &tricks[2]]);
    home.configure(json!({}), &[("good", entry)]);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    for trick in &tricks {
        let arguments = json!({ "text": trick });
        let response = client.call("good_echo", arguments.clone()).await;
        assert_eq!(response.result()["structuredContent"], arguments);
        let output = run(&home, &["call", "good_echo", "--json", &format!("text={trick}")], None);
        assert_eq!(read(&output)["result"]["structuredContent"], arguments, "{output:?}");
        let output = run(&home, &["call", "good_echo", "--json", "--args", &arguments.to_string()], None);
        assert_eq!(read(&output)["result"]["structuredContent"], arguments, "{output:?}");
        if !trick.contains('\n') {
            client.call(trick, json!({})).await;
        }
        run(&home, &["tools", "show", "--", trick], None);
    }
    assert!(!home.path("mark").exists(), "a command was executed");
}

/// A forged log record.
const FORGED: &str =
    "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"level\":\"INFO\",\"fields\":{\"message\":\"forged\"}}";

/// Sends text with line breaks in every place that is logged or recorded.
async fn speak(address: std::net::SocketAddr) {
    let lines = format!("evil\n{FORGED}\r\nforged: by a client\u{2028}{FORGED}");
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::named(&lines, era, address).await.sending("user-agent", "evil\tagent");
        client.call("good_echo", json!({ "text": lines })).await;
        if era == TestEra::Modern {
            continue; // A modern client also sends the rest in headers, which cannot contain line breaks.
        }
        client.call(&lines, json!({})).await;
        client.ask(&lines, json!({})).await;
        client.ask("resources/read", json!({ "uri": lines })).await;
    }
    let http = Http::new(address);
    let body = json!({ "arguments": {}, "session": lines }).to_string();
    http.post_json("/tools/good_ok/call", &body).await;
    http.post_json("/tools/evil%0A%7B%22forged%22%3A1%7D/call", "{}").await;
}

/// T42: text with line breaks gives one record in the JSON log, in the text log and in the audit.
#[tokio::test]
async fn line_breaks_cannot_forge_log_or_audit_records() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    let mut command = home.command("serve");
    command.env("TOOLBOOTH_LOG", "trace");
    let gateway = toolbooth_testkit::world::Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["good"]).await;
    speak(gateway.address).await;
    let rows = gateway.http().get_json("/audit?limit=1000").await["rows"].as_array().unwrap().clone();
    let of_calls = rows.iter().filter(|row| row["kind"] == "call").count();
    assert!(of_calls >= 4, "{rows:?}");
    let verified = run(&home, &["audit", "verify"], None);
    assert!(verified.status.success(), "{verified:?}");
    // The text output has a header and one line per row.
    let response = String::from_utf8(run(&home, &["audit", "--limit", "1000"], None).stdout).unwrap();
    assert!(response.lines().all(|line| !line.starts_with('{') && !line.starts_with("forged")), "{response}");
    gateway.stop().await;
    let log = std::fs::read_to_string(home.path("gateway.log")).unwrap();
    for line in log.lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not a record: {line:?}"));
        assert_ne!(record["fields"]["message"], "forged", "{line}");
    }

    let mut command = home.command("serve");
    command.env("TOOLBOOTH_LOG", "trace").args(["--listen", "127.0.0.1:0"]);
    let terminal = Terminal::run(command).unwrap();
    let address = poll(TEST_TIMEOUT, || async {
        let shown = terminal.shown();
        let (_, after) = shown.split_once("http://")?;
        after.split_once(['\r', '\n', '/', ' '])?.0.parse().ok()
    });
    let address: std::net::SocketAddr = address.await.expect("an address");
    let http = Http::new(address);
    let up = poll(TEST_TIMEOUT, || async {
        (http.get_json("/servers/good").await["state"] == "connected").then_some(())
    });
    up.await.expect("the server is connected");
    speak(address).await;
    let shown = terminal.shown();
    for line in shown.lines().map(|line| line.trim_start()) {
        assert!(!line.starts_with("{\"timestamp") && !line.starts_with("forged"), "{line:?}");
    }
}

/// T47: only the operator's configuration determines the commands that run.
#[tokio::test]
async fn metadata_of_servers_and_tools_cannot_start_a_process() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let home = Home::new(&[("up", upstream.entry())]);
    let mark = home.path("mark").display().to_string();
    let run_this = json!({ "command": "touch", "args": [mark], "env": { "LD_PRELOAD": "x" } });
    let meta = json!({ "command": "touch", "args": [mark], "server": run_this, "install": run_this,
        "io.modelcontextprotocol/server": run_this, "toolbooth/server": run_this,
        "packages": [{ "registryType": "oci", "transport": { "type": "stdio" }, "runtimeHint": "touch", "runtimeArguments": [mark] }] });
    let tools = json!([{ "name": "take", "description": "Takes.", "inputSchema": { "type": "object" },
        "_meta": meta, "command": "touch", "args": [mark], "execution": run_this }]);
    upstream.list(tools.to_string());
    let result =
        json!({ "content": [{ "type": "text", "text": "ok" }], "_meta": meta, "resultType": "complete" });
    upstream.answer(ScriptedAnswer::result(&result.to_string()));
    manifests(
        &home,
        &json!([
            { "name": "up_take", "command": "touch", "args": [mark], "env": { "X": "1" } },
            { "name": "runs", "command": "touch", "providers": [
                { "name": "stdio", "kind": "stdio", "config": run_this },
                { "name": "shell", "config": { "command": format!("touch {mark}") } },
                { "name": "mcp", "config": { "server": "up", "tool": "take", "command": "touch", "args": [mark] } },
            ] },
        ]),
    );
    let file = home.path("tools/all.json").display().to_string();
    let checked =
        String::from_utf8(run(&home, &["manifest", "check", "--json", &file], None).stdout).unwrap();
    assert!(checked.contains("`command` is unknown and ignored"), "it is not reported: {checked}");
    let gateway = home.start().await;
    gateway.connected(&["up"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    for tool in ["up_take", "runs"] {
        client.call(tool, json!({})).await;
    }
    let _ = run(&home, &["doctor"], None);
    assert!(!home.path("mark").exists(), "a command was executed");
    let children = processes::children(gateway.pid()).living;
    assert!(children.is_empty(), "{children:?}");
}

/// T18: no route executes a posted command.
#[tokio::test]
async fn request_bodies_cannot_start_a_process() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let mark = home.path("mark").display().to_string();
    let run_this = json!({ "command": "touch", "args": [mark] });
    let servers = json!({ "posted": run_this });
    let http = gateway.http();
    let document = http.get_json("/openapi.json").await;
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods =
            ["post", "put", "patch", "delete"].into_iter().filter(|method| !item[*method].is_null());
        for method in methods {
            for named in ["good", "posted", "good_echo"] {
                let filled: Vec<&str> =
                    path.split('/').map(|step| if step.starts_with('{') { named } else { step }).collect();
                let bodies = [
                    run_this.clone(),
                    json!({ "name": "posted", "entry": run_this, "server": run_this, "config": run_this }),
                    json!({ "servers": servers, "mcpServers": servers, "config": { "servers": servers } }),
                    json!({ "arguments": run_this, "command": "touch", "args": [mark] }),
                ];
                for body in bodies {
                    let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                    let kind = [("content-type", "application/json")];
                    let reply = http.send(method, &filled.join("/"), &kind, body.to_string()).await;
                    assert!(reply.status < 500, "{path}: {}", reply.status);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
    assert!(!home.path("mark").exists(), "a command was executed");
    let listed = http.get_json("/servers").await;
    let names: Vec<&str> =
        listed["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["good"], "no server was added");
    // No method of the protocol does either.
    let client = TestClient::of(TestEra::Legacy, gateway.address).await;
    for method in
        ["servers/add", "servers/connect", "initialize", "tools/call", "logging/setLevel", "roots/list"]
    {
        client
            .ask(
                method,
                json!({ "name": "posted", "server": run_this, "servers": servers, "command": "touch" }),
            )
            .await;
    }
    assert!(!home.path("mark").exists(), "a command was executed");
}

/// Other callers must not learn which environment variables of the gateway are set.
#[tokio::test]
async fn set_variables_are_shown_to_administrators_only() {
    let settings = json!({ "auth": { "mode": "token" } });
    let home = Home::with_settings(settings, &[("good", hostile(&["echo"]))]);
    let auth = json!({ "required": true, "envs": { "SECRET_BANK_KEY": { "required": true } } });
    manifests(
        &home,
        &json!([{ "name": "pay", "auth": auth, "side_effects": "none", "requires_consent": false,
            "providers": [{ "name": "http", "config": { "url": "http://127.0.0.1:9/" } }] }]),
    );
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let (cat, _) = make_token(&home, None, "cat", &[]);
    let gateway = home.start().await;
    for (token, knows) in [(&root, true), (&cat, false)] {
        let http = Http::new(gateway.address).sending(&bearer(token));
        let shown = http.get_json("/tools/pay").await;
        assert_eq!(shown["credentials_configured"], false, "{shown}");
        assert_eq!(shown.to_string().contains("SECRET_BANK_KEY"), knows, "{shown}");
        let listed = http.get_json("/tools?view=full").await;
        assert_eq!(listed.to_string().contains("SECRET_BANK_KEY"), knows, "{listed}");
        let (status, answer) = http.post_json("/tools/pay/call", r#"{"arguments":{}}"#).await;
        assert!(status >= 400 && answer.to_string().contains("not set"), "{answer}");
        assert_eq!(answer.to_string().contains("SECRET_BANK_KEY"), knows, "{answer}");
        let client = TestClient::with_headers(TestEra::Modern, gateway.address, "/mcp", &bearer(token)).await;
        let response = client.call("pay", json!({})).await;
        assert_eq!(response.answer.to_string().contains("SECRET_BANK_KEY"), knows, "{}", response.answer);
    }
}
