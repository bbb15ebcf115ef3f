//! Context statistics: the token cost of tools, the lists sent to clients, and access.

use crate::callers::http_as;
use crate::token_users::{TokenUsers, bearer, make_token, read, run};
use hyper::Method;
use serde_json::{Value, json};
use toolbooth_core::weigh;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TestClient};

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// A definition with a token cost, and with parts that are not sent to models.
fn definition(name: &str, place: usize) -> Value {
    json!({
        "name": name,
        "title": "Not shown to models",
        "description": format!("The tool {name} does its work. ").repeat(place * 10 + 1),
        "inputSchema": { "type": "object", "properties": { "path": { "type": "string", "description": "Größe — wo?" } } },
        "annotations": { "readOnlyHint": true },
    })
}

fn tools() -> Value {
    NAMES.iter().enumerate().map(|(place, name)| definition(name, place)).collect()
}

/// The token cost of a tool, counted independently.
fn cost(place: usize) -> u64 {
    let response = definition(NAMES[place], place);
    let shown = json!({
        "name": format!("up_{}", NAMES[place]),
        "description": response["description"],
        "inputSchema": response["inputSchema"],
    });
    u64::from(weigh::tokens(&shown.to_string()))
}

async fn world(settings: Value) -> (Home, Gateway, ScriptedServer) {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(tools().to_string());
    let home = Home::with_settings(settings, &[("up", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["up"]).await;
    (home, gateway, upstream)
}

async fn stats(http: &Http, query: &str) -> (u16, Value) {
    let reply = http.send(Method::GET, &format!("/stats{query}"), &[], "").await;
    (reply.status, reply.json().await)
}

#[tokio::test]
async fn every_tool_shows_its_token_cost() {
    let (_home, gateway, _upstream) = world(json!({})).await;
    let page =
        gateway.http().send(Method::GET, "/tools?server=up&sort=-token_cost", &[], "").await.json().await;
    let shown: Vec<(String, u64)> = page["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["tool"].as_str().unwrap().to_owned(), tool["token_cost"].as_u64().unwrap()))
        .collect();
    let expected: Vec<(String, u64)> =
        (0..3).rev().map(|place| (NAMES[place].to_owned(), cost(place))).collect();
    assert_eq!(shown, expected, "the most expensive tool comes first");
    let one = gateway.http().send(Method::GET, "/tools/up_beta", &[], "").await.json().await;
    assert_eq!(one["token_cost"], cost(1));
}

#[tokio::test]
async fn statistics_show_the_list_that_the_client_received() {
    let (home, gateway, upstream) = world(json!({ "exposure": { "mode": "full" } })).await;
    let (_, before) = stats(&gateway.http(), "").await;
    assert_eq!(
        (&before["client"], &before["sent"], &before["saved"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(before["tokenizer"], "o200k_base");

    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let listed: Value = serde_json::from_str(&client.list_text("tools/list").await).unwrap();
    let (_, after) = stats(&gateway.http(), "?limit=3").await;
    assert_eq!(after["sent"], after["full"], "the full list was sent: {after}");
    assert_eq!((&after["saved"], &after["saved_net"]), (&json!(0), &json!(0)));
    assert_eq!(after["tools"], listed["tools"].as_array().unwrap().len(), "{after}");
    assert!(after["summary"].as_u64() < after["full"].as_u64(), "{after}");
    let up = after["servers"].as_array().unwrap().iter().find(|server| server["name"] == "up").unwrap();
    let all: u64 = (0..3).map(cost).sum();
    assert_eq!((&up["tools"], &up["full"], &up["sent"]), (&json!(3), &json!(all), &json!(all)));
    let dearest: Vec<&str> =
        after["dearest"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(dearest, ["artifact_read", "up_gamma", "up_beta"], "the gateway's own tools are counted too");

    let name = after["client"].as_str().unwrap();
    assert_eq!(after["clients"], json!([name]));
    let (status, same) = stats(&gateway.http(), &format!("?client={name}")).await;
    assert_eq!((status, &same["sent"]), (200, &after["sent"]));
    let (status, refused) = stats(&gateway.http(), "?client=missing").await;
    assert_eq!((status, &refused["code"]), (404, &json!("stats.unknown-client")));
    assert!(refused["hint"].as_str().unwrap().contains(name), "{refused}");

    // The command prints the same numbers, as JSON and as text.
    let response = read(&run(&home, &["tools", "stats", "--json", "--client", name], None));
    assert_eq!((&response["full"], &response["sent"]), (&after["full"], &after["sent"]));
    let drawn = run(&home, &["tools", "stats"], None);
    let drawn = String::from_utf8_lossy(&drawn.stdout);
    assert!(
        drawn.contains(&format!("{} tokens for", after["full"])) && drawn.contains("up_gamma"),
        "{drawn}"
    );

    // The client's list is outdated, and the statistics show that.
    upstream.list(json!([definition("alpha", 0)]).to_string());
    gateway.http().send(Method::POST, "/registry/refresh", &[], "").await;
    let (_, changed) = stats(&gateway.http(), "").await;
    assert_eq!((&changed["client"], &changed["sent"]), (&json!(name), &Value::Null), "{changed}");
    client.list_text("tools/list").await;
    let (_, refreshed) = stats(&gateway.http(), "").await;
    assert_eq!(refreshed["sent"], refreshed["full"], "{refreshed}");
    assert!(refreshed["full"].as_u64() < after["full"].as_u64());
}

#[tokio::test]
async fn loaded_tools_are_counted_separately_from_the_list() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let many: Value = (0..60).map(|place| definition(&format!("tool_{place}"), place % 3)).collect();
    upstream.list(many.to_string());
    let settings = json!({ "exposure": { "mode": "search" } });
    let home = Home::with_settings(settings, &[("up", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["up"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    client.list_text("tools/list").await;
    let number =
        |stats: &Value, key: &str| stats[key].as_i64().unwrap_or_else(|| panic!("no {key} in {stats}"));
    let (_, listed) = stats(&gateway.http(), "?limit=0").await;
    assert!(number(&listed, "sent") > 0 && number(&listed, "sent") * 5 < number(&listed, "full"), "{listed}");
    assert!(number(&listed, "summary") < number(&listed, "full"), "{listed}");
    assert_eq!(number(&listed, "saved"), number(&listed, "full") - number(&listed, "sent"));
    assert_eq!((&listed["loaded"]["answers"], &listed["dearest"]), (&json!(0), &json!([])));

    client.call("mcp_tool_search", json!({ "query": "tool_7" })).await;
    client.call("mcp_tool_describe", json!({ "name": "up_tool_7" })).await;
    let (_, searched) = stats(&gateway.http(), "?limit=1000").await;
    let loaded = &searched["loaded"];
    assert_eq!(loaded["answers"], 2, "{loaded}");
    assert_eq!(number(&searched, "saved_net"), number(&searched, "saved") - number(loaded, "tokens"));
    let seven =
        searched["dearest"].as_array().unwrap().iter().find(|tool| tool["name"] == "up_tool_7").unwrap();
    assert_eq!((&seven["loaded"], &seven["sent"]), (&json!(2), &json!(0)), "{seven}");
}

#[tokio::test]
async fn statistics_do_not_reveal_clients_of_other_users() {
    let home = Home::new(&[]);
    let (ann, _) = make_token(&home, None, "ann", &[]);
    let (bob, _) = make_token(&home, None, "bob", &[]);
    let upstream = ScriptedServer::start(TestEra::Legacy).await;
    upstream.list(tools().to_string());
    home.configure(json!({ "auth": { "mode": "token" } }), &[("up", upstream.entry())]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&ann);
    let client = TestClient::with_headers(TestEra::Legacy, gateway.address, "/mcp", &bearer(&ann)).await;
    client.list_text("tools/list").await;
    let (_, own) = stats(&gateway.http(), "").await;
    let name = own["client"].as_str().unwrap();
    let other = Http::new(gateway.address).sending(&bearer(&bob));
    let (_, others) = stats(&other, "").await;
    assert_eq!((&others["client"], &others["clients"]), (&Value::Null, &json!([])));
    assert!(others["full"].as_u64() > Some(0), "token costs are visible to all users");
    assert_eq!(stats(&other, &format!("?client={name}")).await.0, 404);
    let (status, refused) = stats(&other, "?clint=x").await;
    assert_eq!((status, &refused["code"]), (400, &json!("request.bad-query")));
}

#[tokio::test]
async fn series_counts_the_calls_that_a_caller_may_see() {
    let known = TokenUsers::start().await;
    let (ann, cat, root) = (&known.ann.0, &known.cat, &known.root);
    for (token, tool) in [(ann, "open_ok"), (ann, "open_nonsense"), (cat, "open_ok")] {
        http_as(&known.gateway, token).post_json(&format!("/tools/{tool}/call"), "{}").await;
    }
    let cases = [
        (ann, "", (2, 1), 24),
        (cat, "?step=hour&count=2", (1, 0), 2),
        // The parameter cannot widen what a caller sees.
        (cat, "?step=day&user=ann", (1, 0), 30),
        (root, "?step=day&count=7&utc_offset=-300", (3, 1), 7),
        (root, "?user=ann&count=999", (2, 1), 24),
    ];
    for (token, query, (calls, failed), steps) in cases {
        let series = http_as(&known.gateway, token).get_json(&format!("/stats/series{query}")).await;
        let total = &series["total"];
        assert_eq!((&total["calls"], &total["failed"]), (&json!(calls), &json!(failed)), "{query}: {series}");
        let points = series["points"].as_array().unwrap();
        assert_eq!(points.len(), steps, "{query}");
        let sum: u64 = points.iter().map(|point| point["calls"].as_u64().unwrap()).sum();
        assert_eq!(sum, calls, "{query}");
        assert_eq!(series["complete_from_ms"], points[0]["at_ms"], "{query}");
        assert_eq!(series["recorded"], "all");
        assert_eq!(series["results"], Value::Null, "{query}");
        let joined =
            if query.is_empty() { "?results=true".to_owned() } else { format!("{query}&results=true") };
        let series = http_as(&known.gateway, token).get_json(&format!("/stats/series{joined}")).await;
        let amount = &series["results"];
        // A call that failed has no result.
        assert_eq!(amount["results"], json!(calls - failed), "{joined}: {series}");
        assert_eq!(amount["complete_from_ms"], points[0]["at_ms"], "{joined}");
        let bytes = amount["bytes"].as_u64().unwrap();
        assert!(bytes >= 2 * (calls - failed) && amount["tokens"] == json!(bytes.div_ceil(4)), "{series}");
    }
    for query in ["?step=week", "?utc_offset=841", "?count=-1", "?steps=3"] {
        let (status, refused) = stats(&http_as(&known.gateway, root), &format!("/series{query}")).await;
        assert_eq!((status, &refused["code"]), (400, &json!("request.bad-query")), "{query}");
    }
}
