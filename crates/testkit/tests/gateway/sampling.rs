//! Sampling with the gateway's model, for clients without a model.

use serde_json::{Value, json};
use toolbooth_testkit::chat::{ChatReply, ChatServer};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, TestClient, home};

const KEY: &str = "sk-test-0123456789abcdef";

/// A gateway with a model, a server of each era that may sample, one that may not, and the planner.
async fn open(chat: &ChatServer, more: Value) -> (Home, Gateway) {
    let mut llm = json!({
        "base_url": chat.url, "api_key": KEY, "model": "small-1", "models": ["large-1"],
        "allow": ["old", "new", "planner"], "timeout_seconds": 2,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        llm[key] = value.clone();
    }
    let servers = [
        ("old", home::fixture_on_stdio("legacy")),
        ("new", home::fixture_on_stdio("modern")),
        ("other", home::fixture_on_stdio("legacy")),
        ("planner", json!({ "bundled": "planner" })),
        ("demo", json!({ "bundled": "demo" })),
    ];
    let home = Home::with_settings(json!({ "llm": llm, "exposure": { "mode": "full" } }), &servers);
    let gateway = home.start().await;
    gateway.connected(&["old", "new", "other", "planner", "demo"]).await;
    (home, gateway)
}

async fn poem(gateway: &Gateway, era: TestEra, tool: &str) -> String {
    let client = TestClient::with_capabilities(era, gateway.address, json!({})).await;
    let transcript = client.call(tool, json!({ "topic": "rain" })).await;
    transcript.answer.to_string()
}

#[tokio::test]
async fn allowed_servers_can_sample_in_every_era() {
    let chat = ChatServer::start([0; 6].map(|_| ChatReply::says("drip, drop"))).await.unwrap();
    let (_home, gateway) = open(&chat, json!({})).await;
    for era in [TestEra::Legacy, TestEra::Modern] {
        for tool in ["old_sample_poem", "new_sample_poem"] {
            let said = poem(&gateway, era, tool).await;
            assert!(said.contains("drip, drop"), "{era:?} {tool}: {said}");
        }
        let refused = poem(&gateway, era, "other_sample_poem").await;
        assert!(!refused.contains("drip, drop"), "{refused}");
    }
    // Over REST too, where no client can be asked.
    let (status, answer) =
        gateway.http().post_json("/tools/old_sample_poem/call", r#"{"arguments":{"topic":"rain"}}"#).await;
    assert!(status == 200 && answer.to_string().contains("drip, drop"), "{answer}");
    let seen = chat.seen();
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[0]["authorization"], format!("Bearer {KEY}"));
    assert_eq!((&seen[0]["path"], &seen[0]["model"]), (&json!("/v1/chat/completions"), &json!("small-1")));
    assert_eq!(seen[0]["stream"], true);
    let audit = gateway.http().get_json("/audit?limit=100").await.to_string();
    assert_eq!(audit.matches(r#""kind":"sampling""#).count(), 5, "{audit}");
    assert!(audit.contains("test-model") && !audit.contains(KEY), "{audit}");
}

#[tokio::test]
async fn client_with_sampling_is_asked_instead_of_the_model() {
    let chat = ChatServer::start([]).await.unwrap();
    let (_home, gateway) = open(&chat, json!({})).await;
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(era, gateway.address).await;
        for tool in ["old_sample_poem", "new_sample_poem"] {
            let transcript = client.call(tool, json!({ "topic": "rain" })).await;
            assert!(!transcript.is_error() && transcript.code().is_none(), "{}", transcript.answer);
        }
    }
    assert_eq!(chat.seen(), [] as [Value; 0]);
}

#[tokio::test]
async fn failed_model_request_fails_only_its_question() {
    let cases = [
        (ChatReply::Whole("drip".into()), "drip"),
        (ChatReply::Refuses(429), "request rate"),
        (ChatReply::Refuses(500), "HTTP 500"),
        (ChatReply::Refuses(401), "llm.api_key"),
        (ChatReply::Babbles, "unreadable answer"),
        (ChatReply::HangsUp, "ended early"),
        (ChatReply::Stalls, "did not answer"),
        (ChatReply::says("drop"), "drop"),
    ];
    for tool in ["old_sample_poem", "new_sample_poem"] {
        let chat = ChatServer::start(cases.iter().map(|(reply, _)| reply.clone())).await.unwrap();
        let (_home, gateway) = open(&chat, json!({})).await;
        for (reply, expected) in &cases {
            let said = poem(&gateway, TestEra::Modern, tool).await;
            assert!(said.contains(expected), "{tool} {reply:?}: {said}");
            assert!(!said.contains("sk-"), "the answer contains a secret: {said}");
        }
        assert!(!gateway.log().contains(KEY));
    }
}

#[tokio::test]
async fn sampling_budget_is_enforced() {
    let chat = ChatServer::start([0; 4].map(|_| ChatReply::says("drip"))).await.unwrap();
    let (_home, gateway) = open(&chat, json!({ "tokens_per_day": 240 })).await;
    // An answer may have 200 tokens; this one has 18, so that the next one is within the budget too.
    for expected in ["drip", "drip", "used up"] {
        let said = poem(&gateway, TestEra::Modern, "old_sample_poem").await;
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(chat.seen().len(), 2);
    let audit = gateway.http().get_json("/audit?limit=100").await.to_string();
    assert!(audit.contains("sampling.over-budget"), "{audit}");
}

#[tokio::test]
async fn broken_answer_of_the_model_counts_against_the_budget() {
    let chat = ChatServer::start([ChatReply::HangsUp, ChatReply::says("drip")]).await.unwrap();
    let (_home, gateway) = open(&chat, json!({ "tokens_per_day": 240 })).await;
    for expected in ["ended early", "used up"] {
        let said = poem(&gateway, TestEra::Modern, "old_sample_poem").await;
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(chat.seen().len(), 1);
}

#[tokio::test]
async fn planner_uses_the_gateway_model() {
    let plan = r#"{"steps":[{"tool":"demo_echo","arguments":{"text":"hi"},"why":"to say it"}]}"#;
    let call = r#"{"arguments":{"task":"say hi"}}"#;
    let chat =
        ChatServer::start([ChatReply::says("I would rather not."), ChatReply::says(plan)]).await.unwrap();
    let (_home, gateway) = open(&chat, json!({})).await;
    let (status, answer) = gateway.http().post_json("/tools/planner_plan_task/call", call).await;
    assert!(status == 200 && answer.to_string().contains("to say it"), "{answer}");
    let messages = &chat.seen()[1]["messages"];
    assert!(messages.to_string().contains("has no JSON object"), "the model gets the error: {messages}");
    assert!(
        messages[1]["content"].as_str().is_some_and(|text| text.contains("Tool: demo_echo")),
        "{messages}"
    );

    let chat = ChatServer::start([ChatReply::says("no"), ChatReply::says(plan)]).await.unwrap();
    let (_home, gateway) = open(&chat, json!({ "requests_per_call": 1 })).await;
    let (_, answer) = gateway.http().post_json("/tools/planner_plan_task/call", call).await;
    assert!(answer.to_string().contains("the limit of requests to the model is 1"), "{answer}");
}
