//! Telemetry and outgoing requests: webhooks, metrics and traces.

use crate::token_users::{TokenUsers, bearer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::sink::PostedRequest;
use toolbooth_testkit::world::{FixtureServer, Gateway, Home, Http, Sink, TEST_TIMEOUT, TestClient, poll};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn client(gateway: &Gateway) -> TestClient {
    TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await
}

/// Waits for a posted request that matches.
async fn posted(sink: &Sink, fits: impl Fn(&PostedRequest) -> bool) -> PostedRequest {
    let found = poll(TEST_TIMEOUT, || async { sink.posted().into_iter().find(|posted| fits(posted)) });
    found.await.unwrap_or_else(|| panic!("no match in {:?}", sink.posted()))
}

fn events(posted: &PostedRequest) -> Vec<Value> {
    posted.json()["events"].as_array().expect("a list of events").clone()
}

/// Checks the signature as a receiver does, with another library than the gateway's.
fn is_signed(posted: &PostedRequest, key: &str) -> bool {
    let header = posted.header("toolbooth-signature").expect("a signature");
    let (time, signature) = header.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let signature: Vec<u8> = (0..signature.len() / 2)
        .map(|at| u8::from_str_radix(&signature[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(time.parse().unwrap()) < 60, "{header}");
    let signed = [time.as_bytes(), b".", &posted.body[..]].concat();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
    ring::hmac::verify(&key, &signed, &signature).is_ok()
}

#[tokio::test]
async fn webhook_is_signed_and_retried() {
    let (sink, strict) = (Sink::answering(&[500, 503]).await, Sink::answering(&[400, 400]).await);
    let hooks = json!([
        { "url": format!("{}/hook?x=1", sink.url), "types": ["tool.*"], "secret": "a key of theirs" },
        { "url": strict.url, "types": ["tool.result"] },
    ]);
    let home =
        Home::with_settings(json!({ "events": { "webhooks": hooks } }), &[("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let caller = client(&gateway).await;
    caller.call("good_ok", json!({})).await;
    let taken = posted(&sink, |posted| posted.status == 200).await;
    let all = sink.posted();
    assert_eq!(all.iter().map(|posted| posted.status).take(3).collect::<Vec<_>>(), [500, 503, 200]);
    for posted in &all {
        assert!(is_signed(posted, "a key of theirs"));
        assert!(!is_signed(posted, "another key"));
        assert_eq!(posted.path, "/hook");
    }
    assert_eq!(events(&all[0]), events(&all[2]), "the retry has the same events");
    assert_eq!(all[0].header("toolbooth-delivery"), all[2].header("toolbooth-delivery"));
    assert_eq!(events(&taken)[0]["type"], "tool.call");
    posted(&sink, |posted| events(posted).iter().any(|event| event["type"] == "tool.result")).await;

    // A refused delivery is counted and not retried; the next one is sent.
    caller.call("good_ok", json!({})).await;
    caller.call("good_ok", json!({})).await;
    posted(&strict, |posted| posted.status == 200).await;
    assert_eq!(strict.posted().iter().filter(|posted| posted.status == 400).count(), 2);
    assert!(strict.posted().iter().all(|posted| posted.header("toolbooth-signature").is_none()));
    let metrics = read(&gateway.http()).await;
    assert!(metrics["toolbooth_events_dropped_total{reason=\"webhook\"}"] >= 2.0, "{metrics:?}");
    // The last events are delivered before the gateway exits.
    caller.call("good_echo", json!({})).await;
    gateway.stop().await;
    posted(&sink, |posted| events(posted).iter().any(|event| event["tool"] == "echo")).await;
}

#[tokio::test]
async fn hanging_webhook_delays_no_call() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let settings = json!({ "events": { "webhooks": [url], "ring": 50 } });
    let home = Home::with_settings(settings, &[("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let caller = client(&gateway).await;
    let start = std::time::Instant::now();
    for _ in 0..100 {
        caller.call("good_ok", json!({})).await;
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let (status, took) = gateway.stop().await;
    assert!(status.success() && took < Duration::from_secs(10), "{took:?}");
}

/// Reads the metrics; every line must be valid.
async fn read(http: &Http) -> BTreeMap<String, f64> {
    let reply = http.send(::http::Method::GET, "/metrics", &[], "").await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = String::from_utf8(reply.bytes().await.to_vec()).unwrap();
    let mut found = BTreeMap::new();
    let mut typed = "";
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            typed = about.split(' ').next().unwrap();
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?} has no number"));
            assert!(name.starts_with(typed), "{line:?} is listed under {typed}");
            let value = value.parse().unwrap_or_else(|_| panic!("{line:?} has no number"));
            assert!(found.insert(name.to_owned(), value).is_none(), "{line:?} is listed twice");
        }
    }
    found
}

#[tokio::test]
async fn metrics_count_calls_without_user_names() {
    let known = TokenUsers::start().await;
    let before = read(&known.gateway.http()).await;
    let ann = known.client(TestEra::Modern, &known.ann.0).await;
    for tool in ["desk_ok", "open_ok", "desk_nothing"] {
        ann.call(tool, json!({})).await;
    }
    let after = read(&known.gateway.http()).await;
    let grown = |name: &str| after[name] - before[name];
    assert_eq!(grown("toolbooth_calls_total{outcome=\"done\"}"), 2.0);
    assert_eq!(grown("toolbooth_calls_total{outcome=\"refused\"}"), 1.0);
    assert_eq!(grown("toolbooth_call_duration_seconds_count"), 3.0);
    assert_eq!(grown("toolbooth_call_duration_seconds_bucket{le=\"+Inf\"}"), 3.0);
    assert_eq!(grown("toolbooth_call_duration_seconds_bucket{le=\"120\"}"), 3.0);
    assert!(grown("toolbooth_call_duration_seconds_sum") > 0.0);
    assert_eq!(after["toolbooth_tool_calls_total{server=\"desk\",tool=\"ok\",outcome=\"done\"}"], 1.0);
    assert_eq!(after["toolbooth_tool_calls_total{server=\"open\",tool=\"ok\",outcome=\"done\"}"], 1.0);
    assert!(after["toolbooth_tool_call_seconds_total{server=\"desk\",tool=\"ok\"}"] > 0.0);
    let histogram = "toolbooth_server_call_duration_seconds";
    assert_eq!(after[&format!("{histogram}_count{{server=\"desk\"}}")], 1.0);
    assert_eq!(after[&format!("{histogram}_bucket{{server=\"desk\",le=\"+Inf\"}}")], 1.0);
    assert!(!after.keys().any(|name| name.contains("nothing")), "an unknown tool has no label: {after:?}");
    assert_eq!(after["toolbooth_servers{state=\"connected\"}"], 3.0);
    assert_eq!(after["toolbooth_server_connected{server=\"vault\"}"], 1.0);
    assert!(after["toolbooth_catalog_tools{server=\"vault\"}"] > 1.0);
    assert_eq!(after["toolbooth_calls_in_flight"], 0.0);
    assert!(after["process_resident_memory_bytes"] > 1e6);
    assert!(!after.keys().any(|name| name.contains("ann")), "no label names a user: {after:?}");
    let http = Http::new(known.gateway.address).sending(&bearer(&known.ann.0));
    assert_eq!(http.send(::http::Method::GET, "/metrics", &[], "").await.status, 403);
}

/// The `_meta` and the headers that a fixture received.
async fn seen(client: &TestClient, tool: &str, meta: Value) -> Value {
    let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
    client.ask("tools/call", params).await.result()["structuredContent"].clone()
}

#[tokio::test]
async fn trace_is_propagated_through_the_gateway() {
    let remote = FixtureServer::start("modern").await;
    let home = Home::new(&[("far", remote.entry()), ("near", fixture_on_stdio("legacy"))]);
    let gateway = home.start().await;
    gateway.connected(&["far", "near"]).await;
    for era in [TestEra::Modern, TestEra::Legacy] {
        let plain = TestClient::with_capabilities(era, gateway.address, json!({})).await;
        let traced = plain.clone().sending("traceparent", TRACE).sending("tracestate", "a=1");
        for tool in ["far_whoami_headers", "near_whoami_headers"] {
            let response = seen(&traced, tool, json!({})).await;
            assert_eq!(
                (&response["_meta"]["traceparent"], &response["_meta"]["tracestate"]),
                (&json!(TRACE), &json!("a=1"))
            );
            // `_meta` takes precedence over the header.
            let own = TRACE.replace("0af7", "1111");
            let response = seen(&traced, tool, json!({ "traceparent": own })).await;
            assert_eq!(response["_meta"]["traceparent"], own);
            if tool.starts_with("far") {
                assert_eq!(response["headers"]["traceparent"], own, "{response}");
            }
            let response = seen(&plain, tool, json!({})).await;
            assert!(
                response["_meta"].get("traceparent").is_none()
                    && response["headers"].get("traceparent").is_none()
            );
        }
    }
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let attributes = span["attributes"].as_array()?.iter();
    attributes.into_iter().find(|one| one["key"] == key)?["value"]["stringValue"].as_str()
}

fn spans(sink: &Sink) -> Vec<Value> {
    let posted = sink.posted();
    let of = |posted: &PostedRequest| {
        posted.json()["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
    };
    posted.iter().filter(|posted| posted.status == 200).flat_map(of).collect()
}

#[tokio::test]
async fn spans_of_calls_reach_a_collector() {
    let collector = Sink::answering(&[503]).await;
    let remote = FixtureServer::start("modern").await;
    let settings = json!({ "telemetry": { "otlp_url": collector.url, "headers": { "x-key": "theirs" } } });
    let home = Home::with_settings(settings, &[("far", remote.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["far"]).await;
    let plain = client(&gateway).await;
    let traced = plain.clone().sending("traceparent", TRACE);
    let response = seen(&traced, "far_whoami_headers", json!({})).await;
    let passed_on = response["_meta"]["traceparent"].as_str().unwrap().to_owned();
    assert_eq!(response["headers"]["traceparent"], passed_on.as_str());
    assert!(passed_on.starts_with(&TRACE[..36]) && passed_on != TRACE, "{passed_on}");
    // Unsampled traces are not recorded.
    let unsampled = TRACE.replace("-01", "-00").replace("0af7", "2222");
    let response = seen(&plain, "far_whoami_headers", json!({ "traceparent": unsampled })).await;
    assert_eq!(response["_meta"]["traceparent"], unsampled);
    plain.call("far_nothing", json!({})).await;
    plain.call("far_fail", json!({})).await;

    let gathered = poll(TEST_TIMEOUT, || async { Some(spans(&collector)).filter(|spans| spans.len() >= 5) });
    let spans = gathered.await.unwrap_or_else(|| panic!("{:?}", collector.posted()));
    assert_eq!(spans.len(), 5, "{spans:#?}");
    assert!(collector.posted().iter().all(|posted| posted.path == "/v1/traces"));
    assert!(collector.posted().iter().all(|posted| posted.header("x-key") == Some("theirs")));
    let of_trace: Vec<&Value> = spans.iter().filter(|span| span["traceId"] == TRACE[3..35]).collect();
    assert_eq!(of_trace.len(), 2);
    let call = of_trace.iter().find(|span| span["kind"] == 2).unwrap();
    let attempt = of_trace.iter().find(|span| span["kind"] == 3).unwrap();
    assert_eq!(call["parentSpanId"], TRACE[36..52], "under the client's span");
    assert_eq!(attempt["parentSpanId"], call["spanId"], "under the call's span");
    assert_eq!(attempt["spanId"], passed_on[36..52], "the server receives the span of the attempt");
    for span in [call, attempt] {
        assert_eq!(attribute(span, "gen_ai.tool.name"), Some("whoami_headers"));
        assert_eq!(attribute(span, "toolbooth.server"), Some("far"));
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    }
    assert_eq!(attribute(call, "toolbooth.outcome"), Some("done"));
    let failed = |outcome: &str| {
        let found = spans.iter().find(|span| attribute(span, "toolbooth.outcome") == Some(outcome));
        found.is_some_and(|span| span["status"]["code"] == 2)
    };
    assert!(failed("refused") && failed("tool_error"), "{spans:#?}");
    assert!(!spans.iter().any(|span| span["traceId"] == unsampled[3..35]));
    // The record of a call names its trace.
    let records = Http::new(gateway.address).get_json("/calls?server=far&tool=whoami_headers").await;
    let traces: Vec<&Value> =
        records["calls"].as_array().unwrap().iter().map(|call| &call["trace"]).collect();
    assert_eq!(traces, [&Value::Null, &json!(TRACE[3..35])]);
}
