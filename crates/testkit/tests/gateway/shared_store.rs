//! Two gateways on one PostgreSQL database. `cargo xtask test` starts a server and sets `TOOLBOOTH_TEST_POSTGRES` to its URL;
//! without it these tests are skipped.

use crate::console_sessions::ConsoleTab;
use crate::ledger::{entry, over};
use crate::token_users::{bearer, make_token, read, run};
use ::http::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::{MODERN, TestEra};
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

const SERVER: &str = "TOOLBOOTH_TEST_POSTGRES";
const TOOLS: &str =
    r#"[{"name":"send_note","inputSchema":{"type":"object","properties":{"note":{"type":"string"}}}}]"#;

/// An empty schema of the test server.
pub struct SharedDatabase {
    server: String,
    schema: String,
    /// The URL of the store.
    pub url: String,
}

impl SharedDatabase {
    /// Creates a schema; `None` without a test server.
    pub async fn create() -> Option<Self> {
        let Ok(server) = std::env::var(SERVER) else {
            eprintln!("{SERVER} is not set, so this test is skipped");
            return None;
        };
        let schema = format!("g{}_{}", std::process::id(), unique());
        let url = format!("{server}?options[search_path]={schema}");
        let database = Self { server, schema, url };
        database.run(&format!("CREATE SCHEMA {}", database.schema)).await;
        Some(database)
    }

    /// Ends all leases. A gateway that runs renews its own.
    pub async fn expire_leases(&self) {
        self.run(&format!("UPDATE {}.replicas SET lease_until = now() - interval '1 second'", self.schema))
            .await;
    }

    async fn run(&self, statement: &str) {
        let mut plain = PgConnection::connect(&self.server).await.unwrap();
        plain.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }
}

/// Two gateways with the same configuration and the same store, and tokens that were created through the first.
struct GatewayPair {
    homes: [Home; 2],
    gateways: [Gateway; 2],
    _mail: ScriptedServer,
    database: String,
    root: String,
    ann: String,
    bob: String,
}

impl GatewayPair {
    async fn start() -> Option<Self> {
        let database = SharedDatabase::create().await?.url;
        let mail = ScriptedServer::start(TestEra::Modern).await;
        mail.list(TOOLS);
        mail.answer(ScriptedAnswer::Raw {
            status: 500,
            kind: "text/plain".into(),
            body: "out of order".into(),
        });
        let settings = json!({
            "store": { "url": database },
            "auth": { "mode": "token" },
            "approval": { "approvers": ["leads"] },
            "retry": { "attempts": 1 },
            "policy": {
                "consent": "client",
                "rules": [
                    { "tools": "led_write_entry", "effect": "ask", "approval": "approver", "reason": "writes are checked" },
                    { "tools": "led_read_entries", "effect": "ask", "reason": "reads are checked" },
                ],
            },
        });
        let homes = [Home::with_settings(settings.clone(), &[]), Home::with_settings(settings.clone(), &[])];
        let mut led = entry();
        // Both gateways start the server; both write to one file.
        led["args"][1] = homes[0].path("ledger.txt").display().to_string().into();
        for home in &homes {
            home.configure(settings.clone(), &[("led", led.clone()), ("mail", mail.entry())]);
        }
        let (root, _) = make_token(&homes[0], None, "root", &["--groups", "admin"]);
        let (ann, _) = make_token(&homes[0], None, "ann", &[]);
        let (bob, _) = make_token(&homes[0], None, "bob", &["--groups", "leads"]);
        let (mut a, mut b) = tokio::join!(homes[0].start(), homes[1].start());
        for gateway in [&mut a, &mut b] {
            gateway.headers = bearer(&root);
            gateway.connected(&["led", "mail"]).await;
        }
        Some(Self { homes, gateways: [a, b], _mail: mail, database, root, ann, bob })
    }

    fn http(&self, gateway: usize, token: &str) -> Http {
        Http::new(self.gateways[gateway].address).sending(&bearer(token))
    }

    fn entries(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.homes[0].path("ledger.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A number that no other test of this process has.
pub fn unique() -> u128 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_nanos() + u128::from(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The only held call that waits, as this gateway sees it.
async fn pending(http: &Http) -> String {
    let found = poll(TEST_TIMEOUT, || async {
        let held = http.get_json("/approvals?state=pending").await;
        Some(held["approvals"].as_array()?.first()?["id"].as_str()?.to_owned())
    });
    found.await.expect("a held call")
}

#[tokio::test]
async fn a_call_that_waits_on_one_gateway_is_approved_on_the_other() {
    let Some(pair) = GatewayPair::start().await else { return };
    let (ann, bob) = (pair.http(0, &pair.ann), pair.http(1, &pair.bob));
    let mut slowest = Duration::ZERO;
    for text in ["first", "second", "third"] {
        let body = json!({ "arguments": { "text": text }, "wait": 20 }).to_string();
        let waiting = async {
            let answer = ann.post_json("/tools/led_write_entry/call", &body).await;
            (answer, Instant::now())
        };
        let deciding = async {
            let id = pending(&bob).await;
            let began = Instant::now();
            let (status, held) = bob.post_json(&format!("/approvals/{id}/approve"), "").await;
            assert_eq!((status, &held["decided_by"]), (200, &json!("bob")), "{held}");
            (id, began)
        };
        let (((status, answer), answered), (id, began)) = tokio::join!(waiting, deciding);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(over(&bob, &id).await["state"], "done");
        slowest = slowest.max(answered.duration_since(began));
    }
    // Includes the call itself, by an unoptimised program on a busy machine; without notices it takes a second.
    assert!(slowest < Duration::from_millis(800), "{slowest:?}");
    assert_eq!(pair.entries(), ["first by ann", "second by ann", "third by ann"]);

    // A rejection reaches the waiting client, too.
    let body = json!({ "arguments": { "text": "never" }, "wait": 20 }).to_string();
    let waiting = ann.post_json("/tools/led_write_entry/call", &body);
    let rejecting = async {
        let id = pending(&bob).await;
        bob.post_json(&format!("/approvals/{id}/reject"), "").await
    };
    let ((status, problem), _) = tokio::join!(waiting, rejecting);
    assert_eq!((status, &problem["code"]), (403, &json!("call.rejected")), "{problem}");
    assert_eq!(pair.entries().len(), 3);

    // Both gateways have written to one audit.
    for gateway in [0, 1] {
        let verified = read(&run(&pair.homes[gateway], &["audit", "verify", "--json"], Some(&pair.root)));
        assert_eq!(verified["first_bad"], Value::Null, "{verified}");
    }
    let rows = |gateway: usize| {
        let http = pair.http(gateway, &pair.root);
        async move { http.get_json("/audit?kind=decision").await["rows"].clone() }
    };
    assert!(rows(0).await.as_array().map(Vec::len) >= Some(4));
    assert_eq!(rows(0).await, rows(1).await);
}

#[tokio::test]
async fn tokens_letters_and_lists_are_the_same_on_both_gateways() {
    let Some(pair) = GatewayPair::start().await else { return };
    // A token that is created through one gateway is valid at the other at once, and is revoked there, too.
    let (cat, id) = make_token(&pair.homes[0], Some(&pair.root), "cat", &[]);
    assert_eq!(pair.http(1, &cat).get_json("/me").await["user"], "cat");
    let revoked = run(&pair.homes[0], &["tokens", "revoke", &id], Some(&pair.root));
    assert!(revoked.status.success(), "{revoked:?}");
    let refused = poll(TEST_TIMEOUT, || async {
        (pair.http(1, &cat).get_json("/me").await["user"] != "cat").then_some(())
    });
    refused.await.expect("the token is refused");

    let (status, problem) =
        pair.http(0, &pair.ann).post_json("/tools/mail_send_note/call", r#"{"arguments":{}}"#).await;
    assert_eq!(status, 502, "{problem}");
    let letters = pair.http(1, &pair.ann).get_json("/dead-letters").await;
    assert_eq!(letters["dead_letters"].as_array().map(Vec::len), Some(1), "{letters}");

    for era in [TestEra::Modern, TestEra::Legacy] {
        let headers = bearer(&pair.ann);
        let a = TestClient::with_headers(era, pair.gateways[0].address, "/mcp", &headers).await;
        let b = TestClient::with_headers(era, pair.gateways[1].address, "/mcp", &headers).await;
        assert_eq!(a.list_text("tools/list").await, b.list_text("tools/list").await, "{era:?}");
    }
    assert_eq!(pair.http(0, &pair.ann).get_json("/ready").await["status"], "ready");
    assert!(!pair.gateways[0].log().contains(&pair.database));
}

#[tokio::test]
async fn console_session_of_one_gateway_is_valid_on_the_other_until_it_ends() {
    let Some(pair) = GatewayPair::start().await else { return };
    let [a, b] = &pair.gateways;
    let here = ConsoleTab::sign_in(a, Http::new(a.address), &pair.ann).await;
    let there = here.moved_to(b);
    assert_eq!(there.me().await.1["user"], "ann");
    let (status, forged) = there.send(Method::DELETE, "/console/session", &[], "").await;
    assert_eq!((status, &forged["code"]), (403, &json!("auth.csrf")), "{forged}");
    let (status, out) =
        there.send(Method::DELETE, "/console/session", &[("x-toolbooth-csrf", &*here.csrf)], "").await;
    assert_eq!((status, &out["session"]), (200, &Value::Null), "{out}");
    assert_eq!(
        (here.me().await.0, there.me().await.0),
        (401, 401),
        "the end of a session is at once its end on both"
    );
}

#[tokio::test]
async fn a_client_moves_in_the_middle_of_a_question() {
    let Some(pair) = GatewayPair::start().await else { return };
    let headers = bearer(&pair.ann);
    let capabilities = json!({ "elicitation": {} });
    let client = async |gateway: usize| {
        let address = pair.gateways[gateway].address;
        TestClient::with_revision(MODERN, address, "/mcp", &headers, capabilities.clone()).await
    };
    for (decision, expected) in [("approve", false), ("reject", true)] {
        let params = json!({ "name": "led_read_entries", "arguments": {} });
        let asked = client(0).await.start("tools/call", params.clone()).await.finish().await;
        assert_eq!(asked.result()["resultType"], "input_required", "{}", asked.answer);
        let key = asked.result()["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let mut answer = params;
        answer["requestState"] = asked.result()["requestState"].clone();
        answer["inputResponses"] =
            json!({ key: { "action": "accept", "content": { "decision": decision } } });
        let done = client(1).await.start("tools/call", answer.clone()).await.finish().await;
        assert_eq!(done.result()["isError"].as_bool().unwrap_or(false), expected, "{}", done.answer);
        // The state is usable once, on all gateways together.
        for gateway in [0, 1] {
            let again = client(gateway).await.start("tools/call", answer.clone()).await.finish().await;
            assert_eq!(again.code(), Some(-32602), "{}", again.answer);
        }
    }
}

#[tokio::test]
async fn a_held_call_outlives_the_gateway_that_held_it() {
    let Some(pair) = GatewayPair::start().await else { return };
    let body = json!({ "arguments": { "text": "kept" }, "wait": 0 }).to_string();
    let (status, answer) = pair.http(0, &pair.ann).post_json("/tools/led_write_entry/call", &body).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["held"].as_str().unwrap().to_owned();
    let GatewayPair { homes, gateways: [a, b], bob, _mail, .. } = pair;
    a.kill().await;
    let bob = Http::new(b.address).sending(&bearer(&bob));
    let (status, held) = bob.post_json(&format!("/approvals/{id}/approve"), "").await;
    assert_eq!(status, 200, "{held}");
    assert_eq!(over(&bob, &id).await["state"], "done");
    let written = std::fs::read_to_string(homes[0].path("ledger.txt")).unwrap_or_default();
    assert_eq!(written.trim_end(), "kept by ann");
}

#[tokio::test]
async fn a_run_that_waits_on_one_gateway_is_cancelled_on_the_other() {
    let Some(pair) = GatewayPair::start().await else { return };
    let (here, there, bob) = (pair.http(0, &pair.ann), pair.http(1, &pair.ann), pair.http(0, &pair.bob));
    let plan = json!([{ "id": "write", "tool": "led_write_entry", "arguments": { "text": "never" } }]);
    let (status, job) = here.post_json("/jobs", &json!({ "name": "note", "plan": plan }).to_string()).await;
    assert_eq!(status, 201, "{job}");
    let (status, run) = here.post_json("/jobs/note/run", "{}").await;
    assert_eq!(status, 202, "{run}");
    let path = format!("/jobs/note/runs/{}", run["id"].as_str().unwrap());
    let waits = poll(TEST_TIMEOUT, || async {
        let run = there.get_json(&path).await;
        (run["status"] == "waiting").then_some(())
    });
    waits.await.expect("the run waits");
    let held = pending(&bob).await;
    let cancelled = json!({ "target_status": "cancelled" }).to_string();
    let (status, job) = there.post_json("/jobs/note/transition", &cancelled).await;
    assert_eq!((status, &job["status"]), (200, &json!("cancelled")), "{job}");
    let (status, late) = bob.post_json(&format!("/approvals/{held}/approve"), "").await;
    assert_eq!((status, &late["code"]), (409, &json!("call.already-decided")), "{late}");
    let ended = bob.get_json(&format!("/approvals/{held}")).await;
    assert_eq!((&ended["state"], &ended["decided_by"]), (&json!("rejected"), &json!("ann")), "{ended}");
    assert!(pair.entries().is_empty());
}

#[tokio::test]
async fn a_session_is_not_given_to_another_user_of_another_gateway() {
    let Some(pair) = GatewayPair::start().await else { return };
    let client = async |gateway: usize, token: &str| {
        let address = pair.gateways[gateway].address;
        TestClient::with_headers(TestEra::Legacy, address, "/mcp", &bearer(token)).await
    };
    let (ann, bob) = (client(0, &pair.ann).await, client(1, &pair.bob).await);
    let session = ann.session().expect("a session");
    let foreign = bob.with_session(session);
    assert_eq!(foreign.start("ping", json!({})).await.status(), 404);
    assert_eq!(foreign.end().await, 404);
    let moved = ann.moved_to(pair.gateways[1].address);
    assert_eq!(moved.start("ping", json!({})).await.status(), 200);
    // The gateway knows the session now, and it still belongs to its user.
    assert_eq!(foreign.start("ping", json!({})).await.status(), 404);
}
