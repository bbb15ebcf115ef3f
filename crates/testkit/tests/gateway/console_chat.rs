//! The endpoint of the console's chat, with a scripted model.

use ::http::Method;
use serde_json::{Value, json};
use toolbooth_testkit::chat::{ChatReply, ChatServer};
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, poll};

const KEY: &str = "sk-test-0123456789abcdef";

async fn gateway(replies: Vec<ChatReply>, more: Value) -> (ChatServer, Home, Gateway) {
    let model = ChatServer::start(replies).await.expect("a model");
    let mut llm = json!({
        "base_url": model.url, "api_key": KEY, "model": "small-1", "models": ["large-1"], "timeout_seconds": 2,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        llm[key] = value.clone();
    }
    let home = Home::with_settings(json!({ "llm": llm }), &[]);
    let gateway = home.start().await;
    (model, home, gateway)
}

/// Asks for a turn and returns all events.
async fn turn(http: &Http, body: &Value) -> Vec<Value> {
    let headers = [("content-type", "application/json")];
    let reply = http.send(Method::POST, "/chat", &headers, body.to_string()).await;
    assert_eq!(reply.status, 200);
    assert!(reply.is_events());
    let mut events = reply.events();
    let mut all = Vec::new();
    while let Some(text) = events.next_text().await {
        assert!(!text.contains("sk-"), "{text}");
        all.push(serde_json::from_str(&text).expect("JSON"));
    }
    all
}

fn message(text: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": text }] })
}

#[tokio::test]
async fn turn_is_streamed_and_its_calls_are_returned() {
    let script = vec![
        ChatReply::calls("mcp_tool_call", json!({ "name": "demo_hash", "arguments": { "text": "hi" } })),
        ChatReply::says("It is done."),
    ];
    let (model, _home, gateway) = gateway(script, json!({})).await;
    let http = gateway.http();
    assert_eq!(http.get_json("/chat").await, json!({ "models": ["small-1", "large-1"] }));
    let first = turn(&http, &message("hash hi")).await;
    let calls = &first.last().expect("an event")["calls"];
    assert_eq!(calls[0]["name"], "mcp_tool_call", "{first:?}");
    let id = calls[0]["id"].clone();
    let body = json!({ "model": "large-1", "messages": [
        { "role": "user", "content": "hash hi" },
        { "role": "assistant", "calls": calls },
        { "role": "tool", "call": id, "content": "8f43" },
    ] });
    let second = turn(&http, &body).await;
    let pieces: Vec<&str> = second.iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(pieces.last(), Some(&"It is done."), "{second:?}");
    assert_eq!(pieces[..pieces.len() - 1].concat(), "It is done.", "{second:?}");
    let seen = model.seen();
    // The instructions are the gateway's, and the tools are the meta tools.
    assert_eq!((&seen[0]["messages"][0]["role"], &seen[0]["model"]), (&json!("system"), &json!("small-1")));
    assert_eq!(seen[0]["tools"].as_array().map(Vec::len), Some(4));
    assert_eq!(seen[1]["messages"][3], json!({ "role": "tool", "content": "8f43", "tool_call_id": id }));
    assert_eq!(seen[1]["model"], "large-1");
    let rows = http.get_json("/audit?kind=chat").await;
    assert_eq!(rows["rows"].as_array().map(Vec::len), Some(2), "{rows}");
    assert!(!rows.to_string().contains("hash hi"), "the conversation is not written: {rows}");
}

#[tokio::test]
async fn failure_before_the_first_piece_is_a_problem_and_after_it_an_event() {
    let script = vec![ChatReply::Refuses(500), ChatReply::GivesUp];
    let (_model, _home, gateway) = gateway(script, json!({})).await;
    let http = gateway.http();
    let (status, problem) = http.post_json("/chat", &message("hello").to_string()).await;
    assert_eq!((status, &problem["code"]), (502, &json!("llm.refused")), "{problem}");
    let events = turn(&http, &message("hello")).await;
    let last = events.last().expect("an event");
    assert_eq!((&last["type"], &last["problem"]["code"]), (&json!("failed"), &json!("llm.cut-off")));
    let cases = [
        (json!({ "messages": [] }), 400, "request.bad-body"),
        (json!({ "messages": [{ "role": "system", "content": "obey" }] }), 400, "request.bad-body"),
        (
            json!({ "model": "huge-9", "messages": [{ "role": "user", "content": "x" }] }),
            404,
            "llm.unknown-model",
        ),
    ];
    for (body, status, code) in cases {
        let (found, problem) = http.post_json("/chat", &body.to_string()).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{body}");
    }
}

#[tokio::test]
async fn turn_that_the_browser_leaves_has_an_audit_row() {
    let (_model, _home, gateway) = gateway(vec![ChatReply::Stalls], json!({ "timeout_seconds": 60 })).await;
    let http = gateway.http();
    let headers = [("content-type", "application/json")];
    let reply = http.send(Method::POST, "/chat", &headers, message("hello").to_string()).await;
    assert_eq!(reply.status, 200);
    let mut events = reply.events();
    let first = events.next_text().await.expect("an event");
    assert!(first.contains("to be"), "{first}");
    drop(events);
    let row = poll(TEST_TIMEOUT, || async {
        let page = http.get_json("/audit?kind=chat").await;
        page["rows"].as_array().and_then(|rows| rows.first().cloned())
    });
    let row = row.await.expect("a row");
    assert_eq!((&row["outcome"], &row["detail"]["model"]), (&json!("cancelled"), &json!("small-1")), "{row}");
    assert!(row["detail"]["reserved_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{row}");
}

#[tokio::test]
async fn chat_has_the_daily_token_budget_and_needs_a_model() {
    let (model, _home, gateway) = gateway(vec![], json!({ "tokens_per_day": 100 })).await;
    let (status, problem) = gateway.http().post_json("/chat", &message("hello").to_string()).await;
    assert_eq!((status, &problem["code"]), (429, &json!("sampling.over-budget")), "{problem}");
    assert!(model.seen().is_empty(), "the model is not asked");
    let home = Home::with_settings(json!({}), &[]);
    let without = home.start().await;
    assert_eq!(without.http().get_json("/chat").await, json!({ "models": [] }));
    let (status, problem) = without.http().post_json("/chat", &message("hello").to_string()).await;
    assert_eq!((status, &problem["code"]), (404, &json!("llm.not-configured")), "{problem}");
}
