//! The gateway is killed at random moments, and all acknowledged state survives.

use crate::ledger::LedgerGateway;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Http, TEST_TIMEOUT, TestClient, Transcript, poll};

/// Environment variable with the number of kills; a full run takes two hundred.
const KILLS: &str = "TOOLBOOTH_KILLS";
const FEW: u64 = 40;
/// The longest time in microseconds until the kill, once the round's work has begun.
const LONGEST_LIFE: u64 = 30_000;
const PLANNING: &str = "planning";

/// The last acknowledged state of a call before the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acknowledged {
    /// The call is held.
    Held,
    /// An approval was accepted.
    Approved,
    /// A rejection was accepted.
    Rejected,
    /// The caller has the result.
    Ran,
}

/// A deterministic random number generator.
struct KillRandom(u64);

impl KillRandom {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// The acknowledged states, by the text of the call.
#[derive(Default)]
struct AcknowledgedCalls(BTreeMap<String, (String, Acknowledged)>);

async fn call(http: &Http, text: &str, session: Option<&str>) -> Option<String> {
    let mut body = json!({ "arguments": { "text": text }, "wait": 0 });
    if let Some(session) = session {
        body["session"] = session.into();
    }
    let (status, answer) = http.try_post("/tools/led_write_entry/call", &body.to_string()).await?;
    assert_eq!(status, 202, "{answer}");
    Some(answer["held"].as_str().unwrap().to_owned())
}

/// Answers a held call; returns `Some` if the answer was acknowledged.
async fn decide(http: Http, id: String, verdict: &'static str) -> Option<()> {
    let (status, _) = http.try_post(&format!("/approvals/{id}/{verdict}"), "{}").await?;
    (status == 200).then_some(())
}

/// One run of the gateway: calls are held and queued, answered and run, until it is killed.
async fn live(ledger: &LedgerGateway, round: u64, random: &mut KillRandom, book: &mut AcknowledgedCalls) {
    let http = ledger.gateway.http();
    let mut ids = Vec::new();
    for number in 0..3 {
        let text = format!("round-{round}-call-{number}");
        let id = call(&http, &text, None).await.unwrap();
        book.0.insert(text, (id.clone(), Acknowledged::Held));
        ids.push(id);
    }
    let mut steps = Vec::new();
    for number in 0..2 {
        let text = format!("round-{round}-step-{number}");
        let id = call(&http, &text, Some(PLANNING)).await.unwrap();
        book.0.insert(text, (id.clone(), Acknowledged::Held));
        steps.push(id);
    }
    let shown = http.get_json(&format!("/approvals/{}", steps[0])).await;
    let plan = shown["plan"]["id"].as_str().unwrap().to_owned();
    let first = shown["plan"]["step"].as_u64().unwrap();

    // One caller waits for its answer.
    let patient = format!("round-{round}-patient");
    let waiting = {
        let (http, body) =
            (http.clone(), json!({ "arguments": { "text": patient }, "wait": 600 }).to_string());
        tokio::spawn(async move { http.try_post("/tools/led_write_entry/call", &body).await })
    };
    let held = poll(TEST_TIMEOUT, || async {
        let listed = http.get_json("/approvals?state=pending&limit=8").await;
        let found =
            listed["approvals"].as_array()?.iter().find(|held| held["arguments"]["text"] == *patient)?;
        Some(found["id"].as_str()?.to_owned())
    });
    let id = held.await.expect("the waiting call is held");
    book.0.insert(patient.clone(), (id.clone(), Acknowledged::Held));
    ids.push(id);

    let verdicts = ["approve", "reject", "approve", "approve"];
    let deciding: Vec<_> = ids
        .iter()
        .zip(verdicts)
        .map(|(id, verdict)| tokio::spawn(decide(http.clone(), id.clone(), verdict)))
        .collect();
    let running = {
        let (http, body) = (http.clone(), json!({ "steps": format!("{first}-{}", first + 1) }).to_string());
        tokio::spawn(async move { http.try_post(&format!("/plans/{plan}/approve"), &body).await })
    };
    // A late call is either held or was not acknowledged.
    let late = format!("round-{round}-late");
    let asking = {
        let (http, late) = (http.clone(), late.clone());
        tokio::spawn(async move { call(&http, &late, None).await })
    };
    tokio::time::sleep(Duration::from_micros(random.below(LONGEST_LIFE))).await;
    ledger.gateway.signal(nix::sys::signal::Signal::SIGKILL);
    for ((deciding, verdict), id) in deciding.into_iter().zip(verdicts).zip(&ids) {
        if deciding.await.unwrap().is_some() {
            let promise = if verdict == "approve" { Acknowledged::Approved } else { Acknowledged::Rejected };
            book.0.values_mut().filter(|(known, _)| known == id).for_each(|(_, kept)| *kept = promise);
        }
    }
    if waiting.await.unwrap().is_some_and(|(status, _)| status == 200) {
        book.0.get_mut(&patient).unwrap().1 = Acknowledged::Ran;
    }
    if running.await.unwrap().is_some_and(|(status, _)| status == 200) {
        for number in 0..2 {
            book.0.get_mut(&format!("round-{round}-step-{number}")).unwrap().1 = Acknowledged::Ran;
        }
    }
    if let Some(id) = asking.await.unwrap() {
        book.0.insert(late, (id, Acknowledged::Held));
    }
}

/// The number of entries of each text in the ledger.
fn ran(ledger: &LedgerGateway) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in ledger.entries() {
        *counts.entry(entry.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

/// All audit rows, by call.
async fn rows(http: &Http) -> BTreeMap<String, Vec<Value>> {
    let mut rows: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut before = String::new();
    loop {
        let page = http.get_json(&format!("/audit?limit=1000{before}")).await;
        let found = page["rows"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
        let Some(last) = found.last() else { return rows };
        before = format!("&before={}", last["seq"]);
        for row in found {
            let call = row["call_id"].as_str().unwrap_or_default().to_owned();
            rows.entry(call).or_default().push(row);
        }
    }
}

#[tokio::test]
async fn acknowledged_state_survives_kills_at_random_moments() {
    let kills = std::env::var(KILLS).ok().and_then(|text| text.parse().ok()).unwrap_or(FEW);
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let (mut random, mut book) = (KillRandom(seed), AcknowledgedCalls::default());
    let started = Instant::now();
    let settings = json!({ "approval": { "default": "writes", "expires_seconds": 3600 } });
    let mut ledger = LedgerGateway::start(settings).await.ready().await;
    let (status, plan) =
        ledger.gateway.http().post_json("/plans", &json!({ "session": PLANNING }).to_string()).await;
    assert!(status < 300, "{plan}");
    for round in 0..kills {
        live(&ledger, round, &mut random, &mut book).await;
        ledger = ledger.restarted().await;
    }
    ledger = ledger.ready().await;
    let http = ledger.gateway.http();
    // An approved step that has not started waits until the plan is resumed: steps run in order.
    let plan = format!("/plans/{}/approve", plan["id"].as_str().unwrap());
    let (_, rest) = http.post_json(&plan, r#"{"steps":"all"}"#).await;
    assert!(rest["steps"].is_array() || rest["code"] == "plan.no-such-step", "{rest}");
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    let mut states = BTreeMap::new();
    for (text, (id, promise)) in &book.0 {
        let found = poll(TEST_TIMEOUT, || async {
            let held = http.get_json(&format!("/approvals/{id}")).await;
            (held["state"] != "approved").then_some(held)
        });
        let held = found.await.unwrap_or_else(|| panic!("{text} does not end"));
        let state = format!(
            "{}{}",
            held["state"].as_str().unwrap_or_else(|| panic!("{text} is lost: {held}")),
            held["outcome"]["kind"].as_str().filter(|kind| *kind == "unknown").map_or("", |_| " (unknown)")
        );
        let kept = match promise {
            Acknowledged::Held => true,
            Acknowledged::Approved => state == "done" || state.starts_with("failed"),
            Acknowledged::Rejected => state == "rejected",
            Acknowledged::Ran => state == "done",
        };
        assert!(kept, "seed {seed}: {text} was {promise:?} and is {state}: {held}");
        *tally.entry(format!("{promise:?}, now {state}")).or_default() += 1;
        states.insert(text.clone(), (id.clone(), state));
    }
    let counts = ran(&ledger);
    let rows = rows(&http).await;
    for (text, count) in &counts {
        assert_eq!(*count, 1, "seed {seed}: {text} ran {count} times");
        assert!(states.contains_key(text) || text.ends_with("late"), "{text} ran without being requested");
    }
    for (text, (id, state)) in &states {
        let count = counts.get(text).copied().unwrap_or(0);
        let possible = match state.as_str() {
            "done" => count == 1,
            "failed (unknown)" => true,
            _ => count == 0,
        };
        assert!(possible, "seed {seed}: {text} is {state} and ran {count} times");
        // Newest first, and only the rows of the held call itself.
        let about = rows.get(id).map(Vec::as_slice).unwrap_or_default();
        let reply: Vec<&str> = about.iter().rev().map(|row| row["outcome"].as_str().unwrap()).collect();
        let explained: &[&str] = match state.as_str() {
            "done" => &["approved", "done"],
            "failed (unknown)" => &["approved", "unknown"],
            "rejected" => &["rejected"],
            _ => &[],
        };
        assert_eq!(reply, explained, "seed {seed}: {text} is {state}");
    }
    assert!(ledger.run(&["audit", "verify"]).status.success());
    println!("seed {seed}: {kills} kills in {:?}, {} calls, {tally:?}", started.elapsed(), book.0.len());
}

/// A question is lost with the gateway that asked it; its held call is not.
#[tokio::test]
async fn modern_client_is_asked_again_after_a_kill() {
    let settings = json!({ "approval": { "default": "writes", "expires_seconds": 3600 } });
    let mut ledger = LedgerGateway::start(settings).await.ready().await;
    let params = json!({ "name": "led_write_entry", "arguments": { "text": "once" } });
    let asked = async |ledger: &LedgerGateway, params: &Value| {
        let client = TestClient::of(TestEra::Modern, ledger.gateway.address).await;
        client.start("tools/call", params.clone()).await.finish().await
    };
    let held = |reply: &Transcript| {
        let requests = reply.result()["inputRequests"].as_object().unwrap();
        let (key, request) = requests.iter().next().unwrap();
        (key.clone(), request["params"]["_meta"]["toolbooth/held"].as_str().unwrap().to_owned())
    };
    let first = asked(&ledger, &params).await;
    let (key, id) = held(&first);
    ledger = ledger.survive().await.ready().await;
    // The request state belongs to the killed gateway: an answer with it is refused, and nothing runs.
    let mut late = params.clone();
    late["requestState"] = first.result()["requestState"].clone();
    late["inputResponses"] = json!({ (&key): { "action": "accept", "content": { "decision": "approve" } } });
    let refused = asked(&ledger, &late).await;
    assert_eq!((refused.status, refused.code()), (400, Some(-32602)), "{}", refused.answer);
    assert!(ledger.entries().is_empty());
    let second = asked(&ledger, &params).await;
    assert_eq!(held(&second), (key.clone(), id.clone()), "the same held call is asked about");
    let mut answer = late;
    answer["requestState"] = second.result()["requestState"].clone();
    let reply = asked(&ledger, &answer).await;
    assert_eq!(reply.text(), "wrote once");
    assert_eq!(ledger.entries().len(), 1);
    let all = ledger.gateway.http().get_json("/approvals").await;
    assert_eq!(all["approvals"].as_array().unwrap().len(), 1, "{all}");
    assert_eq!((&all["approvals"][0]["id"], &all["approvals"][0]["state"]), (&json!(id), &json!("done")));
}
