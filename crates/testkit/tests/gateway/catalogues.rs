//! Plan mode over real catalogues: every tool of real servers is called once, and no write runs.
//!
//! The catalogues are no part of the repository; where they are not, this says so and ends. The names that other
//! gateways got wrong are always tried.

use crate::known::run;
use crate::ledger::said;
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, Upstream};

/// How deep made-up arguments go.
const DEEPEST: usize = 6;

/// How many calls go before the plan is emptied.
const AT_ONCE: usize = 900;

fn folder() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/catalogues");
    let folder = std::env::var_os("TOOLBOOTH_CATALOGUES").map_or_else(beside, PathBuf::from);
    let real = folder.join("real");
    [real, folder].into_iter().find(|folder| folder.is_dir())
}

/// A value that a schema should take.
fn made_up(schema: &Value, root: &Value, depth: usize) -> Value {
    let within = |schema: &Value| made_up(schema, root, depth + 1);
    if depth > DEEPEST {
        return Value::Null;
    }
    if let Some(pointer) = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#')) {
        return root.pointer(pointer).map(within).unwrap_or_default();
    }
    for key in ["const", "default"] {
        if let Some(value) = schema.get(key).filter(|value| !value.is_null()) {
            return value.clone();
        }
    }
    if let Some(value) = schema["enum"].as_array().and_then(|values| values.first()) {
        return value.clone();
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) =
            schema[key].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null"))
        {
            return within(first);
        }
    }
    let kind = schema["type"].as_array().map_or(&schema["type"], |kinds| &kinds[0]);
    match kind.as_str() {
        Some("string") => {
            let length = schema["minLength"].as_u64().unwrap_or(1).clamp(1, 200) as usize;
            match schema["format"].as_str() {
                Some("date-time") => json!("2026-11-15T00:00:00Z"),
                Some("date") => json!("2026-11-15"),
                Some("uri" | "url") => json!("https://example.com/"),
                Some("email") => json!("a@example.com"),
                Some("uuid") => json!("01900000-0000-7000-8000-000000000000"),
                _ => json!("a".repeat(length)),
            }
        }
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(0).min(8);
            (0..least).map(|_| within(&schema["items"])).collect()
        }
        Some("object") | None if schema.get("properties").is_some() => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let names = required.iter().filter_map(Value::as_str);
            let members: Map<String, Value> =
                names.map(|name| (name.to_owned(), within(&schema["properties"][name]))).collect();
            Value::Object(members)
        }
        Some("object") => json!({}),
        _ => json!("a"),
    }
}

/// What a server says of its tool: that it only reads, that it writes, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Reads,
    Writes,
    Nothing,
}

impl Said {
    fn of(tool: &Value) -> Self {
        let hints = &tool["annotations"];
        match (hints["readOnlyHint"].as_bool(), hints["destructiveHint"].as_bool()) {
            (Some(true), _) => Self::Reads,
            (Some(false), _) | (None, Some(true)) => Self::Writes,
            (None, _) => Self::Nothing,
        }
    }
}

/// What became of a call.
async fn call(gateway: &Gateway, exposed: &str, arguments: &Value) -> &'static str {
    let body = json!({ "arguments": arguments, "wait": 0 }).to_string();
    let (status, answer) = gateway.http().post_json(&format!("/tools/{exposed}/call"), &body).await;
    match (status, answer["code"].as_str()) {
        (200, _) => "ran",
        (202, _) if answer["kind"] == "plan" => "queued",
        (400, Some("call.invalid-arguments")) => "unfit",
        _ => panic!("{exposed}: {status} {answer}"),
    }
}

/// Every tool's exposed name, by server and own name.
async fn listed(gateway: &Gateway) -> BTreeMap<(String, String), String> {
    let (mut exposed, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = gateway.http().get_json(&format!("/tools?limit=1000{cursor}")).await;
        for tool in page["tools"].as_array().unwrap() {
            let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
            exposed.insert((text("server"), text("tool")), text("name"));
        }
        let Some(next) = page["next_cursor"].as_str() else { return exposed };
        cursor = format!("&cursor={next}");
    }
}

// The commands block their thread, and the servers answer on another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_of_any_real_catalogue_runs_while_planning() {
    let Some(folder) = folder() else {
        println!("notice: the catalogues are not here, so plan mode is not tried on them");
        return;
    };
    let started = Instant::now();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut servers = Vec::new();
    for file in &files {
        let catalogue: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let upstream = Upstream::start(Era::Modern).await;
        upstream.list(catalogue["tools"].to_string());
        let name = catalogue["server"].as_str().unwrap().to_owned();
        servers.push((name, catalogue["tools"].as_array().unwrap().clone(), upstream));
    }
    let entries: Vec<_> =
        servers.iter().map(|(name, _, upstream)| (name.as_str(), upstream.entry())).collect();
    let home = Home::new(&entries);
    let gateway = home.start().await;
    for (name, _, _) in &servers {
        gateway.connected(&[name]).await;
    }
    assert!(run(&home, &["plan", "on"], None).status.success());
    let exposed = listed(&gateway).await;
    let calls = servers.iter().flat_map(|(name, tools, _)| tools.iter().map(move |tool| (name, tool)));
    let named = |tool: &Value| tool["name"].as_str().map(str::to_owned);
    let calls: Vec<(&Value, &String)> =
        calls.filter_map(|(name, tool)| Some((tool, exposed.get(&(name.clone(), named(tool)?))?))).collect();
    let mut outcomes: Vec<(Said, &'static str, String)> = Vec::new();
    for some in calls.chunks(AT_ONCE) {
        let asked = stream::iter(some).map(async |(tool, exposed)| {
            let schema = &tool["inputSchema"];
            let fitting = if schema["required"].is_array() { made_up(schema, schema, 0) } else { json!({}) };
            (Said::of(tool), call(&gateway, exposed, &fitting).await, (*exposed).clone())
        });
        outcomes.extend(asked.buffer_unordered(8).collect::<Vec<_>>().await);
        // A plan has only so many steps, and a user so many calls that wait.
        for words in [&["plan", "reject"][..], &["plan", "off"], &["plan", "on"]] {
            assert!(run(&home, words, None).status.success(), "{words:?}");
        }
    }
    let mut tally: BTreeMap<(Said, &str), usize> = BTreeMap::new();
    for (said, outcome, _) in &outcomes {
        *tally.entry((*said, outcome)).or_default() += 1;
    }
    println!("{} servers, {} tools in {:?}: {tally:?}", servers.len(), outcomes.len(), started.elapsed());
    // The servers have the last word on what ran.
    let mut reached = 0;
    for (name, tools, upstream) in &servers {
        let writes: BTreeSet<&str> = tools
            .iter()
            .filter(|tool| Said::of(tool) == Said::Writes)
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        for seen in upstream.seen("tools/call") {
            let body: Value = serde_json::from_str(&seen.body).unwrap();
            let tool = body["params"]["name"].as_str().unwrap();
            assert!(!writes.contains(tool), "`{tool}` of `{name}` says that it writes, and ran");
            reached += 1;
        }
    }
    let count = |outcome: &str| outcomes.iter().filter(|(_, found, _)| *found == outcome).count();
    assert_eq!(reached, count("ran"));
    assert_eq!(tally.get(&(Said::Writes, "ran")), None);
    assert!(count("unfit") * 10 < outcomes.len(), "made-up arguments fit most schemas: {tally:?}");
    if let Ok(file) = std::env::var("TOOLBOOTH_CATALOGUE_REPORT") {
        let lines: Vec<String> =
            outcomes.iter().map(|(said, outcome, name)| format!("{said:?}\t{outcome}\t{name}")).collect();
        std::fs::write(file, lines.join("\n")).unwrap();
    }
}

/// Names that other gateways took for reads, and one kind that they took for writes.
const NAMES: &[(&str, &str)] = &[
    ("git", "push queue"),
    ("git", "commit queue"),
    ("github", "merge_pull_request queue"),
    ("github", "create_issue queue"),
    ("slack", "send_message queue"),
    ("fs", "move_file queue"),
    ("fs", "write queue"),
    ("notion", "createPage queue"),
    ("redis", "set queue"),
    ("redis", "set_key queue"),
    ("sqlite", "execute queue"),
    ("db", "drop_table queue"),
    ("db", "insertRow queue"),
    ("db", "run_sql queue"),
    ("playwright", "browser_click queue"),
    ("x", "upload_file queue"),
    ("k8s", "apply queue"),
    ("k8s", "deploy_app queue"),
    ("mail", "send_email queue"),
    ("sh", "execute queue"),
    ("bank", "transfer_funds queue"),
    ("gh", "merge_pr queue"),
    ("hr", "rotate_keys queue"),
    ("trello", "watch_card queue"),
    ("resend", "verify-domain queue"),
    ("blog", "get_post_list run"),
    ("docs", "get_post_list run"),
    ("github", "get_commit_diff run"),
    ("my-update-server", "get_thing run"),
];

#[tokio::test]
async fn names_that_fooled_others_do_not_fool_plan_mode() {
    let mut by_server: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (server, row) in NAMES {
        by_server.entry(server).or_default().push(row.split_once(' ').unwrap());
    }
    let home = Home::new(&[]);
    let mut entries = Vec::new();
    for (server, tools) in &by_server {
        let listed: Vec<Value> = tools
            .iter()
            .map(|(name, _)| json!({ "name": name, "inputSchema": { "type": "object" } }))
            .collect();
        let path = |kind: &str| home.path(&format!("{server}.{kind}")).display().to_string();
        std::fs::write(path("json"), json!({ "tools": listed }).to_string()).unwrap();
        entries.push((*server, hostile(&["catalogue", &path("json"), &path("record")])));
    }
    home.configure(json!({}), &entries);
    let gateway = home.start().await;
    for server in by_server.keys() {
        gateway.connected(&[server]).await;
    }
    assert!(run(&home, &["plan", "on"], None).status.success());
    for (server, tools) in &by_server {
        for (tool, expected) in tools {
            let exposed = format!("mcp.{server}.{tool}");
            let output = run(&home, &["call", &exposed], None);
            let expected_code = if *expected == "run" { 0 } else { 4 };
            assert_eq!(output.status.code(), Some(expected_code), "{server} {tool}: {}", said(&output));
        }
        let record = std::fs::read_to_string(home.path(&format!("{server}.record"))).unwrap_or_default();
        let runs = tools.iter().filter(|(_, expected)| *expected == "run").count();
        assert_eq!(record.lines().count(), runs, "{server}");
    }
}
