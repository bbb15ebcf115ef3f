//! Skills: folders with a `SKILL.md` and lists of skills, as prompts, resources, tools, over REST and the command line.

use crate::callers::ERAS;
use crate::ledger::{LedgerGateway, entry, over, said};
use crate::token_users::{bearer, make_token, read, run};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, TestClient, poll};

/// Hashes a text twice, and says so if asked to.
const DIGEST: &str = r#"---
name: digest
description: Computes the fingerprint of a fingerprint.
version: 1.2
required_tools: [demo_hash]
plan:
  - { id: first, tool: demo_hash, arguments: { text: "${arguments.text}" } }
  - { id: second, tool: demo_hash, arguments: { text: "${steps.first.results}" } }
  - { id: say, tool: demo_echo, after: [second], arguments: { text: "of ${steps.first.results}" }, when: "${arguments.loud}" }
---
Hash the text, then hash the hash.
"#;

/// Instructions without a plan.
const NOTES: &str = "---\nname: notes\ndescription: How to write the minutes of a meeting.\n---\nBe brief.\n";

/// Replaces a file atomically, by renaming, as editors do.
fn write(home: &Home, path: &str, text: &str) {
    let path = home.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Not in the folder of a skill, whose files clients can read.
    let draft = home.path("draft");
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}

fn listed(answer: &Value) -> Vec<&str> {
    answer["skills"].as_array().unwrap().iter().map(|skill| skill["name"].as_str().unwrap()).collect()
}

async fn run_skill(http: &Http, skill: &str, arguments: Value) -> Value {
    let body = json!({ "arguments": arguments, "wait": 0 }).to_string();
    let (status, answer) = http.post_json(&format!("/skills/{skill}/run"), &body).await;
    assert_eq!(status, 200, "{answer}");
    answer["result"].clone()
}

fn states(result: &Value) -> Vec<(&str, &str)> {
    let steps = result["structuredContent"]["steps"].as_object().unwrap_or_else(|| panic!("{result}"));
    steps.iter().map(|(id, record)| (id.as_str(), record["state"].as_str().unwrap())).collect()
}

async fn with_demo(skills: &[(&str, &str)]) -> (Home, Gateway) {
    let home = Home::new(&[]);
    for (path, text) in skills {
        write(&home, path, text);
    }
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    (home, gateway)
}

#[tokio::test]
async fn the_collaboration_of_a_skill_is_shown() {
    let panel = json!([{
        "name": "panel", "instruction_prompt": "Decide together.",
        "collaboration": { "protocol": "vote", "quorum": 0.5 },
    }]);
    let panel = panel.to_string();
    let (home, gateway) = with_demo(&[("skills/panel.json", panel.as_str())]).await;
    let skill = gateway.http().get_json("/skills/panel").await;
    assert_eq!(skill["collaboration"], json!({ "protocol": "vote", "quorum": 0.5 }), "{skill}");
    let shown = run(&home, &["skills", "show", "panel"], None);
    assert!(said(&shown).contains(r#"collaboration: {"protocol":"vote","quorum":0.5}"#), "{shown:?}");
}

#[tokio::test]
async fn a_skill_is_a_prompt_a_resource_and_with_a_plan_a_tool() {
    let skills = [
        ("skills/digest/SKILL.md", DIGEST),
        ("skills/digest/references/why.txt", "Because."),
        ("skills/notes/SKILL.md", NOTES),
    ];
    let (_home, gateway) = with_demo(&skills).await;
    for era in ERAS {
        let client = TestClient::of(era, gateway.address).await;
        assert_eq!(client.names("prompts/list", "prompts").await, ["digest", "notes"], "{era:?}");
        let prompt = client.ask("prompts/get", json!({ "name": "notes" })).await;
        assert_eq!(prompt.result()["messages"][0]["content"]["text"], "Be brief.", "{}", prompt.answer);
        let resources = client.ask("resources/list", json!({})).await;
        let uris: Vec<&Value> =
            resources.result()["resources"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
        let expected =
            ["skill://digest/SKILL.md", "skill://digest/references/why.txt", "skill://notes/SKILL.md"];
        assert_eq!(uris, expected, "{era:?}");
        let file = client.ask("resources/read", json!({ "uri": expected[1] })).await;
        assert_eq!(file.result()["contents"][0]["text"], "Because.", "{}", file.answer);
        let gone = client.ask("resources/read", json!({ "uri": "skill://digest/../notes/SKILL.md" })).await;
        assert!(gone.code().is_some(), "{}", gone.answer);

        let tools = client.names("tools/list", "tools").await;
        assert!(tools.contains(&"skill_digest".to_owned()), "{tools:?}");
        assert!(!tools.iter().any(|name| name.contains("notes")), "{tools:?}");
        let transcript = client.call("skill_digest", json!({ "text": "a" })).await;
        assert!(!transcript.is_error(), "{}", transcript.text());
        assert_eq!(transcript.result()["structuredContent"]["state"], "succeeded", "{}", transcript.answer);
        let missing = client.call("skill_digest", json!({})).await;
        assert!(missing.is_error() && missing.text().contains("text"), "{}", missing.text());
    }
}

#[tokio::test]
async fn a_plan_runs_its_steps_with_earlier_results() {
    let (home, gateway) = with_demo(&[("skills/digest/SKILL.md", DIGEST)]).await;
    let http = gateway.http();
    let result = run_skill(&http, "digest", json!({ "text": "a" })).await;
    let steps = &result["structuredContent"]["steps"];
    assert_eq!(states(&result), [("first", "succeeded"), ("second", "succeeded"), ("say", "skipped")]);
    assert_eq!(
        steps["second"]["results"],
        "da3811154d59c4267077ddd8bb768fa9b06399c486e1fc00485116b57c9872f5"
    );
    // Each step is a call with a record of its own.
    let id = steps["first"]["call"].as_str().unwrap();
    let record = poll(TEST_TIMEOUT, || async {
        let record = http.get_json(&format!("/calls/{id}")).await;
        (record["tool"] == "hash").then_some(record)
    });
    assert!(record.await.is_some());
    let ran = run(&home, &["skills", "run", "digest", "text=a", "loud=true", "--json"], None);
    let ran = read(&ran);
    assert!(states(&ran["result"]).contains(&("say", "succeeded")), "{ran}");
    let unknown = run(&home, &["skills", "run", "nothing"], None);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("skill.unknown"), "{unknown:?}");
    let events = http.get_json("/events/recent?types=skill.*").await;
    let kinds: Vec<&str> =
        events["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["skill.started", "skill.step"], "{kinds:?}");
    assert!(kinds.contains(&"skill.succeeded"), "{kinds:?}");
}

#[tokio::test]
async fn ready_steps_run_at_the_same_time() {
    let plan = json!([
        { "id": "a", "tool": "demo_slow", "arguments": { "milliseconds": 1000 } },
        { "id": "b", "tool": "demo_slow", "arguments": { "milliseconds": 1000 } },
        { "id": "c", "tool": "demo_slow", "arguments": { "milliseconds": 1000 } },
        { "id": "d", "tool": "demo_echo", "after": ["a", "b", "c"], "arguments": { "text": "done" } },
    ]);
    let list = json!([{ "name": "wait", "instruction_prompt": "Wait.", "plan": plan }]).to_string();
    let (_home, gateway) = with_demo(&[("skills/skills.json", &list)]).await;
    let began = Instant::now();
    let result = run_skill(&gateway.http(), "wait", json!({})).await;
    assert_eq!(result["structuredContent"]["state"], "succeeded", "{result}");
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_skill_has_a_time_limit_and_a_failure_cancels_what_depends_on_it() {
    let late = json!([
        { "id": "slow", "tool": "demo_slow", "arguments": { "milliseconds": 5000 } },
        { "id": "quick", "tool": "demo_echo", "arguments": { "text": "x" } },
        { "id": "last", "tool": "demo_echo", "after": ["slow"], "arguments": { "text": "x" } },
    ]);
    let wrong = json!([
        { "id": "bad", "tool": "demo_echo", "arguments": { "text": 5 } },
        { "id": "after", "tool": "demo_echo", "after": ["bad"], "arguments": { "text": "x" } },
        { "id": "lost", "tool": "demo_echo", "arguments": { "text": "${steps.other.results.gone}" } },
        { "id": "other", "tool": "demo_echo", "arguments": { "text": "x" } },
    ]);
    let list = json!({ "skills": [
        { "name": "late", "instruction_prompt": "Wait.", "timeout": 1, "plan": late },
        { "name": "wrong", "instruction_prompt": "Fail.", "plan": wrong },
    ] });
    let (_home, gateway) = with_demo(&[("skills/skills.json", &list.to_string())]).await;
    let result = run_skill(&gateway.http(), "late", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(states(&result), [("slow", "failed"), ("quick", "succeeded"), ("last", "cancelled")]);
    let error = &result["structuredContent"]["steps"]["slow"]["error"];
    assert_eq!(error["code"], "skill.timeout", "{result}");
    let result = run_skill(&gateway.http(), "wrong", json!({})).await;
    assert_eq!(
        states(&result),
        [("bad", "failed"), ("after", "cancelled"), ("other", "succeeded"), ("lost", "failed")]
    );
    let steps = &result["structuredContent"]["steps"];
    assert_eq!(steps["bad"]["error"]["code"], "call.invalid-arguments", "{result}");
    assert_eq!(steps["lost"]["error"]["code"], "skill.no-value", "{result}");
}

#[tokio::test]
async fn a_plan_is_checked_whole_before_anything_runs() {
    let home = Home::with_settings(json!({}), &[]);
    let step = |id: &str, tool: &str| json!({ "id": id, "tool": tool, "arguments": { "text": id } });
    let write_first = [step("write", "led_write_entry"), step("then", "led_nothing")];
    let nested = [step("write", "led_write_entry"), step("again", "skill_lacking")];
    let cycle =
        [json!({ "id": "a", "tool": "t", "after": "b" }), json!({ "id": "b", "tool": "t", "after": "a" })];
    let skill = |name: &str, plan: &[Value]| json!({ "name": name, "instruction_prompt": "x", "plan": plan });
    let list = json!([
        skill("lacking", &write_first),
        skill("nested", &nested),
        skill("cyclic", &cycle),
        { "name": "no-text" },
        { "name": "needy", "instruction_prompt": "x", "required_tools": ["led_gone"], "required_capabilities": ["Flying"] },
    ]);
    write(&home, "skills/skills.json", &list.to_string());
    let ledger = LedgerGateway::at(home, &entry()).await.ready().await;
    let http = ledger.gateway.http();
    let skills = http.get_json("/skills").await;
    assert_eq!(listed(&skills), ["lacking", "needy", "nested"], "bad ones harm only themselves: {skills}");
    for (skill, expected) in [("lacking", "led_nothing"), ("nested", "skill_lacking")] {
        let result = run_skill(&http, skill, json!({})).await;
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("skill.refused") && text.contains(expected), "{text}");
    }
    assert!(ledger.entries().is_empty(), "nothing ran");
    let (status, check) = http.post_json("/skills/needy/validate", "").await;
    assert_eq!((status, &check["valid"]), (200, &json!(false)));
    assert_eq!(check["missing_tools"], json!(["led_gone"]));
    assert_eq!(check["missing_capabilities"], json!(["flying"]));
    let (status, refused) = http.post_json("/skills/needy/run", "{}").await;
    assert_eq!((status, &refused["code"]), (400, &json!("skill.no-plan")));
    let checked = ledger.run(&["skills", "check", "lacking"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(said(&checked).contains("there is no tool `led_nothing` [skill.no-tool]"), "{checked:?}");
    let config = ledger.run(&["config", "check"]);
    let text =
        String::from_utf8_lossy(&config.stdout).into_owned() + &String::from_utf8_lossy(&config.stderr);
    assert!(text.contains("these steps wait for each other: `a` -> `b` -> `a`"), "{text}");
    assert!(text.contains("the instructions are missing"), "{text}");
}

#[tokio::test]
async fn a_step_is_held_and_refused_like_any_call() {
    let home = Home::with_settings(
        json!({ "policy": { "rules": [
            { "tools": "led_write_entry", "effect": "ask" },
            { "tools": "led_delete_entry", "effect": "deny", "reason": "nothing goes" },
        ] } }),
        &[],
    );
    let plan = json!([
        { "id": "look", "tool": "led_read_entries" },
        { "id": "write", "tool": "led_write_entry", "after": ["look"], "arguments": { "text": "${arguments.text}" } },
        { "id": "again", "tool": "led_read_entries", "after": ["write"] },
    ]);
    let gone = json!([
        { "id": "delete", "tool": "led_delete_entry", "arguments": { "text": "x" } },
        { "id": "look", "tool": "led_read_entries", "after": ["delete"] },
    ]);
    let list = json!([
        { "name": "note", "instruction_prompt": "x", "plan": plan },
        { "name": "clean", "instruction_prompt": "x", "plan": gone },
    ]);
    write(&home, "skills/skills.json", &list.to_string());
    let ledger = LedgerGateway::at(home, &entry()).await.ready().await;
    let http = ledger.gateway.http();
    let result = run_skill(&http, "note", json!({ "text": "kept" })).await;
    assert_eq!(result["structuredContent"]["state"], "held", "{result}");
    assert_eq!(states(&result), [("look", "succeeded"), ("write", "held"), ("again", "waiting")]);
    assert!(ledger.entries().is_empty());
    let held = result["structuredContent"]["steps"]["write"]["held"].as_str().unwrap().to_owned();
    let id = result["structuredContent"]["run"].as_str().unwrap().to_owned();
    let waiting = http.get_json("/skills/note/runs").await;
    assert_eq!((&waiting["runs"][0]["id"], &waiting["runs"][0]["status"]), (&json!(id), &json!("waiting")));
    // The run is stored: it goes on after a restart.
    let ledger = ledger.survive().await.ready().await;
    let http = ledger.gateway.http();
    assert!(ledger.run(&["approvals", "approve", &held]).status.success());
    over(&http, &held).await;
    let user = ledger.user().await;
    assert_eq!(ledger.entries(), [format!("kept by {user}")], "it ran as the caller");
    let ended = poll(TEST_TIMEOUT, || async {
        let run = http.get_json(&format!("/skills/note/runs/{id}")).await;
        (run["status"] == "succeeded").then_some(run)
    });
    let ended = ended.await.expect("the run goes on");
    let steps: Vec<(&str, &str)> = ended["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["id"].as_str().unwrap(), step["status"].as_str().unwrap()))
        .collect();
    assert_eq!(steps, [("look", "succeeded"), ("write", "succeeded"), ("again", "succeeded")], "{ended}");
    // The end of the id is enough.
    let end = id.rsplit('-').next().unwrap();
    let shown = said(&ledger.run(&["skills", "runs", "note", end]));
    assert!(shown.contains("has succeeded") && shown.contains("again"), "{shown}");
    // The call of each step says to which run it belongs.
    let rows = http.get_json("/audit?kind=call&limit=100").await;
    let of_run = rows["rows"].as_array().unwrap().iter().filter(|row| row["detail"]["run"] == json!(id));
    assert!(of_run.clone().all(|row| row["detail"]["skill"] == "note"), "{rows}");
    assert!(of_run.clone().any(|row| row["detail"]["step"] == "look"), "{rows}");
    assert!(of_run.count() >= 2, "{rows}");
    let result = run_skill(&http, "clean", json!({})).await;
    assert_eq!(states(&result), [("delete", "failed"), ("look", "cancelled")]);
    let error = &result["structuredContent"]["steps"]["delete"]["error"];
    assert_eq!(error["code"], "call.refused", "{result}");
    let held = ledger.run(&["skills", "run", "note", "text=other"]);
    assert_eq!(held.status.code(), Some(4), "{held:?}");
    let shown = String::from_utf8_lossy(&held.stdout);
    assert!(shown.contains("of note is held.") && shown.contains("toolbooth approvals approve"), "{shown}");
    let unknown = http.get_json("/skills/nothing/runs").await;
    assert_eq!((&unknown["status"], &unknown["code"]), (&json!(404), &json!("skill.unknown")));
}

#[tokio::test]
async fn equal_runs_of_a_skill_have_their_own_held_calls() {
    let rules = json!([{ "tools": "led_write_entry", "effect": "ask" }]);
    let home = Home::with_settings(json!({ "policy": { "rules": rules } }), &[]);
    let plan = json!([{ "id": "write", "tool": "led_write_entry", "arguments": { "text": "same" } }]);
    let list = json!([{ "name": "note", "instruction_prompt": "x", "plan": plan }]);
    write(&home, "skills/skills.json", &list.to_string());
    let ledger = LedgerGateway::at(home, &entry()).await.ready().await;
    let (user, http) = (ledger.user().await, ledger.gateway.http());
    let (mut paths, mut held) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let result = run_skill(&http, "note", json!({})).await;
        let run = &result["structuredContent"];
        paths.push(format!("/skills/note/runs/{}", run["run"].as_str().expect("a stored run")));
        held.push(run["steps"]["write"]["held"].as_str().expect("a held call").to_owned());
    }
    assert_ne!(held[0], held[1]);
    let (status, answer) = http.post_json(&format!("/approvals/{}/approve", held[0]), "{}").await;
    assert_eq!(status, 200, "{answer}");
    let succeeded = poll(TEST_TIMEOUT, || async {
        (http.get_json(&paths[0]).await["status"] == "succeeded").then_some(())
    });
    succeeded.await.expect("the first run goes on");
    assert_eq!(http.get_json(&format!("/approvals/{}", held[1])).await["state"], "pending");
    assert_eq!(http.get_json(&paths[1]).await["status"], "waiting");
    assert_eq!(ledger.entries(), [format!("same by {user}")]);
}

#[tokio::test]
async fn each_caller_sees_the_skills_of_its_groups_and_persona() {
    let settings = json!({
        "auth": { "mode": "token" },
        "groups": { "staff": ["ann"] },
        "personas": {
            "Clerk": { "inherit": "shared", "allowed_skills": ["no*"] },
            "Atlas": { "inherit": "shared" },
        },
    });
    let mut server = fixture_on_stdio("modern");
    server["groups"] = json!(["staff"]);
    let home = Home::with_settings(settings, &[("srv", server)]);
    let plan = json!([{ "id": "a", "tool": "srv_test_simple_text" }]);
    let list = json!([
        { "name": "secret", "instruction_prompt": "x", "groups": ["staff"] },
        { "name": "runs", "instruction_prompt": "x", "plan": plan },
        { "name": "notes", "instruction_prompt": "shared" },
    ]);
    write(&home, "skills/skills.json", &list.to_string());
    let own = json!([{ "name": "notes", "instruction_prompt": "own" }, { "name": "map", "instruction_prompt": "x" }]);
    write(&home, "personas/Atlas/skills/skills.json", &own.to_string());
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let (ann, _) = make_token(&home, None, "ann", &[]);
    let (bob, _) = make_token(&home, None, "bob", &[]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&root);
    gateway.connected(&["srv"]).await;
    let http = |token: &str| Http::new(gateway.address).sending(&bearer(token));
    let cases: [(&str, &str, &[&str]); 6] = [
        (&ann, "", &["notes", "runs", "secret"]),
        (&bob, "", &["notes", "runs"]),
        (&bob, "?persona=Clerk", &["notes"]),
        (&bob, "?persona=atlas", &["map", "notes", "runs"]),
        (&bob, "?persona=Atlas&persona=-shared", &["map", "notes"]),
        (&bob, "?persona=-shared", &[]),
    ];
    for (token, query, expected) in cases {
        let answer = http(token).get_json(&format!("/skills{query}")).await;
        assert_eq!(listed(&answer), expected, "{query}");
        assert_eq!(answer["count"], expected.len());
        if query.is_empty() {
            let registry = http(token).get_json("/registry").await;
            assert_eq!(listed(&registry), expected);
        }
    }
    let own = http(&bob).get_json("/skills?persona=Atlas").await;
    assert_eq!(own["skills"][1]["instruction_prompt"], "own", "it shadows the shared one: {own}");
    let (status, hidden) = http(&bob).post_json("/skills/secret/validate", "").await;
    assert_eq!((status, &hidden["code"]), (404, &json!("skill.unknown")));
    // A step never has more rights than its caller: bob may not use the server.
    let result = run_skill(&http(&bob), "runs", json!({})).await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("there is no tool"), "{result}");
    let result = run_skill(&http(&ann), "runs", json!({})).await;
    assert_eq!(result["structuredContent"]["state"], "succeeded", "{result}");
    let clerk = TestClient::with_headers(ERAS[0], gateway.address, "/mcp/p/Clerk", &bearer(&ann)).await;
    let tools = clerk.names("tools/list", "tools").await;
    assert!(!tools.contains(&"skill_runs".to_owned()), "{tools:?}");
}

#[tokio::test]
async fn skills_are_found_by_search_and_follow_their_files() {
    let (home, gateway) =
        with_demo(&[("skills/notes/SKILL.md", NOTES), ("skills/digest/SKILL.md", DIGEST)]).await;
    let http = gateway.http();
    let found = http.get_json("/tools/search?q=write+minutes+of+a+meeting").await;
    let first = &found["hits"][0];
    assert_eq!((&first["kind"], &first["name"]), (&json!("skill"), &json!("notes")), "{found}");
    assert_eq!(first["uri"], "skill://notes/SKILL.md");
    let found = http.get_json("/tools/search?q=fingerprint+of+a+fingerprint").await;
    let names: Vec<(&Value, &Value)> =
        found["hits"].as_array().unwrap().iter().map(|hit| (&hit["kind"], &hit["name"])).collect();
    assert!(names.contains(&(&json!("skill"), &json!("skill_digest"))), "{found}");
    assert!(names.iter().any(|(kind, _)| **kind == "tool"), "{found}");

    let client = TestClient::of(ERAS[0], gateway.address).await;
    let mut changes = client.listen(&[]).await;
    let since = http.get_json("/skills/changes?since=0").await["revision"].as_u64().unwrap();
    let edited = NOTES.replace("Be brief.", "Be very brief.").replace("a meeting", "any meeting");
    write(&home, "skills/notes/SKILL.md", &edited);
    changes.wait_for("notifications/prompts/list_changed", TEST_TIMEOUT).await.expect("a notification");
    let changed = poll(TEST_TIMEOUT, || async {
        let skill = http.get_json("/skills/notes").await;
        (skill["instruction_prompt"] == "Be very brief.").then_some(())
    });
    assert!(changed.await.is_some());
    let changes = http.get_json(&format!("/skills/changes?since={since}")).await;
    assert_eq!(changes["count"], 1, "{changes}");
    assert_eq!(
        (&changes["changes"][0]["skill"], &changes["changes"][0]["change"]),
        (&json!("notes"), &json!("changed"))
    );
    let shown = run(&home, &["skills", "show", "notes"], None);
    assert!(said(&shown).contains("Be very brief."), "{shown:?}");
    let list = run(&home, &["skills"], None);
    assert!(said(&list).contains("digest") && said(&list).contains("3 steps"), "{list:?}");
}

#[tokio::test]
async fn a_rejected_step_ends_the_run_and_other_users_cannot_see_it() {
    let home = Home::with_settings(
        json!({
            "auth": { "mode": "token" },
            "policy": { "rules": [{ "tools": "demo_hash", "effect": "ask" }] },
        }),
        &[],
    );
    let plan = json!([
        { "id": "hash", "tool": "demo_hash", "arguments": { "text": "a" } },
        { "id": "say", "tool": "demo_echo", "arguments": { "text": "${steps.hash.results}" } },
    ]);
    let list = json!([{ "name": "note", "instruction_prompt": "x", "plan": plan }]);
    write(&home, "skills/skills.json", &list.to_string());
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let [ann, bob] = ["ann", "bob"].map(|user| make_token(&home, None, user, &[]).0);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&root);
    gateway.connected(&["demo"]).await;
    let [root, ann, bob] =
        [&root, &ann, &bob].map(|token| Http::new(gateway.address).sending(&bearer(token)));
    let result = run_skill(&ann, "note", json!({})).await;
    let run = &result["structuredContent"];
    let path = format!("/skills/note/runs/{}", run["run"].as_str().unwrap_or_else(|| panic!("{result}")));
    assert_eq!(ann.get_json(&path).await["status"], "waiting");
    let hidden = bob.send(::http::Method::GET, &path, &[], "").await;
    assert_eq!(hidden.status, 404);
    assert_eq!(bob.get_json("/skills/note/runs").await["runs"], json!([]));
    let listed = root.get_json("/skills/note/runs").await;
    assert_eq!((&listed["runs"][0]["owner"], &listed["runs"][1]), (&json!("ann"), &Value::Null), "{listed}");
    let held = run["steps"]["hash"]["held"].as_str().unwrap();
    let (status, answer) = root.post_json(&format!("/approvals/{held}/reject"), "{}").await;
    assert_eq!(status, 200, "{answer}");
    let ended = poll(TEST_TIMEOUT, || async {
        let run = ann.get_json(&path).await;
        (run["status"] == "failed").then_some(run)
    });
    let ended = ended.await.expect("the run ends");
    assert_eq!(ended["error"]["code"], "call.rejected", "{ended}");
}

#[tokio::test]
async fn a_broken_skill_stays_in_service() {
    let (home, gateway) = with_demo(&[("skills/notes/SKILL.md", NOTES)]).await;
    let http = gateway.http();
    write(&home, "skills/notes/SKILL.md", "---\nname: [\n---\n");
    let kept = poll(TEST_TIMEOUT, || async {
        let manifests = http.get_json("/manifests").await;
        manifests["kept"].to_string().contains("SKILL.md").then_some(())
    });
    kept.await.expect("the file is reported");
    assert_eq!(http.get_json("/skills/notes").await["instruction_prompt"], "Be brief.");
}
