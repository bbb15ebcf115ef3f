//! Hooks: programs of the operator that refuse, change and annotate calls.

use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{Home, ScriptedServer};

const TOOLS: &str = r#"[{"name":"say","inputSchema":{"type":"object","properties":{
    "word":{"type":"string"},"username":{"type":"string"}},"additionalProperties":false}}]"#;

const PRE_CALL: &str = r#"line=$(cat); case "$line" in
    *forbidden*) echo 'not here' >&2; exit 2;;
    *broken*) exit 1;;
    *shout*) echo '{"decision":"modify","arguments":{"word":"SHOUT","username":"mallory"}}';;
    *odd*) echo '{"decision":"modify","arguments":{"other":1}}';;
    *) echo '{"decision":"continue"}';;
esac"#;
const POST_CALL: &str = r#"cat >/dev/null; echo '{"decision":"annotate","note":"seen"}'"#;

#[tokio::test]
async fn hooks_refuse_change_and_annotate_calls() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(TOOLS);
    upstream.answer(ScriptedAnswer::result(r#"{"content":[],"resultType":"complete"}"#));
    let mut entry = upstream.entry();
    entry["inject"] = true.into();
    let hook = |name: &str, script: &str, tools: &[&str], on_error: &str| json!({ "name": name, "tools": tools, "command": ["sh", "-c", script], "on_error": on_error });
    let hooks = json!({
        "pre_call": [
            hook("house", PRE_CALL, &["srv_*"], "deny"),
            hook("open", "exit 1", &["srv_*"], "allow"),
            hook("other", "exit 2", &["echo_*"], "deny"),
        ],
        "post_call": [hook("note", POST_CALL, &[], "deny")],
    });
    let home =
        Home::with_settings(json!({ "hooks": hooks }), &[("srv", entry), ("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["srv", "echo"]).await;
    let call = async |word: &str| {
        let body = json!({ "arguments": { "word": word } }).to_string();
        gateway.http().post_json("/tools/srv_say/call", &body).await
    };
    for (word, reason) in [
        ("forbidden", "the hook `house` says: not here"),
        ("broken", "the hook `house` says: it failed"),
        ("odd", "the hook `house` says: it failed"),
    ] {
        let calls = upstream.seen("tools/call").len();
        let (status, answer) = call(word).await;
        assert_eq!((status, answer["code"].as_str()), (403, Some("call.refused")), "{word}: {answer}");
        assert!(answer.to_string().contains(reason), "{word}: {answer}");
        assert_eq!(upstream.seen("tools/call").len(), calls, "{word}");
    }
    let user = gateway.http().get_json("/me").await["user"].clone();
    for (word, sent) in [("x", "x"), ("shout", "SHOUT")] {
        let (status, answer) = call(word).await;
        assert_eq!(status, 200, "{word}: {answer}");
        let body: Value = serde_json::from_str(&upstream.seen("tools/call").pop().unwrap().body).unwrap();
        assert_eq!(body["params"]["arguments"], json!({ "word": sent, "username": user }), "{word}");
        let notes = &answer["result"]["_meta"]["toolbooth/notes"];
        assert_eq!(*notes, json!([{ "hook": "note", "note": "seen" }]), "{answer}");
    }
    let (status, answer) = gateway.http().post_json("/tools/echo_ok/call", "{}").await;
    assert_eq!(status, 403, "a hook of other tools: {answer}");
}

const CENSOR: &str = r#"case "$(cat)" in
    *secret*) echo '{"decision":"deny","reason":"too secret"}';;
    *) echo '{"decision":"annotate","note":"seen"}';;
esac"#;

#[tokio::test]
async fn post_call_hooks_see_the_tools_behind_a_manifest_tool() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(TOOLS);
    upstream.answer(ScriptedAnswer::result(r#"{"content":[],"resultType":"complete"}"#));
    let hook = |name: &str, script: &str, tools: &[&str]| json!({ "name": name, "tools": tools, "command": ["sh", "-c", script] });
    let post_call = [hook("inner", CENSOR, &["srv_say"]), hook("outer", POST_CALL, &["talk"])];
    let settings = json!({ "hooks": { "post_call": post_call } });
    let home = Home::with_settings(settings, &[("srv", upstream.entry()), ("echo", hostile(&["echo"]))]);
    let behind = |server: &str, tool: &str, priority: u32| json!({ "name": "mcp", "priority": priority, "config": { "server": server, "tool": tool } });
    let entry = json!({
        "name": "talk", "description": "Says a word.", "side_effects": "write",
        "parameters": { "type": "object", "properties": { "word": { "type": "string" } } },
        "providers": [behind("srv", "say", 0), behind("echo", "echo", 1)],
    });
    std::fs::create_dir_all(home.path("tools")).unwrap();
    std::fs::write(home.path("tools/talk.json"), entry.to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["srv", "echo"]).await;
    let call = async |word: &str| {
        let body = json!({ "arguments": { "word": word } }).to_string();
        gateway.http().post_json("/tools/talk/call", &body).await
    };
    let (status, answer) = call("x").await;
    assert_eq!(status, 200, "{answer}");
    let notes = &answer["result"]["_meta"]["toolbooth/notes"];
    let expected = json!([{ "hook": "inner", "note": "seen" }, { "hook": "outer", "note": "seen" }]);
    assert_eq!(*notes, expected, "{answer}");
    // The call was made, so no other provider is asked.
    let calls = upstream.seen("tools/call").len();
    let (status, answer) = call("secret").await;
    assert_eq!((status, answer["code"].as_str()), (403, Some("call.refused")), "{answer}");
    assert!(answer.to_string().contains("too secret"), "{answer}");
    assert_eq!(upstream.seen("tools/call").len(), calls + 1);
}

#[tokio::test]
async fn a_server_disconnected_by_hand_stays_so_until_it_is_connected() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["echo"]).await;
    gateway.act("echo", "disconnect").await;
    gateway.wait_for_state("echo", "disconnected").await;
    let (status, answer) = gateway.http().post_json("/tools/echo_ok/call", "{}").await;
    assert_eq!((status, answer["code"].as_str()), (502, Some("server.not-connected")), "{answer}");
    assert!(answer.to_string().contains("disconnected by hand"), "{answer}");
    assert_eq!(gateway.server("echo").await["state"], "disconnected");
    gateway.act("echo", "connect").await;
    gateway.connected(&["echo"]).await;
    let (status, answer) = gateway.http().post_json("/tools/echo_ok/call", "{}").await;
    assert_eq!(status, 200, "{answer}");
}
