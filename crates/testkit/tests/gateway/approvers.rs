//! Who may answer: callers for themselves, approvers for all, and nobody for what is not theirs to see.

use crate::known::{bearer, make_token, read, run};
use crate::ledger::{Ledger, entry, over, said};
use serde_json::{Value, json};
use toolbooth_testkit::world::{Home, Http};

struct Office {
    ledger: Ledger,
    root: String,
    ann: String,
    bob: String,
    cat: String,
}

impl Office {
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
        let mut ledger = Ledger::at(home, &server).await;
        ledger.gateway.showing = bearer(&root);
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
async fn a_consent_is_asked_for_once_and_by_the_caller() {
    let office = Office::open().await;
    let (status, answer) = office.call(&office.ann, "led_read_entries", json!({})).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["held"].as_str().unwrap();
    let http = office.http(&office.ann);
    let (status, held) =
        http.post_json(&format!("/approvals/{id}/approve"), r#"{"remember":"always"}"#).await;
    assert_eq!((status, &held["decided_by"]), (200, &json!("ann")), "{held}");
    assert_eq!(over(&http, id).await["state"], "done");
    assert_eq!(office.call(&office.ann, "led_read_entries", json!({})).await.0, 200);
    assert_eq!(office.call(&office.cat, "led_read_entries", json!({})).await.0, 202, "her consent is hers");
    let consents = office.http(&office.cat).get_json("/consents").await;
    assert_eq!(consents["consents"], json!([]));
    let id = http.get_json("/consents").await["consents"][0]["id"].as_str().unwrap().to_owned();
    let words = ["approvals", "revoke", &id, "--json"];
    let refused = run(&office.ledger.home, &words, Some(&office.cat));
    assert_eq!(read(&refused)["error"]["code"], "consent.unknown");
    assert!(run(&office.ledger.home, &words, Some(&office.ann)).status.success());
    assert_eq!(office.call(&office.ann, "led_read_entries", json!({})).await.0, 202);
}

#[tokio::test]
async fn what_the_operator_asks_is_for_approvers_to_answer() {
    let office = Office::open().await;
    let home = &office.ledger.home;
    let (status, answer) = office.call(&office.ann, "led_write_entry", json!({ "text": "pay" })).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["held"].as_str().unwrap();
    let path = format!("/approvals/{id}/approve");
    let (status, problem) = office.http(&office.ann).post_json(&path, "").await;
    assert_eq!((status, &problem["code"]), (403, &json!("approval.not-yours")));
    assert_eq!(office.http(&office.ann).get_json(&format!("/approvals/{id}")).await["yours"], false);
    let (status, problem) = office.http(&office.cat).post_json(&path, "").await;
    assert_eq!((status, &problem["code"]), (404, &json!("approval.unknown")), "hers is not his to know of");
    assert_eq!(office.http(&office.cat).get_json("/approvals").await["approvals"], json!([]));
    // The same call again is the same question, whoever says yes beforehand.
    let eager = run(home, &["call", "led_write_entry", "text=pay", "--yes"], Some(&office.ann));
    assert_eq!((eager.status.code(), said(&eager).as_str()), (Some(4), id));
    let refused = run(home, &["approvals", "approve", id], Some(&office.ann));
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(office.ledger.entries().is_empty());

    let listed = read(&run(home, &["approvals", "--json"], Some(&office.bob)));
    assert_eq!(listed["approvals"][0]["yours"], true);
    let approved = run(home, &["approvals", "approve", id], Some(&office.bob));
    assert!(approved.status.success(), "{approved:?}");
    let shown = read(&run(home, &["approvals", "show", id, "--json"], Some(&office.ann)));
    assert_eq!((&shown["state"], &shown["decided_by"]), (&json!("done"), &json!("bob")));
    assert_eq!(shown["outcome"]["result"]["content"][0]["text"], "wrote pay");
    assert_eq!(office.ledger.entries(), ["pay by ann"], "it runs as its caller, not as its approver");
}

#[tokio::test]
async fn a_call_runs_with_the_rights_its_caller_has_then() {
    let office = Office::open().await;
    let home = &office.ledger.home;
    let (_, answer) = office.call(&office.cat, "led_write_entry", json!({ "text": "gone" })).await;
    let id = answer["held"].as_str().unwrap();
    let tokens = read(&run(home, &["tokens", "list", "--json"], Some(&office.root)));
    let token = tokens["tokens"].as_array().unwrap().iter().find(|token| token["user"] == "cat").unwrap();
    let revoked = run(home, &["tokens", "revoke", token["id"].as_str().unwrap()], Some(&office.root));
    assert!(revoked.status.success(), "{revoked:?}");
    let approved = run(home, &["approvals", "approve", id, "--json"], Some(&office.bob));
    assert_eq!(approved.status.code(), Some(1));
    assert_eq!(read(&approved)["outcome"]["code"], "call.rights-gone");
    assert!(office.ledger.entries().is_empty());
}

#[tokio::test]
async fn the_audit_shows_everybody_their_own() {
    let office = Office::open().await;
    let home = &office.ledger.home;
    office.call(&office.ann, "led_ok", json!({})).await;
    office.call(&office.cat, "led_ok", json!({})).await;
    let users = |token: &str, more: &[&str]| {
        let rows = read(&run(home, &[&["audit", "--json", "--tool", "led_ok"], more].concat(), Some(token)));
        let rows = rows["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["user"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(users(&office.ann, &["--user", "cat"]), ["ann"], "asking for another shows oneself");
    assert_eq!(users(&office.root, &[]), ["cat", "ann"]);
    assert_eq!(users(&office.root, &["--user", "cat"]), ["cat"]);
    assert_eq!(run(home, &["audit", "verify"], Some(&office.ann)).status.code(), Some(3));
    let whole = run(home, &["audit", "verify", "--json"], Some(&office.root));
    assert_eq!((whole.status.code(), &read(&whole)["ok"]), (Some(0), &json!(true)));
    for bad in ["/audit?limit=x", "/audit?what=1", "/approvals?state=maybe", "/approvals?before=1"] {
        let problem = office.http(&office.root).get_json(bad).await;
        assert_eq!(problem["code"], "request.bad-query", "{bad}: {problem}");
    }
}
