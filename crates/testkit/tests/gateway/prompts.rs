//! Prompts of the gateway's own: the operator's prompts and those of personas.

use crate::callers::{ERAS, http_as};
use crate::token_users::{bearer, make_token};
use serde_json::{Value, json};
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Gateway, Home, TEST_TIMEOUT, TestClient, poll};

fn settings(weekly: &str) -> Value {
    json!({
        "auth": { "mode": "token" },
        "groups": { "staff": ["ann"] },
        "personas": {
            "clerk": { "inherit": "shared", "description": "Writes.", "prompt": "You are a clerk." },
            "guest": { "inherit": "shared" },
        },
        "prompts": {
            "weekly": { "description": "Reports.", "text": weekly },
            "salaries": { "text": "List all salaries.", "groups": ["staff"] },
        },
    })
}

struct PromptUsers {
    home: Home,
    gateway: Gateway,
    ann: String,
    bob: String,
}

async fn start(server: Value) -> PromptUsers {
    let home = Home::with_settings(settings("Write the report."), &[("srv", server)]);
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&root);
    gateway.connected(&["srv"]).await;
    let (ann, _) = make_token(&home, Some(&root), "ann", &[]);
    let (bob, _) = make_token(&home, Some(&root), "bob", &[]);
    PromptUsers { home, gateway, ann, bob }
}

#[tokio::test]
async fn each_caller_gets_the_prompts_of_its_groups_and_persona() {
    let users = start(hostile(&["echo"])).await;
    for era in ERAS {
        let cases: [(&str, &str, &[&str]); 4] = [
            ("/mcp", &users.ann, &["salaries", "weekly"]),
            ("/mcp", &users.bob, &["weekly"]),
            ("/mcp/p/clerk", &users.bob, &["weekly", "persona_clerk"]),
            ("/mcp/p/guest", &users.ann, &["salaries", "weekly"]),
        ];
        for (path, token, expected) in cases {
            let client = TestClient::with_headers(era, users.gateway.address, path, &bearer(token)).await;
            assert_eq!(client.names("prompts/list", "prompts").await, expected, "{era:?} {path}");
            for (name, text) in [
                ("weekly", "Write the report."),
                ("salaries", "List all salaries."),
                ("persona_clerk", "You are a clerk."),
            ] {
                let reply = client.ask("prompts/get", json!({ "name": name })).await;
                if expected.contains(&name) {
                    let message = &reply.result()["messages"][0];
                    assert_eq!(message["role"], "user", "{}", reply.answer);
                    assert_eq!(
                        message["content"],
                        json!({ "type": "text", "text": text }),
                        "{}",
                        reply.answer
                    );
                } else {
                    // A hidden prompt looks like one that does not exist.
                    let other = client.ask("prompts/get", json!({ "name": "nothing" })).await;
                    assert_eq!(reply.code(), other.code(), "{era:?} {path} {name}: {}", reply.answer);
                    assert!(reply.code().is_some(), "{}", reply.answer);
                }
            }
            let reference = json!({ "type": "ref/prompt", "name": "weekly" });
            let params = json!({ "ref": reference, "argument": { "name": "x", "value": "" } });
            let reply = client.ask("completion/complete", params).await;
            assert_eq!(reply.result()["completion"]["values"], json!([]), "{}", reply.answer);
        }
    }
}

#[tokio::test]
async fn own_prompts_stand_beside_those_of_servers_and_change_on_reload() {
    let users = start(fixture_on_stdio("modern")).await;
    for era in ERAS {
        let address = users.gateway.address;
        let client = TestClient::with_headers(era, address, "/mcp", &bearer(&users.bob)).await;
        let names = client.names("prompts/list", "prompts").await;
        for name in ["weekly", "srv_test_simple_prompt"] {
            assert!(names.iter().any(|listed| listed == name), "{names:?}");
        }
        let mut changes = client.listen(&[]).await;
        users.home.configure(
            {
                let mut changed = settings(&format!("Changed for {era:?}."));
                changed["prompts"][format!("new_{era:?}")] = json!({ "text": "x" });
                changed
            },
            &[("srv", fixture_on_stdio("modern"))],
        );
        changes.wait_for("notifications/prompts/list_changed", TEST_TIMEOUT).await.expect("a notification");
        let changed = poll(TEST_TIMEOUT, || async {
            let reply = client.ask("prompts/get", json!({ "name": "weekly" })).await;
            let text = reply.result()["messages"][0]["content"]["text"].clone();
            (text == format!("Changed for {era:?}.")).then_some(())
        });
        assert!(changed.await.is_some(), "{era:?}");
        let names = client.names("prompts/list", "prompts").await;
        assert!(names.contains(&format!("new_{era:?}")), "{names:?}");
    }
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in_over_rest() {
    let users = start(fixture_on_stdio("both")).await;
    let names = async |token: &str| -> Vec<String> {
        let list = http_as(&users.gateway, token).get_json("/prompts").await;
        let prompts = list["prompts"].as_array().unwrap_or_else(|| panic!("{list}"));
        prompts.iter().map(|prompt| prompt["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert!(names(&users.ann).await.contains(&"salaries".to_owned()));
    let of_bob = names(&users.bob).await;
    assert!(of_bob.contains(&"weekly".to_owned()) && !of_bob.contains(&"salaries".to_owned()), "{of_bob:?}");
    let bob = http_as(&users.gateway, &users.bob);
    let (status, answer) = bob.post_json("/prompts/weekly", "").await;
    assert_eq!(
        (status, &answer["prompt"]["messages"][0]["content"]["text"]),
        (200, &json!("Write the report."))
    );
    for name in ["salaries", "nonsense"] {
        let (status, refused) = bob.post_json(&format!("/prompts/{name}"), "{}").await;
        assert_eq!((status, &refused["code"]), (404, &json!("prompt.unknown")), "{name}");
    }
    let with_arguments =
        of_bob.iter().find(|name| name.contains("with_arguments")).expect("a prompt of the server");
    for (name, expected) in
        [(with_arguments.as_str(), json!(["paris", "park", "party"])), ("weekly", json!([]))]
    {
        let path = format!("/prompts/{name}/complete");
        let (status, answer) = bob.post_json(&path, r#"{"argument":"arg1","value":"par"}"#).await;
        assert_eq!((status, &answer["completion"]["values"]), (200, &expected), "{name}: {answer}");
    }
    let (status, refused) = bob.post_json("/prompts/salaries/complete", r#"{"argument":"arg1"}"#).await;
    assert_eq!((status, &refused["code"]), (404, &json!("prompt.unknown")));
}
