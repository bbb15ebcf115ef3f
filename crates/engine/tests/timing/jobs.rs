//! Jobs on paused time: schedules, missed times, interruptions and decisions.

use crate::peer::{ScriptedPeer, malformed, text};
use crate::world::{Setup, World};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use toolbooth_core::call::policy::RequireApproval;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldState, HeldVerdict};
use toolbooth_core::job::{JobRunState, JobState, RunRecord, RunTrigger, TaskStatus};
use toolbooth_engine::{InterruptedStep, RunPage, ScheduleSwitch};
use toolbooth_store::{MemoryStore, Retention};
use uuid::Uuid;

/// Looks for due work every second, as a gateway does, and lets it run.
async fn pass(world: &World, seconds: u64) {
    for _ in 0..seconds {
        world.engine.jobs().run_due().await;
        sleep(Duration::from_secs(1)).await;
    }
    world.engine.jobs().run_due().await;
    sleep(Duration::from_millis(1)).await;
}

fn job(recurrence: Value) -> Value {
    json!({ "name": "brief", "plan": [{ "id": "one", "tool": "mcp.mail.work" }], "recurrence": recurrence })
}

/// Starts the schedule of the job.
async fn schedule(world: &World) {
    let jobs = world.engine.jobs();
    jobs.transition(&world.caller, "brief", JobState::Scheduled, None).await.expect("scheduled");
}

async fn create(world: &World, body: &Value) {
    world.engine.jobs().create(&world.caller, body).await.expect("created");
}

async fn runs(world: &World) -> Vec<RunRecord> {
    let page = RunPage { before: None, limit: 50 };
    world.engine.jobs().runs(&world.caller, "brief", page).await.expect("read").entries
}

async fn start(world: &World) -> Result<RunRecord, Problem> {
    world.engine.jobs().run(&world.caller, "brief", Map::new(), RunTrigger::Manual).await
}

async fn state(world: &World) -> JobState {
    world.engine.jobs().get(&world.caller, "brief").await.expect("known").state()
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_job_runs_at_each_time() {
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let world = Setup::with(&[&peer]).start().await;
    create(&world, &job(json!({ "frequency": "minutely", "interval": 10 }))).await;
    let jobs = world.engine.jobs();
    let scheduled =
        jobs.transition(&world.caller, "brief", JobState::Scheduled, None).await.expect("scheduled");
    let first_ms = scheduled.record.and_then(|record| record.next_run_ms).expect("a time");
    assert_eq!(first_ms % 600_000, 0);
    pass(&world, 1_801).await;
    let runs = runs(&world).await;
    assert_eq!(runs.len(), 3, "{runs:?}");
    assert!(
        runs.iter().all(|run| run.state == JobRunState::Succeeded && run.trigger == RunTrigger::Schedule)
    );
    let due: Vec<i64> = runs.iter().rev().filter_map(|run| run.due_ms).collect();
    assert_eq!(due, [first_ms, first_ms + 600_000, first_ms + 1_200_000]);
    assert_eq!(state(&world).await, JobState::Scheduled);
    let record = jobs.get(&world.caller, "brief").await.expect("known").record.expect("a record");
    assert_eq!((record.health().calls, record.health().success_rate), (3, Some(1.0)));

    // While it is paused, no time is due; afterwards the times in between are skipped.
    jobs.switch(&world.caller, "brief", ScheduleSwitch::Pause).await.expect("paused");
    pass(&world, 1_200).await;
    jobs.switch(&world.caller, "brief", ScheduleSwitch::Resume).await.expect("resumed");
    pass(&world, 1).await;
    assert_eq!(peer.calls_ms().len(), 3);
    jobs.transition(&world.caller, "brief", JobState::Cancelled, None).await.expect("cancelled");
    pass(&world, 1_200).await;
    assert_eq!(peer.calls_ms().len(), 3);
    let refused =
        jobs.transition(&world.caller, "brief", JobState::Scheduled, None).await.expect_err("final");
    assert_eq!(refused.code, "job.bad-transition");
    assert!(refused.message.contains("cancelled") && refused.message.contains("scheduled"), "{refused:?}");
    // Its schedule can be resumed.
    jobs.switch(&world.caller, "brief", ScheduleSwitch::Resume).await.expect("scheduled");
    pass(&world, 601).await;
    assert_eq!((peer.calls_ms().len(), state(&world).await), (4, JobState::Scheduled));
    jobs.transition(&world.caller, "brief", JobState::Cancelled, None).await.expect("cancelled");
    jobs.run(&world.caller, "brief", Map::new(), RunTrigger::Rerun).await.expect("started");
    pass(&world, 1).await;
    assert_eq!((peer.calls_ms().len(), state(&world).await), (5, JobState::Draft));
}

#[tokio::test(start_paused = true)]
async fn a_job_with_an_end_date_ends() {
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let world = Setup::with(&[&peer]).start().await;
    // The tests begin at 2027-01-15T08:00:00Z.
    create(&world, &job(json!({ "cron": "*/10 * * * *", "end_date": "2027-01-15T08:25:00Z" }))).await;
    schedule(&world).await;
    pass(&world, 3_600).await;
    assert_eq!((runs(&world).await.len(), state(&world).await), (2, JobState::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_missed_time_runs_once_within_its_grace_period() {
    for (away, expected) in [(700, 1), (5_000, 0)] {
        let store = Arc::new(MemoryStore::new(Retention::default()));
        let peer = ScriptedPeer::new("mail", async |_| text("done"));
        let world = Setup::with(&[&peer]).store(&store).start().await;
        let recurrence = json!({ "cron": "5 8 * * *", "grace_seconds": 600 });
        create(&world, &job(recurrence)).await;
        schedule(&world).await;
        // No gateway looks.
        sleep(Duration::from_secs(away)).await;
        pass(&world, 2).await;
        assert_eq!(peer.calls_ms().len(), expected, "{away}");
        let runs = runs(&world).await;
        let last = &runs[0];
        let expected_state = if expected == 1 { JobRunState::Succeeded } else { JobRunState::Missed };
        assert_eq!((runs.len(), last.state), (1, expected_state), "{away}");
        assert_eq!(state(&world).await, JobState::Scheduled);
    }
}

/// Every call needs an approval; the job has one step.
async fn asking_world(peer: &Arc<ScriptedPeer>) -> World {
    let setup = Setup::with(&[peer]).terms(|terms| terms.policies = vec![Box::new(RequireApproval)]);
    let world = setup.entries(|entry| entry.tools.require_approval = vec!["*".to_owned()]).start().await;
    create(&world, &json!({ "name": "brief", "plan": [{ "id": "one", "tool": "mcp.mail.work" }] })).await;
    world
}

/// Starts the job, and returns the held call of its step.
async fn start_held(world: &World) -> Uuid {
    start(world).await.expect("started");
    sleep(Duration::from_millis(10)).await;
    let waiting = runs(world).await.remove(0);
    waiting.parts[0].held().map(|(_, held)| held).next().expect("a held call")
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_as_soon_as_its_held_call_has_ended() {
    // A process that does not look for due work, such as a command, leaves the run to the next gateway.
    for (looks, expected) in [(true, JobRunState::Succeeded), (false, JobRunState::Waiting)] {
        let peer = ScriptedPeer::new("mail", async |_| text("done"));
        let world = asking_world(&peer).await;
        if looks {
            pass(&world, 1).await;
        }
        let held = start_held(&world).await;
        let verdict = HeldVerdict::Approve { arguments: None, remember: None };
        world.engine.approvals().decide(&world.caller, held, verdict, None).await.expect("approved");
        sleep(Duration::from_millis(10)).await;
        assert_eq!((runs(&world).await[0].state, peer.calls_ms().len()), (expected, 1), "{looks}");
        pass(&world, 5).await;
        assert_eq!(runs(&world).await[0].state, JobRunState::Succeeded, "{looks}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_run_that_a_person_ended_cannot_be_approved() {
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let world = asking_world(&peer).await;
    let held = start_held(&world).await;
    let ended = world.engine.jobs().transition(&world.caller, "brief", JobState::Failed, None).await;
    ended.expect("ended");
    let store = world.engine.store();
    let withdrawn = store.held(held).await.expect("read").expect("kept");
    assert_eq!(withdrawn.state, HeldState::Rejected);
    // Another gateway stores a step of the run a moment later.
    let late = HeldCall {
        id: Uuid::now_v7(),
        state: HeldState::Pending,
        decided_by: None,
        decided_ms: None,
        decision_note: None,
        ..withdrawn
    };
    store.hold(late.clone()).await.expect("stored");
    let verdict = HeldVerdict::Approve { arguments: None, remember: None };
    let refused = world.engine.approvals().decide(&world.caller, late.id, verdict, None).await;
    assert_eq!(refused.expect_err("the run has ended").code, "call.already-decided");
    let late = store.held(late.id).await.expect("read").expect("kept");
    assert_eq!(late.withdrawn(), Some("its run was cancelled, ended by a person or deleted"));
    assert!(peer.calls_ms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_time_that_comes_while_the_job_runs_is_missed() {
    let peer = ScriptedPeer::new("mail", async |_| {
        sleep(Duration::from_secs(25)).await;
        text("done")
    });
    let world = Setup::with(&[&peer]).start().await;
    create(&world, &job(json!({ "frequency": "minutely" }))).await;
    schedule(&world).await;
    pass(&world, 50).await;
    start(&world).await.expect("started");
    assert_eq!(start(&world).await.expect_err("it runs").code, "job.running");
    pass(&world, 40).await;
    let states: Vec<JobRunState> = runs(&world).await.into_iter().map(|run| run.state).collect();
    assert_eq!(states, [JobRunState::Missed, JobRunState::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_read_is_repeated_and_an_interrupted_write_is_held() {
    for (writes, expected) in [(false, JobRunState::Succeeded), (true, JobRunState::Held)] {
        let store = Arc::new(MemoryStore::new(Retention::default()));
        let peer = ScriptedPeer::new("mail", async |call| {
            if call.earlier == 0 {
                sleep(Duration::from_secs(3600)).await;
            }
            text("done")
        });
        let setup = || {
            let setup = Setup::with(&[&peer]).store(&store);
            if writes { setup.writing() } else { setup }
        };
        let world = setup().start().await;
        create(&world, &job(Value::Null)).await;
        start(&world).await.expect("started");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(peer.calls_ms().len(), 1);
        // The process ends in the middle of the step; another one starts with its store.
        std::mem::forget(world);
        let world = setup().start().await;
        world.engine.take_over().await;
        pass(&world, 5).await;
        let run = runs(&world).await.remove(0);
        assert_eq!(run.state, expected, "{run:?}");
        if writes {
            assert_eq!(peer.calls_ms().len(), 1, "no second write");
            assert_eq!(run.error.as_ref().map(|error| error.code.as_str()), Some("job.interrupted"));
            let id = run.id.to_string();
            let jobs = world.engine.jobs();
            jobs.decide_run(&world.caller, "brief", &id, InterruptedStep::Skip).await.expect("decided");
            pass(&world, 2).await;
            assert_eq!(runs(&world).await.remove(0).state, JobRunState::Succeeded);
            assert_eq!(peer.calls_ms().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_gateways_on_one_store_run_each_time_once() {
    let store = Arc::new(MemoryStore::new(Retention::default()));
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let one = Setup::with(&[&peer]).store(&store).start().await;
    let other = Setup::with(&[&peer]).store(&store).start().await;
    create(&one, &job(json!({ "frequency": "minutely" }))).await;
    one.engine.jobs().transition(&one.caller, "brief", JobState::Scheduled, None).await.expect("scheduled");
    for _ in 0..601 {
        tokio::join!(one.engine.jobs().run_due(), other.engine.jobs().run_due());
        sleep(Duration::from_secs(1)).await;
    }
    let runs = runs(&one).await;
    assert_eq!((runs.len(), peer.calls_ms().len()), (10, 10));
    assert!(runs.iter().all(|run| run.state == JobRunState::Succeeded && run.attempts == 1), "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_escalated_and_pauses_the_schedule() {
    let peer = ScriptedPeer::new("mail", async |_| malformed());
    let world = Setup::with(&[&peer]).terms(|terms| terms.routing.retry.attempts = 1).start().await;
    let mut body = job(json!({ "frequency": "minutely" }));
    body["escalation_policy"] = json!({ "triggers": ["failed"], "actions": ["pause"], "contact": "ops" });
    create(&world, &body).await;
    schedule(&world).await;
    pass(&world, 200).await;
    let runs = runs(&world).await;
    assert_eq!((runs.len(), runs[0].state), (1, JobRunState::Failed), "{runs:?}");
    assert_eq!(runs[0].escalations, ["failed"]);
    let job = world.engine.jobs().get(&world.caller, "brief").await.expect("known");
    assert!(job.record.is_some_and(|record| record.paused));
}

/// A job that is due every minute, with one task.
fn task_job(task: &str) -> Value {
    json!({ "name": "brief", "task_graph": [{ "task": task }], "recurrence": { "frequency": "minutely" } })
}

#[tokio::test(start_paused = true)]
async fn an_overdue_task_is_escalated_once_and_pauses_the_schedule() {
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let world = Setup::with(&[&peer]).start().await;
    let jobs = world.engine.jobs();
    let policy = json!({ "triggers": ["overdue"], "actions": ["pause"], "timeframe": "5s" });
    let task = json!({ "name": "check", "summary": "Checks it", "escalation_policy": policy });
    let own = jobs.create_task(&world.caller, &task).await.expect("created");
    create(&world, &task_job("check")).await;
    jobs.transition(&world.caller, "brief", JobState::Scheduled, None).await.expect("scheduled");
    pass(&world, 90).await;
    let runs = runs(&world).await;
    assert_eq!((runs.len(), runs[0].state), (1, JobRunState::Waiting), "{runs:?}");
    let id = runs[0].parts[0].task.expect("a task for a person").to_string();
    let escalations = async |id: &str| {
        let task = jobs.get_task(&world.caller, id).await.expect("known");
        task.record.map(|record| record.escalations).unwrap_or_default()
    };
    assert_eq!(escalations(&id).await, ["overdue"]);
    let job = jobs.get(&world.caller, "brief").await.expect("known");
    assert!(job.record.is_some_and(|record| record.paused));
    // A draft has no timeframe yet.
    assert!(escalations(&own.id).await.is_empty());
    jobs.transition_task(&world.caller, &own.id, TaskStatus::Ready, None).await.expect("ready");
    pass(&world, 10).await;
    assert_eq!(escalations(&own.id).await, ["overdue"]);
}

#[tokio::test(start_paused = true)]
async fn the_policy_of_a_failed_task_holds_the_run() {
    let peer = ScriptedPeer::new("mail", async |_| malformed());
    let world = Setup::with(&[&peer]).terms(|terms| terms.routing.retry.attempts = 1).start().await;
    let task = json!({
        "name": "send", "summary": "Sends it", "plan": [{ "id": "one", "tool": "mcp.mail.work" }],
        "escalation_policy": { "triggers": ["failed"], "actions": ["hold"] },
    });
    world.engine.jobs().create_task(&world.caller, &task).await.expect("created");
    create(&world, &task_job("send")).await;
    start(&world).await.expect("started");
    pass(&world, 10).await;
    let runs = runs(&world).await;
    assert_eq!((runs.len(), runs[0].state), (1, JobRunState::Held), "{runs:?}");
    assert_eq!(runs[0].escalations, ["failed:send"]);
}

#[tokio::test(start_paused = true)]
async fn an_overdue_run_pauses_the_schedule_while_it_runs() {
    let peer = ScriptedPeer::new("mail", async |_| {
        sleep(Duration::from_secs(25)).await;
        text("done")
    });
    let world = Setup::with(&[&peer]).start().await;
    let mut body = job(json!({ "frequency": "minutely" }));
    body["escalation_policy"] = json!({ "triggers": ["overdue"], "actions": ["pause"], "timeframe": "5s" });
    create(&world, &body).await;
    schedule(&world).await;
    pass(&world, 200).await;
    let runs = runs(&world).await;
    assert_eq!((runs.len(), runs[0].state), (1, JobRunState::Succeeded), "{runs:?}");
    assert_eq!(runs[0].escalations, ["overdue"]);
    let job = world.engine.jobs().get(&world.caller, "brief").await.expect("known");
    assert!(job.record.is_some_and(|record| record.paused));
}

#[tokio::test(start_paused = true)]
async fn a_criterion_that_is_not_met_fails_the_run() {
    let peer = ScriptedPeer::new("mail", async |_| text("short"));
    let world = Setup::with(&[&peer]).start().await;
    let mut body = job(Value::Null);
    body["acceptance_criteria"] =
        json!(["A person likes it.", { "criterion": "It is long.", "step": "one", "at_least": 100 }]);
    create(&world, &body).await;
    start(&world).await.expect("started");
    sleep(Duration::from_secs(1)).await;
    let run = runs(&world).await.remove(0);
    let met: Vec<Option<bool>> = run.criteria.iter().map(|criterion| criterion.met).collect();
    assert_eq!((run.state, met), (JobRunState::Failed, vec![None, Some(false)]));
    let id = run.id.to_string();
    let run = world.engine.jobs().confirm(&world.caller, "brief", &id, (0, true)).await.expect("confirmed");
    assert_eq!((run.criteria[0].met, run.criteria[0].by.as_deref()), (Some(true), Some("ann")));
}
