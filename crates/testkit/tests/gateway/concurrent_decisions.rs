//! Concurrent decisions about one held call: one of them wins.

use crate::ledger::LedgerGateway;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolbooth_testkit::world::{Http, TEST_TIMEOUT, poll};

const ROUNDS: usize = 1_000;
/// Concurrent rounds, as with a few approvers.
const AT_ONCE: usize = 8;
const VERDICTS: [&str; 4] = ["approve", "reject", "approve", "reject"];

/// Sends four concurrent answers to one held call; returns the accepted one.
async fn decide(http: &Http, round: usize) -> (String, &'static str) {
    let text = format!("round-{round}");
    let body = json!({ "arguments": { "text": text }, "wait": 0 }).to_string();
    let (status, answer) = http.post_json("/tools/led_write_entry/call", &body).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["held"].as_str().unwrap().to_owned();
    let answers = join_all(VERDICTS.map(|verdict| {
        let (http, path) = (http.clone(), format!("/approvals/{id}/{verdict}"));
        async move { (verdict, http.post_json(&path, "{}").await) }
    }))
    .await;
    let taken: Vec<&str> =
        answers.iter().filter(|(_, (status, _))| *status == 200).map(|(verdict, _)| *verdict).collect();
    assert_eq!(taken.len(), 1, "one answer wins: {answers:?}");
    for (verdict, (status, problem)) in &answers {
        let late = (*status, &problem["code"]);
        assert!(*status == 200 || late == (409, &json!("call.already-decided")), "{verdict}: {problem}");
    }
    let winner = VERDICTS.into_iter().find(|verdict| *verdict == taken[0]).unwrap();
    (text, winner)
}

#[tokio::test]
async fn one_of_four_concurrent_decisions_wins_and_the_call_runs_once() {
    let ledger = LedgerGateway::start(json!({ "approval": { "default": "writes" } })).await.ready().await;
    let http = ledger.gateway.http();
    let mut heard = BTreeMap::new();
    for first in (0..ROUNDS).step_by(AT_ONCE) {
        heard.extend(join_all((first..first + AT_ONCE).map(|round| decide(&http, round))).await);
    }
    let approved = heard.values().filter(|verdict| **verdict == "approve").count();
    let all_ran = poll(TEST_TIMEOUT, || async { (ledger.entries().len() >= approved).then_some(()) });
    all_ran.await.expect("approved calls run");
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for entry in ledger.entries() {
        *ran.entry(entry.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    for (text, verdict) in &heard {
        let times = ran.get(text).copied().unwrap_or(0);
        assert_eq!(times, usize::from(*verdict == "approve"), "{text} was {verdict}ed");
    }
    let listed: Value = http.get_json("/approvals?state=pending").await;
    assert_eq!(listed["approvals"], json!([]), "no held call is left");
    assert!(ledger.run(&["audit", "verify"]).status.success());
    println!(
        "{ROUNDS} rounds of four decisions: {approved} approved and run once, {} rejected",
        ROUNDS - approved
    );
}
