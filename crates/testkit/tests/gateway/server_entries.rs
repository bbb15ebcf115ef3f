//! Servers that the owner adds, changes and removes over REST.

use crate::callers::http_as;
use crate::token_users::{TokenUsers, recorded};
use crate::trust_over_rest::{command, over_control_socket, owner};
use ::http::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use toolbooth_testkit::world::{Gateway, Home, Http, binaries};

/// A gateway whose owner has a configuration folder with this `toolbooth.toml`.
async fn start(home: &Home, settings: Option<&str>) -> (Gateway, PathBuf) {
    let project = home.path("project");
    std::fs::create_dir_all(&project).unwrap();
    let file = home.path(".config/toolbooth/toolbooth.toml");
    if let Some(settings) = settings {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, settings).unwrap();
    }
    let gateway = Gateway::start(command(home, &project, &["serve"]), &home.path("gateway.log")).await;
    (gateway, file)
}

fn entry(name: &str) -> Value {
    json!({ "name": name, "command": [binaries::hostile(), "echo"], "env": { "WORD": "a" } })
}

#[tokio::test]
async fn owner_adds_and_removes_a_server() {
    let home = Home::new(&[]);
    let (gateway, file) = start(&home, Some("# my servers\ndrain_seconds = 2\n")).await;
    let http = owner(&gateway, &home, &home.path("project")).await;
    let (status, added) = http.post_json("/servers", &entry("one").to_string()).await;
    assert_eq!((status, &added["name"], &added["file"]), (200, &json!("one"), &json!(file)), "{added}");
    assert!(added["notes"].to_string().contains("bundled servers"), "{added}");
    gateway.connected(&["one"]).await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# my servers\n") && text.contains("[servers.one]"), "{text}");

    let (status, refused) = http.post_json("/servers", &entry("one").to_string()).await;
    assert_eq!((status, &refused["code"]), (409, &json!("servers.exists")), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    let reply = http.send(Method::DELETE, "/servers/one", &[], "").await;
    let (status, removed) = (reply.status, reply.json().await);
    assert_eq!((status, &removed["name"]), (200, &json!("one")), "{removed}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# my servers\n") && !text.contains("one"), "{text}");
    let reply = http.send(Method::DELETE, "/servers/one", &[], "").await;
    assert_eq!((reply.status, &reply.json().await["code"]), (404, &json!("server.unknown")));
    // A bundled server is in no file.
    let reply = http.send(Method::DELETE, "/servers/demo", &[], "").await;
    assert_eq!(reply.json().await["code"], "servers.not-changeable");

    let rows = http.get_json("/audit?kind=server").await;
    let seen: Vec<_> = rows["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["server"] == "one")
        .map(|row| (row["outcome"].as_str().unwrap(), row["detail"]["file"] == json!(file)))
        .collect();
    assert_eq!(seen, [("removed", true), ("added", true)], "{rows}");
}

#[tokio::test]
async fn entry_that_is_not_valid_leaves_the_file_as_it_was() {
    let home = Home::new(&[]);
    let (gateway, file) = start(&home, None).await;
    let cases = [
        (json!({ "name": "one", "url": "ftp://a.example/mcp" }), None),
        (json!({ "name": "a b", "command": ["x"] }), Some("usage.server-name")),
        (json!({ "name": "one", "command": [] }), Some("request.bad-body")),
        (json!({ "name": "one", "command": ["x"], "trust": true }), Some("request.bad-body")),
        (json!(["one"]), Some("request.bad-body")),
        (json!({ "name": "..", "command": ["x"] }), Some("usage.server-name")),
        (json!({ "name": "one", "command": ["x\0"] }), Some("request.bad-body")),
    ];
    for (body, code) in cases {
        // A command of the owner needs no cookie.
        let (status, refused) = over_control_socket(&home, "/servers", &body.to_string());
        assert_eq!(status, 400, "{body}: {refused}");
        if let Some(code) = code {
            assert_eq!(refused["code"], code, "{body}: {refused}");
        }
        assert!(!file.exists(), "{body}");
    }
    // A variable that is not set yet is a remark.
    let body =
        json!({ "name": "later", "url": "https://a.example/mcp", "headers": { "K": "${NOT_SET_YET}" } });
    let (status, added) = over_control_socket(&home, "/servers", &body.to_string());
    assert_eq!(status, 200, "{added}");
    assert!(added["notes"].to_string().contains("NOT_SET_YET"), "{added}");
    let listed = gateway.http().get_json("/servers/later").await;
    assert_eq!(listed["state"], "config_error", "{listed}");
}

#[tokio::test]
async fn others_than_the_owner_cannot_change_servers() {
    let home = Home::new(&[]);
    let (gateway, file) = start(&home, None).await;
    // Any program of the user can send this.
    let requests = [
        (Method::POST, "/servers"),
        (Method::GET, "/servers/demo/entry"),
        (Method::PUT, "/servers/demo"),
        (Method::DELETE, "/servers/demo"),
    ];
    for (method, path) in requests {
        let headers = [("content-type", "application/json")];
        let reply = gateway.http().send(method, path, &headers, entry("one").to_string()).await;
        assert_eq!(
            (reply.status, &reply.json().await["code"]),
            (403, &json!("servers.owner-only")),
            "{path}"
        );
    }
    assert!(!file.exists());
    // The gateway writes refusals within a second.
    recorded(&gateway.http(), "servers.owner-only").await;

    let known = TokenUsers::start().await;
    let root = http_as(&known.gateway, &known.root);
    let (status, refused) = root.post_json("/servers", &entry("one").to_string()).await;
    assert_eq!((status, &refused["code"]), (403, &json!("servers.local-only")), "{refused}");
    let reply = root.send(Method::GET, "/servers/demo/entry", &[], "").await;
    assert_eq!((reply.status, &reply.json().await["code"]), (403, &json!("servers.local-only")));
}

/// Sends a changed entry.
async fn put(http: &Http, name: &str, edit: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let reply = http.send(Method::PUT, &format!("/servers/{name}"), &headers, edit.to_string()).await;
    (reply.status, reply.json().await)
}

/// What a change sends of the entry that it has read.
fn edit_of(entry: &Value) -> Value {
    let kept = ["version", "command", "url", "cwd", "env", "headers"].into_iter();
    kept.filter(|key| !entry[*key].is_null()).map(|key| (key.to_owned(), entry[key].clone())).collect()
}

#[tokio::test]
async fn owner_changes_an_entry_without_seeing_its_secrets() {
    let home = Home::new(&[]);
    let secret = "hunter2hunter2hunter2";
    let settings = format!(
        "# my servers\n[servers.one] # first\ncommand = {:?}\nargs = [\"echo\"] # says it\ngroups = [\"users\"]\n\n[servers.one.env]\nWORD = \"{secret}\"\nPLACE = \"${{HOME}}\"\n",
        binaries::hostile()
    );
    let (gateway, file) = start(&home, Some(&settings)).await;
    gateway.connected(&["one"]).await;
    let http = owner(&gateway, &home, &home.path("project")).await;
    let shown = http.get_json("/servers/one/entry").await;
    assert_eq!(
        (&shown["env"], &shown["kept"], &shown["command"][1]),
        (&json!({ "PLACE": "${HOME}", "WORD": null }), &json!(["groups"]), &json!("echo")),
        "{shown}"
    );
    assert!(!shown.to_string().contains(secret), "{shown}");

    let mut edit = edit_of(&shown);
    edit["env"]["PLACE"] = json!("${USER_OF_TEST:-ann}");
    let (status, changed) = put(&http, "one", &edit).await;
    assert_eq!((status, &changed["file"]), (200, &json!(file)), "{changed}");
    assert!(!changed.to_string().contains(secret), "{changed}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, settings.replace("${HOME}", "${USER_OF_TEST:-ann}"), "only the changed value");
    gateway.connected(&["one"]).await;

    // The same request again is made from an entry that is no longer there.
    let (status, refused) = put(&http, "one", &edit).await;
    assert_eq!((status, &refused["code"]), (409, &json!("servers.changed")), "{refused}");
    let rows = http.get_json("/audit?kind=server").await;
    let row = rows["rows"].as_array().unwrap().iter().find(|row| row["server"] == "one").unwrap();
    assert_eq!((&row["outcome"], &row["detail"]["file"]), (&json!("changed"), &json!(file)), "{rows}");
}

#[tokio::test]
async fn change_that_is_not_valid_leaves_the_file_as_it_was() {
    let home = Home::new(&[]);
    let settings = "[servers.one]\nurl = \"http://127.0.0.1:9/mcp\"\nheaders = { Key = \"hunter2\" }\n";
    let (gateway, file) = start(&home, Some(settings)).await;
    let http = owner(&gateway, &home, &home.path("project")).await;
    let shown = http.get_json("/servers/one/entry").await;
    let version = &shown["version"];
    let cases = [
        // A secret that the page does not know must not go to another host.
        (
            json!({ "version": version, "url": "http://127.0.0.1:10/mcp", "headers": { "Key": null } }),
            "request.bad-body",
        ),
        (
            json!({ "version": version, "url": "http://127.0.0.1:9/mcp", "headers": { "Other": null } }),
            "request.bad-body",
        ),
        (json!({ "version": version, "command": ["x"] }), "request.bad-body"),
        (json!({ "version": version, "url": "http://u:p@127.0.0.1:9/mcp" }), "config.user-info"),
        (json!({ "url": "http://127.0.0.1:9/mcp" }), "request.bad-body"),
        (json!({ "version": "0", "url": "http://127.0.0.1:9/mcp" }), "servers.changed"),
    ];
    for (edit, code) in cases {
        let (status, refused) = put(&http, "one", &edit).await;
        assert_eq!(refused["code"], code, "{status} {edit}: {refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), settings, "{edit}");
    }
    let (status, refused) =
        put(&http, "one", &json!({ "version": version, "url": "ftp://127.0.0.1/mcp" })).await;
    assert_eq!(status, 400, "{refused}");
    let (_, unknown) = put(&http, "two", &edit_of(&shown)).await;
    assert_eq!(unknown["code"], "server.unknown");
    let reply = http.send(Method::GET, "/servers/two/entry", &[], "").await;
    assert_eq!((reply.status, &reply.json().await["code"]), (404, &json!("server.unknown")));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), settings);
}

#[tokio::test]
async fn reports_of_a_change_do_not_quote_the_file() {
    let home = Home::new(&[]);
    let secret = "hunter2hunter2hunter2";
    let settings = format!(
        "[servers.old]\nurl = \"https://a.example/mcp\"\nheaders = {{ K = \"{secret}\", L = \"${{NOT_SET}}\" }}\n"
    );
    let (_gateway, _) = start(&home, Some(&settings)).await;
    let (status, added) = over_control_socket(&home, "/servers", &entry("one").to_string());
    assert_eq!(status, 200, "{added}");
    let findings = added["reloaded"]["findings"].to_string();
    assert!(findings.contains("NOT_SET") && !added.to_string().contains(secret), "{added}");
}

#[tokio::test]
async fn servers_at_the_top_of_a_file_stay_in_use() {
    let home = Home::new(&[]);
    let file = home.path(".config/toolbooth/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(
        &file,
        json!({ "first": { "command": binaries::hostile(), "args": ["echo"] } }).to_string(),
    )
    .unwrap();
    let (gateway, _) = start(&home, None).await;
    let (status, added) = over_control_socket(&home, "/servers", &entry("second").to_string());
    assert_eq!((status, &added["file"]), (200, &json!(file)), "{added}");
    gateway.connected(&["first", "second"]).await;
}
