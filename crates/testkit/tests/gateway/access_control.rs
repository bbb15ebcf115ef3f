//! Access control: other local users, pages in a browser, guessed credentials.

use crate::token_users::{TokenUsers, bearer, make_token, read, recorded, run};
use ::http::Method;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use toolbooth_testkit::world::client::{modern_body, modern_headers};
use toolbooth_testkit::world::{Gateway, Home, Http};

/// A local user without rights.
const UNPRIVILEGED: u32 = 65_534;
/// The user `daemon`.
const DAEMON: u32 = 1;

/// Whether tests can act as other users; prints a notice if they cannot.
fn can_be_others() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can ask as another user");
    }
    root
}

/// Runs `curl` as a local user; returns the status and the body.
fn curl(uid: u32, arguments: &[&str]) -> (u16, Value) {
    let output = Command::new("curl")
        .args(["-s", "-m", "20", "-w", "\n%{http_code}"])
        .args(arguments)
        .uid(uid)
        .gid(uid)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", "0"));
    (status.parse().unwrap_or(0), serde_json::from_str(body).unwrap_or_default())
}

// H6: in local mode every local user was owner and administrator.
#[tokio::test]
async fn other_local_users_are_refused() {
    if !can_be_others() {
        return;
    }
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let url = |path: &str| format!("http://{}{path}", gateway.address);
    assert_eq!(curl(0, &[&url("/me")]).1["admin"], true);
    for path in ["/me", "/health", "/mcp", "/openapi.json"] {
        let (status, problem) = curl(UNPRIVILEGED, &[&url(path)]);
        assert_eq!((status, problem["code"].as_str()), (403, Some("auth.other-user")), "{path} {problem}");
    }
    let token = r#"{"user":"evil","groups":["admin"]}"#;
    let (status, _) =
        curl(UNPRIVILEGED, &["-H", "content-type: application/json", "-d", token, &url("/tokens")]);
    assert_eq!(status, 403);
    assert_eq!(gateway.http().get_json("/tokens").await["tokens"], json!([]));
    // Both requests of one connection, and from any local address.
    let (status, _) = curl(UNPRIVILEGED, &[&url("/me"), &url("/me")]);
    assert_eq!(status, 403);
    assert_eq!(curl(UNPRIVILEGED, &["--interface", "127.0.0.7", &url("/me")]).0, 403);
    let row = recorded(&gateway.http(), "auth.other-user").await;
    assert_eq!(row["detail"]["source"], "uid 65534", "{row}");
}

// H6: the gateway of an unprivileged user admits that user and root.
#[tokio::test]
async fn gateway_accepts_its_own_user_and_root() {
    if !can_be_others() {
        return;
    }
    for (users, third) in [("own", 403), ("any", 200)] {
        let home = Home::with_settings(json!({ "auth": { "local_users": users } }), &[]);
        // A copy that this user can run, independent of the build folder.
        let program = home.path("toolbooth");
        let serve = home.command("serve");
        fs::copy(serve.get_program(), &program).expect("a copy");
        give(&home.path(""), UNPRIVILEGED);
        let mut command = Command::new(program);
        command.args(serve.get_args()).env_clear().current_dir(home.path(""));
        command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        let gateway = Gateway::start(command, &home.path("gateway.log")).await;
        let url = format!("http://{}/me", gateway.address);
        for (uid, expected) in [(UNPRIVILEGED, 200), (0, 200), (DAEMON, third)] {
            assert_eq!(curl(uid, &[&url]).0, expected, "{users} {uid}");
        }
    }
}

/// Changes the owner of a folder and its contents.
fn give(path: &Path, uid: u32) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        give(&entry.path(), uid);
    }
    chown(path, Some(uid), Some(uid)).expect("tests run as root");
}

// H6: in every mode the operator's own commands administer the gateway, and other users' commands do not.
#[tokio::test]
async fn local_operator_can_create_the_first_token() {
    let home = Home::with_settings(json!({ "auth": { "mode": "token" } }), &[]);
    let gateway = home.start().await;
    let http = gateway.http();
    assert_eq!(http.send(Method::GET, "/tokens", &[], "").await.status, 401, "over the network");
    let (token, id) = make_token(&home, None, "ann", &["--groups", "admin"]);
    let ann = Http::new(gateway.address).sending(&bearer(&token));
    assert_eq!(ann.get_json("/me").await["user"], "ann");
    let listed = read(&run(&home, &["tokens", "list", "--json"], None));
    assert_eq!(listed["tokens"][0]["id"], id.as_str());
    // A token identifies its user, also on the operator's own machine.
    let (guest, _) = make_token(&home, None, "guest", &[]);
    let refused = run(&home, &["tokens", "list", "--json"], Some(&guest));
    assert_eq!(refused.status.code(), Some(3), "{}", String::from_utf8_lossy(&refused.stderr));

    let socket = home.data().join("control.sock");
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
    let asked = ["--unix-socket", socket.to_str().unwrap(), "http://localhost/tokens"];
    assert_eq!(curl(nix::unistd::geteuid().as_raw(), &asked).0, 200);
    if can_be_others() {
        assert_eq!(curl(UNPRIVILEGED, &asked).0, 0, "refused by the file mode of the socket");
        for path in [home.path(""), home.data(), socket.clone()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        assert_eq!(curl(UNPRIVILEGED, &asked).0, 0, "refused by the peer's user id");
        recorded(&ann, "auth.other-user").await;
    }
}

// H8: a web page on any loopback port could call tools.
#[allow(clippy::type_complexity, reason = "the table of one test")]
#[tokio::test]
async fn page_of_another_origin_cannot_call_tools() {
    let settings = json!({ "allowed_origins": ["http://localhost:6274"] });
    let home = Home::with_settings(settings, &[("demo", json!({ "bundled": "demo" }))]);
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let http = gateway.http();
    let own = format!("http://{}", gateway.address);
    let call = ("POST", "/tools/demo_hash/call", r#"{"arguments":{"text":"x"}}"#);
    let refresh = ("POST", "/registry/refresh", "");
    let json_type = ("content-type", "application/json");
    let cases: [(&str, (&str, &str, &str), &[(&str, &str)], u16, Option<&str>); 14] = [
        ("a program", call, &[json_type], 200, None),
        ("with a charset", call, &[("content-type", "application/json; charset=utf-8")], 200, None),
        ("a page of ours", call, &[json_type, ("origin", &own)], 200, None),
        ("a page that is allowed", call, &[json_type, ("origin", "http://localhost:6274")], 200, None),
        (
            "a page on another port, as text",
            call,
            &[("content-type", "text/plain"), ("origin", "http://localhost:9999")],
            403,
            Some("request.bad-origin"),
        ),
        (
            "a page on another port",
            call,
            &[json_type, ("origin", "http://127.0.0.1:9999")],
            403,
            Some("request.bad-origin"),
        ),
        ("as text", call, &[("content-type", "text/plain")], 415, Some("request.not-json")),
        (
            "as a form",
            call,
            &[("content-type", "application/x-www-form-urlencoded")],
            415,
            Some("request.not-json"),
        ),
        (
            "as something like JSON",
            call,
            &[("content-type", "application/jsonx")],
            415,
            Some("request.not-json"),
        ),
        ("without a kind", call, &[], 415, Some("request.not-json")),
        ("no body", refresh, &[], 200, None),
        (
            "no body, from a page of the same host",
            refresh,
            &[("sec-fetch-site", "same-site")],
            403,
            Some("request.bad-origin"),
        ),
        (
            "a deletion from a page elsewhere",
            ("DELETE", "/tokens/none", ""),
            &[("sec-fetch-site", "cross-site")],
            403,
            Some("request.bad-origin"),
        ),
        (
            "a script tag elsewhere",
            ("GET", "/tools", ""),
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
            403,
            Some("request.bad-origin"),
        ),
    ];
    for (what, (method, path, body), headers, status, code) in cases {
        let reply = http.send(method.parse().unwrap(), path, headers, body).await;
        let found = reply.status;
        let answer = reply.json().await;
        assert_eq!((found, answer["code"].as_str()), (status, code), "{what}: {answer}");
    }
    let row = recorded(&http, "request.bad-origin").await;
    assert_eq!(row["detail"]["source"], format!("uid {}", nix::unistd::geteuid()), "{row}");
    let foreign = http.send(Method::GET, "/tools", &[("host", "evil.example")], "").await;
    assert_eq!(foreign.status, 403);
    recorded(&http, "request.bad-host").await;
}

// audit: token guessing was not slowed (4,000 in half a second) and left no event.
#[tokio::test]
async fn credential_guessing_is_rate_limited_and_recorded() {
    let known = TokenUsers::start().await;
    let address = known.gateway.address;
    let guess = async |number: usize| {
        let shown = bearer(&format!("tb_guess{number}"));
        Http::new(address).sending(&shown).send(Method::GET, "/me", &[], "").await
    };
    let mut statuses = Vec::new();
    for number in 0..60 {
        let reply = guess(number).await;
        if reply.status == 429 {
            assert!(reply.header("retry-after").is_some_and(|wait| wait.parse::<u64>().is_ok()));
            assert_eq!(reply.json().await["code"], "auth.too-many-attempts");
            statuses.push(429);
        } else {
            statuses.push(reply.status);
        }
    }
    let checked = statuses.iter().filter(|status| **status == 401).count();
    assert!((20..40).contains(&checked), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    // A valid credential is accepted at its first use, regardless of other clients with the same address.
    let first = Http::new(address).sending(&bearer(&known.cat)).send(Method::GET, "/me", &[], "").await;
    assert_eq!(first.status, 200);
    let root = Http::new(address).sending(&bearer(&known.root));
    assert_eq!(root.send(Method::GET, "/me", &[], "").await.status, 200);
    let row = recorded(&root, "auth.refused").await;
    let source = format!("uid {}", nix::unistd::geteuid());
    assert_eq!((row["detail"]["source"].as_str(), row["user"].as_str()), (Some(&*source), Some("")));
    recorded(&root, "auth.too-many-attempts").await;
    let rows = root.get_json("/audit?kind=refusal").await;
    assert!(rows["rows"].as_array().unwrap().len() < 10, "too many rows for a flood: {rows}");
    assert!(!rows.to_string().contains("guess"), "a credential is in the audit");
}

// audit: no event or audit row for a header/body mismatch or a wrong proxy secret.
#[tokio::test]
async fn header_mismatches_and_wrong_secrets_are_recorded() {
    let secret = "a-secret-that-is-long-enough-0123456789";
    let settings = json!({
        "auth": { "mode": "header", "header": { "secret": secret } }, "groups": { "admin": ["root"] },
    });
    let home = Home::with_settings(settings, &[]);
    let gateway = home.start().await;
    let shown = |secret: &str| {
        vec![("x-user-email".to_owned(), "root".to_owned()), ("x-proxy-secret".to_owned(), secret.to_owned())]
    };
    let root = Http::new(gateway.address).sending(&shown(secret));
    let wrong = Http::new(gateway.address).sending(&shown("a-guess-that-is-long-enough-0123456789"));
    assert_eq!(wrong.send(Method::GET, "/me", &[], "").await.status, 401);
    recorded(&root, "auth.refused").await;
    let (headers, body) = (modern_headers("prompts/list"), modern_body("tools/list", json!({})));
    assert_eq!(root.send(Method::POST, "/mcp", &headers, body).await.status, 400);
    let row = recorded(&root, "request.header-mismatch").await;
    assert_eq!(row["user"], "root");
}
