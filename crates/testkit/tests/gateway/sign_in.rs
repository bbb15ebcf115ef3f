//! Servers that want the gateway to be signed in: what is said of them, how somebody signs in, and how long that lasts.

use hyper::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::gatehouse::Tally;
use toolbooth_testkit::world::{Gatehouse, Gateway, Home, Http, binaries};

/// Splits an address into where to connect and what to ask for there.
fn place(url: &str) -> (SocketAddr, &str) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("no address: {url}"));
    let slash = rest.find('/').unwrap();
    (rest[..slash].parse().unwrap(), &rest[slash..])
}

/// Goes where a browser would go, with the redirect at the end.
async fn browse(url: &str) {
    let (address, path) = place(url);
    let reply = Http::new(address).send(Method::GET, path, &[], "").await;
    assert_eq!(reply.status, 302, "{url}");
    let home = reply.header("location").unwrap().to_owned();
    let (address, path) = place(&home);
    // Somebody else on this machine knocks first, and is sent away.
    let forged = Http::new(address).send(Method::GET, "/callback?code=forged&state=forged", &[], "").await;
    assert_eq!(forged.status, 404);
    let reply = Http::new(address).send(Method::GET, path, &[], "").await;
    assert_eq!(reply.status, 200);
}

/// A command about the guarded server, in this home.
fn servers(home: &Home, action: &str) -> Command {
    let mut command = Command::new(binaries::toolbooth());
    command.args(["servers", action, "guarded", "--config"]).arg(home.config());
    command.arg("--data-dir").arg(home.data()).env_clear().env("HOME", home.path(""));
    command.current_dir(home.path(""));
    command
}

/// Runs `servers login` as a person does, and follows the page it prints.
async fn login(home: &Home) -> Output {
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

async fn call(gateway: &Gateway) -> (u16, Value) {
    gateway.http().post_json("/tools/guarded_take/call", r#"{"arguments":{}}"#).await
}

#[tokio::test]
async fn a_sign_in_connects_the_server_outlives_the_gateway_is_renewed_and_can_be_forgotten() {
    for era in [Era::Modern, Era::Legacy] {
        let house = Gatehouse::start(era).await;
        let home = Home::new(&[("guarded", house.entry())]);
        let gateway = home.start().await;
        gateway.reaches("guarded", "needs_auth").await;
        let server = gateway.server("guarded").await;
        assert_eq!(server["code"], "server.needs-auth");
        assert_eq!(server["hint"], "`toolbooth servers login guarded` signs in");
        assert_eq!(house.tally(), Tally::default(), "nothing is registered before somebody wants it");

        let done = login(&home).await;
        assert!(done.status.success(), "{}", text(&done));
        assert!(text(&done).contains("guarded: connected"), "{}", text(&done));
        assert_eq!(gateway.server("guarded").await["state"], "connected");
        assert_eq!(call(&gateway).await.0, 200);
        assert_eq!(sign_in_rows(&gateway).await, [outcome("signed-in", "")]);
        let expected = Tally { registrations: 1, logins: 1, renewals: 0 };
        assert_eq!(house.tally(), expected);
        let sealed = std::fs::read_to_string(home.data().join("oauth/guarded.sealed")).unwrap();
        let shown = gateway.server("guarded").await.to_string();
        assert!(!Gatehouse::is_token(&(sealed + &gateway.log() + &shown + &text(&done))));
        gateway.stop().await;

        let gateway = home.start().await;
        gateway.connected(&["guarded"]).await;
        assert_eq!(house.tally(), expected, "the tokens of before still serve");
        house.expire();
        assert_eq!(call(&gateway).await.0, 200, "{}", gateway.log());
        assert_eq!(house.tally(), Tally { renewals: 1, ..expected });

        let gone = tokio::process::Command::from(servers(&home, "logout")).output().await.unwrap();
        assert!(gone.status.success(), "{}", text(&gone));
        assert!(text(&gone).contains("needs_auth"), "{}", text(&gone));
        assert_eq!(gateway.server("guarded").await["state"], "needs_auth");
        assert_ne!(call(&gateway).await.0, 200);
        assert!(!home.data().join("oauth/guarded.sealed").exists());
        assert_eq!(sign_in_rows(&gateway).await, [outcome("signed-out", ""), outcome("signed-in", "")]);
        assert!(!Gatehouse::is_token(&gateway.log()));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_sign_in_without_a_gateway_is_there_when_one_starts() {
    let house = Gatehouse::start(Era::Modern).await;
    let home = Home::new(&[("guarded", house.entry())]);
    let done = login(&home).await;
    assert!(done.status.success(), "{}", text(&done));
    let gateway = home.start().await;
    gateway.connected(&["guarded"]).await;
    assert_eq!(house.tally(), Tally { registrations: 1, logins: 1, renewals: 0 });
    // Signing in once more, to another account for example, works on a server that is connected.
    let again = login(&home).await;
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(house.tally().logins, 2);
    assert_eq!(call(&gateway).await.0, 200);
}

#[tokio::test]
async fn a_sign_in_that_is_denied_or_cannot_be_says_so() {
    let house = Gatehouse::start(Era::Modern).await;
    let open = json!({ "bundled": "demo" });
    let home = Home::new(&[("guarded", house.entry()), ("open", open)]);
    let gateway = home.start().await;
    house.deny();
    let denied = login(&home).await;
    assert_eq!(denied.status.code(), Some(1), "{}", text(&denied));
    assert!(text(&denied).contains("oauth.denied"), "{}", text(&denied));
    assert_eq!(sign_in_rows(&gateway).await, [outcome("failed", "oauth.denied")]);
    gateway.reaches("guarded", "needs_auth").await;
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
