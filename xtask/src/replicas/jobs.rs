//! Jobs during a load: some are due every few seconds, others are started by requests. Each occurrence and each start runs
//! once: the file of the servers and the runs in the store must agree.

use super::cluster::ReplicaCluster;
use super::faults::within;
use super::http::ReplicaUser;
use super::report::ReplicaReport;
use super::sharing::date_time;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant, SystemTime},
};

/// When the first job is due: after all of them are scheduled.
const FIRST_DUE: Duration = Duration::from_secs(3);
/// The time between two occurrences of a job.
const MINUTE_MS: i64 = 60_000;
/// Occurrences shortly before the schedules were paused may not have started.
const UNDECIDED_MS: i64 = 10_000;
const PAUSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time between two jobs that are started by requests.
const START_EVERY: Duration = Duration::from_secs(1);
/// How often a request to start a job is sent if its connection breaks. The job must not run twice.
const START_ATTEMPTS: usize = 3;
/// The longest wait for the runs of killed gateways: the lease of a run, and the run.
const RUNS_TIMEOUT: Duration = Duration::from_secs(120);

/// The recurring jobs of a load. A job is due once a minute at most, so several of them take turns.
#[derive(Debug, Clone, Copy)]
pub struct JobLoadPlan {
    pub jobs: usize,
    /// The time between the occurrences of two jobs.
    pub apart: Duration,
}

/// A job that is due each minute.
#[derive(Debug)]
pub struct RecurringJob {
    name: String,
    first_due_ms: i64,
}

/// A job that a request started.
#[derive(Debug)]
pub struct StartedJob {
    name: String,
    /// Whether its creation was acknowledged.
    is_created: bool,
    /// The run, if its start was acknowledged.
    run: Option<String>,
}

/// The steps of a job: one that writes this text to the file.
fn steps(text: &str) -> Value {
    json!([{ "id": "write", "tool": "led_write_entry", "arguments": { "text": text } }])
}

/// Creates and schedules the recurring jobs.
pub fn schedule(cluster: &ReplicaCluster<'_>, plan: JobLoadPlan) -> Result<Vec<RecurringJob>> {
    let (admin, began) = (cluster.admin(0), SystemTime::now());
    let mut jobs = Vec::new();
    for number in 0..plan.jobs {
        let name = format!("tick-{number}");
        let start = date_time(began + FIRST_DUE + plan.apart * u32::try_from(number)?)?;
        let recurrence = json!({ "frequency": "minutely", "interval": 1, "start_date": start });
        admin.order("/jobs", &json!({ "name": name, "plan": steps(&name), "recurrence": recurrence }))?;
        let path = format!("/jobs/{name}/transition");
        let scheduled = admin.order(&path, &json!({ "target_status": "scheduled" }))?;
        let first_due_ms = scheduled["next_run_at"].as_i64().with_context(|| scheduled.to_string())?;
        jobs.push(RecurringJob { name, first_due_ms });
    }
    Ok(jobs)
}

/// Creates a job and starts it, again and again until the load is over.
pub fn start_each(user: &ReplicaUser, is_over: impl Fn() -> bool) -> Vec<StartedJob> {
    let mut jobs = Vec::new();
    while !is_over() {
        let name = format!("started-{}", jobs.len());
        let job = json!({ "name": name, "plan": steps(&name) });
        let is_created = user.post("/jobs", &job).is_ok_and(|(status, _)| status == 201);
        // A creation that was cut off may have happened, so the job is started in any case.
        let path = format!("/jobs/{name}/run");
        let answer = (0..START_ATTEMPTS).find_map(|_| user.post(&path, &json!({})).ok());
        let run = answer.filter(|(status, _)| *status == 202);
        let run = run.and_then(|(_, run)| run["id"].as_str().map(str::to_owned));
        jobs.push(StartedJob { name, is_created, run });
        thread::sleep(START_EVERY);
    }
    jobs
}

/// Pauses the recurring jobs; returns the time before which each occurrence must have been decided.
pub fn pause(cluster: &ReplicaCluster<'_>, jobs: &[RecurringJob]) -> Result<i64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    for job in jobs {
        let path = format!("/jobs/{}/schedule/pause", job.name);
        // It is refused while a run of the job changes it.
        let is_paused = within(PAUSE_TIMEOUT, || cluster.admin(0).order(&path, &json!({})).is_ok());
        ensure!(is_paused, "{} could not be paused", job.name);
    }
    Ok(i64::try_from(now.as_millis())? - UNDECIDED_MS)
}

/// What the runs in the store and the entries of the servers say.
#[derive(Debug, Default, PartialEq, Eq)]
struct JobFindings {
    /// The occurrences until the schedules were paused.
    due: usize,
    /// The runs that succeeded.
    succeeded: usize,
    /// The runs that wait for a person, because their step may have happened.
    held: usize,
    failed: usize,
    /// The occurrences that were recorded as missed, with a reason.
    missed: usize,
    /// Occurrences and acknowledged starts without a run, and successful runs without an entry.
    lost: Vec<String>,
    /// Occurrences with several runs, and more entries than runs.
    twice: Vec<String>,
    /// Runs that have not ended.
    open: Vec<String>,
}

/// Waits until all runs have ended, and adds the findings to the report. `decided_ms` is what [`pause`] returned.
pub fn check(
    cluster: &ReplicaCluster<'_>,
    (recurring, decided_ms): (&[RecurringJob], i64),
    (started, owner): (&[StartedJob], &ReplicaUser),
    report: &mut ReplicaReport,
) -> Result<()> {
    let deadline = Instant::now() + RUNS_TIMEOUT;
    let found = loop {
        let mut found = JobFindings::default();
        // The runs first: an entry that is written afterwards belongs to a run that has not ended.
        let admin = cluster.admin(0);
        let of_recurring: Vec<_> =
            recurring.iter().map(|job| runs(&admin, &job.name)).collect::<Result<_>>()?;
        let of_started: Vec<_> = started.iter().map(|job| runs(owner, &job.name)).collect::<Result<_>>()?;
        let written = cluster.written()?;
        let entries = |name: &str| written.get(name).copied().unwrap_or(0);
        for (job, runs) in recurring.iter().zip(of_recurring) {
            found.add_recurring(job, decided_ms, &runs.unwrap_or_default(), entries(&job.name));
        }
        for (job, runs) in started.iter().zip(of_started) {
            found.add_started(job, runs.as_deref(), entries(&job.name));
        }
        if found.open.is_empty() || Instant::now() > deadline {
            break found;
        }
        thread::sleep(Duration::from_secs(2));
    };
    let JobFindings { due, succeeded, held, failed, missed, .. } = found;
    let acknowledged = started.iter().filter(|job| job.run.is_some()).count();
    let asked = started.len();
    report.measure(
        "jobs during the kills",
        format!("{due} times due; started by requests: {acknowledged} acknowledged of {asked}"),
    );
    let seen =
        format!("{succeeded} succeeded, {held} held for a person, {failed} failed, {missed} times missed");
    report.check("  their runs", seen, due > 0 && succeeded > 0);
    report.none_of("job occurrences and started runs lost", &found.lost);
    report.none_of("job occurrences that ran twice", &found.twice);
    report.none_of("runs that have not ended", &found.open);
    Ok(())
}

/// The runs of a job; `None` if it does not exist.
fn runs(user: &ReplicaUser, job: &str) -> Result<Option<Vec<Value>>> {
    let answer = user.send("GET", &format!("/jobs/{job}/runs?limit=200"), "", "")?;
    if answer.status == 404 {
        return Ok(None);
    }
    ensure!(answer.status == 200, "the runs of {job}: status {}: {:.200}", answer.status, answer.body);
    Ok(answer.json()?["runs"].as_array().cloned())
}

impl JobFindings {
    fn add_recurring(&mut self, job: &RecurringJob, decided_ms: i64, runs: &[Value], entries: usize) {
        let mut covered: BTreeMap<i64, usize> = BTreeMap::new();
        for run in runs {
            let due = run["due_at"].as_i64().unwrap_or_default();
            for step in 0..times(run) {
                *covered.entry(due + step * MINUTE_MS).or_default() += 1;
            }
        }
        let mut due = job.first_due_ms;
        while due <= decided_ms {
            self.due += 1;
            if !covered.contains_key(&due) {
                self.lost.push(format!("{} at {due}", job.name));
            }
            due += MINUTE_MS;
        }
        for (due, count) in covered {
            if count > 1 || (due - job.first_due_ms) % MINUTE_MS != 0 {
                self.twice.push(format!("{} at {due} has {count} runs", job.name));
            }
        }
        self.add_runs(&job.name, runs, entries);
    }

    fn add_started(&mut self, job: &StartedJob, runs: Option<&[Value]>, entries: usize) {
        let is_known = |id: &String| runs.is_some_and(|runs| runs.iter().any(|run| run["id"] == id.as_str()));
        if job.run.as_ref().is_some_and(|id| !is_known(id)) || (job.is_created && runs.is_none()) {
            self.lost.push(job.name.clone());
        }
        let runs = runs.unwrap_or_default();
        if runs.len() > 1 {
            self.twice.push(format!("{} has {} runs", job.name, runs.len()));
        }
        self.add_runs(&job.name, runs, entries);
    }

    /// Counts runs, and compares them with the entries that they wrote.
    fn add_runs(&mut self, job: &str, runs: &[Value], entries: usize) {
        let (mut made, mut succeeded) = (0, 0);
        for run in runs {
            let status = run["status"].as_str().unwrap_or_default();
            match status {
                "missed" => self.missed += usize::try_from(times(run)).unwrap_or(1),
                "succeeded" => succeeded += 1,
                "held" => self.held += 1,
                "failed" | "cancelled" => self.failed += 1,
                _ => self.open.push(format!("{job}: {status}")),
            }
            made += usize::from(status != "missed");
        }
        self.succeeded += succeeded;
        if entries > made {
            self.twice.push(format!("{job} has {entries} entries of {made} runs"));
        }
        if entries < succeeded {
            self.lost.push(format!("{job} has {entries} entries of {succeeded} successful runs"));
        }
    }
}

/// The occurrences that a run stands for: several, if they were missed.
fn times(run: &Value) -> i64 {
    if run["status"] != "missed" {
        return 1;
    }
    let count = run["error"]["message"].as_str().and_then(|message| message.split(' ').next()?.parse().ok());
    // A single one is written as a word.
    count.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: &str, due_at: i64) -> Value {
        json!({ "id": format!("run-{due_at}"), "status": status, "due_at": due_at })
    }

    #[test]
    fn each_occurrence_has_one_run() {
        let job = RecurringJob { name: "tick-0".into(), first_due_ms: 5_000 };
        let missed = |count: &str, due_at: i64| {
            let mut run = run("missed", due_at);
            run["error"] = json!({ "message": format!("{count} missed: no gateway was running in time") });
            run
        };
        let cases = [
            (vec![run("succeeded", 5_000), run("succeeded", 65_000)], 2, 0, 0),
            // The second one has no run.
            (vec![run("succeeded", 5_000)], 1, 1, 0),
            (vec![run("succeeded", 5_000), run("held", 65_000)], 1, 0, 0),
            (vec![missed("one time was", 5_000), run("succeeded", 65_000)], 1, 0, 0),
            (vec![missed("2 times were", 5_000), run("succeeded", 125_000)], 1, 0, 0),
            (vec![run("succeeded", 5_000), run("succeeded", 5_000), run("succeeded", 65_000)], 3, 0, 1),
            (vec![run("succeeded", 5_000), run("succeeded", 65_000)], 3, 0, 1),
            (vec![run("succeeded", 5_000), run("succeeded", 65_000)], 1, 1, 0),
            (vec![run("succeeded", 6_000), run("succeeded", 65_000)], 2, 1, 1),
        ];
        for (runs, entries, lost, twice) in cases {
            let mut found = JobFindings::default();
            found.add_recurring(&job, 70_000, &runs, entries);
            assert_eq!((found.due, found.lost.len(), found.twice.len()), (2, lost, twice), "{runs:?}");
        }
    }

    #[test]
    fn a_job_is_started_once() {
        // Whether the creation and the start were acknowledged, the runs, the entries, and what is lost or twice.
        let one = || Some(vec![run("succeeded", 1)]);
        let cases = [
            (true, true, one(), 1, 0, 0),
            (false, false, None, 0, 0, 0),
            (false, false, one(), 1, 0, 0),
            (true, false, Some(Vec::new()), 0, 0, 0),
            (true, false, None, 0, 1, 0),
            (true, true, Some(Vec::new()), 0, 1, 0),
            (true, true, one(), 2, 0, 1),
            (true, true, Some(vec![run("succeeded", 1), run("held", 2)]), 1, 0, 1),
            (false, false, None, 1, 0, 1),
        ];
        for (is_created, is_started, runs, entries, lost, twice) in cases {
            let job = StartedJob {
                name: "started-0".into(),
                is_created,
                run: is_started.then(|| "run-1".to_owned()),
            };
            let mut found = JobFindings::default();
            found.add_started(&job, runs.as_deref(), entries);
            assert_eq!((found.lost.len(), found.twice.len()), (lost, twice), "{job:?} {runs:?}");
        }
    }

    #[test]
    fn runs_that_have_not_ended_are_found() {
        let job = StartedJob { name: "started-0".into(), is_created: true, run: None };
        let mut found = JobFindings::default();
        found.add_started(&job, Some(&[run("running", 1)]), 1);
        assert_eq!((found.open.len(), found.lost.len(), found.twice.len()), (1, 0, 0));
    }
}
