//! Scope of an approval: it is valid for one caller, one tool and one question.

use crate::issuer::{Provider, Signer};
use crate::ledger::{LedgerGateway, entry, over, said};
use crate::token_users::{bearer, make_token, read, run};
use serde_json::{Value, json};
use std::fs;
use toolbooth_testkit::world::{Home, Http, TEST_TIMEOUT, poll};

/// A manifest tool whose provider is a tool of the ledger.
fn pay() -> Value {
    json!({
        "name": "pay",
        "description": "Makes a payment.",
        "requires_consent": true,
        "providers": [
            { "name": "mcp", "priority": 0, "config": { "server": "led", "tool": "write_entry" } },
            { "name": "openai", "priority": 10, "config": { "model": "none" } }
        ]
    })
}

/// A manifest overlay of a ledger tool, which maps the caller's `value` to `text`.
fn mapped() -> Value {
    let value =
        json!({ "type": "object", "properties": { "value": { "type": "string" } }, "required": ["value"] });
    json!({
        "name": "mcp.led.write_entry",
        "description": "Writes a value.",
        "requires_consent": true,
        "parameters": value,
        "providers": [
            { "name": "mcp", "config": { "server": "led", "tool": "write_entry" }, "arguments": { "text": "{value}" } }
        ]
    })
}

fn manifest(home: &Home, text: &Value) {
    let path = home.path("tools/pay.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text.to_string()).unwrap();
}

/// A ledger whose users have tokens: root (administrator), ann, and bob (approver).
struct LedgerUsers {
    ledger: LedgerGateway,
    root: String,
    ann: (String, String),
    bob: String,
}

impl LedgerUsers {
    /// Starts with settings of the writing tool and more settings of the gateway.
    async fn open(of_write: Value, more: Value) -> Self {
        Self::with_manifest(&pay(), of_write, more).await
    }

    /// Starts with this manifest.
    async fn with_manifest(tool: &Value, of_write: Value, more: Value) -> Self {
        let mut settings = json!({
            "auth": { "mode": "token" },
            "approval": { "approvers": ["leads"], "wait_seconds": 1 },
            "policy": { "consent": "client" },
        });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let home = Home::with_settings(settings, &[]);
        manifest(&home, tool);
        let mut server = entry();
        server["tools"] = json!({ "overrides": { "write_entry": of_write } });
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let ann = make_token(&home, None, "ann", &[]);
        let (bob, _) = make_token(&home, None, "bob", &["--groups", "leads"]);
        let mut ledger = LedgerGateway::at(home, &server).await;
        ledger.gateway.headers = bearer(&root);
        Self { ledger: ledger.ready().await, root, ann, bob }
    }

    fn http(&self, token: &str) -> Http {
        Http::new(self.ledger.gateway.address).sending(&bearer(token))
    }

    async fn call(&self, token: &str, tool: &str, text: &str) -> (u16, Value) {
        let body = json!({ "arguments": { "text": text }, "wait": 0 }).to_string();
        self.http(token).post_json(&format!("/tools/{tool}/call"), &body).await
    }

    async fn answer(&self, token: &str, id: &str, answer: &str, body: &str) -> (u16, Value) {
        self.http(token).post_json(&format!("/approvals/{id}/{answer}"), body).await
    }

    /// The held call of a tool.
    async fn waiting(&self, tool: &str) -> Value {
        let http = self.http(&self.root);
        let found = poll(TEST_TIMEOUT, || async {
            let listed = http.get_json("/approvals?state=pending").await;
            listed["approvals"].as_array().unwrap().iter().find(|held| held["name"] == tool).cloned()
        });
        found.await.unwrap_or_else(|| panic!("no call of {tool} is held"))
    }
}

fn id(held: &Value) -> String {
    held["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_call_that_waits_for_an_approval_behind_it_is_charged_once() {
    let more = json!({ "limits": { "calls_per_minute": 1 } });
    let mut tool = pay();
    tool["requires_consent"] = json!(false);
    let bank = LedgerUsers::with_manifest(&tool, json!({ "approval": "approver" }), more).await;
    let body = json!({ "arguments": { "text": "rent" }, "wait": TEST_TIMEOUT.as_secs() }).to_string();
    let http = bank.http(&bank.ann.0);
    let call = tokio::spawn(async move { http.post_json("/tools/pay/call", &body).await });
    let inner = bank.waiting("led_write_entry").await;
    assert_eq!(bank.answer(&bank.bob, &id(&inner), "approve", "").await.0, 200);
    let (status, answer) = call.await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(bank.ledger.entries().len(), 1);
    let (_, answer) = bank.call(&bank.ann.0, "pay", "rent").await;
    assert_eq!(answer["code"], "call.over-rate", "{answer}");
}

// H3
#[tokio::test]
async fn approval_of_a_manifest_tool_does_not_approve_the_tool_behind_it() {
    let bank =
        LedgerUsers::open(json!({ "approval": "approver" }), json!({ "policy": { "consent": "gateway" } }))
            .await;
    let (ann, bob) = (bank.ann.0.clone(), bank.bob.clone());
    let (status, answer) = bank.call(&ann, "pay", "rent").await;
    assert_eq!(status, 202, "{answer}");
    let outer = answer["held"].as_str().unwrap().to_owned();
    let (status, held) = bank.answer(&ann, &outer, "approve", "").await;
    assert_eq!((status, &held["answerer"]), (200, &json!("caller_or_approver")), "{held}");

    // The tool behind it has its own approval rule, as when it is called by its own name.
    let inner = bank.waiting("led_write_entry").await;
    assert_eq!((&inner["answerer"], &inner["user"]), (&json!("approver_only"), &json!("ann")));
    assert_eq!(inner["arguments"], json!({ "text": "rent" }));
    assert!(bank.ledger.entries().is_empty());
    let (status, problem) = bank.answer(&ann, &id(&inner), "approve", "").await;
    assert_eq!((status, &problem["code"]), (403, &json!("approval.not-yours")));
    let led_to = over(&bank.http(&ann), &outer).await;
    assert_eq!(led_to["outcome"]["code"], "call.held", "{led_to}");
    assert_eq!(led_to["outcome"]["result"]["held"], inner["id"]);
    assert_eq!(bank.answer(&bob, &id(&inner), "approve", "").await.0, 200);
    let done = over(&bank.http(&ann), &id(&inner)).await;
    assert_eq!(done["outcome"]["result"]["content"][0]["text"], "wrote rent", "{done}");
    assert_eq!(bank.ledger.entries(), ["rent by ann"]);
}

// H3: while the caller waits, both approvals are requested and the call gets the result.
#[tokio::test]
async fn waiting_call_asks_for_approval_of_each_inner_tool() {
    let bank =
        LedgerUsers::open(json!({ "approval": "approver" }), json!({ "policy": { "consent": "gateway" } }))
            .await;
    let (ann, bob) = (bank.ann.0.clone(), bank.bob.clone());
    let http = bank.http(&ann);
    let call = tokio::spawn(async move {
        http.post_json("/tools/pay/call", r#"{"arguments":{"text":"rent"},"wait":600}"#).await
    });
    let outer = bank.waiting("pay").await;
    assert_eq!(bank.answer(&ann, &id(&outer), "approve", "").await.0, 200);
    let inner = bank.waiting("led_write_entry").await;
    assert!(bank.ledger.entries().is_empty());
    let edited = r#"{"arguments":{"text":"less"}}"#;
    assert_eq!(bank.answer(&bob, &id(&inner), "approve", edited).await.0, 200);
    let (status, answer) = call.await.unwrap();
    assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("wrote less")), "{answer}");
    assert_eq!(bank.ledger.entries(), ["less by ann"]);
}

// Argument rules were not applied to mapped arguments.
#[tokio::test]
async fn rules_also_match_mapped_arguments() {
    let rule = json!({ "tools": "led_write_entry", "arguments": { "/text": "^9999$" },
        "effect": "ask", "approval": "approver" });
    let policy = json!({ "policy": { "consent": "gateway", "rules": [rule] } });
    let bank = LedgerUsers::with_manifest(&mapped(), json!({}), policy).await;
    let (ann, bob) = (bank.ann.0.clone(), bank.bob.clone());
    let consented = async |value: &str| {
        let body = json!({ "arguments": { "value": value }, "wait": 0 }).to_string();
        let (status, answer) = bank.http(&ann).post_json("/tools/led_write_entry/call", &body).await;
        assert_eq!(status, 202, "{answer}");
        let held = answer["held"].as_str().unwrap().to_owned();
        assert_eq!(bank.answer(&ann, &held, "approve", "").await.0, 200);
        over(&bank.http(&ann), &held).await
    };
    // One question is enough if no rule matches.
    let done = consented("12").await;
    assert_eq!(done["outcome"]["result"]["content"][0]["text"], "wrote 12", "{done}");

    let led_to = consented("9999").await;
    assert_eq!(led_to["outcome"]["code"], "call.held", "{led_to}");
    assert_eq!(bank.ledger.entries(), ["12 by ann"]);
    // The approver sees the arguments of the call as ann made it.
    let held = bank.waiting("led_write_entry").await;
    assert_eq!((&held["answerer"], &held["user"]), (&json!("approver_only"), &json!("ann")));
    assert_eq!(held["arguments"], json!({ "value": "9999" }));
    let (status, problem) = bank.answer(&ann, &id(&held), "approve", "").await;
    assert_eq!((status, &problem["code"]), (403, &json!("approval.not-yours")));
    assert_eq!(bank.answer(&bob, &id(&held), "approve", "").await.0, 200);
    let done = over(&bank.http(&ann), &id(&held)).await;
    assert_eq!(done["outcome"]["result"]["content"][0]["text"], "wrote 9999", "{done}");
    assert_eq!(bank.ledger.entries(), ["12 by ann", "9999 by ann"]);
}

// M2
#[tokio::test]
async fn held_call_does_not_run_after_its_token_is_revoked() {
    let bank = LedgerUsers::open(json!({ "approval": "approver" }), json!({})).await;
    let (token, of_ann) = bank.ann.clone();
    // The call was not made with her other valid token.
    make_token(&bank.ledger.home, Some(&bank.root), "ann", &["--groups", "leads"]);
    let http = bank.http(&token);
    let call = tokio::spawn(async move {
        http.post_json("/tools/led_write_entry/call", r#"{"arguments":{"text":"gone"},"wait":600}"#).await
    });
    let held = bank.waiting("led_write_entry").await;
    let revoked = run(&bank.ledger.home, &["tokens", "revoke", &of_ann], Some(&bank.root));
    assert!(revoked.status.success(), "{revoked:?}");
    assert_eq!(bank.answer(&bank.bob, &id(&held), "approve", "").await.0, 200);
    let ended = over(&bank.http(&bank.bob), &id(&held)).await;
    assert_eq!((&ended["state"], &ended["outcome"]["code"]), (&json!("failed"), &json!("call.rights-gone")));
    let (status, problem) = call.await.unwrap();
    assert_eq!((status, &problem["code"]), (403, &json!("call.rights-gone")), "{problem}");
    assert!(bank.ledger.entries().is_empty());
}

// M2: the caller leaves the group while the call is held.
#[tokio::test]
async fn held_call_does_not_run_after_its_caller_leaves_the_group() {
    let settings = |payers: &[&str]| {
        json!({ "auth": { "mode": "token" }, "approval": { "approvers": ["leads"] },
            "policy": { "consent": "client" }, "groups": { "payers": payers } })
    };
    let mut server = entry();
    server["groups"] = json!(["payers"]);
    server["approval"] = "approver".into();
    let home = Home::with_settings(settings(&["ann", "root"]), &[]);
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let (ann, _) = make_token(&home, None, "ann", &[]);
    let mut ledger = LedgerGateway::at(home, &server).await;
    ledger.gateway.headers = bearer(&root);
    let ledger = ledger.ready().await;
    let (root, ann) = (ledger.gateway.http(), Http::new(ledger.gateway.address).sending(&bearer(&ann)));
    let caller = ann.clone();
    let call = tokio::spawn(async move {
        caller.post_json("/tools/led_write_entry/call", r#"{"arguments":{"text":"x"},"wait":600}"#).await
    });
    let waiting = poll(TEST_TIMEOUT, || async {
        root.get_json("/approvals?state=pending").await["approvals"][0]["id"].as_str().map(str::to_owned)
    });
    let held = waiting.await.expect("the call is held");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(ledger.home.config()).unwrap()).unwrap();
    config["groups"]["payers"] = json!(["root"]);
    ledger.home.write_config(&config.to_string());
    let hidden = poll(TEST_TIMEOUT, || async {
        (ann.get_json("/tools/led_write_entry").await["code"] == "tool.unknown").then_some(())
    });
    hidden.await.expect("the group was removed");
    assert_eq!(root.post_json(&format!("/approvals/{held}/approve"), "").await.0, 200);
    let (status, problem) = call.await.unwrap();
    assert_eq!((status, &problem["code"]), (403, &json!("call.rights-gone")), "{problem}");
    assert!(ledger.entries().is_empty());
}

// M3 (a)
#[tokio::test]
async fn approved_calls_of_manifest_tools_run_over_every_interface() {
    let home = Home::with_settings(json!({ "approval": { "default": "writes" } }), &[]);
    manifest(&home, &pay());
    let ledger = LedgerGateway::at(home, &entry()).await.ready().await;
    let user = ledger.user().await;
    let approved = ledger.run(&["call", "pay", "text=one", "--yes"]);
    assert_eq!((approved.status.code(), said(&approved).as_str()), (Some(0), "wrote one"), "{approved:?}");

    let http = ledger.gateway.http();
    let (_, answer) = http.post_json("/tools/pay/call", r#"{"arguments":{"text":"two"},"wait":0}"#).await;
    let outer = answer["held"].as_str().unwrap().to_owned();
    assert_eq!(http.post_json(&format!("/approvals/{outer}/approve"), "").await.0, 200);
    let led_to = over(&http, &outer).await;
    let inner = led_to["outcome"]["result"]["held"].as_str().unwrap_or_else(|| panic!("{led_to}")).to_owned();
    assert_eq!(http.post_json(&format!("/approvals/{inner}/approve"), "").await.0, 200);
    assert_eq!(over(&http, &inner).await["state"], "done");

    // As steps of a plan: the approver of the step has seen its arguments.
    assert!(ledger.run(&["plan", "on"]).status.success());
    assert_eq!(ledger.run(&["call", "pay", "text=three"]).status.code(), Some(4));
    assert!(ledger.run(&["plan", "off"]).status.success());
    let ran = ledger.run(&["plan", "approve", "all", "--json"]);
    let steps = read(&ran)["steps"].clone();
    let asked = steps[0]["problem"].as_str().unwrap_or_default().to_owned();
    assert!(asked.contains("led_write_entry") && asked.contains("waits for approval"), "{steps}");
    let last =
        http.get_json("/approvals?state=pending").await["approvals"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(http.post_json(&format!("/approvals/{last}/approve"), "").await.0, 200);
    assert_eq!(over(&http, &last).await["state"], "done");
    assert_eq!(ledger.entries(), ["one", "two", "three"].map(|text| format!("{text} by {user}")));
}

// M3 (b)
#[tokio::test]
async fn approved_call_runs_with_the_tool_version_of_its_persona() {
    let home = Home::with_settings(
        json!({ "approval": { "default": "writes" },
            "personas": { "dev": { "allowed_tools": ["*"] }, "ops": { "allowed_tools": ["*"] } } }),
        &[],
    );
    let version = |says: &str| {
        json!({ "name": "mcp.led.write_entry", "description": format!("For {says}."),
            "parameters": { "type": "object", "properties": { "text": { "enum": [says] } }, "required": ["text"] } })
    };
    for persona in ["dev", "ops"] {
        let path = home.path(&format!("personas/{persona}/tools/write.json"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, version(persona).to_string()).unwrap();
    }
    let ledger = LedgerGateway::at(home, &entry()).await.ready().await;
    let user = ledger.user().await;
    for persona in ["ops", "dev"] {
        let text = format!("text={persona}");
        let approved = ledger.run(&["call", "led_write_entry", &text, "--yes", "--persona", persona]);
        assert_eq!(
            (approved.status.code(), said(&approved)),
            (Some(0), format!("wrote {persona}")),
            "{approved:?}"
        );
        // An edit is checked against the version that was asked about.
        let held = said(&ledger.run(&["call", "led_write_entry", &text, "--persona", persona]));
        let other = r#"{"text":"other"}"#;
        let refused = ledger.run(&["approvals", "approve", &held, "--args", other, "--json"]);
        assert_eq!(read(&refused)["error"]["code"], "call.invalid-arguments", "{refused:?}");
        assert!(ledger.run(&["approvals", "reject", &held]).status.success());
    }
    assert_eq!(ledger.entries(), [format!("ops by {user}"), format!("dev by {user}")]);
}

// M3 (c)
#[tokio::test]
async fn approved_call_of_a_signed_in_user_survives_a_restart() {
    let signer = Signer::new("one");
    let provider = Provider::start(&signer).await;
    let jwt = json!({ "issuer": provider.url, "audience": "booth" });
    let home = Home::with_settings(
        json!({ "policy": { "consent": "client" }, "auth": { "mode": "jwt", "jwt": jwt } }),
        &[],
    );
    let mut server = entry();
    server["groups"] = json!(["staff"]);
    server["approval"] = "approver".into();
    let token = |more: Value| signer.token(&provider.url, more);
    let admin = token(json!({ "sub": "root", "groups": ["admin", "staff"] }));
    let mut ledger = LedgerGateway::at(home, &server).await;
    ledger.gateway.headers = bearer(&admin);
    let mut ledger = ledger.ready().await;
    let as_ann = |ledger: &LedgerGateway, more: Value| {
        Http::new(ledger.gateway.address).sending(&bearer(&token(more)))
    };
    let call = async |http: &Http, text: &str| {
        let body = json!({ "arguments": { "text": text }, "wait": 0 }).to_string();
        let (status, answer) = http.post_json("/tools/led_write_entry/call", &body).await;
        assert_eq!(status, 202, "{answer}");
        answer["held"].as_str().unwrap().to_owned()
    };
    let first = call(&as_ann(&ledger, json!({})), "known").await;
    // Claims of a token are valid no longer than the token.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    // It expired 50 seconds ago and is accepted for ten seconds more: clocks may differ by a minute.
    let short = json!({ "sub": "eve", "exp": now - 50 });
    let second = call(&as_ann(&ledger, short), "unknown").await;
    ledger = ledger.survive().await;
    ledger.gateway.headers = bearer(&admin);
    let mut ledger = ledger.ready().await;
    ledger.gateway.headers = bearer(&admin);
    let root = ledger.gateway.http();
    assert_eq!(root.post_json(&format!("/approvals/{first}/approve"), "").await.0, 200);
    assert_eq!(over(&root, &first).await["state"], "done");
    assert_eq!(ledger.entries(), ["known by ann"]);

    let until = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now + 11);
    poll(TEST_TIMEOUT, || async { (std::time::SystemTime::now() > until).then_some(()) })
        .await
        .expect("the token expires");
    assert_eq!(root.post_json(&format!("/approvals/{second}/approve"), "").await.0, 200);
    let deferred = poll(TEST_TIMEOUT, || async {
        let held = root.get_json(&format!("/approvals/{second}")).await;
        held["waiting_for"].is_string().then_some(held)
    });
    let deferred = deferred.await.expect("it waits for its caller to sign in");
    assert_eq!(deferred["state"], "approved", "{deferred}");
    assert!(deferred["waiting_for"].as_str().unwrap().contains("sign in again"), "{deferred}");
    assert_eq!(ledger.entries().len(), 1);
    // Once she signs in again, it runs.
    assert_eq!(as_ann(&ledger, json!({ "sub": "eve" })).get_json("/me").await["user"], "eve");
    assert_eq!(over(&root, &second).await["state"], "done");
    assert_eq!(ledger.entries(), ["known by ann", "unknown by eve"]);
}

// Who may answer: consent, approval in person, four-eyes principle.
#[tokio::test]
async fn approval_is_required_for_every_call_and_in_person() {
    let bank = LedgerUsers::open(
        json!({}),
        json!({
            "policy": { "consent": "client", "rules": [{ "tools": "led_write_entry", "effect": "ask" }] },
        }),
    )
    .await;
    let (home, ann) = (&bank.ledger.home, bank.ann.0.clone());
    // `--yes` is not enough for this rule, and the command cannot ask her.
    let called = run(home, &["call", "led_write_entry", "text=one", "--yes"], Some(&ann));
    assert_eq!(called.status.code(), Some(4), "{called:?}");
    let held = said(&called);
    let (status, problem) = bank.answer(&ann, &held, "approve", r#"{"remember":"always"}"#).await;
    assert_eq!((status, &problem["code"]), (400, &json!("approval.not-remembered")), "{problem}");
    assert_eq!(bank.answer(&ann, &held, "approve", r#"{"remember":"once"}"#).await.0, 200);
    assert_eq!(over(&bank.http(&ann), &held).await["state"], "done");
    assert_eq!(bank.call(&ann, "led_write_entry", "two").await.0, 202, "asked again for the next call");
    assert_eq!(bank.ledger.entries(), ["one by ann"]);
}

// A rule that planned one tool switched plan mode on permanently.
#[tokio::test]
async fn rule_that_plans_one_tool_does_not_affect_others() {
    let rule = json!({ "tools": "led_write_entry", "effect": "plan" });
    let policy = json!({ "policy": { "consent": "client", "rules": [rule] } });
    let bank = LedgerUsers::open(json!({}), policy).await;
    let ann = bank.ann.0.clone();
    for text in ["one", "two"] {
        let (status, answer) = bank.call(&ann, "led_write_entry", text).await;
        assert_eq!(status, 202, "{answer}");
        // No rule applies to this tool, though it may write too.
        let (status, answer) = bank.call(&ann, "led_delete_entry", text).await;
        assert_ne!(status, 202, "{answer}");
        assert!(answer.to_string().contains("there is no entry"), "the tool did not run: {answer}");
    }
    let http = bank.http(&ann);
    let listed = http.get_json("/plans").await;
    assert_eq!(listed["plans"].as_array().unwrap().len(), 1, "one plan takes both steps: {listed}");
    let plan = listed["plans"][0]["id"].as_str().unwrap();
    let (status, done) = http.post_json(&format!("/plans/{plan}/approve"), r#"{"steps":"all"}"#).await;
    assert_eq!((status, done["steps"].as_array().unwrap().len()), (200, 2), "{done}");
    assert_eq!(bank.ledger.entries(), ["one by ann", "two by ann"]);
}

#[tokio::test]
async fn callers_cannot_approve_their_own_calls() {
    let bank = LedgerUsers::open(
        json!({}),
        json!({
            "policy": { "consent": "client",
                "rules": [{ "tools": "led_write_entry", "effect": "ask", "approval": "approver" }] },
        }),
    )
    .await;
    let (ann, bob, root) = (bank.ann.0.clone(), bank.bob.clone(), bank.root.clone());
    // Bob approves for others but not for himself; the same holds for root, an administrator.
    for caller in [&ann, &bob, &root] {
        let (_, answer) = bank.call(caller, "led_write_entry", "mine").await;
        let held = answer["held"].as_str().unwrap().to_owned();
        let (status, problem) = bank.answer(caller, &held, "approve", "").await;
        assert_eq!((status, &problem["code"]), (403, &json!("approval.not-yours")));
        assert_eq!(bank.http(caller).get_json(&format!("/approvals/{held}")).await["yours"], false);
        // A caller may reject their own call.
        let (status, taken_back) = bank.answer(caller, &held, "reject", "").await;
        assert_eq!((status, &taken_back["state"]), (200, &json!("rejected")), "{taken_back}");
    }
    let (_, answer) = bank.call(&root, "led_write_entry", "ours").await;
    let held = answer["held"].as_str().unwrap().to_owned();
    assert_eq!(bank.answer(&bob, &held, "approve", "").await.0, 200);
    assert_eq!(over(&bank.http(&root), &held).await["state"], "done");
    assert_eq!(bank.ledger.entries(), ["ours by root"]);
}

// audit: 1,000 held calls = HTTP 500
#[tokio::test]
async fn too_many_held_calls_of_one_user_are_refused_and_others_continue() {
    let bank = LedgerUsers::open(json!({ "approval": "approver" }), json!({})).await;
    let ann = bank.ann.0.clone();
    let calls: Vec<_> = (0..1_000).map(|number| (number, bank.http(&ann))).collect();
    for some in calls.chunks(50) {
        let some = some.iter().map(|(number, http)| {
            let body = json!({ "arguments": { "text": number.to_string() }, "wait": 0 }).to_string();
            async move { http.post_json("/tools/led_write_entry/call", &body).await.0 }
        });
        assert!(futures_util::future::join_all(some).await.iter().all(|status| *status == 202));
    }
    let (status, problem) = bank.call(&ann, "led_write_entry", "one more").await;
    assert_eq!((status, &problem["code"]), (429, &json!("call.too-many-held")), "{problem}");
    assert!(problem.to_string().contains("1000") && problem["hint"].is_string(), "{problem}");
    assert_eq!(bank.call(&bank.bob, "led_write_entry", "mine").await.0, 202, "the limit is per user");
}

// audit: no event or audit row for approving another's call, another's request state; group denial audited as unknown
#[tokio::test]
async fn attempts_on_calls_of_others_are_recorded_for_the_operator_only() {
    let bank = LedgerUsers::open(json!({ "approval": "approver" }), json!({})).await;
    let home = &bank.ledger.home;
    let (cat, _) = make_token(home, Some(&bank.root), "cat", &[]);
    let (ann, root) = (bank.ann.0.clone(), bank.root.clone());
    let (_, answer) = bank.call(&ann, "led_write_entry", "mine").await;
    let held = answer["held"].as_str().unwrap().to_owned();
    assert_eq!(bank.answer(&cat, &held, "approve", "").await.1["code"], "approval.unknown");
    assert_eq!(bank.answer(&ann, &held, "approve", "").await.1["code"], "approval.not-yours");

    let mut config: Value = serde_json::from_str(&fs::read_to_string(home.config()).unwrap()).unwrap();
    config["servers"]["led"]["groups"] = json!(["leads", "admin"]);
    home.write_config(&config.to_string());
    let hidden = poll(TEST_TIMEOUT, || async {
        (bank.http(&cat).get_json("/tools/led_ok").await["code"] == "tool.unknown").then_some(())
    });
    hidden.await.expect("the server is hidden from cat");
    let (status, problem) = bank.call(&cat, "led_write_entry", "x").await;
    assert_eq!((status, &problem["code"]), (404, &json!("call.unknown-tool")));

    let rows = poll(TEST_TIMEOUT, || async {
        let rows =
            read(&run(home, &["audit", "--kind", "refusal", "--json"], Some(&root)))["rows"].to_string();
        rows.contains("call.denied").then_some(rows)
    });
    let rows = rows.await.expect("a row");
    for word in ["user cat", "user ann", "approval.unknown", "approval.not-yours", &held, "denied by group"] {
        assert!(rows.contains(word), "{word}: {rows}");
    }
    // Each row names its user, who cannot read it.
    for word in [r#""by":"cat""#, r#""by":"ann""#] {
        assert!(rows.contains(word), "{word}: {rows}");
    }
    for token in [&ann, &cat] {
        let own = read(&run(home, &["audit", "--json"], Some(token)))["rows"].to_string();
        assert!(!own.contains("denied by") && !own.contains("mcp.led.write_entry: "), "{own}");
    }
}
