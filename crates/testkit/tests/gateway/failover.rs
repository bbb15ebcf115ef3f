//! Providers: a tool is served as long as one of them is well, and nothing is done twice.

use crate::known::{read, run};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Gateway, Home, PATIENCE, poll};

/// Names how many seconds the flapping test lasts; a full one takes sixty.
const FLAPPING: &str = "TOOLBOOTH_FLAPPING";

/// A gateway with two moody servers, `zero` and `ten`, and tools that both serve.
struct Stage {
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

impl Stage {
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
        self.served_within(PATIENCE, tool, provider).await;
    }

    async fn served_within(&self, patience: Duration, tool: &str, provider: &str) {
        let there = poll(patience, || async {
            let (status, answer) = self.call(tool, "who").await;
            (status == 200 && answer["provider"] == provider).then_some(())
        });
        assert!(there.await.is_some(), "`{provider}` does not serve `{tool}`\n{}", self.gateway.log());
    }
}

#[tokio::test]
async fn a_call_goes_on_to_the_next_provider_and_traffic_comes_back() {
    let stage = Stage::new(json!({}), &tools()).await;
    let (status, answer) = stage.call("lookup", "a").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:zero")), "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["by"], "zero");
    for mood in ["die", "rpc", "hang"] {
        stage.mood("zero", mood);
        let start = Instant::now();
        let (status, answer) = stage.call("lookup", mood).await;
        assert_eq!((status, &answer["provider"]), (200, &json!("mcp:ten")), "{mood}: {answer}");
        assert!(start.elapsed() < Duration::from_secs(3), "within one deadline: {:?}", start.elapsed());
        stage.mood("zero", "ok");
        stage.served_by("lookup", "mcp:zero").await;
    }
    // What a tool says of itself is an answer.
    stage.mood("zero", "tool");
    let (status, answer) = stage.call("lookup", "b").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:zero")), "{answer}");
    assert_eq!(answer["result"]["isError"], true);
    // Both gone: the caller is told why, and of each.
    stage.mood("zero", "die");
    stage.mood("ten", "die");
    let refused = poll(PATIENCE, || async {
        let (status, answer) = stage.call("lookup", "c").await;
        assert_ne!(status, 200, "{answer}");
        (answer["code"] == "call.no-healthy-provider").then_some(answer)
    });
    let answer = refused.await.expect("a typed fault in the end").to_string();
    assert!(answer.contains("mcp:zero") && answer.contains("mcp:ten"), "{answer}");
    let shown = stage.gateway.http().get_json("/tools/lookup").await;
    let first = &shown["providers"][0];
    assert_eq!((&first["id"], &first["healthy"]), (&json!("mcp:zero"), &json!(false)), "{shown}");
    assert!(first["router"]["state"].is_string() && first["reason"].is_string(), "{shown}");
}

#[tokio::test]
async fn a_write_that_may_have_happened_is_not_made_again() {
    let stage = Stage::new(json!({}), &tools()).await;
    for mood in ["acts", "hang"] {
        stage.mood("zero", mood);
        let (status, answer) = stage.call("store", mood).await;
        assert!(status >= 400, "{mood}: {answer}");
        let written: Vec<String> =
            stage.ledger().into_iter().filter(|line| line.contains(&format!("put {mood} "))).collect();
        assert_eq!(written, [format!("zero put {mood} -")], "once, and nowhere else");
        stage.mood("zero", "ok");
        stage.served_by("lookup", "mcp:zero").await;
    }
    // With a key the next one may be asked, under the same key.
    stage.mood("zero", "acts");
    let (status, answer) = stage.call("keyed", "k").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:ten")), "{answer}");
    let keys: Vec<String> = stage
        .ledger()
        .iter()
        .filter(|line| line.contains("put k "))
        .filter_map(|line| line.rsplit(' ').next().map(str::to_owned))
        .collect();
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0] != "-", "{keys:?}");
}

#[tokio::test]
async fn a_read_is_tried_again_on_its_own_server() {
    let settings = json!({ "retry": { "attempts": 4, "base": 0.5 } });
    let stage = Stage::new(settings, &tools()).await;
    stage.mood("zero", "once");
    let (status, answer) = stage.call("zero_look", "r").await;
    assert_eq!(status, 200, "{answer}\n{}", stage.gateway.log());
    assert!(answer["attempts"].as_u64().is_some_and(|count| count > 1), "{answer}");
    assert!(answer.get("provider").is_none(), "{answer}");
    // Nobody vouches for this one.
    stage.mood("zero", "acts");
    let (status, _) = stage.call("zero_put", "w").await;
    assert!(status >= 400);
    assert_eq!(stage.ledger().iter().filter(|line| line.contains("put w ")).count(), 1);
}

#[tokio::test]
async fn credentials_are_read_again_without_a_restart() {
    let mut tools = tools();
    tools[0]["providers"][1]["auth"] = json!({ "required": true, "envs": ["ZERO_KEY"] });
    let stage = Stage::new(json!({ "env_file": "keys.env" }), &tools).await;
    let set = |text: &str| std::fs::write(stage.home.path("keys.env"), text).unwrap();
    stage.served_by("lookup", "mcp:ten").await;
    set("ZERO_KEY=abc\n");
    stage.served_by("lookup", "mcp:zero").await;
    set("OTHER=1\n");
    stage.served_by("lookup", "mcp:ten").await;
    assert!(!stage.gateway.log().contains("abc"));
}

#[tokio::test]
async fn a_flapping_provider_costs_nobody_an_answer() {
    let seconds = std::env::var(FLAPPING).ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let stage = Stage::new(json!({}), &tools()).await;
    let start = Instant::now();
    let (mut calls, mut failed) = (0_u32, Vec::new());
    let mut well = true;
    let mut turned = start;
    while start.elapsed() < Duration::from_secs(seconds) {
        if turned.elapsed() >= Duration::from_secs(1) {
            well = !well;
            stage.mood("zero", if well { "ok" } else { "die" });
            turned = Instant::now();
        }
        let (status, answer) = stage.call("lookup", &calls.to_string()).await;
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
    stage.mood("zero", "ok");
    // After many deaths its supervisor pauses for up to a minute.
    stage.served_within(Duration::from_secs(75), "lookup", "mcp:zero").await;
}

#[tokio::test]
async fn nothing_that_a_model_writes_reaches_what_the_gateway_supplies_to_a_provider() {
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
            // With one provider alone an entry is another name of that tool: the last is such a one.
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
async fn calls_that_may_not_overlap_do_not() {
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
async fn a_call_over_the_allowance_is_refused_before_it_starts() {
    let mut tools = tools();
    tools[1]["cost_per_call"] = json!(0.4);
    let settings = json!({ "limits": { "calls_per_minute": 4, "cost": 1.0 } });
    let stage = Stage::new(settings, &tools).await;
    for _ in 0..2 {
        assert_eq!(stage.call("store", "x").await.0, 200);
    }
    let (status, answer) = stage.call("store", "x").await;
    assert!(status >= 400 && answer["code"] == "call.over-cost", "{answer}");
    for _ in 0..2 {
        assert_eq!(stage.call("lookup", "x").await.0, 200);
    }
    let (status, answer) = stage.call("lookup", "x").await;
    assert!(status >= 400 && answer["code"] == "call.over-rate", "{answer}");
    assert!(answer["hint"].as_str().unwrap().contains("call again in"), "{answer}");
    assert_eq!(stage.ledger().len(), 4, "what was refused did not start");
}

#[tokio::test]
async fn the_command_line_tells_who_served_a_call() {
    let stage = Stage::new(json!({}), &tools()).await;
    let told = read(&run(&stage.home, &["call", "lookup", "text=hi", "--json"], None));
    assert_eq!(told["provider"], "mcp:zero", "{told}");
    assert_eq!(told["result"]["_meta"]["toolbooth/provider"], "mcp:zero");
}

#[tokio::test]
async fn a_slow_provider_gets_company_where_asking_twice_does_no_harm() {
    let mut tools = tools();
    for tool in [0, 1] {
        tools[tool]["hedge_after"] = json!(0.2);
    }
    let stage = Stage::new(json!({}), &tools).await;
    let (status, answer) = stage.call("lookup", "quick").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:zero")), "{answer}");
    assert!(answer["attempts"].is_null(), "whoever is quick is alone: {answer}");
    stage.mood("zero", "hang");
    let start = Instant::now();
    let (status, answer) = stage.call("lookup", "slow").await;
    assert_eq!((status, &answer["provider"]), (200, &json!("mcp:ten")), "{answer}");
    // Half of the three seconds would be the first one's without.
    assert!(start.elapsed() < Duration::from_millis(1200), "{:?}", start.elapsed());
    assert_eq!(answer["attempts"], 2);
    let before = stage.ledger();
    let (status, answer) = stage.call("store", "once").await;
    assert_eq!(status, 504, "a write is not asked for twice: {answer}");
    assert_eq!(
        stage.ledger().iter().filter(|line| line.contains("ten")).count(),
        before.iter().filter(|line| line.contains("ten")).count()
    );
}
