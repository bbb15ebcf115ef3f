//! Manifests of jobs and tasks: files, personas, inheritance and errors.

use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolbooth_config::expand::Variables;
use toolbooth_config::manifest::check;
use toolbooth_core::job::persona_of;

fn job(name: &str, more: &Value) -> Value {
    let mut job = json!({
        "name": name, "summary": "s", "personas": ["Atlas"], "required_skills": [], "required_tools": [],
        "task_graph": [{ "task": "Collect" }], "acceptance_criteria": ["Good."], "escalation_policy": {},
    });
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    job
}

fn task() -> Value {
    json!({
        "name": "Collect", "summary": "s", "required_skills": [], "required_tools": [],
        "acceptance_criteria": ["Good."], "escalation_policy": {},
    })
}

/// A user's configuration with manifest files next to it.
fn world(files: &[(&str, String)]) -> World {
    let world = World::new(&[("user/toolbooth.json", r#"{"personas": {"Atlas": {}}}"#)]);
    for (path, text) in files {
        world.write(&format!("user/{path}"), text);
    }
    world
}

#[test]
fn jobs_and_tasks_are_read_and_a_bad_one_harms_only_itself() {
    let broken = json!({ "name": "Broken", "summary": "s", "recurrence": { "cron": "never" } });
    let jobs = json!([job("Daily", &json!({ "recurrence": { "cron": "0 7 * * *" } })), broken]);
    let world = world(&[
        ("jobs/jobs.json", jobs.to_string()),
        ("jobs/cut.json", "{".to_owned()),
        ("tasks/tasks.json", json!({ "tasks": [task()] }).to_string()),
    ]);
    let loaded = world.load().unwrap();
    let names: Vec<&str> = loaded.jobs.iter().map(|job| job.definition.name.as_str()).collect();
    assert_eq!(names, ["Daily"]);
    assert_eq!(loaded.tasks.len(), 1);
    let codes: Vec<&str> = loaded.findings.iter().map(|finding| finding.code).collect();
    assert!(codes.contains(&"manifest.syntax"), "{codes:?}");
    let found = loaded.findings.iter().find(|finding| finding.message.contains("not a cron pattern"));
    let found = found.unwrap_or_else(|| panic!("{:?}", loaded.findings));
    assert_eq!((found.key.as_deref(), found.line), (Some("/recurrence/cron"), 1));
}

#[test]
fn an_entry_inherits_the_fields_of_its_base() {
    let base = job("Base", &json!({ "description": "from the base" }));
    let derived = json!({ "name": "Derived", "extends": "Base", "summary": "own" });
    let lost = json!({ "name": "Lost", "extends": "None" });
    let circle = [json!({ "name": "A", "extends": "B" }), json!({ "name": "B", "extends": "A" })];
    let jobs = json!([derived, base, lost, circle[0], circle[1]]);
    let world = world(&[
        ("jobs/jobs.json", jobs.to_string()),
        ("tasks/t.json", task().to_string()),
        // A persona's version of a shared job only has the fields that differ.
        ("personas/Atlas/jobs/own.json", json!({ "Base": { "summary": "of Atlas" } }).to_string()),
    ]);
    let loaded = world.load().unwrap();
    let mut found: Vec<(Option<&str>, &str, &str)> = loaded
        .jobs
        .iter()
        .map(|job| (persona_of(&job.scope), job.definition.name.as_str(), job.definition.summary.as_str()))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [(None, "Base", "s"), (None, "Derived", "own"), (Some("Atlas"), "Base", "of Atlas")],
        "{:?}",
        loaded.findings
    );
    let derived = loaded.jobs.iter().find(|job| job.definition.name == "Derived").unwrap();
    assert_eq!(derived.definition.description.as_deref(), Some("from the base"));
    let says = |words: &str| loaded.findings.iter().any(|finding| finding.message.contains(words));
    assert!(says("there is no job `None` to extend") && says("more than"), "{:?}", loaded.findings);
}

#[test]
fn manifest_check_reads_files_of_jobs() {
    let jobs = json!([job("Daily", &json!({})), { "name": "Broken" }]);
    let world = world(&[("jobs/any.json", jobs.to_string())]);
    let checked = check(&world.path("user/jobs/any.json"), &Variables::default());
    assert_eq!((checked.workflows, checked.set_aside, checked.entries.len()), (1, 1, 0));
    assert!(
        checked.findings.iter().all(|finding| finding.message.starts_with("job `Broken`")),
        "{:?}",
        checked.findings
    );
}

#[test]
fn a_job_without_its_task_is_warned_about() {
    let world = world(&[("jobs/jobs.json", job("Daily", &json!({ "pace": 1 })).to_string())]);
    let loaded = world.load().unwrap();
    assert_eq!(loaded.jobs.len(), 1);
    let codes: Vec<&str> = loaded.findings.iter().map(|finding| finding.code).collect();
    assert!(codes.contains(&"manifest.no-task") && codes.contains(&"manifest.unknown-field"), "{codes:?}");
}

/// What a person sees of a project file that waits for trust.
fn shown(world: &World, path: &str) -> Vec<BTreeMap<String, String>> {
    let waiting = world.load().unwrap().untrusted.into_iter().filter(|one| one.file == world.path(path));
    waiting.map(|one| one.preview.fields).collect()
}

fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned())).collect()
}

#[test]
fn the_preview_of_a_project_file_shows_all_that_takes_effect() {
    let cron = json!({ "cron": "0 7 * * *" });
    let jobs = json!([
        { "name": "Daily", "summary": "one", "recurrence": cron, "plan": [{ "id": "a", "tool": "wipe" }] },
        { "name": "Daily", "summary": "two" },
        { "name": "Daily", "summary": "three" },
    ]);
    let steps = json!([{ "id": "a", "tool": "x" }, { "id": "b", "tool": "y" }]);
    // A file in a folder of tasks has only tasks, whatever it has under `jobs`.
    let tasks = json!({
        "jobs": [{ "name": "Harmless", "summary": "s" }],
        "tasks": [{ "name": "Collect", "summary": "s", "plan": { "steps": steps } }],
    });
    let world = World::new(&[("work/toolbooth.json", "{}")]);
    world.write("work/jobs/jobs.json", &jobs.to_string());
    world.write("work/tasks/tasks.json", &tasks.to_string());
    let daily = [("Daily", "one (0 7 * * *) (calls wipe)"), ("Daily (2)", "two"), ("Daily (3)", "three")];
    assert_eq!(shown(&world, "work/jobs/jobs.json"), [fields(&daily)]);
    let collect = fields(&[("Collect", "s (calls x, y)")]);
    assert_eq!(shown(&world, "work/tasks/tasks.json"), std::slice::from_ref(&collect));

    // A file that is named for jobs and for tasks is shown as both.
    let named = json!({ "manifests": { "jobs": ["both"], "tasks": ["both"] } });
    let world = World::new(&[("work/toolbooth.json", &named.to_string())]);
    world.write("work/both/all.json", &tasks.to_string());
    assert_eq!(shown(&world, "work/both/all.json"), [fields(&[("Harmless", "s")]), collect]);
}

#[test]
fn a_broken_job_or_task_keeps_its_last_valid_version() {
    let jobs = json!([job("Daily", &json!({})), job("Weekly", &json!({}))]);
    let mut world =
        world(&[("jobs/jobs.json", jobs.to_string()), ("tasks/tasks.json", json!([task()]).to_string())]);
    world.sources.good_manifests = world.load().unwrap().good_manifests;
    // One entry of the first file is wrong, and the second file cannot be parsed.
    let broken =
        json!([job("Daily", &json!({ "personas": [] })), job("Weekly", &json!({ "summary": "new" }))]);
    world.write("user/jobs/jobs.json", &broken.to_string());
    world.write("user/tasks/tasks.json", "[{");
    for _ in 0..2 {
        let loaded = world.load().unwrap();
        let mut found: Vec<(&str, &str)> = loaded
            .jobs
            .iter()
            .map(|job| (job.definition.name.as_str(), job.definition.summary.as_str()))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [("Daily", "s"), ("Weekly", "new")]);
        assert_eq!(loaded.tasks.len(), 1);
        let files = [world.path("user/jobs/jobs.json"), world.path("user/tasks/tasks.json")];
        assert_eq!(loaded.kept_manifests, files);
        let report = world.report();
        assert_eq!(report.matches("its previous version remains in effect").count(), 2, "{report}");
        world.sources.good_manifests = loaded.good_manifests;
    }
    // It can be parsed, but has no entries.
    world.write("user/tasks/tasks.json", "\"none\"");
    let loaded = world.load().unwrap();
    assert_eq!((loaded.tasks.len(), loaded.kept_manifests.len()), (1, 2));
    assert!(world.report().contains("a manifest must be an entry, a list of entries"), "{}", world.report());
    std::fs::remove_file(world.path("user/tasks/tasks.json")).unwrap();
    assert_eq!(world.load().unwrap().tasks, [], "a removed one is not kept");
}
