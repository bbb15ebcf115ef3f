//! A gateway with token authentication and users who have tokens.

use serde_json::{Value, json};
use std::process::{Command, Output};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, TestClient, binaries, poll};

/// Headers that identify a caller.
pub type CallerHeaders = Vec<(String, String)>;

/// The headers of a bearer.
pub fn bearer(token: &str) -> CallerHeaders {
    vec![("authorization".into(), format!("Bearer {token}"))]
}

/// Runs a command with this configuration; `words` begins with the subcommand.
pub fn run(home: &Home, words: &[&str], token: Option<&str>) -> Output {
    let mut command = Command::new(binaries::toolbooth());
    command.args(words).arg("--config").arg(home.config()).arg("--data-dir").arg(home.data());
    command.env_clear().current_dir(home.path("")).env("HOME", home.path(""));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    if let Some(token) = token {
        command.env("TOOLBOOTH_TOKEN", token);
    }
    command.output().unwrap()
}

/// The JSON that a command printed.
pub fn read(output: &Output) -> Value {
    let errors =
        || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {}", errors()))
}

/// Creates a token; returns its text and its id.
pub fn make_token(home: &Home, by: Option<&str>, user: &str, more: &[&str]) -> (String, String) {
    let words = [&["tokens", "create", "--json", "--user", user], more].concat();
    let made = read(&run(home, &words, by));
    let text = |key: &str| made[key].as_str().unwrap_or_else(|| panic!("no {key} in {made}")).to_owned();
    (text("token"), text("id"))
}

/// Waits for a refusal in the audit and among the events; returns its row.
pub async fn recorded(http: &Http, code: &str) -> Value {
    let found = poll(TEST_TIMEOUT, || async {
        let rows = http.get_json("/audit?kind=refusal").await;
        rows["rows"].as_array()?.iter().find(|row| row["code"] == code).cloned()
    });
    let row = found.await.unwrap_or_else(|| panic!("no refusal {code} in the audit"));
    let events = http.get_json("/events/recent?types=request.refused").await;
    let is_event = events["events"].as_array().unwrap().iter().any(|event| event["code"] == code);
    assert!(is_event, "no event for {code}: {events}");
    row
}

/// A gateway with a server for all users (`open`), one for staff and one for ops (`vault`, with every kind of
/// entry), and a token for each of: root (admin), ann (staff), bob (ops), cat (no group).
pub struct TokenUsers {
    pub home: Home,
    pub gateway: Gateway,
    pub root: String,
    pub ann: (String, String),
    pub bob: String,
    pub cat: String,
}

pub fn settings() -> Value {
    json!({
        "policy": { "consent": "client" },
        "auth": { "mode": "token" },
        "groups": { "staff": ["ann"] },
        "personas": {
            "dev": { "allowed_tools": ["open_ok", "vault.test_simple_prompt"] },
            "all": { "inherit": "shared" },
            "audit": { "allowed_tools": ["*"], "groups": ["auditors"] },
        },
        "compliance": { "levels": [{ "name": "HIPAA", "allowed_with": [] }, { "name": "Public" }] },
    })
}

impl TokenUsers {
    pub async fn start() -> Self {
        let with = |mut entry: Value, key: &str, value: Value| {
            entry[key] = value;
            entry
        };
        let home = Home::with_settings(
            settings(),
            &[
                ("open", with(hostile(&["echo"]), "compliance_level", json!("Public"))),
                ("desk", with(hostile(&["echo"]), "groups", json!(["staff"]))),
                ("vault", with(fixture_on_stdio("modern"), "groups", json!(["ops"]))),
            ],
        );
        // No gateway runs yet: this creates the first administrator's token.
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let mut gateway = home.start().await;
        gateway.headers = bearer(&root);
        gateway.connected(&["open", "desk", "vault"]).await;
        let by = Some(root.as_str());
        let ann = make_token(&home, by, "ann", &["--expires", "1h", "--note", "for a test"]);
        let (bob, _) = make_token(&home, by, "bob", &["--groups", "ops,other"]);
        let (cat, _) = make_token(&home, by, "cat", &[]);
        Self { home, gateway, root, ann, bob, cat }
    }

    pub async fn client(&self, era: TestEra, token: &str) -> TestClient {
        TestClient::with_headers(era, self.gateway.address, "/mcp", &bearer(token)).await
    }

    pub async fn client_at(&self, era: TestEra, path: &str, token: &str) -> TestClient {
        TestClient::with_headers(era, self.gateway.address, path, &bearer(token)).await
    }
}
