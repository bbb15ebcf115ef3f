//! Health of tools: call outcomes are shown and survive a stop and a kill.

use crate::ledger::LedgerGateway;
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::world::Http;

async fn call(http: &Http, tool: &str, arguments: Value) -> u16 {
    let body = json!({ "arguments": arguments }).to_string();
    http.post_json(&format!("/tools/led_{tool}/call"), &body).await.0
}

async fn health(ledger: &LedgerGateway, tool: &str) -> Value {
    ledger.gateway.http().get_json(&format!("/tools/led_{tool}")).await["health"].clone()
}

#[tokio::test]
async fn health_counts_completed_calls_and_survives_a_stop_and_a_kill() {
    let mut ledger = LedgerGateway::start(json!({})).await.ready().await;
    assert_eq!(health(&ledger, "write_entry").await, Value::Null, "it was never called");
    let http = ledger.gateway.http();
    for number in 0..3 {
        assert_eq!(call(&http, "write_entry", json!({ "text": format!("{number}") })).await, 200);
    }
    assert_eq!(
        call(&http, "write_entry", json!({ "nothing": 1 })).await,
        400,
        "a refused call is not counted"
    );
    assert_eq!(call(&http, "delete_entry", json!({ "text": "x" })).await, 200, "the tool's own error");
    let good = health(&ledger, "write_entry").await;
    assert_eq!((&good["calls"], &good["success_rate"]), (&json!(3), &json!(1.0)), "{good}");
    assert_eq!(good["last_call"]["outcome"], "done");
    assert_eq!(good["last_success_provider"], "mcp:led");
    assert_eq!(good["by_persona"]["shared"]["calls"], 3);
    let latency = &good["latency_ms"];
    assert!(
        latency["p50"].as_f64() <= latency["p95"].as_f64() && latency["avg"].as_f64() > Some(0.0),
        "{good}"
    );
    let bad = health(&ledger, "delete_entry").await;
    assert_eq!((&bad["calls"], &bad["success_rate"]), (&json!(1), &json!(0.0)), "{bad}");
    assert_eq!(
        (&bad["last_call"]["outcome"], &bad["last_success_provider"]),
        (&json!("tool_error"), &Value::Null)
    );

    // A stop keeps everything.
    ledger.gateway.signal(nix::sys::signal::Signal::SIGTERM);
    ledger = ledger.restarted().await.ready().await;
    assert_eq!(health(&ledger, "write_entry").await, good);
    assert_eq!(health(&ledger, "delete_entry").await, bad);

    // A kill keeps data that is a few seconds old.
    assert_eq!(call(&ledger.gateway.http(), "write_entry", json!({ "text": "more" })).await, 200);
    let more = health(&ledger, "write_entry").await;
    assert_eq!(more["calls"], 4);
    tokio::time::sleep(Duration::from_secs(5)).await;
    ledger = ledger.survive().await.ready().await;
    assert_eq!(health(&ledger, "write_entry").await, more);
    let shown = ledger.run(&["tools", "show", "led_write_entry"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("100 % of 4 calls succeeded"), "{shown}");
}
