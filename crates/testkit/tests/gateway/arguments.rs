//! Arguments: servers get the caller's arguments and the true identity of the caller.

use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TestClient};

const FORGED: &str = "root@corp";

/// A gateway with a fixture that gets all injected arguments, `srv`, and one without injection, `bare`.
async fn scene() -> (Home, Gateway) {
    let mut contract = fixture_on_stdio("both");
    contract["inject"] = true.into();
    let mut bare = fixture_on_stdio("both");
    bare["inject"] = false.into();
    let home = Home::new(&[("srv", contract), ("bare", bare)]);
    let gateway = home.start().await;
    gateway.connected(&["srv", "bare"]).await;
    (home, gateway)
}

async fn definition(client: &TestClient, name: &str) -> Value {
    let reply = client.ask("tools/list", json!({})).await;
    let tools = reply.result()["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["name"] == name).unwrap().clone()
}

#[tokio::test]
async fn forged_identity_does_not_reach_a_server() {
    let (_home, gateway) = scene().await;
    let user = {
        let client = TestClient::of(TestEra::Modern, gateway.address).await;
        let reply = client.call("srv_whoami", json!({})).await;
        reply.result()["structuredContent"]["username"].as_str().unwrap().to_owned()
    };
    assert!(!user.is_empty() && user != FORGED);
    let forgeries = [
        json!({ "username": FORGED }),
        json!({ "username": [FORGED], "_atlas_user": { "is": FORGED } }),
        json!({ "Username": FORGED, "USERNAME": FORGED, "_ATLAS_USER": FORGED }),
        json!({ "user\u{200d}name": FORGED, "ｕｓｅｒｎａｍｅ": FORGED, "_atlas_us\u{0435}r": FORGED }),
        json!({ "_mcp_data": { "available_servers": FORGED } }),
    ];
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(era, gateway.address).await;
        for forgery in &forgeries {
            let reply = client.call("srv_whoami", forgery.clone()).await;
            let seen = &reply.result()["structuredContent"];
            assert_eq!(seen["username"], *user, "{forgery}");
            assert_eq!(seen["_atlas_user"], *user, "{forgery}");
            assert!(!seen.to_string().contains(FORGED), "{seen}");
            let warnings = reply.result()["_meta"]["toolbooth/warnings"].as_array().unwrap();
            assert_eq!(warnings.len(), forgery.as_object().unwrap().len(), "{warnings:?}");
            assert!(!reply.result()["_meta"].to_string().contains(FORGED), "warnings contain no value");
        }
    }
    let body = json!({ "arguments": { "username": FORGED, "note": "hello" } }).to_string();
    let (status, answer) = gateway.http().post_json("/tools/srv_whoami/call", &body).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["username"], *user);
    assert_eq!(answer["warnings"], json!([r#"argument "username" was dropped: the gateway supplies it"#]));
    assert!(!gateway.log().contains(FORGED) && !gateway.log().contains("available_servers"));
}

#[tokio::test]
async fn injected_arguments_are_hidden_from_lists_and_correct() {
    let (_home, gateway) = scene().await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let listed = definition(&client, "srv_whoami").await;
    assert_eq!(
        listed["inputSchema"],
        json!({ "type": "object", "properties": { "note": { "type": "string" } }, "required": [],
                "additionalProperties": true })
    );
    let rest = gateway.http().get_json("/tools/srv_whoami").await.to_string();
    assert!(!rest.contains("username") && !rest.contains("_mcp_data"), "{rest}");
    // Without injection the same tool is listed and called unchanged.
    let bare = definition(&client, "bare_whoami").await;
    assert!(bare["inputSchema"]["properties"]["username"].is_object());
    let reply = client.call("bare_whoami", json!({ "username": "bo" })).await;
    assert_eq!(reply.result()["structuredContent"], json!({ "username": "bo" }));

    let reply = client.call("srv_whoami", json!({})).await;
    let data = &reply.result()["structuredContent"]["_mcp_data"];
    let servers: Vec<&str> = data["available_servers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|s| s["server_name"].as_str())
        .collect();
    assert_eq!(servers, ["bare", "srv"]);
    let tools = data["available_servers"][1]["tools"].as_array().unwrap();
    let whoami = tools.iter().find(|tool| tool["name"] == "srv_whoami").unwrap();
    assert_eq!(whoami["parameters"], listed["inputSchema"]);
    assert!(reply.result()["_meta"]["toolbooth/warnings"].is_null(), "nothing was dropped");
}

#[tokio::test]
async fn invalid_arguments_are_reported_in_detail() {
    let (_home, gateway) = scene().await;
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(era, gateway.address).await;
        let reply = client.call("srv_add", json!({ "a": "SECRET" })).await;
        assert!(reply.is_error(), "{}", reply.answer);
        assert_eq!(reply.fault(), "call.invalid-arguments");
        assert!(reply.text().contains("at `/a`: must be number, but is a string"), "{}", reply.text());
        assert!(reply.text().contains(r#""b" is required"#), "{}", reply.text());
        assert!(!reply.text().contains("SECRET"), "{}", reply.text());
    }
    let (status, answer) = gateway.http().post_json("/tools/srv_add/call", r#"{"arguments":{"a":1}}"#).await;
    assert_eq!(status, 400, "{answer}");
}

#[tokio::test]
async fn invalid_schemas_are_logged_and_do_not_hide_tools() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(
        r##"[{"name":"good","inputSchema":{"type":"object"}},
            {"name":"typo","inputSchema":{"type":"object","properties":{"a":{"type":"objekt"}}}},
            {"name":"list","inputSchema":{"type":"array","items":{"type":"string"}}},
            {"name":"far","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}},
            {"name":"endless","inputSchema":{"type":"object","allOf":[{"$ref":"#"}]}}]"##,
    );
    let home = Home::new(&[("srv", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let names = client.names("tools/list", "tools").await;
    // Official clients refuse a whole list that contains a schema of something other than an object.
    assert_eq!(names, ["srv_endless", "srv_far", "srv_good", "srv_typo"]);
    let shown = gateway.server("srv").await;
    let aside = shown["set_aside"].as_array().unwrap().iter().find(|aside| aside["name"] == "list");
    assert!(aside.is_some_and(|aside| aside["kind"] == "tool"), "{shown}");
    let log = shown.to_string();
    for reason in ["must be a type's name", "only references within the schema", "refers to itself endlessly"]
    {
        assert!(log.contains(reason), "{reason}: {log}");
    }
}
