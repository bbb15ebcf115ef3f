//! Plan mode with catalogues of real servers: every tool is called once, and no write runs.
//!
//! The catalogues are not part of the repository; without them this test prints a notice and ends. The names that
//! other gateways misjudged are always tested.

use crate::ledger::said;
use crate::token_users::run;
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer};

/// The nesting limit of generated arguments.
const DEEPEST: usize = 6;

/// The number of calls before the plan is emptied.
const AT_ONCE: usize = 900;

fn folder() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/catalogues");
    let folder = std::env::var_os("TOOLBOOTH_CATALOGUES").map_or_else(beside, PathBuf::from);
    let real = folder.join("real");
    [real, folder].into_iter().find(|folder| folder.is_dir())
}

/// Generates a value that should match a schema.
fn generated(schema: &Value, root: &Value, depth: usize) -> Value {
    let within = |schema: &Value| generated(schema, root, depth + 1);
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

/// The read-only annotation of a tool: it reads, it writes, or it has no annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Declared {
    Reads,
    Writes,
    Nothing,
}

impl Declared {
    fn of(tool: &Value) -> Self {
        let hints = &tool["annotations"];
        match (hints["readOnlyHint"].as_bool(), hints["destructiveHint"].as_bool()) {
            (Some(true), _) => Self::Reads,
            (Some(false), _) | (None, Some(true)) => Self::Writes,
            (None, _) => Self::Nothing,
        }
    }
}

/// Makes a call and returns its outcome.
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

// The commands block their thread; the servers run on another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_mode_runs_no_write_of_real_catalogues() {
    let Some(folder) = folder() else {
        println!("notice: the catalogues were not found, so plan mode is not tested with them");
        return;
    };
    let started = Instant::now();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut servers = Vec::new();
    for file in &files {
        let catalogue: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let upstream = ScriptedServer::start(TestEra::Modern).await;
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
    let mut outcomes: Vec<(Declared, &'static str, String)> = Vec::new();
    for some in calls.chunks(AT_ONCE) {
        let asked = stream::iter(some).map(async |(tool, exposed)| {
            let schema = &tool["inputSchema"];
            let fitting =
                if schema["required"].is_array() { generated(schema, schema, 0) } else { json!({}) };
            (Declared::of(tool), call(&gateway, exposed, &fitting).await, (*exposed).clone())
        });
        outcomes.extend(asked.buffer_unordered(8).collect::<Vec<_>>().await);
        // The steps of a plan and the held calls of a user are limited.
        for words in [&["plan", "reject"][..], &["plan", "off"], &["plan", "on"]] {
            assert!(run(&home, words, None).status.success(), "{words:?}");
        }
    }
    let mut tally: BTreeMap<(Declared, &str), usize> = BTreeMap::new();
    for (said, outcome, _) in &outcomes {
        *tally.entry((*said, outcome)).or_default() += 1;
    }
    println!("{} servers, {} tools in {:?}: {tally:?}", servers.len(), outcomes.len(), started.elapsed());
    // The servers' records show which calls ran.
    let mut reached = 0;
    for (name, tools, upstream) in &servers {
        let writes: BTreeSet<&str> = tools
            .iter()
            .filter(|tool| Declared::of(tool) == Declared::Writes)
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        for seen in upstream.seen("tools/call") {
            let body: Value = serde_json::from_str(&seen.body).unwrap();
            let tool = body["params"]["name"].as_str().unwrap();
            assert!(!writes.contains(tool), "`{tool}` of `{name}` is declared as a write and ran");
            reached += 1;
        }
    }
    let count = |outcome: &str| outcomes.iter().filter(|(_, found, _)| *found == outcome).count();
    assert_eq!(reached, count("ran"));
    assert_eq!(tally.get(&(Declared::Writes, "ran")), None);
    assert!(count("unfit") * 10 < outcomes.len(), "generated arguments match most schemas: {tally:?}");
    if let Ok(file) = std::env::var("TOOLBOOTH_CATALOGUE_REPORT") {
        let lines: Vec<String> =
            outcomes.iter().map(|(said, outcome, name)| format!("{said:?}\t{outcome}\t{name}")).collect();
        std::fs::write(file, lines.join("\n")).unwrap();
    }
}

/// Names that other gateways classified as reads by mistake, and one kind classified as writes by mistake.
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
async fn plan_mode_recognizes_writes_with_misleading_names() {
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
