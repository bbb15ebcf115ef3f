//! The gateway's own model, for servers whose callers' clients have none.

use serde_json::{Value, json};
use toolbooth_testkit::chat::{ChatServer, Manner};
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::{Client, Gateway, Home, home};

const KEY: &str = "sk-test-0123456789abcdef";

/// A gateway with a model, a server of each era that may ask it, one that may not, and the planner.
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

async fn poem(gateway: &Gateway, era: Era, tool: &str) -> String {
    let client = Client::with_capabilities(era, gateway.address, json!({})).await;
    let told = client.call(tool, json!({ "topic": "rain" })).await;
    told.answer.to_string()
}

#[tokio::test]
async fn every_server_that_may_ask_gets_an_answer_in_every_era() {
    let chat = ChatServer::start([0; 6].map(|_| Manner::says("drip, drop"))).await.unwrap();
    let (_home, gateway) = open(&chat, json!({})).await;
    for era in [Era::Legacy, Era::Modern] {
        for tool in ["old_sample_poem", "new_sample_poem"] {
            let said = poem(&gateway, era, tool).await;
            assert!(said.contains("drip, drop"), "{era:?} {tool}: {said}");
        }
        let refused = poem(&gateway, era, "other_sample_poem").await;
        assert!(!refused.contains("drip, drop"), "{refused}");
    }
    // Over REST, too, where no client can be asked anything.
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
async fn a_client_that_can_sample_is_asked_itself() {
    let chat = ChatServer::start([]).await.unwrap();
    let (_home, gateway) = open(&chat, json!({})).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = Client::of(era, gateway.address).await;
        for tool in ["old_sample_poem", "new_sample_poem"] {
            let told = client.call(tool, json!({ "topic": "rain" })).await;
            assert!(!told.is_error() && told.code().is_none(), "{}", told.answer);
        }
    }
    assert_eq!(chat.seen(), [] as [Value; 0]);
}

#[tokio::test]
async fn a_model_that_fails_fails_one_question() {
    let cases = [
        (Manner::Whole("drip".into()), "drip"),
        (Manner::Refuses(429), "too often"),
        (Manner::Refuses(500), "HTTP 500"),
        (Manner::Refuses(401), "llm.api_key"),
        (Manner::Babbles, "no answer"),
        (Manner::HangsUp, "broke off"),
        (Manner::Stalls, "said nothing"),
        (Manner::says("drop"), "drop"),
    ];
    for tool in ["old_sample_poem", "new_sample_poem"] {
        let chat = ChatServer::start(cases.iter().map(|(manner, _)| manner.clone())).await.unwrap();
        let (_home, gateway) = open(&chat, json!({})).await;
        for (manner, expected) in &cases {
            let said = poem(&gateway, Era::Modern, tool).await;
            assert!(said.contains(expected), "{tool} {manner:?}: {said}");
            assert!(!said.contains("sk-"), "a secret came back: {said}");
        }
        assert!(!gateway.log().contains(KEY));
    }
}

#[tokio::test]
async fn the_budget_holds() {
    let chat = ChatServer::start([0; 4].map(|_| Manner::says("drip"))).await.unwrap();
    let (_home, gateway) = open(&chat, json!({ "tokens_per_day": 240 })).await;
    // One answer may have 200 tokens; it has 18 in the end, so that the next one fits as well.
    for expected in ["drip", "drip", "used up"] {
        let said = poem(&gateway, Era::Modern, "old_sample_poem").await;
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(chat.seen().len(), 2);
    let audit = gateway.http().get_json("/audit?limit=100").await.to_string();
    assert!(audit.contains("sampling.over-budget"), "{audit}");
}

#[tokio::test]
async fn the_planner_plans_with_the_gateways_model() {
    let plan = r#"{"steps":[{"tool":"demo_echo","arguments":{"text":"hi"},"why":"to say it"}]}"#;
    let call = r#"{"arguments":{"task":"say hi"}}"#;
    let chat = ChatServer::start([Manner::says("I would rather not."), Manner::says(plan)]).await.unwrap();
    let (_home, gateway) = open(&chat, json!({})).await;
    let (status, answer) = gateway.http().post_json("/tools/planner_plan_task/call", call).await;
    assert!(status == 200 && answer.to_string().contains("to say it"), "{answer}");
    let told = &chat.seen()[1]["messages"];
    assert!(told.to_string().contains("holds no JSON object"), "what was wrong is told: {told}");
    assert!(told[1]["content"].as_str().is_some_and(|text| text.contains("Tool: demo_echo")), "{told}");

    let chat = ChatServer::start([Manner::says("no"), Manner::says(plan)]).await.unwrap();
    let (_home, gateway) = open(&chat, json!({ "requests_per_call": 1 })).await;
    let (_, answer) = gateway.http().post_json("/tools/planner_plan_task/call", call).await;
    assert!(answer.to_string().contains("may ask the model 1 times"), "{answer}");
}
