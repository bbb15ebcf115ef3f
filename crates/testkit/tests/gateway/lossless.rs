//! Losslessness: arguments and results pass through the gateway byte for byte.

use crate::samples::{AnswerEnvelope, SampleCall, SampleResult};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use serde_json::json;
use serde_json::value::RawValue;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::client::result_text;
use toolbooth_testkit::world::scripted_server::{ID, ScriptedAnswer};
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TestClient};

/// Environment variable that enables random cases instead of the fixed ones.
const EXPLORE: &str = "TOOLBOOTH_EXPLORE";
const CASES: u32 = 200;

struct EraBridge {
    _home: Home,
    gateway: Gateway,
    modern: ScriptedServer,
    legacy: ScriptedServer,
    clients: [TestClient; 2],
}

impl EraBridge {
    async fn open() -> Self {
        let (modern, legacy) =
            (ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Legacy).await);
        // Without inspection of results and without a token limit.
        let settings = json!({ "limits": { "result_tokens": 0 }, "results": { "inspect": false } });
        let home = Home::with_settings(settings, &[("modern", modern.entry()), ("legacy", legacy.entry())]);
        let gateway = home.start().await;
        gateway.connected(&["modern", "legacy"]).await;
        let clients = [
            TestClient::of(TestEra::Legacy, gateway.address).await,
            TestClient::of(TestEra::Modern, gateway.address).await,
        ];
        Self { _home: home, gateway, modern, legacy, clients }
    }

    fn server(&self, era: TestEra) -> (&'static str, &ScriptedServer) {
        match era {
            TestEra::Modern => ("modern_take", &self.modern),
            TestEra::Legacy => ("legacy_take", &self.legacy),
        }
    }

    /// Makes the call in all pairs of eras and returns a description of lost content.
    async fn check(&self, case: &SampleCall) -> Result<(), String> {
        for server_era in [TestEra::Legacy, TestEra::Modern] {
            let (tool, upstream) = self.server(server_era);
            let given = case.result.text(server_era);
            upstream.answer(match case.envelope {
                AnswerEnvelope::Usual => ScriptedAnswer::result(&given),
                AnswerEnvelope::IdLast => {
                    ScriptedAnswer::Body(format!(r#"{{"result":{given},"id":{ID},"jsonrpc":"2.0"}}"#))
                }
                AnswerEnvelope::Spaced => ScriptedAnswer::Body(format!(
                    "{{ \"jsonrpc\" : \"2.0\",\n\"id\" : {ID} , \"result\" : {given} }}\n"
                )),
                AnswerEnvelope::Event => {
                    ScriptedAnswer::Event(format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{given}}}"#))
                }
            });
            for client in &self.clients {
                let pair = format!("{:?} client, {server_era:?} server", client.era);
                let (status, answer) = client.call_text(tool, &case.arguments).await;
                let Some(got) = result_text(&answer) else {
                    return Err(format!("{pair}: HTTP {status} {}", preview(&answer)));
                };
                compare(&case.result, &given, &got, server_era, client.era).map_err(|why| {
                    format!("{pair}: {why}\n given {}\n got   {}", preview(&given), preview(&got))
                })?;
                let sent = upstream.seen("tools/call").pop().map(|seen| arguments_of(&seen.body));
                if sent.as_deref() != Some(&case.arguments) {
                    return Err(format!("{pair}: arguments {} became {sent:?}", preview(&case.arguments)));
                }
            }
        }
        Ok(())
    }
}

fn preview(text: &str) -> String {
    let start: String = text.chars().take(600).collect();
    if start.len() < text.len() { format!("{start}… ({} bytes)", text.len()) } else { start }
}

fn arguments_of(body: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    serde_json::from_str::<Request<'_>>(body).unwrap().params.arguments.get().to_owned()
}

/// The members of an object, each value as its exact text.
fn members(text: &str) -> Result<Vec<(String, String)>, String> {
    struct Members(Vec<(String, String)>);
    impl<'de> serde::Deserialize<'de> for Members {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Members;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                    let mut members = Vec::new();
                    while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                        members.push((key, value.get().to_owned()));
                    }
                    Ok(Members(members))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str::<Members>(text).map(|members| members.0).map_err(|error| error.to_string())
}

fn compare(
    result: &SampleResult,
    given: &str,
    got: &str,
    server: TestEra,
    client: TestEra,
) -> Result<(), String> {
    if server == client {
        return if got == given { Ok(()) } else { Err("the bytes differ".into()) };
    }
    let is_modern_member = |key: &str| matches!(key, "resultType" | "ttlMs" | "cacheScope");
    let (given, got) = (members(given)?, members(got)?);
    let found: Vec<&str> =
        got.iter().map(|(key, _)| key.as_str()).filter(|key| is_modern_member(key)).collect();
    let expected: &[&str] = if client == TestEra::Modern { &["resultType"] } else { &[] };
    if found != expected {
        return Err(format!("modern members are {found:?}"));
    }
    let kept = |members: Vec<(String, String)>| members.into_iter().filter(|(key, _)| !is_modern_member(key));
    let (mut given, mut got): (Vec<_>, Vec<_>) = (kept(given).collect(), kept(got).collect());
    // The protocol's own members of `_meta` are not passed on; all others are.
    for side in [&mut given, &mut got] {
        for (_, value) in side.iter_mut().filter(|(key, _)| key == "_meta") {
            let inner = members(value)?.into_iter();
            let inner: Vec<_> =
                inner.filter(|(key, _)| !key.starts_with("io.modelcontextprotocol/")).collect();
            *value = format!("{inner:?}");
        }
        side.retain(|(key, value)| key != "_meta" || value != "[]");
    }
    if given == got {
        return Ok(());
    }
    let differing = given.iter().zip(&got).find(|(given, got)| given != got);
    Err(format!("members differ ({} blocks): {}", result.blocks(), preview(&format!("{differing:?}"))))
}

#[test]
fn no_content_is_lost_between_any_two_eras() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bridge = runtime.block_on(EraBridge::open());
    let config =
        Config { cases: CASES, failure_persistence: None, max_shrink_iters: 60, ..Config::default() };
    let mut runner = match std::env::var_os(EXPLORE) {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let outcome = runner.run(&SampleCall::any().prop_map(std::sync::Arc::new), |case| {
        runtime.block_on(bridge.check(&case)).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{}", bridge.gateway.log());
    }
}

/// Valid JSON in unusual notations.
#[test]
fn unusual_json_notations_are_preserved() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bridge = runtime.block_on(EraBridge::open());
    let odd = [
        ("a number beyond floats", "1e400"),
        ("a long fraction", "0.1000000000000000055511151231257827021181583404541015625"),
        ("minus nothing", "-0.0"),
        ("a big E", "1E+2"),
        ("an escaped slash", r#""a\/b""#),
        ("an escaped letter", r#""\u0061""#),
        ("a null character", r#""\u0000""#),
        ("line separators", "\"\u{2028}\u{2029}\""),
        ("an escaped key", r#"{"\u0061b":1}"#),
        ("an empty key", r#"{"":{"":[]}}"#),
    ];
    let mut lost = Vec::new();
    for (what, text) in odd {
        let result = SampleResult::plain(&format!(r#"{{"content":[],"odd":{text}}}"#));
        let case =
            SampleCall { result, arguments: format!(r#"{{"odd":{text}}}"#), envelope: AnswerEnvelope::Usual };
        if let Err(why) = runtime.block_on(bridge.check(&case)) {
            lost.push(format!("{what}: {why}"));
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn modern_members_of_a_long_result_are_removed_for_legacy_clients() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bridge = runtime.block_on(EraBridge::open());
    let text = "x".repeat(64 * 1024);
    let content = format!(r#""content":[{{"type":"text","text":"{text}"}}]"#);
    let named = r#""io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}"#;
    let cases = [
        (format!(r#"{{{content},"resultType":"complete"}}"#), format!("{{{content}}}")),
        (format!(r#"{{{content},"_meta":{{{named}}},"resultType":"complete"}}"#), format!("{{{content}}}")),
        (
            format!(
                r#"{{{content},"_meta":{{"mine":1.0,{named}}},"resultType":"complete","x":"resultType"}}"#
            ),
            format!(r#"{{{content},"_meta":{{"mine":1.0}},"x":"resultType"}}"#),
        ),
    ];
    for (given, expected) in cases {
        bridge.modern.answer(ScriptedAnswer::result(&given));
        let (_, answer) = runtime.block_on(bridge.clients[0].call_text("modern_take", "{}"));
        let got = result_text(&answer).unwrap_or_default();
        assert!(got == expected, "{}", preview(&got[got.len().saturating_sub(200)..]));
    }
}

/// Within one era results are not checked: unknown members pass unchanged.
#[test]
fn structured_content_that_is_not_an_object_passes_within_an_era() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bridge = runtime.block_on(EraBridge::open());
    for (era, client) in [(TestEra::Legacy, &bridge.clients[0]), (TestEra::Modern, &bridge.clients[1])] {
        let (tool, upstream) = bridge.server(era);
        let result = r#"{"resultType":"complete","content":[],"structuredContent":[1.50,"a"]}"#;
        upstream.answer(ScriptedAnswer::result(result));
        let (_, answer) = runtime.block_on(client.call_text(tool, "{}"));
        assert_eq!(result_text(&answer).as_deref(), Some(result), "{era:?}");
    }
}
