//! Trust in project files over REST.

use crate::callers::http_as;
use crate::token_users::{TokenUsers, read, recorded, run};
use ::http::Method;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolbooth_testkit::world::{Gateway, Home, Http, binaries};

fn write(project: &Path, servers: &Value) {
    std::fs::write(project.join(".mcp.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
}

fn entry(word: &str) -> Value {
    json!({ "command": binaries::hostile(), "args": ["echo"], "env": { "WORD": word } })
}

fn request(entries: &[&Value]) -> String {
    let part = |entry: &&Value| {
        let mut part = json!({ "file": entry["file"], "digest": entry["digest"] });
        if let Some(server) = entry["server"].as_str() {
            part["server"] = json!(server);
        }
        part
    };
    json!({ "entries": entries.iter().map(part).collect::<Vec<_>>() }).to_string()
}

pub fn command(home: &Home, project: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binaries::toolbooth());
    command.args(words).arg("--data-dir").arg(home.data());
    command.env_clear().current_dir(project).env("HOME", home.path(""));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A gateway in a project folder with these servers, all of which wait for trust.
async fn start(home: &Home, servers: &Value) -> (Gateway, PathBuf) {
    let project = home.path("project");
    std::fs::create_dir_all(&project).unwrap();
    write(&project, servers);
    let gateway = Gateway::start(command(home, &project, &["serve"]), &home.path("gateway.log")).await;
    for name in servers.as_object().unwrap().keys() {
        gateway.wait_for_state(name, "needs_trust").await;
    }
    (gateway, project)
}

/// The code that `toolbooth console` gets.
fn code(home: &Home, project: &Path) -> String {
    let printed = read(&command(home, project, &["console", "--json"]).output().unwrap());
    assert_eq!(printed["owner"], true, "{printed}");
    let url = printed["url"].as_str().unwrap();
    url.rsplit_once("/console/#owner=").unwrap_or_else(|| panic!("{url}")).1.to_owned()
}

fn origin(gateway: &Gateway) -> String {
    format!("http://{}", gateway.address)
}

/// Exchanges a code, as a page of this origin does; returns the status, the cookie and the answer.
async fn exchange(gateway: &Gateway, origin: Option<&str>, code: &str) -> (u16, Option<String>, Value) {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(origin.map(|origin| ("origin", origin)));
    let body = json!({ "code": code }).to_string();
    let reply = gateway.http().send(Method::POST, "/console/owner", &headers, body).await;
    let cookie = reply.header("set-cookie").map(str::to_owned);
    (reply.status, cookie, reply.json().await)
}

/// The cookie of a browser that the owner has opened.
async fn owner_cookie(gateway: &Gateway, home: &Home, project: &Path) -> String {
    let (_, cookie, answer) = exchange(gateway, Some(&origin(gateway)), &code(home, project)).await;
    let cookie = cookie.unwrap_or_else(|| panic!("{answer}"));
    cookie.split(';').next().unwrap().to_owned()
}

/// The console in a browser that the owner has opened.
pub async fn owner(gateway: &Gateway, home: &Home, project: &Path) -> Http {
    let cookie = owner_cookie(gateway, home, project).await;
    gateway.http().sending(&[("origin".into(), origin(gateway)), ("cookie".into(), cookie)])
}

/// Posts JSON text over the control socket.
pub fn over_control_socket(home: &Home, path: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(home.data().join("control.sock")).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{head}")), serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn only_the_version_that_was_shown_is_trusted() {
    let home = Home::new(&[]);
    let (gateway, project) = start(&home, &json!({ "one": entry("a"), "two": entry("b") })).await;
    let http = owner(&gateway, &home, &project).await;
    let waiting = http.get_json("/trust").await;
    let entries = waiting["entries"].as_array().unwrap_or_else(|| panic!("{waiting}"));
    let [one, two] = &entries[..] else { panic!("{waiting}") };
    assert_eq!((&one["server"], &two["server"]), (&json!("one"), &json!("two")));
    assert_eq!(one["fields"]["command"], json!(binaries::hostile()), "the whole command is shown: {one}");
    assert!(one["fields"]["args"].as_str().is_some_and(|args| args.contains("echo")), "{one}");

    // One entry changes after it was shown: neither of the two is trusted.
    write(&project, &json!({ "one": entry("changed"), "two": entry("b") }));
    let (status, refused) = http.post_json("/trust", &request(&[two, one])).await;
    assert_eq!((status, &refused["code"]), (409, &json!("trust.changed")), "{refused}");
    let waiting = http.get_json("/trust").await;
    assert_eq!(waiting["entries"].as_array().map(Vec::len), Some(2), "{waiting}");
    let rows = http.get_json("/audit?kind=trust").await;
    assert_eq!(rows["rows"], json!([]));

    let (status, done) = http.post_json("/trust", &request(&[two])).await;
    assert_eq!((status, &done["trusted"]), (200, &json!(1)), "{done}");
    gateway.connected(&["two"]).await;
    let waiting = http.get_json("/trust").await;
    let names: Vec<&Value> =
        waiting["entries"].as_array().unwrap().iter().map(|one| &one["server"]).collect();
    assert_eq!(names, [&json!("one")], "{waiting}");
    let rows = http.get_json("/audit?kind=trust").await;
    let rows = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["outcome"], "trusted");
    assert!(rows[0]["detail"]["trusted"].to_string().contains("#two"), "{rows:?}");
    // It no longer waits, so it cannot be trusted again.
    let (status, refused) = http.post_json("/trust", &request(&[two])).await;
    assert_eq!((status, &refused["code"]), (409, &json!("trust.changed")));
}

#[tokio::test]
async fn damaged_trust_file_is_not_replaced() {
    let home = Home::new(&[]);
    let (gateway, project) = start(&home, &json!({ "one": entry("a") })).await;
    let http = owner(&gateway, &home, &project).await;
    let waiting = http.get_json("/trust").await;
    let file = home.data().join("trust.json");
    std::fs::write(&file, "{").unwrap();
    let (status, refused) = http.post_json("/trust", &request(&[&waiting["entries"][0]])).await;
    assert_eq!((status, &refused["code"]), (500, &json!("trust.damaged")), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{");
    for body in ["", "{}", r#"{"entries":[]}"#, r#"{"entries":[{"file":"a","digest":""}]}"#] {
        let (status, refused) = http.post_json("/trust", body).await;
        assert_eq!((status, &refused["code"]), (400, &json!("request.bad-body")), "{body}");
    }
}

#[tokio::test]
async fn trust_over_rest_is_for_the_owner_in_local_mode() {
    let known = TokenUsers::start().await;
    let cases = [(&known.ann.0, "auth.admin-only"), (&known.root, "trust.local-only")];
    for (token, code) in cases {
        let http = http_as(&known.gateway, token);
        let reply = http.send(Method::GET, "/trust", &[], "").await;
        assert_eq!((reply.status, &reply.json().await["code"]), (403, &json!(code)));
        let body = r#"{"entries":[{"file":"/a/.mcp.json","server":"a","digest":"b"}]}"#;
        let (status, refused) = http.post_json("/trust", body).await;
        assert_eq!((status, &refused["code"]), (403, &json!(code)));
    }
    // The console has a sign-in of its own, so its address has no code.
    let printed = read(&run(&known.home, &["console", "--json"], None));
    let url = format!("http://{}/console/", known.gateway.address);
    assert_eq!(printed, json!({ "url": url, "owner": false }));
    let (status, cookie, refused) = exchange(&known.gateway, Some(&origin(&known.gateway)), "0").await;
    assert_eq!((status, cookie, &refused["code"]), (403, None, &json!("trust.local-only")));
}

// A tool that sends requests for a model could trust a server that the model had written into a project file.
#[tokio::test]
async fn request_over_tcp_needs_a_browser_of_the_owner() {
    let home = Home::new(&[]);
    let (gateway, project) = start(&home, &json!({ "one": entry("a") })).await;
    let http = gateway.http();
    let waiting = http.get_json("/trust").await;
    let body = request(&[&waiting["entries"][0]]);
    let own = ("origin".to_owned(), origin(&gateway));
    let guessed = format!("toolbooth-owner-{}={}", gateway.address.port(), "0".repeat(64));
    let cookie = owner_cookie(&gateway, &home, &project).await;
    let with = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let cases = [
        ("a program", Vec::new(), "trust.owner-only"),
        ("a page without the cookie", vec![own.clone()], "trust.owner-only"),
        ("a guessed cookie", vec![own.clone(), with("cookie", &guessed)], "trust.owner-only"),
        ("no page", vec![with("cookie", &cookie)], "trust.owner-only"),
        (
            "a page of another port",
            vec![own.clone(), with("cookie", &cookie), with("sec-fetch-site", "same-site")],
            "trust.owner-only",
        ),
        (
            "a page of another site",
            vec![with("origin", "https://evil.example"), with("cookie", &cookie)],
            "request.bad-origin",
        ),
    ];
    for (what, headers, code) in &cases {
        let (status, refused) = http.clone().sending(headers).post_json("/trust", &body).await;
        assert_eq!((status, &refused["code"]), (403, &json!(code)), "{what}: {refused}");
    }
    recorded(&http, "trust.owner-only").await;
    assert_eq!(gateway.server("one").await["state"], "needs_trust");
    let (status, done) = over_control_socket(&home, "/trust", &body);
    assert_eq!((status, &done["trusted"]), (200, &json!(1)), "{done}");
    gateway.connected(&["one"]).await;
}

#[tokio::test]
async fn code_works_once_for_the_own_page_of_its_gateway() {
    let (home, other_home) = (Home::new(&[]), Home::new(&[]));
    let (gateway, project) = start(&home, &json!({ "one": entry("a") })).await;
    let (other, _) = start(&other_home, &json!({ "one": entry("a") })).await;
    let (own, code) = (origin(&gateway), code(&home, &project));
    let cases = [
        ("another gateway", exchange(&other, Some(&origin(&other)), &code).await, "auth.owner-code"),
        ("no page", exchange(&gateway, None, &code).await, "auth.csrf"),
        ("another site", exchange(&gateway, Some("https://evil.example"), &code).await, "request.bad-origin"),
        ("a guess", exchange(&gateway, Some(&own), "0").await, "auth.owner-code"),
    ];
    for (what, (status, cookie, refused), expected) in &cases {
        assert_eq!((*status, cookie, &refused["code"]), (403, &None, &json!(expected)), "{what}: {refused}");
    }
    let (status, refused) = gateway.http().post_json("/console/owner-code", "").await;
    assert_eq!((status, &refused["code"]), (403, &json!("auth.owner-code")), "over TCP: {refused}");
    recorded(&gateway.http(), "auth.owner-code").await;

    let (status, cookie, answer) = exchange(&gateway, Some(&own), &code).await;
    assert_eq!((status, &answer), (200, &json!({ "owner": true })));
    let cookie = cookie.expect("a cookie");
    let name = format!("toolbooth-owner-{}=", gateway.address.port());
    let attributes = "; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200";
    assert!(cookie.starts_with(&name) && cookie.ends_with(attributes), "{cookie}");
    let (status, again, refused) = exchange(&gateway, Some(&own), &code).await;
    assert_eq!((status, again, &refused["code"]), (403, None, &json!("auth.owner-code")), "{refused}");
    let rows = gateway.http().get_json("/audit?kind=session").await;
    assert_eq!(rows["rows"].as_array().map(Vec::len), Some(1), "{rows}");
    assert_eq!(rows["rows"][0]["detail"]["method"], "owner-code", "{rows}");
    assert!(!rows.to_string().contains(&code), "{rows}");

    let cookie = cookie.split(';').next().unwrap().to_owned();
    let browser = |gateway: &Gateway| gateway.http().sending(&[("cookie".into(), cookie.clone())]);
    assert_eq!(browser(&gateway).get_json("/console/owner").await, json!({ "owner": true }));
    assert_eq!(gateway.http().get_json("/console/owner").await, json!({ "owner": false }));
}
