//! Concurrent users of different groups on many connections: each sees only their own view.

use crate::ledger::over;
use crate::token_users::{bearer, make_token, read, run};
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use toolbooth_testkit::fixture::{LEGACY, MODERN};
use toolbooth_testkit::world::client::OWN_TOOL;
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::{FixtureServer, Gateway, Home, Http, TestClient};

const CALLS: usize = 1000;
/// Users and their groups; each server is named after its group.
const PEOPLE: [(&str, &str); 3] = [("ann", "amber"), ("bob", "green"), ("cat", "blue")];
const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

struct ConcurrentUsers {
    home: Home,
    gateway: Gateway,
    tokens: BTreeMap<&'static str, String>,
    _remote: FixtureServer,
}

/// The group's server and the shared server.
fn servers_of(group: &str) -> BTreeSet<String> {
    BTreeSet::from([group.to_owned(), "shared".to_owned()])
}

impl ConcurrentUsers {
    async fn gather() -> Self {
        let remote = FixtureServer::start("modern").await;
        let entry = |mut entry: Value, groups: &[&str]| {
            entry["inject"] = true.into();
            entry["groups"] = json!(groups);
            entry
        };
        let servers = [
            ("amber", entry(fixture_on_stdio("legacy"), &["amber"])),
            ("green", entry(remote.entry(), &["green"])),
            ("blue", entry(fixture_on_stdio("modern"), &["blue"])),
            ("shared", entry(fixture_on_stdio("modern"), &["users"])),
        ];
        let settings = json!({
            "auth": { "mode": "token" },
            "policy": { "consent": "client", "rules": [{ "tools": "*_add", "effect": "ask" }] },
        });
        let home = Home::with_settings(settings, &servers);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let token = |(user, group): (&'static str, &str)| {
            (user, make_token(&home, None, user, &["--groups", group]).0)
        };
        let tokens = BTreeMap::from(PEOPLE.map(token));
        let mut gateway = home.start().await;
        gateway.headers = bearer(&root);
        gateway.connected(&["amber", "green", "blue", "shared"]).await;
        Self { home, gateway, tokens, _remote: remote }
    }

    fn http(&self, user: &str) -> Http {
        Http::new(self.gateway.address).sending(&bearer(&self.tokens[user]))
    }

    async fn client(&self, user: &str, revision: &str) -> TestClient {
        TestClient::with_revision(
            revision,
            self.gateway.address,
            "/mcp",
            &bearer(&self.tokens[user]),
            json!({}),
        )
        .await
    }
}

fn names<'a>(listed: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    listed.as_array().into_iter().flatten().map(move |one| one[key].as_str().unwrap())
}

fn owners<'a>(exposed: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    // Every user has the gateway's own tool.
    let exposed = exposed.filter(|name| *name != OWN_TOOL);
    exposed.map(|name| name.split('_').next().unwrap().to_owned()).collect()
}

/// Checks the caller data that a server received.
fn belongs(seen: &Value, user: &str, group: &str, note: &str) -> Result<(), String> {
    let reply = &seen["_mcp_data"]["available_servers"];
    let servers: BTreeSet<String> = names(reply, "server_name").map(str::to_owned).collect();
    let tools =
        owners(reply.as_array().into_iter().flatten().flat_map(|server| names(&server["tools"], "name")));
    let right = seen["username"] == user
        && seen["_atlas_user"] == user
        && seen["note"] == note
        && servers == servers_of(group)
        && tools == servers_of(group);
    let others = PEOPLE.iter().filter(|(other, _)| *other != user);
    let text = seen.to_string();
    let leaks = others
        .clone()
        .any(|(other, group)| text.contains(&format!("\"{other}\"")) || text.contains(&format!("{group}_")));
    if right && !leaks {
        Ok(())
    } else {
        Err(format!("{user} got {}", text.chars().take(400).collect::<String>()))
    }
}

#[tokio::test]
async fn thousand_interleaved_calls_keep_their_callers_apart() {
    let users = ConcurrentUsers::gather().await;
    let mut clients = Vec::new();
    for (user, group) in PEOPLE {
        // Three connections each: both eras, and REST.
        clients.push((user, group, Some(users.client(user, MODERN).await)));
        clients.push((user, group, Some(users.client(user, LEGACY).await)));
        clients.push((user, group, None));
    }
    let wrong = Mutex::new(Vec::new());
    let call = async |number: usize| {
        let (user, group, client) = &clients[number % clients.len()];
        let server = if number.is_multiple_of(2) { "shared" } else { group };
        let tool = format!("{server}_whoami");
        let note = format!("{user}'s {number}");
        let arguments = json!({ "note": note, "username": PEOPLE[number % 3].0 });
        let seen = match client {
            Some(client) => client.call(&tool, arguments).await.result()["structuredContent"].clone(),
            None => {
                let body = json!({ "arguments": arguments }).to_string();
                let (_, answer) = users.http(user).post_json(&format!("/tools/{tool}/call"), &body).await;
                answer["result"]["structuredContent"].clone()
            }
        };
        if let Err(why) = belongs(&seen, user, group, &note) {
            wrong.lock().unwrap().push(why);
        }
    };
    stream::iter(0..CALLS).for_each_concurrent(24, call).await;
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {CALLS} calls had wrong caller data:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    // The audit is separated by user too.
    for (user, _) in PEOPLE {
        let rows = users.http(user).get_json("/audit?limit=1000").await;
        let recorded: BTreeSet<&str> = names(&rows["rows"], "user").collect();
        assert_eq!(recorded, BTreeSet::from([user]));
    }
    let all = read(&run(&users.home, &["audit", "verify", "--json"], Some(&users.gateway.headers[0].1[7..])));
    assert_eq!(all["ok"], true, "{all}");
}

#[tokio::test]
async fn every_interface_lists_exactly_the_permitted_set() {
    let users = ConcurrentUsers::gather().await;
    let whole: BTreeMap<&str, BTreeSet<String>> = {
        // The expected set is the list of the group's own users.
        let mut whole = BTreeMap::new();
        for (user, group) in PEOPLE {
            let tools = users.client(user, MODERN).await.names("tools/list", "tools").await;
            whole.insert(group, tools.into_iter().filter(|name| name.starts_with(group)).collect());
        }
        whole
    };
    assert!(whole.values().all(|tools: &BTreeSet<String>| tools.len() > 30));
    for (user, group) in PEOPLE {
        let expected = servers_of(group);
        let mut reply: Vec<(String, BTreeSet<String>)> = Vec::new();
        for revision in [MODERN, LEGACY] {
            let client = users.client(user, revision).await;
            for (method, member) in LISTS {
                let listed = client.ask(method, json!({})).await;
                let found = &listed.result()[member];
                match member {
                    "tools" | "prompts" => {
                        reply.push((format!("{revision} {method}"), owners(names(found, "name"))))
                    }
                    // All servers offer the same entries; each is listed once.
                    _ => assert!(!found.as_array().unwrap().is_empty(), "{method}"),
                }
            }
            let seen = client.call("shared_whoami", json!({ "note": "" })).await;
            belongs(&seen.result()["structuredContent"], user, group, "").unwrap();
            let available = &seen.result()["structuredContent"]["_mcp_data"]["available_servers"];
            reply.push(("_mcp_data".into(), names(available, "server_name").map(str::to_owned).collect()));
            for (_, other) in PEOPLE {
                let reference =
                    json!({ "type": "ref/prompt", "name": format!("{other}_test_prompt_with_arguments") });
                let params = json!({ "ref": reference, "argument": { "name": "arg1", "value": "" } });
                let completed = client.ask("completion/complete", params).await;
                assert_eq!(completed.code().is_none(), other == group, "{user} completes {other}");
            }
        }
        let http = users.http(user);
        let tools = http.get_json("/tools?limit=1000").await;
        reply.push(("REST tools".into(), owners(names(&tools["tools"], "name"))));
        let servers = http.get_json("/servers").await;
        reply.push(("REST servers".into(), names(&servers["servers"], "name").map(str::to_owned).collect()));
        let listed = read(&run(&users.home, &["tools", "list", "--json"], Some(&users.tokens[user])));
        reply.push(("tools list".into(), owners(names(&listed["tools"], "name"))));
        for (surface, found) in reply {
            assert_eq!(found, expected, "{user}: {surface}");
        }
    }
}

#[tokio::test]
async fn held_calls_and_refusals_do_not_reveal_other_users() {
    let users = ConcurrentUsers::gather().await;
    let mut held = BTreeMap::new();
    for (user, group) in PEOPLE {
        let body = json!({ "arguments": { "a": 1, "b": 2 }, "wait": 0 }).to_string();
        let (status, answer) = users.http(user).post_json(&format!("/tools/{group}_add/call"), &body).await;
        assert_eq!(status, 202, "{answer}");
        held.insert(user, answer["held"].as_str().unwrap().to_owned());
    }
    for (user, group) in PEOPLE {
        let http = users.http(user);
        let listed = http.get_json("/approvals").await;
        assert_eq!(names(&listed["approvals"], "id").collect::<Vec<_>>(), [held[user].as_str()]);
        for (other, others_group) in PEOPLE.iter().filter(|(other, _)| *other != user) {
            for path in ["approve", "reject"] {
                let none = "01900000-0000-7000-8000-000000000000";
                let mut answers = Vec::new();
                for id in [held[other].as_str(), none] {
                    let (status, answer) = http.post_json(&format!("/approvals/{id}/{path}"), "{}").await;
                    answers.push((status, answer.to_string().replace(id, "ID")));
                }
                assert_eq!(answers[0], answers[1], "a held call of another user is unknown");
            }
            // The answer for a tool of another group is byte for byte that of an unknown tool.
            for revision in [MODERN, LEGACY] {
                let (hidden, unknown) = (format!("{others_group}_echo"), format!("{others_group}_ecco"));
                let (one, two) = (users.client(user, revision).await, users.client(user, revision).await);
                let (hid, none) = (one.call_text(&hidden, "{}").await, two.call_text(&unknown, "{}").await);
                assert_eq!(
                    (hid.0, hid.1.replace(&hidden, "NAME")),
                    (none.0, none.1.replace(&unknown, "NAME"))
                );
                assert!(hid.1.contains("error"), "{}", hid.1);
            }
        }
        let (status, _) = http.post_json(&format!("/tools/{group}_echo/call"), "{}").await;
        assert_eq!(status, 200);
    }
    let root = users.gateway.http();
    for id in held.values() {
        assert_eq!(root.post_json(&format!("/approvals/{id}/approve"), "{}").await.0, 200);
        assert_eq!(over(&root, id).await["state"], "done");
    }
}
