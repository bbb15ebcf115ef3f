//! Questions of servers to people without an MCP client: pages to open, and requests to a language model.

use serde_json::{Value, json};
use toolbooth_testkit::chat::{ChatReply, ChatServer};
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::{Gateway, Home};

async fn gateway(settings: Value, era: &str) -> (Home, Gateway) {
    let home = Home::with_settings(settings, &[("srv", fixture_on_stdio(era))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    (home, gateway)
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn path(asked: &Value, act: &str) -> String {
    format!("/calls/{}/{act}", asked["call"].as_str().unwrap_or_else(|| panic!("{asked}")))
}

#[tokio::test]
async fn page_is_shown_with_its_host_and_answered_over_rest() {
    for era in ["legacy", "modern"] {
        let (_home, gateway) = gateway(json!({}), era).await;
        let http = gateway.http();
        for action in ["accept", "decline"] {
            let (status, asked) = http.post_json("/tools/srv_visit_page/call", "{}").await;
            assert_eq!((status, &asked["kind"]), (202, &json!("question")), "{era}: {asked}");
            let question = &asked["question"];
            assert_eq!((&question["mode"], &question["server"]), (&json!("url"), &json!("srv")), "{era}");
            let page =
                json!({ "url": "https://example.org/page", "host": "example.org", "is_complete": false });
            assert_eq!(question["page"], page, "{era}");
            let body = json!({ "action": action }).to_string();
            let (status, done) = http.post_json(&path(&asked, "answer"), &body).await;
            assert_eq!((status, text_of(&done)), (200, &*format!("The page was opened: {action}.")), "{era}");
        }
    }
}

#[tokio::test]
async fn call_is_made_again_after_the_page_that_a_legacy_server_demands() {
    let (_home, gateway) = gateway(json!({}), "legacy").await;
    let http = gateway.http();
    let call = r#"{"arguments":{"account":"hers"}}"#;
    let (status, asked) = http.post_json("/tools/srv_link_account/call", call).await;
    assert_eq!((status, &asked["question"]["page"]["host"]), (202, &json!("example.org")), "{asked}");
    let (status, done) = http.post_json(&path(&asked, "answer"), r#"{"action":"accept"}"#).await;
    assert_eq!((status, text_of(&done)), (200, "hers is linked."));
    let (_, asked) = http.post_json("/tools/srv_link_account/call", call).await;
    let (status, refused) = http.post_json(&path(&asked, "answer"), r#"{"action":"decline"}"#).await;
    assert_eq!((status, &refused["code"]), (502, &json!("call.server-error")), "{refused}");
}

#[tokio::test]
async fn person_answers_a_sampling_request() {
    // Nothing listens on this port.
    let llm = json!({ "base_url": "http://127.0.0.1:9/v1", "model": "small-1" });
    for era in ["legacy", "modern"] {
        let (_home, gateway) = gateway(json!({ "llm": llm }), era).await;
        let http = gateway.http();
        // A program is not asked to write poems.
        let (status, refused) =
            http.post_json("/tools/srv_sample_poem/call", r#"{"arguments":{"topic":"rain"}}"#).await;
        assert_ne!(status, 202, "{era}: {refused}");
        let call = r#"{"arguments":{"topic":"rain"},"sampling":true}"#;
        let (status, asked) = http.post_json("/tools/srv_sample_poem/call", call).await;
        let question = &asked["question"];
        assert_eq!((status, &question["mode"]), (202, &json!("sampling")), "{era}: {asked}");
        assert_eq!(question["server"], "srv", "{era}");
        let request = &question["sampling"];
        assert_eq!(request["messages"], json!([{ "role": "user", "text": "Write a short poem about rain" }]));
        assert_eq!((&request["max_tokens"], &request["can_draft"]), (&json!(200), &json!(true)));
        let (status, none) = http.post_json(&path(&asked, "draft"), "").await;
        assert_eq!((status, &none["code"]), (502, &json!("llm.unreachable")), "{era}");
        let (status, wrong) =
            http.post_json(&path(&asked, "answer"), r#"{"action":"accept","content":{}}"#).await;
        assert_eq!((status, &wrong["code"]), (400, &json!("call.bad-answer")), "{era}");
        let answer = r#"{"action":"accept","content":{"text":"drip"}}"#;
        let (status, done) = http.post_json(&path(&asked, "answer"), answer).await;
        assert_eq!((status, text_of(&done)), (200, "drip"), "{era}");
        let audit = http.get_json("/audit?limit=100").await.to_string();
        assert!(audit.contains(r#""answered_by":"person""#) && !audit.contains("drip"), "{era}: {audit}");
    }
}

#[tokio::test]
async fn sampling_is_not_offered_without_a_model() {
    let (_home, gateway) = gateway(json!({}), "modern").await;
    let call = r#"{"sampling":true}"#;
    let (status, refused) = gateway.http().post_json("/tools/srv_sample_poem/call", call).await;
    // The fixture needs a client that can sample.
    assert_eq!((status, &refused["code"]), (502, &json!("call.server-error")), "{refused}");
}

#[tokio::test]
async fn model_drafts_an_answer_that_only_the_person_sends() {
    let chat = ChatServer::start([ChatReply::says("drip, drop"), ChatReply::says("plop")]).await.unwrap();
    let llm = json!({ "base_url": chat.url, "api_key": "sk-test-0123456789abcdef", "model": "small-1" });
    let (_home, gateway) = gateway(json!({ "llm": llm }), "legacy").await;
    let http = gateway.http();
    let call = r#"{"arguments":{"topic":"rain"},"sampling":true}"#;
    for (drafted, sent, answered_by) in
        [("drip, drop", "drip, drop", "approved draft"), ("plop", "plop!", "edited draft")]
    {
        let (status, asked) = http.post_json("/tools/srv_sample_poem/call", call).await;
        assert_eq!((status, &asked["question"]["sampling"]["can_draft"]), (202, &json!(true)), "{asked}");
        let before = chat.seen().len();
        let (status, draft) = http.post_json(&path(&asked, "draft"), "").await;
        assert_eq!((status, &draft["text"]), (200, &json!(drafted)), "{draft}");
        assert_eq!(chat.seen().len(), before + 1, "the model works only on request");
        let open = http.get_json("/calls/running").await;
        assert_eq!(open["calls"][0]["state"], "asks", "a draft is not sent: {open}");
        let answer = json!({ "action": "accept", "content": { "text": sent } }).to_string();
        let (status, done) = http.post_json(&path(&asked, "answer"), &answer).await;
        assert_eq!((status, text_of(&done)), (200, sent));
        let audit = http.get_json("/audit?limit=100").await.to_string();
        assert!(audit.contains(&format!(r#""answered_by":"{answered_by}""#)), "{audit}");
    }
    let (status, gone) = http.post_json("/calls/00000000-0000-7000-8000-000000000000/draft", "").await;
    assert_eq!((status, &gone["code"]), (404, &json!("call.no-question")));
}

#[tokio::test]
async fn drafts_count_against_the_daily_token_limit() {
    let chat = ChatServer::start([ChatReply::says("drip")]).await.unwrap();
    let llm = json!({ "base_url": chat.url, "model": "small-1", "tokens_per_day": 100 });
    let (_home, gateway) = gateway(json!({ "llm": llm }), "modern").await;
    let http = gateway.http();
    let (_, asked) = http.post_json("/tools/srv_sample_poem/call", r#"{"sampling":true}"#).await;
    let (status, refused) = http.post_json(&path(&asked, "draft"), "").await;
    assert_eq!((status, &refused["code"]), (429, &json!("sampling.over-budget")), "{refused}");
    assert_eq!(chat.seen(), [] as [Value; 0]);
    let (status, _) = http.post_json(&path(&asked, "answer"), r#"{"action":"decline"}"#).await;
    assert_ne!(status, 404, "the question stays open");
    let audit = http.get_json("/audit?limit=100").await.to_string();
    assert!(audit.contains(r#""outcome":"declined""#), "{audit}");
}
