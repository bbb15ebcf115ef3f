//! Results as clients receive them: files are stored, long results are cut to the budget, and nothing is lost.

use crate::scene::MOST_MEMORY_MIB;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TestClient, Transcript, processes};

/// A gateway with a server and a client of each era.
struct ResultSetup {
    _home: Home,
    gateway: Gateway,
    servers: [(&'static str, ScriptedServer); 2],
    clients: [TestClient; 2],
}

impl ResultSetup {
    async fn open(settings: Value) -> Self {
        let (legacy, modern) =
            (ScriptedServer::start(TestEra::Legacy).await, ScriptedServer::start(TestEra::Modern).await);
        let rows = r#"{"name":"rows","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["rows","total"],"properties":{"rows":{"type":"array","items":{"type":"object","required":["id"]}},"total":{"type":"integer"}}}}"#;
        for server in [&legacy, &modern] {
            server.list(format!(r#"[{{"name":"take","inputSchema":{{"type":"object"}}}},{rows}]"#));
        }
        let home = Home::with_settings(settings, &[("legacy", legacy.entry()), ("modern", modern.entry())]);
        let gateway = home.start().await;
        gateway.connected(&["legacy", "modern"]).await;
        let clients = [
            TestClient::of(TestEra::Legacy, gateway.address).await,
            TestClient::of(TestEra::Modern, gateway.address).await,
        ];
        Self { _home: home, gateway, servers: [("legacy", legacy), ("modern", modern)], clients }
    }

    /// Calls the tool with every pair of client and server eras.
    async fn each(&self, tool: &str, result: &Value) -> Vec<(&TestClient, Transcript)> {
        let mut reply = Vec::new();
        for (name, server) in &self.servers {
            let mut result = result.clone();
            if *name == "modern" {
                result["resultType"] = "complete".into();
            }
            server.answer(ScriptedAnswer::result(&result.to_string()));
            for client in &self.clients {
                reply.push((client, client.call(&format!("{name}_{tool}"), json!({})).await));
            }
        }
        reply
    }
}

/// The result that FastMCP builds for a tool that returns an object.
fn returned(object: &Value) -> Value {
    json!({ "content": [{ "type": "text", "text": object.to_string() }], "structuredContent": object })
}

fn kept(reply: &Transcript) -> Vec<&str> {
    let files =
        reply.result()["_meta"]["toolbooth/artifacts"].as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().map(|file| file["name"].as_str().unwrap()).collect()
}

fn warnings(reply: &Transcript) -> Vec<&str> {
    let warnings = reply.result()["_meta"]["toolbooth/warnings"].as_array();
    warnings.into_iter().flatten().map(|warning| warning.as_str().unwrap()).collect()
}

/// Reads a file to its end.
async fn read_back(client: &TestClient, name: &str, options: Value) -> String {
    let mut whole = String::new();
    let mut offset = 0;
    loop {
        let mut arguments = options.clone();
        arguments["name"] = name.into();
        arguments["offset"] = offset.into();
        let reply = client.call("artifact_read", arguments).await;
        assert!(!reply.is_error() && reply.code().is_none(), "{}", reply.answer);
        whole.push_str(reply.text());
        match reply.result()["_meta"]["toolbooth/read"]["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => return whole,
        }
    }
}

#[tokio::test]
async fn files_in_a_result_are_stored_and_not_sent_to_the_model() {
    let setup = ResultSetup::open(json!({})).await;
    let page = STANDARD.encode("<h1>report</h1> with some words");
    let report = json!({ "results": { "summary": "made" }, "meta_data": { "pages": 1 },
        "artifacts": [{ "name": "../my report.html", "b64": page, "mime": "text/html" }],
        "display": { "open_canvas": true, "primary_file": "../my report.html" } });
    for (client, reply) in setup.each("take", &returned(&report)).await {
        let text = reply.answer.to_string();
        assert!(!text.contains(&page), "{text}");
        let shown: Value = serde_json::from_str(reply.text()).unwrap();
        assert_eq!(shown["results"], report["results"]);
        assert_eq!(shown["returned_file_names"], json!(["my report.html"]));
        assert_eq!(reply.result()["structuredContent"], shown);
        assert_eq!(reply.result()["_meta"]["toolbooth/display"]["primary_file"], "my report.html");
        assert_eq!(kept(&reply), ["my report.html"], "{}", setup.gateway.log());
        assert_eq!(read_back(client, "my report.html", json!({})).await, "<h1>report</h1> with some words");
    }
}

#[tokio::test]
async fn valid_files_are_stored_and_each_invalid_one_is_reported() {
    let setup = ResultSetup::open(json!({})).await;
    let mut files: Vec<Value> = (0..60)
        .map(|n| json!({ "name": format!("file {n}.txt"), "b64": STANDARD.encode(format!("content {n}")) }))
        .collect();
    files[3]["b64"] = "not base64!".into();
    files[7].as_object_mut().unwrap().remove("b64");
    files[11]["name"] = "..".into();
    files[13] = json!("just a text");
    files[17]["name"] = Value::Null;
    files[19]["b64"] = "QUJD\nQUJD".into();
    files[23]["name"] = "../../etc/passwd".into();
    let object = json!({ "results": "sixty", "artifacts": files });
    for (client, reply) in setup.each("take", &returned(&object)).await {
        let warnings = warnings(&reply).join("\n");
        for bad in ["file 3.txt", "file 7.txt", "\"..\"", "#14", "#18", "file 19.txt"] {
            assert!(warnings.contains(bad), "{bad}: {warnings}");
        }
        let kept = kept(&reply);
        assert!(kept.contains(&"file 0.txt") && kept.contains(&"passwd"), "{kept:?}");
        assert!(kept.iter().all(|name| !name.contains('/')), "{kept:?}");
        // Files over the limit of fifty are reported too.
        assert!(warnings.contains("file 59.txt") && kept.len() >= 47, "{} {warnings}", kept.len());
        assert_eq!(read_back(client, "file 42.txt", json!({})).await, "content 42");
    }
}

#[tokio::test]
async fn oversized_files_in_a_result_are_refused() {
    let setup = ResultSetup::open(json!({ "limits": { "artifact_bytes": 100_000 } })).await;
    let bomb = "A".repeat(8 << 20);
    let object = json!({ "results": 0, "artifacts": [
        { "name": "bomb.bin", "b64": bomb }, { "name": "small.txt", "b64": "aGk=" } ] });
    for (_, reply) in setup.each("take", &returned(&object)).await {
        assert_eq!(serde_json::from_str::<Value>(reply.text()).unwrap()["results"], 0);
        assert_eq!(kept(&reply), ["small.txt"]);
        assert!(warnings(&reply)[0].contains("bomb.bin"), "{:?}", warnings(&reply));
        assert!(reply.answer.to_string().len() < 10_000);
    }
}

#[tokio::test]
async fn empty_answers_are_preserved_with_and_without_files() {
    let setup = ResultSetup::open(json!({})).await;
    for answer in [json!(0), json!(""), json!([]), json!({}), json!(false), Value::Null] {
        let object = json!({ "result": answer, "artifacts": [{ "name": "a.txt", "b64": "aGk=" }] });
        for (_, reply) in setup.each("take", &returned(&object)).await {
            assert_eq!(
                reply.result()["structuredContent"],
                json!({ "results": answer, "returned_file_names": ["a.txt"] })
            );
        }
        for alone in [json!({ "results": answer }), json!({ "result": answer })] {
            for (_, reply) in setup.each("take", &returned(&alone)).await {
                assert_eq!(reply.result()["structuredContent"], alone);
                assert_eq!(reply.text(), alone.to_string());
            }
        }
    }
}

#[tokio::test]
async fn text_over_the_budget_can_be_read_completely() {
    let setup = ResultSetup::open(json!({ "limits": { "result_tokens": 2_000 } })).await;
    let lines: Vec<String> = (0..5_000).map(|n| format!("zeile {n}: größer als gedacht")).collect();
    let text = lines.join("\n");
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    for (client, reply) in setup.each("take", &result).await {
        assert!(reply.answer.to_string().len() < 8_000, "{}", reply.answer.to_string().len());
        let [name] = kept(&reply)[..] else { panic!("{}", reply.answer) };
        assert!(reply.text().starts_with("zeile 0:") && reply.text().contains(name), "{}", reply.text());
        assert_eq!(read_back(client, name, json!({ "limit": 1_999 })).await, text);
        let found =
            client.call("artifact_read", json!({ "name": name, "pattern": "zeile 47[0-9]{2}:" })).await;
        assert!(found.text().starts_with("4701@"), "{}", found.text());
        let all = read_back(client, name, json!({ "pattern": "zeile 47[0-9]{2}:" })).await;
        assert_eq!(all.lines().count(), 100);
        let bad = client.call("artifact_read", json!({ "name": name, "pattern": "(" })).await;
        assert!(bad.is_error() && bad.text().contains("pattern"), "{}", bad.answer);
    }
}

#[tokio::test]
async fn huge_result_is_stored_in_bounded_memory() {
    let setup = ResultSetup::open(json!({})).await;
    let text = "a line of words, and \"quotes\"\n".repeat(20 << 15);
    for (client, reply) in setup.each("take", &json!({ "content": [{ "type": "text", "text": text }] })).await
    {
        assert!(reply.answer.to_string().len() < 100_000);
        let name = kept(&reply)[0];
        let end = client.call("artifact_read", json!({ "name": name, "offset": text.len() - 10 })).await;
        assert_eq!(end.text(), &text[text.len() - 10..]);
    }
    let held = processes::peak_mib(setup.gateway.pid());
    assert!(held < MOST_MEMORY_MIB, "the gateway used {held} MiB");
}

#[tokio::test]
async fn structured_content_over_the_budget_still_matches_its_schema() {
    let setup = ResultSetup::open(json!({ "limits": { "result_tokens": 2_000 } })).await;
    let rows: Vec<Value> = (0..2_000).map(|n| json!({ "id": n, "text": format!("row {n}") })).collect();
    let object = json!({ "rows": rows, "total": 2_000 });
    for (client, reply) in setup.each("rows", &returned(&object)).await {
        let shown = &reply.result()["structuredContent"];
        assert_eq!((&shown["total"], &shown["rows"][0]), (&json!(2_000), &object["rows"][0]));
        assert!(reply.answer.to_string().len() < 8_000);
        let [name] = kept(&reply)[..] else { panic!("{}", reply.answer) };
        assert_eq!(serde_json::from_str::<Value>(&read_back(client, name, json!({})).await).unwrap(), object);
        let taken =
            client.call("artifact_read", json!({ "name": name, "jq": ".rows[1999].text, .total" })).await;
        assert_eq!(taken.text(), "\"row 1999\"\n2000\n", "{}", taken.answer);
        let ids = read_back(client, name, json!({ "jq": "[.rows[].id]" })).await;
        assert_eq!(serde_json::from_str::<Vec<u64>>(&ids).unwrap().len(), 2_000);
    }
    for (_, reply) in setup.each("take", &returned(&object)).await {
        assert!(reply.result().get("structuredContent").is_none(), "without a schema only the text is sent");
    }
}

#[tokio::test]
async fn filters_are_bounded() {
    let setup = ResultSetup::open(json!({ "limits": { "result_tokens": 100 } })).await;
    let result = returned(&json!({ "rows": vec!["word"; 500] }));
    let (client, reply) = setup.each("take", &result).await.pop().unwrap();
    let name = kept(&reply)[0].to_owned();
    let ask = |filter: &str| client.call("artifact_read", json!({ "name": name, "jq": filter }));
    for (filter, why) in [
        ("last(range(1e15))", "jq filter"),
        ("[range(1e12)]", "jq filter"),
        (".rows|(", "not valid"),
        ("$ENV", "not valid"),
    ] {
        let reply = ask(filter).await;
        assert!(reply.is_error() && reply.text().contains(why), "{filter}: {}", reply.answer);
    }
    // A filter runs only until the page is full, and reads at most a bounded part.
    assert!(ask("range(1e15)").await.text().starts_with("0\n1\n2\n"));
    let far = json!({ "name": name, "jq": "\"word\"*100|repeat(.)", "offset": 1e18 });
    let reply = client.call("artifact_read", far).await;
    assert!(reply.is_error() && reply.text().contains("use a more specific filter"), "{}", reply.answer);
    let reply = ask("repeat(\"中文字\")").await;
    assert!(
        !reply.is_error() && reply.text().starts_with("\"中文字\""),
        "the cut is between characters: {}",
        reply.answer
    );
}

#[tokio::test]
async fn images_are_stored_and_can_be_read() {
    let setup = ResultSetup::open(json!({ "limits": { "result_tokens": 1_000 } })).await;
    let picture = STANDARD.encode((0..60_000_u32).map(|n| (n * 7 % 251) as u8).collect::<Vec<u8>>());
    let small = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
    let large = json!({ "type": "image", "data": picture, "mimeType": "image/png" });
    let sound = json!({ "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" });
    for (client, reply) in setup.each("take", &json!({ "content": [small, large, sound] })).await {
        let content = &reply.result()["content"];
        assert_eq!((&content[0], &content[2]), (&small, &sound), "content within the budget is unchanged");
        assert_eq!(content[1]["type"], "text");
        let [first, second, third] = kept(&reply)[..] else { panic!("{}", reply.answer) };
        assert!(first.ends_with("-1.png") && third.ends_with("-3.wav"));
        assert!(content[1]["text"].as_str().unwrap().contains(second), "{}", reply.answer);
        let shown = client.call("artifact_read", json!({ "name": second })).await;
        assert_eq!(shown.result()["content"][0]["data"], picture, "{}", shown.text());
    }
}

#[tokio::test]
async fn echoed_file_token_is_removed() {
    let setup = ResultSetup::open(json!({})).await;
    let claims = r#"{"u":"ann","f":"f1","s":"legacy","c":"c1","e":4102444800,"n":"many"}"#;
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims);
    let token = format!("v1.k1.{payload}.{}", "m".repeat(43));
    let url = format!("https://gw.example/files/download/f1?token={token}");
    let object = json!({ "got": url, "again": { "inside": json!({ "url": url }).to_string() } });
    for (_, reply) in setup.each("take", &returned(&object)).await {
        let text = reply.answer.to_string();
        assert!(!text.contains(&payload) && text.contains("[redacted]"), "{text}");
    }
}

#[tokio::test]
async fn stored_files_belong_to_their_session() {
    let setup = ResultSetup::open(json!({ "limits": { "result_tokens": 100 } })).await;
    let (client, reply) =
        setup.each("take", &returned(&json!({ "rows": vec!["word"; 500] }))).await.remove(0);
    let name = kept(&reply)[0];
    assert!(!client.call("artifact_read", json!({ "name": name })).await.is_error());
    let other = TestClient::of(TestEra::Legacy, setup.gateway.address).await;
    let refused = other.call("artifact_read", json!({ "name": name })).await;
    assert!(refused.is_error() && refused.text().contains("no file"), "{}", refused.answer);
}

#[tokio::test]
async fn artifact_read_is_listed_only_with_a_budget() {
    let setup = ResultSetup::open(json!({})).await;
    for client in &setup.clients {
        assert!(client.list_text("tools/list").await.contains("\"name\":\"artifact_read\""));
    }
    let lean = ResultSetup::open(json!({ "limits": { "result_tokens": 0 } })).await;
    assert!(!lean.clients[0].list_text("tools/list").await.contains("artifact_read"));
    let long = "x".repeat(400_000);
    for (_, reply) in lean.each("take", &json!({ "content": [{ "type": "text", "text": long }] })).await {
        assert_eq!(reply.text(), long);
    }
}

#[tokio::test]
async fn long_results_within_the_budget_are_unchanged() {
    let setup = ResultSetup::open(json!({})).await;
    let long = "a display of \\\"b64\\\" and of words, ".repeat(2_000);
    let result = format!(r#"{{"content" : [{{"type":"text","text":"{long}"}}],"x":1.50}}"#);
    for (name, server) in &setup.servers {
        server.answer(ScriptedAnswer::result(&result));
        for client in &setup.clients {
            let (_, text) = client.call_text(&format!("{name}_take"), "{}").await;
            assert!(text.contains(&long) && text.contains("1.50"), "{name}");
        }
    }
}

#[tokio::test]
async fn progress_updates_become_messages_and_files() {
    let home = Home::new(&[("legacy", fixture_on_stdio("legacy")), ("modern", fixture_on_stdio("modern"))]);
    let gateway = home.start().await;
    gateway.connected(&["legacy", "modern"]).await;
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(era, gateway.address).await;
        for server in ["legacy", "modern"] {
            let params = json!({ "name": format!("{server}_progress_updates"), "arguments": {}, "_meta": { "progressToken": 7 } });
            let reply = client.ask("tools/call", params).await;
            let progress: Vec<&str> = reply
                .notices("notifications/progress")
                .iter()
                .map(|notice| notice["message"].as_str().unwrap())
                .collect();
            assert_eq!(progress, ["Drawing", "Half way", "Processing..."], "{}", reply.answer);
            assert_eq!(kept(&reply), ["draft.txt"], "{}", reply.answer);
            assert_eq!(read_back(&client, "draft.txt", json!({})).await, "draft");
        }
    }
}
