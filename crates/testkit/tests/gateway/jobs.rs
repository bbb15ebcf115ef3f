//! Jobs and tasks: created, run, scheduled, interrupted and escalated, over REST and the command line.

use crate::ledger::{LedgerGateway, over, said};
use crate::token_users::{bearer, make_token, read, run};
use serde_json::{Value, json};
use std::fs;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::sink::Sink;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, poll};

/// A job that reads and then writes.
fn ledger_job() -> Value {
    json!({
        "name": "brief",
        "summary": "Writes the brief",
        "plan": [
            { "id": "read", "tool": "led_read_entries" },
            { "id": "write", "tool": "led_write_entry", "after": ["read"], "arguments": { "text": "${arguments.text}" } },
        ],
        "recurrence": { "cron": "0 7 * * 1-5", "timezone": "Europe/Berlin" },
        "acceptance_criteria": ["The brief is there."],
    })
}

async fn post(http: &Http, path: &str, body: Value) -> (u16, Value) {
    http.post_json(path, &body.to_string()).await
}

async fn patch(http: &Http, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let reply = http.send(::http::Method::PATCH, path, &headers, body.to_string()).await;
    (reply.status, reply.json().await)
}

/// Waits until a run is in one of these states.
async fn run_in(http: &Http, job: &str, run: &str, states: &[&str]) -> Value {
    let path = format!("/jobs/{job}/runs/{run}");
    let found = poll(TEST_TIMEOUT, || async {
        let run = http.get_json(&path).await;
        states.contains(&run["status"].as_str().unwrap_or_default()).then_some(run)
    });
    match found.await {
        Some(run) => run,
        None => panic!("{}", http.get_json(&path).await),
    }
}

fn id(run: &Value) -> String {
    run["id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}

#[tokio::test]
async fn a_job_is_created_run_scheduled_and_cancelled() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    let http = ledger.gateway.http();
    let mut once = ledger_job();
    once.as_object_mut().unwrap().remove("recurrence");
    let (status, job) = post(&http, "/jobs", once).await;
    assert_eq!((status, &job["status"], &job["ready"]), (201, &json!("draft"), &json!(true)), "{job}");
    let (status, problem) = post(&http, "/jobs", ledger_job()).await;
    assert_eq!((status, &problem["code"]), (409, &json!("job.taken")));
    let (status, problem) = post(&http, "/jobs", json!({ "name": "x", "plan": [], "when": 1 })).await;
    assert_eq!((status, &problem["code"]), (400, &json!("job.bad-definition")), "{problem}");

    let (status, run) = post(&http, "/jobs/brief/run", json!({ "arguments": { "text": "one" } })).await;
    assert_eq!(status, 202, "{run}");
    let run = run_in(&http, "brief", &id(&run), &["succeeded", "failed"]).await;
    assert_eq!((&run["status"], &run["trigger"]), (&json!("succeeded"), &json!("manual")), "{run}");
    assert_eq!(ledger.entries().len(), 1, "{:?}", ledger.entries());
    let user = ledger.user().await;
    assert_eq!(ledger.entries()[0], format!("one by {user}"), "it runs as its owner");
    let job = http.get_json("/jobs/brief?include=runs,events").await;
    assert_eq!((&job["status"], &job["health"]["job"]["runs"]), (&json!("succeeded"), &json!(1)), "{job}");
    let kinds: Vec<&str> =
        job["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"job.started") && kinds.contains(&"job.succeeded"), "{kinds:?}");

    // The state is final, but the job can run again, with the same arguments.
    let (status, problem) = post(&http, "/jobs/brief/run", json!({})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("job.bad-transition")), "{problem}");
    let (status, run) = post(&http, "/jobs/brief/rerun", json!({})).await;
    assert_eq!(status, 202, "{run}");
    run_in(&http, "brief", &id(&run), &["succeeded"]).await;
    assert_eq!(ledger.entries().len(), 2);
    let history = ledger.json(&["jobs", "history", "brief"]);
    assert_eq!(history["runs"].as_array().unwrap().len(), 2, "{history}");

    let other =
        json!({ "name": "daily", "plan": ledger_job()["plan"], "recurrence": ledger_job()["recurrence"] });
    post(&http, "/jobs", other).await;
    let (status, problem) = post(&http, "/jobs/daily/schedule/pause", json!({})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("job.no-schedule")));
    let sentence = problem["title"].as_str().unwrap();
    assert!(sentence.contains("draft and not scheduled"), "{sentence}");
    // A job with a recurrence can be tried before it is scheduled.
    let (_, run) = post(&http, "/jobs/daily/run", json!({ "arguments": { "text": "trial" } })).await;
    run_in(&http, "daily", &id(&run), &["succeeded"]).await;
    let job = http.get_json("/jobs/daily?include=schedule&count=3").await;
    assert_eq!(job["status"], "draft", "{job}");
    assert_eq!(job["schedule"]["upcoming"].as_array().unwrap().len(), 3);
    let (status, job) = post(&http, "/jobs/daily/transition", json!({ "target_status": "scheduled" })).await;
    assert_eq!((status, &job["status"]), (200, &json!("scheduled")), "{job}");
    assert!(job["next_run_at"].as_i64().is_some(), "{job}");
    let (_, job) = post(&http, "/jobs/daily/schedule/pause", json!({})).await;
    assert_eq!((&job["paused"], &job["next_run_at"]), (&json!(true), &Value::Null), "{job}");
    let (_, job) = post(&http, "/jobs/daily/schedule/resume", json!({})).await;
    assert!(job["paused"] == false && job["next_run_at"].is_i64(), "{job}");
    let found = http.get_json("/jobs?status=scheduled").await;
    assert_eq!((&found["count"], &found["jobs"][0]["name"]), (&json!(1), &json!("daily")), "{found}");
    assert!(ledger.run(&["jobs", "cancel", "daily"]).status.success());
    let (status, problem) =
        post(&http, "/jobs/daily/transition", json!({ "target_status": "scheduled" })).await;
    assert_eq!((status, &problem["code"]), (409, &json!("job.bad-transition")));
    let sentence = problem["title"].as_str().unwrap();
    assert!(sentence.contains("cancelled") && sentence.contains("scheduled"), "{sentence}");
    let (status, job) = post(&http, "/jobs/daily/schedule/resume", json!({})).await;
    assert_eq!((status, &job["status"]), (200, &json!("scheduled")), "it is scheduled again: {job}");
    let next = ledger.run(&["jobs", "next", "daily", "--count", "2"]);
    assert_eq!(said(&next).lines().count(), 2);
}

#[tokio::test]
async fn a_stale_change_is_refused() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    let http = ledger.gateway.http();
    let (_, job) = post(&http, "/jobs", ledger_job()).await;
    let first = job["updated_at"].as_i64().unwrap();
    let change = json!({ "summary": "New", "expected_updated_at": first });
    let (status, job) = patch(&http, "/jobs/brief", &change).await;
    assert_eq!((status, &job["summary"]), (200, &json!("New")), "{job}");
    assert!(job["updated_at"].as_i64().unwrap() > first);
    let (status, problem) = patch(&http, "/jobs/brief", &change).await;
    assert_eq!((status, &problem["code"]), (409, &json!("job.changed")), "{problem}");
    let (status, problem) = patch(&http, "/jobs/brief", &json!({ "plan": null })).await;
    assert_eq!((status, &problem["code"]), (400, &json!("job.bad-definition")), "{problem}");
    let (status, _) = patch(&http, "/jobs/brief", &json!({ "name": "other" })).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_stale_transition_is_refused() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    let http = ledger.gateway.http();
    let (_, job) = post(&http, "/jobs", ledger_job()).await;
    let task = json!({ "name": "Check", "summary": "Checks it" });
    let (status, task) = post(&http, "/tasks", task).await;
    assert_eq!(status, 201, "{task}");
    let task_path = format!("/tasks/{}", id(&task));
    for (path, entry, target) in [("/jobs/brief", &job, "cancelled"), (task_path.as_str(), &task, "ready")] {
        let first = entry["updated_at"].as_i64().unwrap();
        let (_, changed) = patch(&http, path, &json!({ "summary": "New" })).await;
        let latest = changed["updated_at"].as_i64().unwrap();
        assert!(latest > first, "{changed}");
        let path = format!("{path}/transition");
        let stale = json!({ "target_status": target, "expected_updated_at": first });
        let (status, problem) = post(&http, &path, stale).await;
        assert_eq!((status, &problem["code"]), (409, &json!("job.changed")), "{problem}");
        let wrong = json!({ "target_status": target, "expected_updated_at": "now" });
        assert_eq!(post(&http, &path, wrong).await.0, 400);
        let current = json!({ "target_status": target, "expected_updated_at": latest });
        let (status, changed) = post(&http, &path, current).await;
        assert_eq!((status, &changed["status"]), (200, &json!(target)), "{changed}");
    }
}

#[tokio::test]
async fn a_step_that_needs_approval_holds_the_run_over_a_restart() {
    let rules = json!([{ "tools": "led_write_entry", "effect": "ask" }]);
    let ledger = LedgerGateway::start(json!({ "policy": { "rules": rules } })).await.ready().await;
    let http = ledger.gateway.http();
    post(&http, "/jobs", ledger_job()).await;
    let (_, run) = post(&http, "/jobs/brief/run", json!({ "arguments": { "text": "held" } })).await;
    let run = run_in(&http, "brief", &id(&run), &["waiting"]).await;
    let steps = run["parts"][0]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["id"] == "write").unwrap();
    assert_eq!(step["status"], "held", "{run}");
    let (held, call) = (step["held"].as_str().unwrap().to_owned(), step["call"].clone());
    let ledger = ledger.survive().await.ready().await;
    let http = ledger.gateway.http();
    let (status, answer) = post(&http, &format!("/approvals/{held}/approve"), json!({})).await;
    assert_eq!(status, 200, "{answer}");
    over(&http, &held).await;
    let run = run_in(&http, "brief", &id(&run), &["succeeded"]).await;
    assert_eq!(ledger.entries().len(), 1, "{:?}", ledger.entries());
    let step = &run["parts"][0]["steps"][1];
    assert_eq!((&step["id"], &step["call"]), (&json!("write"), &call), "it keeps the id of its call: {run}");
    assert!(step["ended_at"].as_i64() >= step["started_at"].as_i64() && step["ended_at"].is_i64(), "{run}");
}

#[tokio::test]
async fn a_decision_continues_the_run_at_once_and_its_reason_is_shown() {
    let rules = json!([{ "tools": "led_write_entry", "effect": "ask" }]);
    let ledger = LedgerGateway::start(json!({ "policy": { "rules": rules } })).await.ready().await;
    let (user, http) = (ledger.user().await, ledger.gateway.http());
    let plan = json!([
        { "id": "look", "tool": "led_read_entries" },
        { "id": "write", "tool": "led_write_entry", "after": ["look"], "arguments": { "text": "x" } },
    ]);
    post(&http, "/jobs", json!({ "name": "brief", "plan": plan })).await;
    let (_, run) = post(&http, "/jobs/brief/run", json!({})).await;
    let run = run_in(&http, "brief", &id(&run), &["waiting"]).await;
    let held = run["parts"][0]["steps"][1]["held"].as_str().unwrap().to_owned();
    let shown = said(&ledger.run(&["approvals", "show", &held]));
    assert!(shown.contains(&format!("job brief, run {}, step write", id(&run))), "{shown}");
    let listed = http.get_json("/approvals?state=pending").await;
    assert_eq!(listed["approvals"][0]["run"]["name"], "brief", "{listed}");

    let rejected = ledger.run(&["approvals", "reject", &held, "--reason", "not today"]);
    assert!(rejected.status.success(), "{rejected:?}");
    let ended = run_in(&http, "brief", &id(&run), &["failed"]).await;
    let decided = http.get_json(&format!("/approvals/{held}")).await;
    let waited = ended["ended_at"].as_i64().unwrap() - decided["decided_ms"].as_i64().unwrap();
    assert!(waited < 2_500, "the run was woken: {waited} ms");
    let reason = format!("`led_write_entry` was rejected by {user}: not today");
    assert_eq!(ended["error"]["message"], reason, "{ended}");
    let end = id(&run).rsplit('-').next().unwrap().to_owned();
    let history = said(&ledger.run(&["jobs", "history", "brief", &end]));
    assert!(history.contains(&id(&run)) && history.contains("not today"), "{history}");
    // The record of the held call says what has become of it, and is found by the id of the held call.
    let record = ledger.json(&["calls", "show", &held]);
    assert_eq!((&record["name"], &record["held_state"]), (&json!("led_write_entry"), &json!("rejected")));
}

#[tokio::test]
async fn a_cancelled_run_withdraws_its_own_held_call() {
    let rules = json!([{ "tools": "led_write_entry", "effect": "ask" }]);
    let ledger = LedgerGateway::start(json!({ "policy": { "rules": rules } })).await.ready().await;
    let (user, http) = (ledger.user().await, ledger.gateway.http());
    let plan = json!([{ "id": "write", "tool": "led_write_entry", "arguments": { "text": "same" } }]);
    let (mut runs, mut held) = (Vec::new(), Vec::new());
    for name in ["first", "second"] {
        post(&http, "/jobs", json!({ "name": name, "plan": plan })).await;
        let (_, run) = post(&http, &format!("/jobs/{name}/run"), json!({})).await;
        let run = run_in(&http, name, &id(&run), &["waiting"]).await;
        runs.push(id(&run));
        held.push(run["parts"][0]["steps"][0]["held"].as_str().unwrap().to_owned());
    }
    assert_ne!(held[0], held[1], "equal calls of two runs are decided one by one");
    assert!(ledger.run(&["jobs", "cancel", "first"]).status.success());
    let cancelled = http.get_json(&format!("/jobs/first/runs/{}", runs[0])).await;
    assert_eq!(cancelled["parts"][0]["steps"][0]["status"], "cancelled", "{cancelled}");
    let pending = http.get_json("/approvals?state=pending").await;
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 1, "{pending}");
    assert_eq!(pending["approvals"][0]["id"], json!(held[1]), "{pending}");

    let ledger = ledger.survive().await.ready().await;
    let http = ledger.gateway.http();
    let (status, late) = post(&http, &format!("/approvals/{}/approve", held[0]), json!({})).await;
    assert_eq!((status, &late["code"]), (409, &json!("call.already-decided")), "{late}");
    let reason = "the run of `first` was cancelled";
    assert_eq!(late["title"], format!("held call {} was withdrawn by {user}: {reason}", held[0]));
    let ended = http.get_json(&format!("/approvals/{}", held[0])).await;
    assert_eq!((&ended["state"], &ended["decided_by"]), (&json!("rejected"), &json!(user)), "{ended}");
    assert_eq!(ended["decision_note"], "withdrawn: the run of `first` was cancelled");
    let (status, answer) = post(&http, &format!("/approvals/{}/approve", held[1]), json!({})).await;
    assert_eq!(status, 200, "{answer}");
    run_in(&http, "second", &runs[1], &["succeeded"]).await;
    run_in(&http, "first", &runs[0], &["cancelled"]).await;
    assert_eq!(ledger.entries(), [format!("same by {user}")]);
}

/// Two tools; one of them writes.
const TOOLS: &str = r#"[
    {"name":"list_notes","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
    {"name":"send_note","inputSchema":{"type":"object"}}
]"#;

fn ok() -> ScriptedAnswer {
    ScriptedAnswer::result(r#"{"content":[{"type":"text","text":"done"}]}"#)
}

fn silent() -> ScriptedAnswer {
    ScriptedAnswer::Stalls { text: "{".into(), length: 1000 }
}

/// Starts a job with one step, which does not end, and kills the gateway.
async fn interrupt(tool: &str) -> (Home, ScriptedServer, Gateway, String) {
    let mail = ScriptedServer::start(TestEra::Modern).await;
    mail.list(TOOLS);
    mail.answer(silent());
    let home = Home::new(&[("mail", mail.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["mail"]).await;
    let http = gateway.http();
    let plan = json!([{ "id": "only", "tool": format!("mail_{tool}") }]);
    post(&http, "/jobs", json!({ "name": "once", "plan": plan })).await;
    let (status, run) = post(&http, "/jobs/once/run", json!({})).await;
    assert_eq!(status, 202, "{run}");
    let sent = poll(TEST_TIMEOUT, || async { (!mail.seen("tools/call").is_empty()).then_some(()) });
    sent.await.expect("the call was sent");
    gateway.kill().await;
    mail.answer(ok());
    let gateway = home.start().await;
    gateway.connected(&["mail"]).await;
    (home, mail, gateway, id(&run))
}

#[tokio::test]
async fn a_killed_run_does_not_write_twice_and_waits_for_a_person() {
    let (home, mail, gateway, run) = interrupt("send_note").await;
    let http = gateway.http();
    let held = run_in(&http, "once", &run, &["held"]).await;
    assert_eq!(held["error"]["code"], "job.interrupted", "{held}");
    assert_eq!(mail.seen("tools/call").len(), 1, "no second write");
    let decided = crate::token_users::run(&home, &["jobs", "decide", "once", &run, "repeat"], None);
    assert!(decided.status.success(), "{}", String::from_utf8_lossy(&decided.stderr));
    run_in(&http, "once", &run, &["succeeded"]).await;
    assert_eq!(mail.seen("tools/call").len(), 2, "a person decided to repeat it");
}

#[tokio::test]
async fn a_killed_run_repeats_a_read() {
    let (_home, mail, gateway, run) = interrupt("list_notes").await;
    let run = run_in(&gateway.http(), "once", &run, &["succeeded", "held", "failed"]).await;
    assert_eq!((&run["status"], &run["attempts"]), (&json!("succeeded"), &json!(2)), "{run}");
    assert_eq!(mail.seen("tools/call").len(), 2);
}

#[tokio::test]
async fn a_failed_job_is_escalated_to_webhooks() {
    let sink = Sink::answering(&[]).await;
    let mail = ScriptedServer::start(TestEra::Modern).await;
    mail.list(TOOLS);
    mail.answer(ScriptedAnswer::result(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#));
    let hooks = json!([{ "url": format!("{}/hook", sink.url), "types": ["job.escalated"] }]);
    let home = Home::with_settings(json!({ "events": { "webhooks": hooks } }), &[("mail", mail.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["mail"]).await;
    let http = gateway.http();
    let job = json!({
        "name": "mailing",
        "plan": [{ "id": "only", "tool": "mail_send_note" }],
        "escalation_policy": { "level": "editor", "contact": "editor@example.org", "triggers": ["failed"] },
    });
    post(&http, "/jobs", job).await;
    let (_, run) = post(&http, "/jobs/mailing/run", json!({})).await;
    let run = run_in(&http, "mailing", &id(&run), &["failed"]).await;
    assert_eq!(run["escalations"], json!(["failed"]), "{run}");
    let posted = poll(TEST_TIMEOUT, || async { sink.posted().first().cloned() }).await.expect("a webhook");
    let text = String::from_utf8_lossy(&posted.body).into_owned();
    assert!(text.contains("job.escalated") && text.contains("editor@example.org"), "{text}");
}

#[tokio::test]
async fn manifest_jobs_and_tasks_are_listed_by_persona_and_a_bad_one_harms_only_itself() {
    let personas = json!({ "Atlas": { "inherit": "shared" }, "Scribe": { "inherit": "shared" } });
    let home = Home::with_settings(json!({ "personas": personas }), &[]);
    fs::create_dir_all(home.path("jobs")).unwrap();
    fs::create_dir_all(home.path("tasks")).unwrap();
    let policy = json!({ "level": "editor" });
    let task = json!({
        "name": "Hash", "summary": "Hashes a text", "required_skills": [], "required_tools": ["demo_hash"],
        "plan": [{ "id": "hash", "tool": "demo_hash", "arguments": { "text": "${arguments.text}" } }],
        "acceptance_criteria": ["It is hashed."], "escalation_policy": policy,
    });
    let manual = json!({
        "name": "Check", "summary": "Checks it", "required_skills": [], "required_tools": [],
        "acceptance_criteria": ["It is checked."], "escalation_policy": policy, "tags": ["human"],
    });
    let job = json!({
        "name": "Digest", "summary": "Hashes and checks", "personas": ["Atlas"], "required_skills": [],
        "required_tools": ["demo_hash"],
        "task_graph": [
            { "task": "Check", "depends_on": ["Hash"] },
            { "task": "Hash", "metadata": { "arguments": { "text": "a" } } },
        ],
        "acceptance_criteria": ["Done."], "escalation_policy": policy,
    });
    let broken = json!({ "name": "Broken", "summary": "s" });
    fs::write(home.path("tasks/tasks.json"), json!([task, manual]).to_string()).unwrap();
    fs::write(home.path("jobs/jobs.json"), json!([job, broken]).to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let http = gateway.http();
    let registry = http.get_json("/registry").await;
    assert_eq!(registry["jobs"].as_array().unwrap().len(), 1, "{}", registry["jobs"]);
    assert_eq!(registry["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(http.get_json("/jobs?persona=Atlas").await["count"], 1);
    assert_eq!(http.get_json("/jobs?persona=Scribe").await["jobs"], json!([]));
    // The filter also applies to jobs that requests created.
    let own = json!({ "name": "own", "personas": ["Scribe"], "plan": ledger_job()["plan"] });
    assert_eq!(post(&http, "/jobs", own).await.0, 201);
    for (query, expected) in [("", 2), ("?persona=Atlas", 1), ("?persona=Scribe", 1), ("?persona=-shared", 0)]
    {
        assert_eq!(http.get_json(&format!("/jobs{query}")).await["count"], expected, "{query}");
    }
    let (status, problem) = patch(&http, "/jobs/Digest", &json!({ "summary": "x" })).await;
    assert_eq!((status, &problem["code"]), (409, &json!("job.in-manifest")));

    let (status, run) = post(&http, "/jobs/Digest/run", json!({})).await;
    assert_eq!(status, 202, "{run}");
    let run = run_in(&http, "Digest", &id(&run), &["waiting"]).await;
    assert_eq!(run["parts"][0]["outcome"], "succeeded", "{run}");
    // The second task has no steps: a person completes it.
    let task = run["parts"][1]["task"].as_str().unwrap_or_else(|| panic!("{run}"));
    let (status, problem) =
        post(&http, &format!("/tasks/{task}/transition"), json!({ "target_status": "done" })).await;
    assert_eq!((status, &problem["code"]), (409, &json!("task.bad-transition")));
    for state in ["in_progress", "review", "done"] {
        let body = json!({ "target_status": state });
        let (status, answer) = post(&http, &format!("/tasks/{task}/transition"), body).await;
        assert_eq!((status, &answer["status"]), (200, &json!(state)), "{answer}");
    }
    run_in(&http, "Digest", &id(&run), &["succeeded"]).await;
    let found = post(&http, "/tasks/search", json!({ "text": "checks", "status": ["done"] })).await.1;
    assert_eq!(found["count"], 1, "{found}");
}

#[tokio::test]
async fn another_user_sees_neither_the_job_nor_its_runs() {
    let settings = json!({ "auth": { "mode": "token" } });
    let home = Home::with_settings(settings, &[]);
    let tokens = ["ann", "bob"].map(|user| make_token(&home, None, user, &[]).0);
    let gateway = home.start().await;
    let [ann, bob] = tokens.map(|token| Http::new(gateway.address).sending(&bearer(&token)));
    let plan = json!([{ "id": "one", "tool": "demo_hash", "arguments": { "text": "secret" } }]);
    let (status, job) = post(&ann, "/jobs", json!({ "name": "mine", "plan": plan })).await;
    assert_eq!((status, &job["owner"]), (201, &json!("ann")), "{job}");
    assert_eq!(bob.get_json("/jobs").await["count"], 0);
    for (method, path) in [
        (::http::Method::GET, "/jobs/mine"),
        (::http::Method::GET, "/jobs/mine/runs"),
        (::http::Method::POST, "/jobs/mine/run"),
        (::http::Method::POST, "/jobs/mine/schedule/pause"),
    ] {
        let reply = bob.send(method, path, &[("content-type", "application/json")], "").await;
        let (status, problem) = (reply.status, reply.json().await);
        assert_eq!((status, &problem["code"]), (404, &json!("job.unknown")), "{path}: {problem}");
    }
    // The same name is free for another user.
    let (status, _) = post(&bob, "/jobs", json!({ "name": "mine", "plan": plan })).await;
    assert_eq!(status, 201);
}

#[tokio::test]
async fn a_job_of_an_administrator_does_not_use_the_tasks_of_others() {
    let home = Home::with_settings(json!({ "auth": { "mode": "token" } }), &[]);
    let (cleo, _) = make_token(&home, None, "cleo", &["--groups", "admin"]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&cleo);
    gateway.connected(&["demo"]).await;
    let (ann, _) = make_token(&home, Some(&cleo), "ann", &[]);
    let [cleo, ann] = [cleo, ann].map(|token| Http::new(gateway.address).sending(&bearer(&token)));
    let task = |name: &str, step: &str| {
        let plan = json!([{ "id": step, "tool": "demo_hash", "arguments": { "text": step } }]);
        json!({ "name": name, "plan": plan })
    };
    // The tasks of the other user are newer.
    for (http, body) in [
        (&cleo, task("Collect", "own")),
        (&cleo, task("Review", "own")),
        (&ann, task("Collect", "foreign")),
        (&ann, task("Review", "foreign")),
        (&ann, task("Extra", "foreign")),
    ] {
        let (status, answer) = post(http, "/tasks", body).await;
        assert_eq!(status, 201, "{answer}");
    }
    post(&cleo, "/jobs", json!({ "name": "mine", "task_graph": [{ "task": "Collect" }] })).await;
    let (status, run) = post(&cleo, "/jobs/mine/run", json!({})).await;
    assert_eq!(status, 202, "{run}");
    let run = run_in(&cleo, "mine", &id(&run), &["succeeded", "failed"]).await;
    let steps: Vec<&Value> =
        run["parts"].as_array().unwrap().iter().flat_map(|part| part["steps"].as_array().unwrap()).collect();
    assert_eq!((steps.len(), &steps[0]["id"]), (1, &json!("own")), "{run}");

    post(&cleo, "/jobs", json!({ "name": "other", "task_graph": [{ "task": "Extra" }] })).await;
    let (status, problem) = post(&cleo, "/jobs/other/run", json!({})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("job.not-ready")), "{problem}");

    // By name, the caller's own task comes first; only it counts as a dependency.
    assert_eq!(cleo.get_json("/tasks/Collect").await["owner"], "cleo");
    let cancelled = json!({ "target_status": "cancelled" });
    let (status, answer) = post(&ann, "/tasks/Review/transition", cancelled).await;
    assert_eq!((status, &answer["owner"]), (200, &json!("ann")), "{answer}");
    post(&cleo, "/tasks", json!({ "name": "Publish", "depends_on": ["Review"] })).await;
    let (status, problem) =
        post(&cleo, "/tasks/Publish/transition", json!({ "target_status": "ready" })).await;
    assert_eq!((status, &problem["code"]), (409, &json!("task.dependency-open")), "{problem}");
}

#[tokio::test]
async fn a_large_definition_is_refused() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let http = gateway.http();
    let criteria: Vec<String> = (0..100).map(|number| format!("{number} {}", "x".repeat(3_000))).collect();
    let plan = json!([{ "id": "one", "tool": "demo_hash", "arguments": { "text": "a" } }]);
    for path in ["/jobs", "/tasks"] {
        let body = json!({ "name": "large", "plan": plan, "acceptance_criteria": criteria });
        let (status, problem) = post(&http, path, body).await;
        assert_eq!((status, &problem["code"]), (400, &json!("job.bad-definition")), "{problem}");
        assert!(problem.to_string().contains("256 KiB"), "{problem}");
    }
}

#[tokio::test]
async fn a_signed_request_starts_a_job_once() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    let http = ledger.gateway.http();
    let mut job = ledger_job();
    job["accepts_external_requests"] = true.into();
    post(&http, "/jobs", job).await;
    let hook = http.get_json("/jobs/brief?include=webhook").await["webhook"].clone();
    let (path, key) = (hook["path"].as_str().unwrap(), hook["key"].as_str().unwrap());
    let body = json!({ "arguments": { "text": "external" } }).to_string();
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let signed = toolbooth_core::event::signature(key.as_bytes(), seconds, body.as_bytes());
    let send = async |signed: &str, body: &str| {
        let headers = [("content-type", "application/json"), ("toolbooth-signature", signed)];
        let reply = http.send(::http::Method::POST, path, &headers, body.to_owned()).await;
        (reply.status, reply.json().await)
    };
    let old = toolbooth_core::event::signature(key.as_bytes(), seconds - 600, body.as_bytes());
    for (wrong, text) in [("", body.as_str()), (&old, &body), (&signed, "{}")] {
        let (status, problem) = send(wrong, text).await;
        assert_eq!((status, &problem["code"]), (401, &json!("job.bad-signature")), "{problem}");
    }
    let (status, run) = send(&signed, &body).await;
    assert_eq!(status, 202, "{run}");
    run_in(&http, "brief", run["run"].as_str().unwrap(), &["succeeded"]).await;
    let (status, _) = send(&signed, &body).await;
    assert_eq!(status, 401, "a signature works once");
    assert_eq!(ledger.entries().len(), 1);
}

#[tokio::test]
async fn jobs_on_the_command_line() {
    let home = Home::new(&[]);
    let plan = json!([{ "id": "one", "tool": "demo_hash", "arguments": { "text": "a" } }]);
    let file = home.path("job.json");
    fs::write(&file, json!({ "name": "cli", "plan": plan }).to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let created = run(&home, &["jobs", "create", &file.display().to_string()], None);
    assert!(said(&created).starts_with("Created cli: it is draft."), "{created:?}");
    let ran = read(&run(&home, &["jobs", "run", "cli", "--json"], None));
    assert_eq!(ran["status"], "succeeded", "{ran}");
    let listed = said(&run(&home, &["jobs"], None));
    assert!(listed.contains("cli") && listed.contains("succeeded"), "{listed}");
    let refused = run(&home, &["jobs", "schedule", "cli"], None);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn a_job_that_is_scheduled_without_a_gateway_is_warned_about() {
    let home = Home::new(&[]);
    let file = home.path("job.json");
    let plan = json!([{ "id": "one", "tool": "demo_hash", "arguments": { "text": "a" } }]);
    let job = json!({ "name": "yearly", "plan": plan, "recurrence": { "cron": "0 7 1 1 *" } });
    fs::write(&file, job.to_string()).unwrap();
    assert!(run(&home, &["jobs", "create", &file.display().to_string()], None).status.success());
    let scheduled = run(&home, &["jobs", "schedule", "yearly"], None);
    assert!(said(&scheduled).contains("it is scheduled"), "{scheduled:?}");
    let warned = String::from_utf8_lossy(&scheduled.stderr).into_owned();
    assert!(warned.contains("no gateway is running"), "{warned}");
}

#[tokio::test]
async fn jobs_and_tasks_are_changed_and_deleted_on_the_command_line() {
    let home = Home::new(&[]);
    let write = |name: &str, body: Value| {
        let file = home.path(name);
        fs::write(&file, body.to_string()).unwrap();
        file.display().to_string()
    };
    // Written in another order than they run.
    let plan = json!([
        { "id": "zeta", "tool": "demo_echo", "arguments": { "text": "${steps.mid.results}" } },
        { "id": "mid", "tool": "demo_hash", "arguments": { "text": "${steps.new.results}" } },
        { "id": "new", "tool": "demo_hash", "arguments": { "text": "a" } },
    ]);
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let created =
        run(&home, &["jobs", "create", &write("job.json", json!({ "name": "cli", "plan": plan }))], None);
    assert!(created.status.success(), "{created:?}");
    let edit = write("edit.json", json!({ "summary": "Changed", "description": "More" }));
    let job = read(&run(&home, &["jobs", "edit", "cli", &edit, "--json"], None));
    assert_eq!(job["summary"], "Changed", "{job}");
    let order: Vec<&str> =
        job["plan"].as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap()).collect();
    assert_eq!(order, ["new", "mid", "zeta"], "in the order in which they run");
    let stale = run(&home, &["jobs", "edit", "cli", &edit, "--expected", "1"], None);
    assert!(String::from_utf8_lossy(&stale.stderr).contains("job.changed"), "{stale:?}");
    let ran = read(&run(&home, &["jobs", "run", "cli", "--json"], None));
    let steps = ran["parts"][0]["steps"].as_array().unwrap().iter();
    assert_eq!(steps.map(|step| step["id"].as_str().unwrap()).collect::<Vec<_>>(), order, "{ran}");
    let shown = said(&run(&home, &["jobs", "history", "cli", ran["id"].as_str().unwrap()], None));
    assert!(shown.find("new").unwrap() < shown.find("zeta").unwrap(), "{shown}");
    // Lists leave out the steps and their results.
    let http = gateway.http();
    assert!(http.get_json("/jobs").await["jobs"][0].get("plan").is_none());
    let history = http.get_json("/jobs/cli/runs").await;
    assert_eq!(history["runs"][0]["parts"][0]["steps"][0]["results"], Value::Null, "{history}");
    let deleted = run(&home, &["jobs", "delete", "cli"], None);
    assert_eq!(said(&deleted), "Deleted cli.");
    let gone = http.send(::http::Method::GET, "/jobs/cli", &[], "").await;
    assert_eq!(gone.status, 404);
    // A new job of the same name does not have the runs of the deleted one.
    run(&home, &["jobs", "create", &home.path("job.json").display().to_string()], None);
    assert_eq!(http.get_json("/jobs/cli/runs").await["runs"], json!([]));

    let task =
        read(&run(&home, &["tasks", "create", &write("task.json", json!({ "name": "T" })), "--json"], None));
    let id = task["id"].as_str().unwrap();
    let task = read(&run(
        &home,
        &["tasks", "edit", id, &write("t.json", json!({ "priority": "high" })), "--json"],
        None,
    ));
    assert_eq!(task["priority"], "high", "{task}");
    assert!(run(&home, &["tasks", "delete", id], None).status.success());
    let gone = http.send(::http::Method::GET, &format!("/tasks/{id}"), &[], "").await;
    assert_eq!(gone.status, 404);
    let rows = http.get_json("/audit?kind=job").await;
    let outcomes: Vec<&str> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    for outcome in ["created", "changed", "started", "succeeded", "deleted"] {
        assert!(outcomes.contains(&outcome), "{outcome}: {rows}");
    }
    let started = rows["rows"].as_array().unwrap().iter().find(|row| row["outcome"] == "started").unwrap();
    assert_eq!(
        (&started["detail"]["job"], &started["detail"]["run"]),
        (&json!("cli"), &ran["id"]),
        "{started}"
    );
}

#[tokio::test]
async fn a_person_answers_the_criteria_of_a_run() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let http = gateway.http();
    let plan = json!([{ "id": "one", "tool": "demo_hash", "arguments": { "text": "a" } }]);
    let criteria = json!(["It is short.", { "criterion": "There is a hash", "step": "one", "at_least": 3 }]);
    post(&http, "/jobs", json!({ "name": "cli", "plan": plan, "acceptance_criteria": criteria })).await;
    let ran = read(&run(&home, &["jobs", "run", "cli", "--json"], None));
    assert_eq!((&ran["status"], &ran["open_criteria"]), (&json!("succeeded"), &json!(1)), "{ran}");
    let id = ran["id"].as_str().unwrap();
    assert_eq!(http.get_json("/jobs/cli").await["open_criteria"], 1);
    let shown = said(&run(&home, &["jobs", "show", "cli"], None));
    assert!(shown.contains("criterion 0: open  It is short."), "{shown}");
    assert!(shown.contains(&format!("toolbooth jobs confirm cli {id} NUMBER met")), "{shown}");
    let unmet = read(&run(&home, &["jobs", "confirm", "cli", id, "0", "unmet", "--json"], None));
    assert_eq!(
        (&unmet["status"], &unmet["error"]["code"]),
        (&json!("failed"), &json!("job.criterion-not-met"))
    );
    assert_eq!(http.get_json("/jobs/cli").await["status"], "failed");
    let met = read(&run(&home, &["jobs", "confirm", "cli", id, "0", "met", "--json"], None));
    assert_eq!((&met["status"], &met["open_criteria"]), (&json!("succeeded"), &json!(0)), "{met}");
    assert_eq!(http.get_json("/jobs/cli").await["status"], "succeeded");
    let unknown = run(&home, &["jobs", "confirm", "cli", id, "7", "met"], None);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("job.unknown-criterion"), "{unknown:?}");
    let rows = http.get_json("/audit?kind=job").await;
    for outcome in ["criterion met", "criterion not met"] {
        let row = rows["rows"].as_array().unwrap().iter().find(|row| row["outcome"] == outcome);
        assert!(row.is_some_and(|row| row["detail"]["run"] == json!(id)), "{outcome}: {rows}");
    }
}

#[tokio::test]
async fn lists_of_tasks_have_pages() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let http = gateway.http();
    for number in 0..5 {
        let body = json!({ "name": format!("task {number}"), "tags": [if number % 2 == 0 { "even" } else { "odd" }] });
        let (status, task) = post(&http, "/tasks", body).await;
        assert_eq!(status, 201, "{task}");
    }
    let mut found: Vec<String> = Vec::new();
    let mut path = "/tasks?tag=even&limit=2".to_owned();
    loop {
        let page = http.get_json(&path).await;
        assert!(page["count"].as_u64().unwrap() <= 2, "{page}");
        found.extend(
            page["tasks"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/tasks?tag=even&limit=2&cursor={cursor}");
    }
    assert_eq!(found, ["task 0", "task 2", "task 4"]);
    let (status, problem) = post(&http, "/tasks/search", json!({ "cursor": "x" })).await;
    assert_eq!(status, 400, "{problem}");
}

#[tokio::test]
async fn a_broken_job_manifest_stays_in_service() {
    let home = Home::with_settings(json!({}), &[]);
    fs::create_dir_all(home.path("jobs")).unwrap();
    let job = json!({
        "name": "Digest", "summary": "Hashes", "personas": ["*"], "required_skills": [], "required_tools": [],
        "plan": [{ "id": "one", "tool": "demo_hash", "arguments": { "text": "a" } }],
        "acceptance_criteria": ["Done."], "escalation_policy": {},
    });
    fs::write(home.path("jobs/jobs.json"), json!([job]).to_string()).unwrap();
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let http = gateway.http();
    fs::write(home.path("draft"), "[{").unwrap();
    fs::rename(home.path("draft"), home.path("jobs/jobs.json")).unwrap();
    let kept = poll(TEST_TIMEOUT, || async {
        http.get_json("/manifests").await["kept"].to_string().contains("jobs.json").then_some(())
    });
    kept.await.expect("the file is reported");
    assert_eq!(http.get_json("/jobs/Digest").await["summary"], "Hashes");
}
