//! Who may approve: callers for themselves, approvers for all, and only calls that they can see.

use crate::ledger::{LedgerGateway, entry, over, said};
use crate::token_users::{bearer, make_token, read, run};
use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Home, Http, ScriptedServer, TEST_TIMEOUT, poll};

struct ApproverSetup {
    ledger: LedgerGateway,
    root: String,
    ann: String,
    bob: String,
    cat: String,
}

impl ApproverSetup {
    async fn open() -> Self {
        let home = Home::with_settings(
            json!({
                "auth": { "mode": "token" },
                "approval": { "approvers": ["leads"] },
                "policy": { "rules": [{ "tools": "led_write_entry", "effect": "ask", "approval": "approver", "reason": "writes are checked" }] },
            }),
            &[],
        );
        let mut server = entry();
        server["tools"] = json!({ "overrides": { "read_entries": { "requires_consent": true } } });
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let (ann, _) = make_token(&home, None, "ann", &[]);
        let (bob, _) = make_token(&home, None, "bob", &["--groups", "leads"]);
        let (cat, _) = make_token(&home, None, "cat", &[]);
        let mut ledger = LedgerGateway::at(home, &server).await;
        ledger.gateway.headers = bearer(&root);
        Self { ledger: ledger.ready().await, root, ann, bob, cat }
    }

    fn http(&self, token: &str) -> Http {
        Http::new(self.ledger.gateway.address).sending(&bearer(token))
    }

    async fn call(&self, token: &str, tool: &str, arguments: Value) -> (u16, Value) {
        let body = json!({ "arguments": arguments, "wait": 0 }).to_string();
        self.http(token).post_json(&format!("/tools/{tool}/call"), &body).await
    }
}

#[tokio::test]
async fn consent_is_requested_once_from_the_caller() {
    let setup = ApproverSetup::open().await;
    let (status, answer) = setup.call(&setup.ann, "led_read_entries", json!({})).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["held"].as_str().unwrap();
    let http = setup.http(&setup.ann);
    let (status, held) =
        http.post_json(&format!("/approvals/{id}/approve"), r#"{"remember":"always"}"#).await;
    assert_eq!((status, &held["decided_by"]), (200, &json!("ann")), "{held}");
    assert_eq!(over(&http, id).await["state"], "done");
    assert_eq!(setup.call(&setup.ann, "led_read_entries", json!({})).await.0, 200);
    assert_eq!(
        setup.call(&setup.cat, "led_read_entries", json!({})).await.0,
        202,
        "a consent is valid for its user only"
    );
    let consents = setup.http(&setup.cat).get_json("/consents").await;
    assert_eq!(consents["consents"], json!([]));
    let id = http.get_json("/consents").await["consents"][0]["id"].as_str().unwrap().to_owned();
    let words = ["approvals", "revoke", &id, "--json"];
    let refused = run(&setup.ledger.home, &words, Some(&setup.cat));
    assert_eq!(read(&refused)["error"]["code"], "consent.unknown");
    assert!(run(&setup.ledger.home, &words, Some(&setup.ann)).status.success());
    assert_eq!(setup.call(&setup.ann, "led_read_entries", json!({})).await.0, 202);
}

#[tokio::test]
async fn only_approvers_can_answer_operator_rules() {
    let setup = ApproverSetup::open().await;
    let home = &setup.ledger.home;
    let (status, answer) = setup.call(&setup.ann, "led_write_entry", json!({ "text": "pay" })).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["held"].as_str().unwrap();
    let path = format!("/approvals/{id}/approve");
    let (status, problem) = setup.http(&setup.ann).post_json(&path, "").await;
    assert_eq!((status, &problem["code"]), (403, &json!("approval.not-yours")));
    assert_eq!(setup.http(&setup.ann).get_json(&format!("/approvals/{id}")).await["yours"], false);
    let (status, problem) = setup.http(&setup.cat).post_json(&path, "").await;
    assert_eq!(
        (status, &problem["code"]),
        (404, &json!("approval.unknown")),
        "a held call of another user is unknown"
    );
    assert_eq!(setup.http(&setup.cat).get_json("/approvals").await["approvals"], json!([]));
    // The same call again is the same held call, even with `--yes`.
    let eager = run(home, &["call", "led_write_entry", "text=pay", "--yes"], Some(&setup.ann));
    assert_eq!((eager.status.code(), said(&eager).as_str()), (Some(4), id));
    let refused = run(home, &["approvals", "approve", id], Some(&setup.ann));
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(setup.ledger.entries().is_empty());

    let listed = read(&run(home, &["approvals", "--json"], Some(&setup.bob)));
    assert_eq!(listed["approvals"][0]["yours"], true);
    let approved = run(home, &["approvals", "approve", id], Some(&setup.bob));
    assert!(approved.status.success(), "{approved:?}");
    let shown = read(&run(home, &["approvals", "show", id, "--json"], Some(&setup.ann)));
    assert_eq!((&shown["state"], &shown["decided_by"]), (&json!("done"), &json!("bob")));
    assert_eq!(shown["outcome"]["result"]["content"][0]["text"], "wrote pay");
    assert_eq!(setup.ledger.entries(), ["pay by ann"], "it runs as its caller, not as its approver");
}

#[tokio::test]
async fn approved_call_runs_with_the_current_rights_of_its_caller() {
    let setup = ApproverSetup::open().await;
    let home = &setup.ledger.home;
    let (_, answer) = setup.call(&setup.cat, "led_write_entry", json!({ "text": "gone" })).await;
    let id = answer["held"].as_str().unwrap();
    let tokens = read(&run(home, &["tokens", "list", "--json"], Some(&setup.root)));
    let token = tokens["tokens"].as_array().unwrap().iter().find(|token| token["user"] == "cat").unwrap();
    let revoked = run(home, &["tokens", "revoke", token["id"].as_str().unwrap()], Some(&setup.root));
    assert!(revoked.status.success(), "{revoked:?}");
    let approved = run(home, &["approvals", "approve", id, "--json"], Some(&setup.bob));
    assert_eq!(approved.status.code(), Some(1));
    assert_eq!(read(&approved)["outcome"]["code"], "call.rights-gone");
    assert!(setup.ledger.entries().is_empty());
}

#[tokio::test]
async fn audit_shows_users_only_their_own_rows() {
    let setup = ApproverSetup::open().await;
    let home = &setup.ledger.home;
    setup.call(&setup.ann, "led_ok", json!({})).await;
    setup.call(&setup.cat, "led_ok", json!({})).await;
    let users = |token: &str, more: &[&str]| {
        let rows = read(&run(home, &[&["audit", "--json", "--tool", "led_ok"], more].concat(), Some(token)));
        let rows = rows["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["user"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(users(&setup.ann, &["--user", "cat"]), ["ann"], "the filter by another user is ignored");
    assert_eq!(users(&setup.root, &[]), ["cat", "ann"]);
    assert_eq!(users(&setup.root, &["--user", "cat"]), ["cat"]);
    assert_eq!(run(home, &["audit", "verify"], Some(&setup.ann)).status.code(), Some(3));
    let whole = run(home, &["audit", "verify", "--json"], Some(&setup.root));
    assert_eq!((whole.status.code(), &read(&whole)["ok"]), (Some(0), &json!(true)));
    for bad in ["/audit?limit=x", "/audit?what=1", "/approvals?state=maybe", "/approvals?before=1"] {
        let problem = setup.http(&setup.root).get_json(bad).await;
        assert_eq!(problem["code"], "request.bad-query", "{bad}: {problem}");
    }
}

/// In `local` mode there is no other person who could approve a critical call.
#[tokio::test]
async fn local_owner_approves_critical_calls() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let mut entry = upstream.entry();
    entry["tools"] = json!({ "overrides": { "take": { "safety_level": "critical" } } });
    let home = Home::with_settings(json!({}), &[("srv", entry)]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let (status, answer) = gateway.http().post_json("/tools/srv_take/call", r#"{"wait":0}"#).await;
    assert_eq!(status, 202, "{answer}");
    let held = answer["held"].as_str().unwrap();
    let (status, answer) = gateway.http().post_json(&format!("/approvals/{held}/approve"), "{}").await;
    assert_eq!(status, 200, "{answer}");
    let done = poll(TEST_TIMEOUT, || async {
        let shown = gateway.http().get_json(&format!("/approvals/{held}")).await;
        (shown["state"] == "done").then_some(())
    });
    assert!(done.await.is_some());
}

/// Outside `local` mode no call is held unless the configuration asks for it.
#[tokio::test]
async fn only_written_consent_is_asked() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let with = |key: &str, value: Value| {
        let mut entry = upstream.entry();
        entry[key] = value;
        entry
    };
    let rated = |level: &str| with("tools", json!({ "overrides": { "take": { "safety_level": level } } }));
    let entries = [
        ("plain", upstream.entry()),
        ("written", with("requires_consent", json!(true))),
        ("medium", rated("medium")),
        ("high", rated("high")),
        ("critical", rated("critical")),
    ];
    for (consent, plain) in [("client", 200), ("gateway", 202)] {
        let settings = json!({ "auth": { "mode": "token" }, "policy": { "consent": consent } });
        let home = Home::with_settings(settings, &entries);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let mut gateway = home.start().await;
        gateway.headers = bearer(&root);
        gateway.connected(&entries.each_ref().map(|(name, _)| *name)).await;
        let http = Http::new(gateway.address).sending(&bearer(&root));
        let expected =
            [("plain", plain), ("written", 202), ("medium", plain), ("high", 202), ("critical", 202)];
        for (server, expected) in expected {
            let (status, answer) =
                http.post_json(&format!("/tools/{server}_take/call"), r#"{"wait":0}"#).await;
            assert_eq!(status, expected, "{consent} {server}: {answer}");
            // Even an administrator does not approve a call of their own that needs another person.
            if server == "critical" {
                let held = answer["held"].as_str().unwrap();
                let (status, answer) = http.post_json(&format!("/approvals/{held}/approve"), "{}").await;
                assert_eq!(status, 403, "{answer}");
            }
        }
    }
}
