//! Failover between providers: a tool is served while one provider works, and no write runs twice.

use crate::token_users::{read, run};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Gateway, Home, TEST_TIMEOUT, poll};

/// Environment variable with the duration of the flapping test in seconds; a full run takes sixty.
const FLAPPING: &str = "TOOLBOOTH_FLAPPING";

/// A gateway with two `moody` servers, `zero` and `ten`, and tools that both provide.
struct FailoverSetup {
    home: Home,
    gateway: Gateway,
}

fn provider(server: &str, tool: &str, priority: i64) -> Value {
    json!({ "name": "mcp", "priority": priority, "config": { "server": server, "tool": tool } })
}

fn tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let both = |tool: &str| json!([provider("ten", tool, 10), provider("zero", tool, 0)]);
    json!([
        { "name": "lookup", "side_effects": "read_external_service", "default_timeout": 3,
          "parameters": parameters, "providers": both("look") },
        { "name": "store", "side_effects": "write", "default_timeout": 2,
          "parameters": parameters, "providers": both("put") },
        { "name": "keyed", "side_effects": "write", "default_timeout": 8, "idempotency_key": true,
          "parameters": parameters, "providers": both("put") },
        { "name": "zero_look", "side_effects": "read_external_service" },
    ])
}

impl FailoverSetup {
    async fn new(settings: Value, tools: &Value) -> Self {
        let home = Home::with_settings(settings.clone(), &[]);
        let path = |name: &str| home.path(name).display().to_string();
        let moody =
            |name: &str| hostile(&["moody", name, &path(&format!("{name}.mood")), &path("ledger.txt")]);
        home.configure(settings, &[("zero", moody("zero")), ("ten", moody("ten"))]);
        std::fs::create_dir_all(home.path("tools")).unwrap();
        std::fs::write(home.path("tools/all.json"), tools.to_string()).unwrap();
        std::fs::write(home.path("keys.env"), "OTHER=1\n").unwrap();
        let gateway = home.start().await;
        gateway.connected(&["zero", "ten"]).await;
        Self { home, gateway }
    }

    fn mood(&self, server: &str, mood: &str) {
        let draft = self.home.path("draft.mood");
        std::fs::write(&draft, mood).unwrap();
        std::fs::rename(draft, self.home.path(&format!("{server}.mood"))).unwrap();
    }

    fn ledger(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path("ledger.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn call(&self, tool: &str, text: &str) -> (u16, Value) {
        let body = json!({ "arguments": { "text": text }, "wait": 0 }).to_string();
        self.gateway.http().post_json(&format!("/tools/{tool}/call"), &body).await
    }

    /// Waits until a call is served by this provider.
    async fn served_by(&self, tool: &str, provider: &str) {
        self.served_within(TEST_TIMEOUT, tool, provider).await;
    }

    async fn served_within(&self, timeout: Duration, tool: &str, provider: &str) {
        let there = poll(timeout, || async {
            let (status, answer) = self.call(tool, "who").await;
            (status == 200 && answer["provider"] == provider).then_some(())
        });
        assert!(there.await.is_some(), "`{provider}` does not serve `{tool}`\n{}", self.gateway.log());
    }
}

#[tokio::test]
async fn call_fails_over_and_returns_to_the_first_provider() {
    let setup = FailoverSetup::new(json!({}), &tools()).await;
    let (status, answer) = setup.call("lookup", "a").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:zero")), "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["by"], "zero");
    for mood in ["die", "rpc", "hang"] {
        setup.mood("zero", mood);
        let start = Instant::now();
        let (status, answer) = setup.call("lookup", mood).await;
        assert_eq!((status, &answer["provider"]), (200, &json!("mcp:ten")), "{mood}: {answer}");
        assert!(start.elapsed() < Duration::from_secs(3), "within one deadline: {:?}", start.elapsed());
        setup.mood("zero", "ok");
        setup.served_by("lookup", "mcp:zero").await;
    }
    // A tool error is an answer, not a failure of the provider.
    setup.mood("zero", "tool");
    let (status, answer) = setup.call("lookup", "b").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:zero")), "{answer}");
    assert_eq!(answer["result"]["isError"], true);
    // Both fail: the error names the reason for each.
    setup.mood("zero", "die");
    setup.mood("ten", "die");
    let refused = poll(TEST_TIMEOUT, || async {
        let (status, answer) = setup.call("lookup", "c").await;
        assert_ne!(status, 200, "{answer}");
        (answer["code"] == "call.no-healthy-provider").then_some(answer)
    });
    let answer = refused.await.expect("a fault names both providers").to_string();
    assert!(answer.contains("mcp:zero") && answer.contains("mcp:ten"), "{answer}");
    let shown = setup.gateway.http().get_json("/tools/lookup").await;
    let first = &shown["providers"][0];
    assert_eq!((&first["id"], &first["healthy"]), (&json!("mcp:zero"), &json!(false)), "{shown}");
    assert!(first["router"]["state"].is_string() && first["reason"].is_string(), "{shown}");
}

#[tokio::test]
async fn write_with_unknown_outcome_is_not_repeated() {
    let setup = FailoverSetup::new(json!({}), &tools()).await;
    for mood in ["acts", "hang"] {
        setup.mood("zero", mood);
        let (status, answer) = setup.call("store", mood).await;
        assert!(status >= 400, "{mood}: {answer}");
        let written: Vec<String> =
            setup.ledger().into_iter().filter(|line| line.contains(&format!("put {mood} "))).collect();
        assert_eq!(written, [format!("zero put {mood} -")], "it ran once and on one server");
        setup.mood("zero", "ok");
        setup.served_by("lookup", "mcp:zero").await;
    }
    // With an idempotency key the next provider may be tried, with the same key.
    setup.mood("zero", "acts");
    let (status, answer) = setup.call("keyed", "k").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:ten")), "{answer}");
    let keys: Vec<String> = setup
        .ledger()
        .iter()
        .filter(|line| line.contains("put k "))
        .filter_map(|line| line.rsplit(' ').next().map(str::to_owned))
        .collect();
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0] != "-", "{keys:?}");
}

#[tokio::test]
async fn read_is_retried_on_the_same_server() {
    let settings = json!({ "retry": { "attempts": 4, "base": 0.5 } });
    let setup = FailoverSetup::new(settings, &tools()).await;
    setup.mood("zero", "once");
    let (status, answer) = setup.call("zero_look", "r").await;
    assert_eq!(status, 200, "{answer}\n{}", setup.gateway.log());
    assert!(answer["attempts"].as_u64().is_some_and(|count| count > 1), "{answer}");
    assert!(answer.get("provider").is_none(), "{answer}");
    // This tool is not declared safe to repeat.
    setup.mood("zero", "acts");
    let (status, _) = setup.call("zero_put", "w").await;
    assert!(status >= 400);
    assert_eq!(setup.ledger().iter().filter(|line| line.contains("put w ")).count(), 1);
}

#[tokio::test]
async fn changed_credentials_are_read_without_a_restart() {
    let mut tools = tools();
    tools[0]["providers"][1]["auth"] = json!({ "required": true, "envs": ["ZERO_KEY"] });
    let setup = FailoverSetup::new(json!({ "env_file": "keys.env" }), &tools).await;
    let set = |text: &str| std::fs::write(setup.home.path("keys.env"), text).unwrap();
    setup.served_by("lookup", "mcp:ten").await;
    set("ZERO_KEY=abc\n");
    setup.served_by("lookup", "mcp:zero").await;
    set("OTHER=1\n");
    setup.served_by("lookup", "mcp:ten").await;
    assert!(!setup.gateway.log().contains("abc"));
}

#[tokio::test]
async fn flapping_provider_does_not_fail_calls() {
    let seconds = std::env::var(FLAPPING).ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let setup = FailoverSetup::new(json!({}), &tools()).await;
    let start = Instant::now();
    let (mut calls, mut failed) = (0_u32, Vec::new());
    let mut well = true;
    let mut turned = start;
    while start.elapsed() < Duration::from_secs(seconds) {
        if turned.elapsed() >= Duration::from_secs(1) {
            well = !well;
            setup.mood("zero", if well { "ok" } else { "die" });
            turned = Instant::now();
        }
        let (status, answer) = setup.call("lookup", &calls.to_string()).await;
        calls += 1;
        if status != 200 || answer["result"]["isError"] == true {
            failed.push(answer);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{calls} calls, {} failed", failed.len());
    let allowed = calls / 1000;
    assert!(failed.len() as u32 <= allowed, "{} of {calls} failed: {:?}", failed.len(), failed.first());
    assert!(calls > 100, "{calls}");
    setup.mood("zero", "ok");
    // After many crashes its supervisor backs off for up to a minute.
    setup.served_within(Duration::from_secs(75), "lookup", "mcp:zero").await;
}

#[tokio::test]
async fn caller_arguments_cannot_replace_injected_provider_arguments() {
    let home = Home::new(&[]);
    let mut entry = crate::ledger::entry();
    entry["args"][1] = home.path("ledger.txt").display().to_string().into();
    home.configure(json!({}), &[("led", entry)]);
    let parameters = json!({ "type": "object", "additionalProperties": true });
    let maps = [
        json!("{.}"),
        json!({ "text": "{text}", "username": "{who}" }),
        json!({ "text": "{text}", "username": "root" }),
        json!({ "text": "{text}", "username": "{who}" }),
    ];
    let all: Vec<Value> = maps
        .iter()
        .enumerate()
        .map(|(number, map)| {
            let mut provider = provider("led", "write_entry", 0);
            provider["arguments"] = map.clone();
            let mut providers = vec![provider];
            // With a single provider an entry is an alias of that tool, as the last one here.
            if number < 3 {
                let spare =
                    json!({ "name": "http", "priority": 9, "config": { "url": "http://127.0.0.1:9/" } });
                providers.push(spare);
            }
            json!({ "name": format!("note{number}"), "side_effects": "write", "requires_consent": false,
                    "parameters": parameters, "providers": providers })
        })
        .collect();
    std::fs::create_dir_all(home.path("tools")).unwrap();
    std::fs::write(home.path("tools/all.json"), Value::from(all).to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["led"]).await;
    let user = gateway.http().get_json("/me").await["user"].as_str().unwrap().to_owned();
    for number in 0..4 {
        let text = format!("t{number}");
        let body = json!({ "arguments": { "text": text, "who": "root", "username": "root",
            "Username": "root", "_atlas_user": "root" } });
        let path = format!("/tools/note{number}/call");
        let (status, answer) = gateway.http().post_json(&path, &body.to_string()).await;
        assert_eq!(status, 200, "{answer}\n{}", gateway.log());
    }
    let written = std::fs::read_to_string(home.path("ledger.txt")).unwrap();
    let expected: String = (0..4).map(|number| format!("t{number} by {user}\n")).collect();
    assert_eq!(written, expected);
}

#[tokio::test]
async fn calls_without_allow_parallel_run_one_at_a_time() {
    // One at a time: of two entries for one tool only the first applies.
    let tools = [
        json!({ "name": "fix_slow_compute", "allow_parallel": false }),
        json!({ "name": "slowly", "allow_parallel": false, "side_effects": "none",
          "parameters": { "type": "object", "additionalProperties": true },
          "providers": [provider("fix", "slow_compute", 0)] }),
    ];
    for entry in tools {
        let tool = entry["name"].as_str().unwrap();
        let home =
            Home::with_settings(json!({ "limits": { "queue": 2 } }), &[("fix", fixture_on_stdio("modern"))]);
        std::fs::create_dir_all(home.path("tools")).unwrap();
        std::fs::write(home.path("tools/all.json"), entry.to_string()).unwrap();
        let gateway = home.start().await;
        gateway.connected(&["fix"]).await;
        let start = Instant::now();
        let calls = (0..5).map(|_| {
            let http = gateway.http();
            async move {
                let body = r#"{"arguments":{"seconds":0.4,"label":"x"}}"#;
                http.post_json(&format!("/tools/{tool}/call"), body).await
            }
        });
        let answers = futures_util::future::join_all(calls).await;
        let good = answers.iter().filter(|(status, _)| *status == 200).count();
        let full = answers.iter().filter(|(_, answer)| answer["code"] == "call.queue-full").count();
        assert_eq!((good, full), (3, 2), "{tool}: {answers:?}");
        assert!(start.elapsed() >= Duration::from_millis(1200), "{tool}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn call_over_its_cost_or_rate_limit_is_refused_before_it_starts() {
    let mut tools = tools();
    tools[1]["cost_per_call"] = json!(0.4);
    let settings = json!({ "limits": { "calls_per_minute": 4, "cost": 1.0 } });
    let setup = FailoverSetup::new(settings, &tools).await;
    for _ in 0..2 {
        assert_eq!(setup.call("store", "x").await.0, 200);
    }
    let (status, answer) = setup.call("store", "x").await;
    assert!(status >= 400 && answer["code"] == "call.over-cost", "{answer}");
    for _ in 0..2 {
        assert_eq!(setup.call("lookup", "x").await.0, 200);
    }
    let (status, answer) = setup.call("lookup", "x").await;
    assert!(status >= 400 && answer["code"] == "call.over-rate", "{answer}");
    assert!(answer["hint"].as_str().unwrap().contains("call again in"), "{answer}");
    assert_eq!(setup.ledger().len(), 4, "refused calls did not start");
}

#[tokio::test]
async fn cli_shows_the_provider_of_a_call() {
    let setup = FailoverSetup::new(json!({}), &tools()).await;
    let reply = read(&run(&setup.home, &["call", "lookup", "text=hi", "--json"], None));
    assert_eq!(reply["provider"], "mcp:zero", "{reply}");
    assert_eq!(reply["result"]["_meta"]["toolbooth/provider"], "mcp:zero");
}

#[tokio::test]
async fn slow_provider_is_hedged_for_reads_only() {
    let mut tools = tools();
    for tool in [0, 1] {
        tools[tool]["hedge_after"] = json!(0.2);
    }
    let setup = FailoverSetup::new(json!({}), &tools).await;
    let (status, answer) = setup.call("lookup", "quick").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:zero")), "{answer}");
    assert!(answer["attempts"].is_null(), "a quick provider has no second attempt: {answer}");
    setup.mood("zero", "hang");
    let start = Instant::now();
    let (status, answer) = setup.call("lookup", "slow").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:ten")), "{answer}");
    // Without hedging the first provider would get half of the three seconds.
    assert!(start.elapsed() < Duration::from_millis(1200), "{:?}", start.elapsed());
    assert_eq!(answer["attempts"], 2);
    let before = setup.ledger();
    let (status, answer) = setup.call("store", "once").await;
    assert_eq!(status, 504, "a write is not sent twice: {answer}");
    assert_eq!(
        setup.ledger().iter().filter(|line| line.contains("ten")).count(),
        before.iter().filter(|line| line.contains("ten")).count()
    );
}
