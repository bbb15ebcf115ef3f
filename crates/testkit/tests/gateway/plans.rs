//! Plan mode: reads run, all other calls are queued in order until they are approved.

use crate::callers::ERAS;
use crate::ledger::{LedgerGateway, said};
use serde_json::{Value, json};
use toolbooth_testkit::world::TestClient;

fn states(plan: &Value) -> Vec<&str> {
    plan["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn writes_are_queued_and_run_in_order_up_to_the_first_failure() {
    let mut ledger = LedgerGateway::start(json!({})).await.ready().await;
    let user = ledger.user().await;
    let plan = ledger.json(&["plan", "on"])["id"].as_str().unwrap().to_owned();
    let mut step = 0;
    for era in ERAS {
        let client = TestClient::of(era, ledger.gateway.address).await;
        assert!(!client.call("led_read_entries", json!({})).await.is_error(), "reads run");
        for (tool, text) in [("led_write_entry", "a"), ("led_delete_entry", "b")] {
            let reply = client.call(tool, json!({ "text": text })).await;
            step += 1;
            let queued = format!("queued as step {step} of plan {plan}");
            assert!(reply.text().starts_with(&queued) && !reply.is_error(), "{}", reply.text());
        }
    }
    assert!(ledger.entries().is_empty());
    let drawn = said(&ledger.run(&["plan", "show"]));
    for word in
        ["+     1  led_write_entry   write", "led_delete_entry  destructive  pending  {\"text\":\"b\"}"]
    {
        assert!(drawn.contains(word), "{drawn}");
    }

    ledger = ledger.survive().await.ready().await;
    let end = plan.rsplit('-').next().unwrap().to_owned();
    let shown = ledger.json(&["plan", "show", &end]);
    assert_eq!(states(&shown), ["pending"; 4]);
    let ran = ledger.run(&["plan", "approve", "1-3", "--json"]);
    assert_eq!(ran.status.code(), Some(1));
    let reports = crate::token_users::read(&ran);
    assert_eq!(reports["steps"].as_array().unwrap().len(), 2, "it stops at the failure: {reports}");
    assert_eq!(states(&ledger.json(&["plan", "show"])), ["done", "failed", "pending", "pending"]);
    assert_eq!(ledger.entries(), [format!("a by {user}")]);

    let call = ledger.run(&["call", "led_write_entry", "text=c"]);
    assert_eq!(call.status.code(), Some(4), "plan mode is still on after a restart");
    ledger = ledger.survive().await.ready().await;
    assert!(ledger.run(&["plan", "reject", "4", "--reason", "no"]).status.success());
    assert_eq!(ledger.run(&["plan", "approve", "4"]).status.code(), Some(1), "it is no longer pending");
    assert_eq!(ledger.run(&["plan", "approve", "3-1"]).status.code(), Some(1));
    assert!(ledger.run(&["plan", "off"]).status.success());
    let now = ledger.run(&["call", "led_write_entry", "text=now"]);
    assert_eq!(said(&now), "wrote now");
    assert!(ledger.run(&["plan", "approve", "all"]).status.success());
    assert_eq!(states(&ledger.json(&["plan", "show"])), ["done", "failed", "done", "rejected", "done"]);
    let by = |text: &str| format!("{text} by {user}");
    assert_eq!(ledger.entries(), [by("a"), by("now"), by("a"), by("c")]);
    assert_eq!(ledger.json(&["plan", "list"])["plans"].as_array().unwrap().len(), 1);
    assert!(ledger.run(&["audit", "verify"]).status.success());
}

#[tokio::test]
async fn plan_queues_the_calls_of_its_scope() {
    let ledger = LedgerGateway::start(json!({ "personas": { "dev": { "allowed_tools": ["led_*"] } } }))
        .await
        .ready()
        .await;
    assert!(ledger.run(&["plan", "on", "--session", "work"]).status.success());
    let call = |more: &[&str]| {
        let words = [&["call", "led_write_entry", "text=x"], more].concat();
        ledger.run(&words).status.code()
    };
    assert_eq!(
        (call(&["--session", "work"]), call(&["--session", "play"]), call(&[])),
        (Some(4), Some(0), Some(0))
    );
    assert!(ledger.run(&["plan", "on", "--persona", "dev"]).status.success());
    assert_eq!((call(&["--persona", "dev"]), call(&[])), (Some(4), Some(0)));
    assert_eq!(ledger.run(&["plan", "on", "--persona", "none"]).status.code(), Some(3));
    let shown = ledger.json(&["plan", "show", "--session", "work"]);
    assert_eq!((&shown["session"], states(&shown).len()), (&json!("work"), 1));
    assert!(ledger.run(&["plan", "off", "--session", "work"]).status.success());
    assert_eq!((call(&["--session", "work"]), call(&["--persona", "dev"])), (Some(0), Some(4)));
    let id = shown["id"].as_str().unwrap();
    let http = ledger.gateway.http();
    for (path, body, code) in [
        (format!("/plans/{id}/approve"), "{}", "request.bad-body"),
        (format!("/plans/{id}/approve"), r#"{"steps":"0"}"#, "plan.bad-steps"),
        (format!("/plans/{id}/approve"), r#"{"steps":9}"#, "plan.no-such-step"),
        (format!("/plans/{id}/reject"), r#"{"step":1}"#, "request.bad-body"),
        ("/plans/nonsense/approve".to_owned(), r#"{"steps":1}"#, "plan.unknown"),
        ("/plans".to_owned(), r#"{"session":""}"#, "request.bad-body"),
    ] {
        assert_eq!(http.post_json(&path, body).await.1["code"], code, "{path} {body}");
    }
    let (status, reports) = http.post_json(&format!("/plans/{id}/approve"), r#"{"steps":1}"#).await;
    assert_eq!((status, &reports["steps"][0]["state"]), (200, &json!("done")), "{reports}");
}
