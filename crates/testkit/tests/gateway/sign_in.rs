//! OAuth sign-in of the gateway to servers: status, sign-in, renewal and sign-out.

use hyper::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::oauth_server::OAuthCounts;
use toolbooth_testkit::world::{Gateway, Home, Http, OAuthServer, binaries};

/// Splits a URL into the socket address and the path.
fn place(url: &str) -> (SocketAddr, &str) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("not an HTTP URL: {url}"));
    let slash = rest.find('/').unwrap();
    (rest[..slash].parse().unwrap(), &rest[slash..])
}

/// Follows the sign-in as a browser does, including the redirect.
async fn browse(url: &str) {
    let (address, path) = place(url);
    let reply = Http::new(address).send(Method::GET, path, &[], "").await;
    assert_eq!(reply.status, 302, "{url}");
    let home = reply.header("location").unwrap().to_owned();
    let (address, path) = place(&home);
    // A forged callback from another local process is refused.
    let forged = Http::new(address).send(Method::GET, "/callback?code=forged&state=forged", &[], "").await;
    assert_eq!(forged.status, 404);
    let reply = Http::new(address).send(Method::GET, path, &[], "").await;
    assert_eq!(reply.status, 200);
}

/// A `servers` command for the guarded server.
pub fn servers(home: &Home, action: &str) -> Command {
    let mut command = Command::new(binaries::toolbooth());
    command.args(["servers", action, "guarded", "--config"]).arg(home.config());
    command.arg("--data-dir").arg(home.data()).env_clear().env("HOME", home.path(""));
    command.current_dir(home.path(""));
    command
}

/// Runs `servers login` and opens the URL that it prints.
pub async fn login(home: &Home) -> Output {
    let mut command = servers(home, "login");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        said.push_str(&line);
        said.push('\n');
        if let Some(url) = line.trim().strip_prefix("http://") {
            browse(&format!("http://{url}")).await;
        }
    }
    let mut stderr = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut stderr).await.unwrap();
    Output { status: child.wait().await.unwrap(), stdout: said.into_bytes(), stderr }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The audit rows of sign-ins to the guarded server, newest first: outcome and code.
async fn sign_in_rows(gateway: &Gateway) -> Vec<(String, String)> {
    let page = gateway.http().get_json("/audit?kind=login").await;
    let rows = page["rows"].as_array().unwrap_or_else(|| panic!("{page}"));
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    for row in rows {
        assert_eq!(text(row, "server"), "guarded", "{row}");
        assert!(!text(row, "by").is_empty(), "{row}");
    }
    rows.iter().map(|row| (text(row, "outcome"), text(row, "code"))).collect()
}

fn outcome(outcome: &str, code: &str) -> (String, String) {
    (outcome.to_owned(), code.to_owned())
}

pub async fn call(gateway: &Gateway) -> (u16, Value) {
    gateway.http().post_json("/tools/guarded_take/call", r#"{"arguments":{}}"#).await
}

#[tokio::test]
async fn sign_in_connects_survives_a_restart_is_renewed_and_can_be_removed() {
    for era in [TestEra::Modern, TestEra::Legacy] {
        let oauth = OAuthServer::start(era).await;
        let home = Home::new(&[("guarded", oauth.entry())]);
        let gateway = home.start().await;
        gateway.wait_for_state("guarded", "needs_auth").await;
        let server = gateway.server("guarded").await;
        assert_eq!(server["code"], "server.needs-auth");
        assert_eq!(server["hint"], "`toolbooth servers login guarded` signs in");
        assert_eq!(
            oauth.counts(),
            OAuthCounts::default(),
            "no client is registered before the first sign-in"
        );

        let done = login(&home).await;
        assert!(done.status.success(), "{}", text(&done));
        assert!(text(&done).contains("guarded: connected"), "{}", text(&done));
        assert_eq!(gateway.server("guarded").await["state"], "connected");
        assert_eq!(call(&gateway).await.0, 200);
        assert_eq!(sign_in_rows(&gateway).await, [outcome("signed-in", "")]);
        let expected = OAuthCounts { registrations: 1, logins: 1, renewals: 0 };
        assert_eq!(oauth.counts(), expected);
        let sealed = std::fs::read_to_string(home.data().join("oauth/guarded.sealed")).unwrap();
        let shown = gateway.server("guarded").await.to_string();
        assert!(!OAuthServer::is_token(&(sealed + &gateway.log() + &shown + &text(&done))));
        gateway.stop().await;

        let gateway = home.start().await;
        gateway.connected(&["guarded"]).await;
        assert_eq!(oauth.counts(), expected, "the stored tokens are used");
        oauth.expire();
        assert_eq!(call(&gateway).await.0, 200, "{}", gateway.log());
        assert_eq!(oauth.counts(), OAuthCounts { renewals: 1, ..expected });

        let gone = tokio::process::Command::from(servers(&home, "logout")).output().await.unwrap();
        assert!(gone.status.success(), "{}", text(&gone));
        assert!(text(&gone).contains("needs_auth"), "{}", text(&gone));
        assert_eq!(gateway.server("guarded").await["state"], "needs_auth");
        assert_ne!(call(&gateway).await.0, 200);
        assert!(!home.data().join("oauth/guarded.sealed").exists());
        assert_eq!(sign_in_rows(&gateway).await, [outcome("signed-out", ""), outcome("signed-in", "")]);
        assert!(!OAuthServer::is_token(&gateway.log()));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn sign_in_without_a_gateway_is_used_at_the_next_start() {
    let oauth = OAuthServer::start(TestEra::Modern).await;
    let home = Home::new(&[("guarded", oauth.entry())]);
    let done = login(&home).await;
    assert!(done.status.success(), "{}", text(&done));
    let gateway = home.start().await;
    gateway.connected(&["guarded"]).await;
    assert_eq!(oauth.counts(), OAuthCounts { registrations: 1, logins: 1, renewals: 0 });
    // A second sign-in, for example to another account, works while the server is connected.
    let again = login(&home).await;
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(oauth.counts().logins, 2);
    assert_eq!(call(&gateway).await.0, 200);
}

#[tokio::test]
async fn failed_sign_in_is_reported() {
    let oauth = OAuthServer::start(TestEra::Modern).await;
    let open = json!({ "bundled": "demo" });
    let home = Home::new(&[("guarded", oauth.entry()), ("open", open)]);
    let gateway = home.start().await;
    oauth.deny();
    let denied = login(&home).await;
    assert_eq!(denied.status.code(), Some(1), "{}", text(&denied));
    assert!(text(&denied).contains("oauth.denied"), "{}", text(&denied));
    assert_eq!(sign_in_rows(&gateway).await, [outcome("failed", "oauth.denied")]);
    gateway.wait_for_state("guarded", "needs_auth").await;
    let cases = [
        ("/servers/open/login", r#"{"redirect_uri":"http://127.0.0.1:1/callback"}"#, "server.no-sign-in"),
        (
            "/servers/guarded/login",
            r#"{"redirect_uri":"https://evil.example/callback"}"#,
            "oauth.bad-redirect",
        ),
        (
            "/servers/guarded/login/finish",
            r#"{"redirect":"http://127.0.0.1:1/callback"}"#,
            "oauth.no-sign-in",
        ),
    ];
    for (path, body, code) in cases {
        let (status, problem) = gateway.http().post_json(path, body).await;
        assert_eq!((status, &problem["code"]), (400, &json!(code)), "{problem}");
    }
}
