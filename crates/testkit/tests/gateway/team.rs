//! `examples/team`, walked through as `docs/guide/teams.md` describes it: from nothing to tokens, groups, personas and
//! approvals.

use crate::issuer::{Provider, Signer};
use crate::ledger::over;
use crate::token_users::{bearer, read};
use ::http::Method;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, Http, TestClient, binaries};

/// A folder for the data of a gateway with the files of the example.
struct Team {
    home: Home,
    files: Vec<PathBuf>,
    environment: Vec<(&'static str, String)>,
}

impl Team {
    fn new(files: &[&str], environment: Vec<(&'static str, String)>) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/team");
        let files = files.iter().map(|file| folder.join(file)).collect();
        Self { home: Home::new(&[]), files, environment }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binaries::toolbooth());
        command.args(words).arg("--data-dir").arg(self.home.data()).args(["--set", "exposure.mode=full"]);
        for file in &self.files {
            command.arg("--config").arg(file);
        }
        command.env_clear().current_dir(self.home.path("")).env("HOME", self.home.path(""));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    async fn start(&self) -> Gateway {
        Gateway::start(self.command(&["serve"]), &self.home.path("gateway.log")).await
    }

    /// Creates a token as the operator does, over the control socket.
    fn token(&self, user: &str) -> String {
        let made = read(&self.run(&["tokens", "create", "--user", user, "--json"]));
        made["token"].as_str().unwrap_or_else(|| panic!("no token in {made}")).to_owned()
    }
}

/// The tools of the example's servers that a caller sees at this path.
async fn tools(gateway: &Gateway, path: &str, token: &str) -> Vec<String> {
    let client = TestClient::with_headers(TestEra::Modern, gateway.address, path, &bearer(token)).await;
    let mut names = client.names("tools/list", "tools").await;
    names.retain(|name| name.starts_with("demo_") || name.starts_with("records_"));
    names.sort();
    names
}

#[tokio::test]
async fn team_goes_from_nothing_to_approvals() {
    let team = Team::new(&["toolbooth.toml"], Vec::new());
    let mut gateway = team.start().await;
    let anonymous = Http::new(gateway.address);
    assert_eq!(anonymous.send(Method::GET, "/tools", &[], "").await.status, 401, "a token is needed");

    // The first token: no credential exists yet, so the operator is identified by the control socket.
    let cleo = team.token("cleo");
    gateway.headers = bearer(&cleo);
    gateway.connected(&["demo", "records"]).await;
    let [ann, bob, dan] = ["ann", "bob", "dan"].map(|user| team.token(user));

    // Groups.
    let has = |names: &[String], server: &str| names.iter().any(|name| name.starts_with(server));
    let of_ann = tools(&gateway, "/mcp", &ann).await;
    assert!(has(&of_ann, "records_") && has(&of_ann, "demo_"), "{of_ann:?}");
    let of_dan = tools(&gateway, "/mcp", &dan).await;
    assert!(!has(&of_dan, "records_") && has(&of_dan, "demo_"), "dan is in no group: {of_dan:?}");

    // Personas.
    assert_eq!(tools(&gateway, "/mcp/p/support", &bob).await, ["demo_time", "records_whoami"]);

    // Approvals: ann asks, ann cannot approve, cleo can.
    let http = |token: &str| Http::new(gateway.address).sending(&bearer(token));
    let body = json!({ "arguments": { "title": "first" }, "wait": 0 }).to_string();
    let (status, held) = http(&ann).post_json("/tools/records_create_record/call", &body).await;
    assert_eq!(status, 202, "{held}");
    let id = held["held"].as_str().unwrap();
    let approve = format!("/approvals/{id}/approve");
    let (status, refused) = http(&ann).post_json(&approve, "").await;
    assert_eq!((status, &refused["code"]), (403, &json!("approval.not-yours")));
    assert_eq!(http(&bob).post_json(&approve, "").await.0, 404, "a call of another user is unknown");
    assert_eq!(http(&cleo).post_json(&approve, "").await.0, 200);
    let done = over(&http(&cleo), id).await;
    assert_eq!((&done["state"], &done["decided_by"]), (&json!("done"), &json!("cleo")), "{done}");
    let result = done["outcome"]["result"].to_string();
    assert!(result.contains("first") && result.contains("ann"), "it ran as ann: {result}");

    // The record of all this.
    assert!(team.run(&["audit", "verify"]).status.success());
    let rows = http(&cleo).get_json("/audit?kind=decision").await;
    assert!(rows["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{rows}");
    let (status, _) = gateway.stop().await;
    assert!(status.success());
    let log = std::fs::read_to_string(team.home.data().join("access.log")).unwrap();
    assert!(log.contains(r#""caller":"ann""#) && !log.contains(&ann), "{log}");
}

#[tokio::test]
async fn team_signs_in_with_an_identity_provider() {
    let signer = Signer::new("one");
    let provider = Provider::start(&signer).await;
    let environment = vec![("ISSUER", provider.url.clone()), ("AUDIENCE", "team".to_owned())];
    let team = Team::new(&["toolbooth.toml", "sso.toml"], environment);
    let gateway = team.start().await;
    let http = |user: &str, groups: &[&str]| {
        let claims = json!({ "aud": "team", "preferred_username": user, "groups": groups });
        Http::new(gateway.address).sending(&bearer(&signer.token(&provider.url, claims)))
    };
    let eva = http("eva", &["leads", "admin"]).get_json("/me").await;
    assert_eq!(
        (&eva["user"], &eva["admin"]),
        (&json!("eva"), &json!(true)),
        "groups come from the provider: {eva}"
    );
    let ann = http("ann", &[]).get_json("/me").await;
    assert_eq!(ann["groups"], json!(["staff"]), "and from the configuration");
    assert_eq!(Http::new(gateway.address).send(Method::GET, "/me", &[], "").await.status, 401);
}

#[tokio::test]
async fn team_signs_in_through_a_proxy() {
    let secret = "a long and winding word";
    let team = Team::new(&["toolbooth.toml", "proxy.toml"], vec![("PROXY_SECRET", secret.to_owned())]);
    let gateway = team.start().await;
    let http = Http::new(gateway.address);
    let named = [("x-user-email", "ann"), ("x-proxy-secret", secret)];
    let reply = http.send(Method::GET, "/me", &named, "").await;
    assert_eq!(reply.json().await["user"], "ann");
    assert_eq!(http.send(Method::GET, "/me", &named[..1], "").await.status, 401, "without the secret");
}
