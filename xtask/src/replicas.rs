//! `cargo xtask replicas`: three gateways on one PostgreSQL database, behind a proxy, while they are killed.
//!
//! The answers that clients received are compared with what is left: the audit log, and the file that the servers of all
//! gateways write. The processes and their logs are in `target/replicas`.

mod asking;
mod caller;
mod chain;
mod cluster;
mod cost;
mod evidence;
mod faults;
mod http;
mod jobs;
mod load;
mod proxy;
mod report;
mod sharing;

use crate::postgresql::{self, PostgresServer};
use anyhow::{Context, Result, anyhow, bail, ensure};
use asking::QuestionClient;
use caller::CallReply;
use cluster::{ReplicaCluster, ReplicaFixture, ReplicaPrograms, ReplicaStage, slow_url};
use cost::CostPlan;
use faults::{CausedFaults, FaultPlan, SuspendPlan};
use http::ReplicaUser;
use jobs::{JobLoadPlan, StartedJob};
use load::{CALLERS, LoadOutcome, MixedLoad};
use proxy::RoundRobinProxy;
use report::ReplicaReport;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const USAGE: &str = "usage: cargo xtask replicas [--calls N] [--short] [--built FOLDER] [--older PROGRAM]";
/// The replicas of a run.
const REPLICAS: usize = 3;

/// What a run does.
#[derive(Debug)]
struct ReplicaPlan {
    calls: usize,
    faults: FaultPlan,
    jobs: JobLoadPlan,
    approvals: usize,
    /// The longest median time from an approval on one replica to the result on another.
    approval_limit: Duration,
    cost: CostPlan,
    built: Option<PathBuf>,
    /// The program of the version before, which a replica runs during the rolling restart.
    older: Option<PathBuf>,
}

fn plan(arguments: impl IntoIterator<Item = String>) -> Result<ReplicaPlan> {
    let mut plan = ReplicaPlan {
        calls: 50_000,
        faults: FaultPlan {
            kills: (12, usize::MAX),
            pause: Duration::from_secs(3),
            suspends: SuspendPlan::Once,
        },
        jobs: JobLoadPlan { jobs: 12, apart: Duration::from_secs(5) },
        approvals: 50,
        approval_limit: Duration::from_millis(100),
        cost: CostPlan { rounds: 7, length: Duration::from_secs(1), sessions: 1_000 },
        built: None,
        older: None,
    };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("`{argument}` needs a value\n{USAGE}"));
        match argument.as_str() {
            "--calls" => {
                plan.calls = value()?.parse().context("`--calls` needs a number")?;
                ensure!((100..=1_000_000).contains(&plan.calls), "`--calls` takes 100 to 1000000");
            }
            "--short" => {
                plan.calls = 1_500;
                plan.faults = FaultPlan {
                    kills: (3, 7),
                    pause: Duration::from_millis(1_500),
                    suspends: SuspendPlan::Never,
                };
                plan.jobs = JobLoadPlan { jobs: 6, apart: Duration::from_secs(2) };
                plan.approvals = 9;
                // Unoptimised programs beside other tests. Without notices it would be a second.
                plan.approval_limit = Duration::from_millis(900);
                plan.cost = CostPlan { rounds: 2, length: Duration::from_millis(300), sessions: 100 };
            }
            "--built" => plan.built = Some(PathBuf::from(value()?)),
            "--older" => {
                let path = PathBuf::from(value()?);
                // Gateways run in another folder.
                let path = path.canonicalize().with_context(|| format!("no program {}", path.display()))?;
                plan.older = Some(path);
            }
            other => bail!("unknown argument `{other}`\n{USAGE}"),
        }
    }
    Ok(plan)
}

/// Runs all phases; a failed check is an error.
pub fn run(root: &Path, arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let plan = plan(arguments)?;
    let installed =
        postgresql::programs().context("PostgreSQL is not installed (Debian's package postgresql)")?;
    let folder = match &plan.built {
        Some(folder) => folder.clone(),
        None => build(root)?,
    };
    let programs = ReplicaPrograms::find(&folder)?;
    let stage = ReplicaStage::new(root.join("target/replicas"))?;
    let fixture = ReplicaFixture::start(&programs)?;
    let (started, mut report) = (Instant::now(), ReplicaReport::default());
    let outcome = shared_state(&plan, (&programs, &stage, &fixture), &installed, &mut report)
        .and_then(|()| costs(&plan, (&programs, &stage, &fixture), &installed, &mut report));
    println!("{report}");
    outcome?;
    let (passed, failed) = report.count();
    println!("total time: {:.0} s", started.elapsed().as_secs_f64());
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed");
    ensure!(failed == 0, "{failed} checks of the replicas failed; logs are in target/replicas");
    Ok(())
}

/// Builds release binaries; returns their folder.
fn build(root: &Path) -> Result<PathBuf> {
    let packages = ["build", "--release", "-p", "toolbooth", "-p", "toolbooth-testkit", "--bins"];
    let status = crate::cargo(root).args(packages).status().context("cargo did not start")?;
    ensure!(status.success(), "the programs do not build");
    Ok(root.join("target/release"))
}

type Surroundings<'a> = (&'a ReplicaPrograms, &'a ReplicaStage, &'a ReplicaFixture);

/// The phases in which replicas share their state and are killed.
fn shared_state(
    plan: &ReplicaPlan,
    (programs, stage, fixture): Surroundings<'_>,
    installed: &Path,
    report: &mut ReplicaReport,
) -> Result<()> {
    let database = PostgresServer::start(installed, "")?;
    let url = slow_url(&database);
    let cluster = ReplicaCluster::configure(programs, stage, fixture, ("gateway", REPLICAS, Some(&url)))?;
    cluster.start_all()?;
    let proxy = RoundRobinProxy::start(&cluster.addresses)?;
    let (ann, _) = cluster.token(0, "ann", &[])?;
    let (bob, _) = cluster.token(1, "bob", &["leads"])?;

    progress("what is done on one replica");
    sharing::lists(&cluster, &ann, report)?;
    sharing::tokens(&cluster, report)?;
    sharing::approvals(&cluster, (&ann, &bob), (plan.approvals, plan.approval_limit), report)?;
    sharing::questions(&cluster, &ann, plan.approvals / 3, report)?;

    let load = |name, calls, asked| MixedLoad {
        name,
        calls,
        ann: ReplicaUser::new(proxy.address, &ann),
        bob: ReplicaUser::new(proxy.address, &bob),
        asked,
    };
    progress(&format!("{} calls while replicas are killed and PostgreSQL crashes", plan.calls));
    let recurring = jobs::schedule(&cluster, plan.jobs)?;
    let asked = QuestionClient { replicas: cluster.addresses.clone(), token: ann.clone() };
    let (outcome, (caused, started)) = load("kill", plan.calls, Some(asked)).run(|progress| {
        let kill = || faults::kill_in_turn(&cluster, &database, (plan.faults, plan.calls), progress);
        while_jobs_start(&ReplicaUser::new(proxy.address, &ann), kill)
    })?;
    let decided_ms = jobs::pause(&cluster, &recurring)?;
    describe(&outcome, report);
    asking::describe(&outcome.questions, report);
    report.measure("replicas killed", caused.kills.to_string());
    // Each client has one call at a time.
    let unanswered = outcome.count(|end| *end == CallReply::Unanswered);
    let most = CALLERS * caused.kills;
    report.check("calls cut off by kills", format!("{unanswered} of at most {most}"), unanswered <= most);
    let (unready, down, after) = (caused.unready, caused.down, caused.recovered_after);
    let seen = format!("{unready} of {REPLICAS}, down {down:.1?}, all ready {after:.1?} later");
    let is_noticed = unready == REPLICAS && after < Duration::from_secs(10);
    report.check("PostgreSQL crashed: replicas not ready", seen, is_noticed);
    evidence::check(&cluster, &outcome, caused.unrecorded, report)?;
    let owner = ReplicaUser::new(cluster.addresses[0], &ann);
    jobs::check(&cluster, (&recurring, decided_ms), (&started, &owner), report)?;

    let calls = (plan.calls / 10).max(200);
    progress(&format!("{calls} calls during a rolling restart"));
    let (outcome, restarts) = load("roll", calls, None)
        .run(|_| faults::restart_in_turn(&cluster, &proxy, plan.older.as_deref()))?;
    let longest = restarts.longest;
    let done = outcome.notes.len();
    let unanswered = outcome.count(|end| *end == CallReply::Unanswered);
    let seen = format!("{unanswered} of {done}; longest stop {longest:.1?}");
    report.check("rolling restart: calls cut off", seen, unanswered == 0);
    if let Some(ended) = restarts.older_calls {
        let seen = format!("{ended} calls ended by it");
        report.check("rolling restart: an older version on the newer schema", seen, ended > 0);
    }
    evidence::check(&cluster, &outcome, 0, report)?;

    progress("a job that is due while all replicas are down");
    sharing::due_job(&cluster, report)
}

/// Causes faults while jobs are created and started.
fn while_jobs_start(
    user: &ReplicaUser,
    faults: impl FnOnce() -> Result<CausedFaults>,
) -> Result<(CausedFaults, Vec<StartedJob>)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let starter = scope.spawn(|| jobs::start_each(user, || is_over.load(Ordering::Relaxed)));
        let caused = faults();
        is_over.store(true, Ordering::Relaxed);
        let started = starter.join().map_err(|_| anyhow!("the client that starts jobs panicked"))?;
        Ok((caused?, started))
    })
}

/// The measurements, on a database without an added delay.
fn costs(
    plan: &ReplicaPlan,
    (programs, stage, fixture): Surroundings<'_>,
    installed: &Path,
    report: &mut ReplicaReport,
) -> Result<()> {
    progress("throughput and cost of a call");
    let database = PostgresServer::start(installed, "")?;
    let url = database.url();
    let postgres = ReplicaCluster::configure(programs, stage, fixture, ("postgres", REPLICAS, Some(&url)))?;
    let sqlite = ReplicaCluster::configure(programs, stage, fixture, ("sqlite", 1, None))?;
    postgres.start_all()?;
    sqlite.start_all()?;
    cost::measure(&postgres, &sqlite, plan.cost, report)?;
    drop(postgres);
    progress("the audit chain");
    chain::measure(&database, installed, plan.cost.rounds as f64 / 7.0, report)
}

/// Adds the ends of the calls to the report.
fn describe(outcome: &LoadOutcome, report: &mut ReplicaReport) {
    let done = outcome.count(|end| *end == CallReply::Done);
    let seconds = outcome.took.as_secs_f64();
    let calls = outcome.calls();
    let rate = calls as f64 / seconds;
    let seen = format!("{calls} in {seconds:.0} s ({rate:.0} a second), {done} with a result");
    report.measure("calls through the proxy", seen);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for note in &outcome.notes {
        if let CallReply::Explained(reason) = &note.end {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    for (reason, count) in reasons {
        report.measure("  explained", format!("{count}: {reason}"));
    }
    report.measure("approvals acknowledged", outcome.approved.len().to_string());
    report.measure("sessions of legacy clients opened again", outcome.lost_sessions.to_string());
}

fn progress(phase: &str) {
    println!("replicas: {phase}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_select_the_run() -> Result<()> {
        assert_eq!(plan(words(""))?.calls, 50_000);
        assert_eq!(plan(words("--short"))?.faults.kills, (3, 7));
        let chosen = plan(words("--short --calls 400 --built target/debug"))?;
        assert_eq!((chosen.calls, chosen.built), (400, Some(PathBuf::from("target/debug"))));
        let older = plan(words("--older /bin/sh"))?.older.context("no older program")?;
        assert!(older.is_absolute(), "{}", older.display());
        for wrong in ["--calls", "--calls 7", "--calls many", "--slow", "--older /no/such/program"] {
            assert!(plan(words(wrong)).is_err(), "{wrong}");
        }
        Ok(())
    }
}
