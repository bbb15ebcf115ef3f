//! Rules and names: an operator's rules apply to every name of a tool.

use crate::token_users::{read, run};
use serde_json::{Value, json};
use std::process::{Command, Output};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TestClient, binaries};

fn tools(names: &[&str]) -> String {
    let tools: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({ "name": name, "description": format!("The tool {name} of a bank."),
                "inputSchema": { "type": "object", "properties": { "_mcp_data": { "type": "object" } } } })
        })
        .collect();
    json!(tools).to_string()
}

/// A scripted server with these tools, which echoes its requests.
async fn bank(names: &[&str]) -> ScriptedServer {
    let bank = ScriptedServer::start(TestEra::Modern).await;
    bank.list(tools(names));
    bank.answer(ScriptedAnswer::Echo);
    bank
}

async fn client(gateway: &Gateway) -> TestClient {
    TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await
}

/// Audit H1: global lists were parsed and checked, and nothing read them.
#[tokio::test(flavor = "multi_thread")]
async fn denied_tool_cannot_be_listed_found_or_called() {
    let bank = bank(&["balance", "transfer"]).await;
    let settings = json!({ "deny_tools": ["*transfer*"], "exposure": { "mode": "search" } });
    let home = Home::with_settings(settings, &[("bank", bank.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["bank"]).await;
    let client = client(&gateway).await;

    let reply = client.call("mcp_tool_search", json!({ "query": "transfer of a bank" })).await;
    let text = reply.answer.to_string();
    assert!(text.contains("bank_balance") && !text.contains("transfer\""), "{text}");
    let listed = gateway.http().get_json("/tools").await;
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"bank_balance") && !names.contains(&"bank_transfer"), "{names:?}");

    for name in ["bank_transfer", "mcp.bank.transfer", "mcp__bank__transfer", "transfer"] {
        let reply = client.call(name, json!({})).await;
        assert_eq!(reply.code(), Some(-32602), "{name}: {}", reply.answer);
        let inside = client.call("mcp_tool_call", json!({ "name": name, "arguments": {} })).await;
        assert!(inside.code().is_some() || inside.is_error(), "{name}: {}", inside.answer);
        let (status, _) = gateway.http().post_json(&format!("/tools/{name}/call"), "{}").await;
        assert_eq!(status, 404, "{name}");
    }
    let output = run(&home, &["call", "bank_transfer"], None);
    assert!(!output.status.success());
    assert!(bank.seen("tools/call").is_empty(), "nothing reached the server");

    // `_mcp_data` lists only tools that the caller may use.
    let reply = client.call("bank_balance", json!({})).await;
    assert!(
        reply.text().contains("bank_balance") && !reply.text().contains("bank_transfer"),
        "{}",
        reply.answer
    );
}

/// Audit H1: the global allow list, and the lists of a server.
#[tokio::test]
async fn only_allowed_tools_are_offered_and_deny_wins() {
    let bank = bank(&["balance", "transfer", "close", "audit"]).await;
    let mut entry = bank.entry();
    entry["tools"] = json!({ "deny": ["mcp.bank.audit"] });
    let settings = json!({ "allow_tools": ["mcp__bank__*"], "deny_tools": ["close"] });
    let home = Home::with_settings(settings, &[("bank", entry), ("shop", bank.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["bank", "shop"]).await;
    let names = client(&gateway).await.names("tools/list", "tools").await;
    assert_eq!(names, ["bank_balance", "bank_transfer"]);
}

/// With `naming.style = "tool"` the server chooses the exposed name.
#[tokio::test]
async fn server_cannot_name_its_tools_into_an_allow_list() {
    let (git, evil) = (bank(&["push"]).await, bank(&["git_push"]).await);
    let settings = json!({ "naming": { "style": "tool" }, "allow_tools": ["git_*"] });
    let home = Home::with_settings(settings, &[("git", git.entry()), ("evil", evil.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["git", "evil"]).await;
    assert_eq!(client(&gateway).await.names("tools/list", "tools").await, ["push"]);
}

/// Audit H2: a rule with one form of a name applies to all forms, in every naming style.
#[tokio::test]
async fn rule_applies_to_every_form_of_a_name() {
    let bank = bank(&["t1", "t2", "t3", "t4", "t5", "t6", "t7", "free"]).await;
    let forms = ["bank_t1", "mcp_bank_t2", "bank__t3", "mcp.bank.t4", "mcp__bank__t5", "t6", "bank.t7"];
    for style in ["tool", "mcp.server.tool"] {
        let rules: Vec<Value> = forms.iter().map(|form| json!({ "tools": form, "effect": "deny" })).collect();
        let settings = json!({ "naming": { "style": style }, "policy": { "rules": rules } });
        let home = Home::with_settings(settings, &[("bank", bank.entry())]);
        let gateway = home.start().await;
        gateway.connected(&["bank"]).await;
        let client = client(&gateway).await;
        let before = bank.seen("tools/call").len();
        for name in ["t1", "t2", "t3", "t4", "t5", "t6", "t7"] {
            let reply = client.call(&format!("mcp.bank.{name}"), json!({})).await;
            assert!(reply.is_error() && reply.fault() == "call.refused", "{style} {name}: {}", reply.answer);
        }
        assert_eq!(bank.seen("tools/call").len(), before, "{style}");
        let reply = client.call("mcp.bank.free", json!({})).await;
        assert!(!reply.is_error() && reply.code().is_none(), "{}", reply.answer);
    }
}

/// Without this, a name would be `bank_bank_pay`. That spelling stays accepted, and a rule with either
/// spelling applies.
#[tokio::test]
async fn repeated_server_name_is_left_out_and_both_spellings_work() {
    let bank = bank(&["bank_pay", "bank_close", "bank_read", "read", "bank_old"]).await;
    let rules = json!([
        { "tools": "bank_bank_close", "effect": "deny" },
        { "tools": "mcp.bank.old", "effect": "deny" },
    ]);
    let home = Home::with_settings(json!({ "policy": { "rules": rules } }), &[("bank", bank.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["bank"]).await;
    let client = client(&gateway).await;
    let mut names = client.names("tools/list", "tools").await;
    names.retain(|name| name.starts_with("bank"));
    names.sort();
    assert_eq!(names, ["bank_bank_read", "bank_close", "bank_old", "bank_pay", "bank_read"]);
    let spellings = [
        "bank_pay",
        "bank_bank_pay",
        "mcp.bank.bank_pay",
        "mcp__bank__bank_pay",
        "mcp.bank.pay",
        "bank__pay",
    ];
    for name in spellings {
        let before = bank.seen("tools/call").len();
        let reply = client.call(name, json!({})).await;
        assert!(!reply.is_error() && reply.code().is_none(), "{name}: {}", reply.answer);
        assert_eq!(bank.seen("tools/call").len(), before + 1, "{name}");
    }
    let refused = [
        "bank_close",
        "bank_bank_close",
        "mcp.bank.bank_close",
        "mcp.bank.close",
        "bank_old",
        "bank_bank_old",
    ];
    let before = bank.seen("tools/call").len();
    for name in refused {
        let reply = client.call(name, json!({})).await;
        assert!(reply.is_error() && reply.fault() == "call.refused", "{name}: {}", reply.answer);
    }
    assert_eq!(bank.seen("tools/call").len(), before);
    // A canonical id leads to the tool with that own name.
    let reply = client.call("mcp.bank.read", json!({})).await;
    assert!(!reply.is_error() && reply.code().is_none(), "{}", reply.answer);
    let seen = bank.seen("tools/call");
    let request: Value = serde_json::from_str(&seen.last().unwrap().body).unwrap();
    assert_eq!(request["params"]["name"], "read");
}

/// Runs a command in a project folder.
fn in_folder(home: &Home, words: &[&str]) -> Command {
    let folder = home.path("project");
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(binaries::toolbooth());
    command.args(words).arg("--config").arg(home.config()).arg("--data-dir").arg(home.data());
    command.env_clear().current_dir(folder).env("HOME", home.path(""));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn write_project(home: &Home, text: &str) {
    std::fs::create_dir_all(home.path("project")).unwrap();
    std::fs::write(home.path("project/toolbooth.toml"), text).unwrap();
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Audit H2: an untrusted folder changed how the user's rules match.
#[tokio::test]
async fn untrusted_folder_does_not_change_how_rules_match() {
    let bank = bank(&["transfer"]).await;
    let settings = json!({ "policy": { "rules": [{ "tools": "bank_*", "effect": "deny" }] } });
    let home = Home::with_settings(settings, &[("bank", bank.entry())]);
    write_project(&home, "deny_tools = [\"*\"]\n[naming]\nstyle = \"tool\"\n[exposure]\nmode = \"search\"\n");
    let gateway = Gateway::start(in_folder(&home, &["serve"]), &home.path("gateway.log")).await;
    gateway.connected(&["bank"]).await;
    let client = client(&gateway).await;
    assert_eq!(client.names("tools/list", "tools").await, ["bank_transfer"]);
    for name in ["bank_transfer", "transfer"] {
        let reply = client.call(name, json!({})).await;
        assert!(reply.is_error() && reply.fault() == "call.refused", "{name}: {}", reply.answer);
    }
    assert!(bank.seen("tools/call").is_empty());
}

/// A gateway must not be less strict than its project folder requires.
#[tokio::test]
async fn folder_with_rules_must_be_trusted_or_ignored() {
    let home = Home::new(&[]);
    for rules in ["[auth]\nmode = \"token\"\n", "[[policy.rules]]\ntools = \"*\"\neffect = \"deny\"\n"] {
        write_project(&home, rules);
        let output = in_folder(&home, &["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
        let reply = said(&output);
        assert_eq!(output.status.code(), Some(2), "{reply}");
        for word in ["trust.required", "toolbooth trust", "--trust", "--no-project"] {
            assert!(reply.contains(word), "{word}: {reply}");
        }
        let mut without = in_folder(&home, &["serve"]);
        without.arg("--no-project");
        drop(Gateway::start(without, &home.path("gateway.log")).await);
    }
    // Once trusted, its rules apply.
    write_project(&home, "[auth]\nmode = \"token\"\n");
    let mut trusting = in_folder(&home, &["serve"]);
    trusting.arg("--trust");
    let gateway = Gateway::start(trusting, &home.path("gateway.log")).await;
    assert_eq!(gateway.http().get_json("/tools").await["code"], "auth.required");
    // An edit revokes trust; the gateway stays as strict as before.
    write_project(&home, "[auth]\nmode = \"token\"\n[lint]\nmin_score = 10\n");
    let refused = toolbooth_testkit::world::poll(toolbooth_testkit::world::TEST_TIMEOUT, || async {
        gateway.log().contains("the last good one stays").then_some(())
    });
    refused.await.expect("the reload is refused");
    assert_eq!(gateway.http().get_json("/tools").await["code"], "auth.required");
}

/// Errors of an untrusted file are reported, and nothing in it is expanded.
#[tokio::test]
async fn untrusted_file_is_checked_without_expansion() {
    let home = Home::new(&[]);
    write_project(
        &home,
        "listen = \"${SECRET_PORT}\"\n[naming]\nstyel = \"tool\"\n[[policy.rules]]\ntools = \"[\"\neffect = \"deny\"\n",
    );
    let mut command = in_folder(&home, &["config", "check"]);
    let output = command.env("SECRET_PORT", "hunter2-port").output().unwrap();
    let reply = said(&output);
    assert_eq!(output.status.code(), Some(1), "{reply}");
    for word in ["styel", "config.bad-glob", "config.needs-trust"] {
        assert!(reply.contains(word), "{word}: {reply}");
    }
    assert!(!reply.contains("hunter2"), "{reply}");
    write_project(&home, "listen = \"${SECRET_PORT}\"\n");
    let output = in_folder(&home, &["config", "check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// Audit M10: outside `local` mode an operator gets a warning for tools whose callers may name any user.
#[tokio::test(flavor = "multi_thread")]
async fn tools_with_an_identity_argument_are_reported() {
    let desk = ScriptedServer::start(TestEra::Modern).await;
    desk.list(
        json!([{ "name": "mail", "description": "Reads the mail of a user.", "inputSchema": {
            "type": "object", "properties": { "username": { "type": "string" } } } }])
        .to_string(),
    );
    let mut injected = desk.entry();
    injected["inject"] = json!(true);
    for (mode, expected) in [("token", true), ("local", false)] {
        let settings = json!({ "auth": { "mode": mode } });
        let home = Home::with_settings(settings, &[("plain", desk.entry()), ("safe", injected.clone())]);
        let reply = said(&run(&home, &["doctor"], None));
        assert_eq!(reply.contains("`username`") && reply.contains("inject = true"), expected, "{reply}");
        assert!(!reply.contains("safe: tool"), "{reply}");
        let scores = read(&run(&home, &["tools", "lint", "--json"], None)).to_string();
        assert_eq!(scores.contains("unsupplied-identity"), expected, "{scores}");
    }
}
