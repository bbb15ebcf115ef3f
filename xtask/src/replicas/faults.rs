//! What happens to the replicas and to PostgreSQL during a load.

use super::cluster::ReplicaCluster;
use super::load::LoadProgress;
use super::proxy::RoundRobinProxy;
use crate::postgresql::PostgresServer;
use anyhow::Result;
use nix::sys::signal::Signal;
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// How long PostgreSQL is down at least: with its start, less than the five seconds for which gateways repeat their writes.
const DATABASE_DOWN: Duration = Duration::from_secs(1);
/// After this time, all writes that began while PostgreSQL was down have ended.
const WRITES_ENDED: Duration = Duration::from_secs(4);
/// How long a replica may take to notice that the database is down or back.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a proxy sends nothing to a replica before it is stopped: what `preStop` is in Kubernetes.
const TAKEN_OUT: Duration = Duration::from_millis(500);
/// How long a replica is suspended: longer than its lease, so the others end its work.
const SUSPENDED: Duration = Duration::from_secs(13);

/// The replica that runs an older version for a while, and how long it does.
const OLDER_REPLICA: usize = 1;
const OLDER_SERVES: Duration = Duration::from_secs(3);

/// The faults of a load.
#[derive(Debug, Clone, Copy)]
pub struct FaultPlan {
    /// The least and the largest number of kills; in between, they end with the calls.
    pub kills: (usize, usize),
    /// The time between two kills.
    pub pause: Duration,
    /// Whether one replica is suspended (SIGSTOP) until its lease is over.
    pub suspends: SuspendPlan,
}

/// Whether a replica is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendPlan {
    Never,
    Once,
}

/// The faults that were caused.
#[derive(Debug, Default)]
pub struct CausedFaults {
    pub kills: usize,
    /// The number of replicas that reported that the database is down.
    pub unready: usize,
    /// How long PostgreSQL did not accept connections.
    pub down: Duration,
    /// How long after that all replicas were ready.
    pub recovered_after: Duration,
    /// The number of reads that the replicas could not record in the meantime.
    pub unrecorded: usize,
}

/// Kills the replicas in turn, until the calls have been made; crashes PostgreSQL in the middle.
pub fn kill_in_turn(
    cluster: &ReplicaCluster<'_>,
    database: &PostgresServer,
    (plan, calls): (FaultPlan, usize),
    progress: &LoadProgress,
) -> Result<CausedFaults> {
    let mut caused = CausedFaults::default();
    let mut crashed = false;
    let (mut suspends, (least, most)) = (plan.suspends, plan.kills);
    while caused.kills < least || (caused.kills < most && progress.begun() < calls) {
        thread::sleep(plan.pause);
        let replica = caused.kills % cluster.addresses.len();
        cluster.kill(replica)?;
        caused.kills += 1;
        thread::sleep(Duration::from_millis(300));
        cluster.start(replica)?;
        cluster.ready(replica)?;
        let is_half = caused.kills * 2 >= least && progress.begun() * 2 >= calls;
        if is_half && !crashed {
            crashed = true;
            crash_database(cluster, database, &mut caused)?;
        } else if is_half && suspends == SuspendPlan::Once {
            suspends = SuspendPlan::Never;
            suspend(cluster, 1)?;
        }
    }
    if !crashed {
        crash_database(cluster, database, &mut caused)?;
    }
    Ok(caused)
}

/// Crashes PostgreSQL and starts it again; readiness must follow.
fn crash_database(
    cluster: &ReplicaCluster<'_>,
    database: &PostgresServer,
    caused: &mut CausedFaults,
) -> Result<()> {
    let is_ready = |replica: usize| {
        cluster.admin(replica).send("GET", "/ready", "", "").is_ok_and(|answer| answer.status == 200)
    };
    let replicas = 0..cluster.addresses.len();
    let stopped = Instant::now();
    database.crash()?;
    caused.unready =
        replicas.clone().filter(|replica| within(NOTICE_TIMEOUT, || !is_ready(*replica))).count();
    thread::sleep(DATABASE_DOWN.saturating_sub(stopped.elapsed()));
    database.start_again()?;
    caused.down = stopped.elapsed();
    let started = Instant::now();
    if replicas.clone().all(|replica| within(NOTICE_TIMEOUT, || is_ready(replica))) {
        caused.recovered_after = started.elapsed();
    } else {
        caused.recovered_after = Duration::MAX;
    }
    thread::sleep(WRITES_ENDED);
    for replica in replicas {
        let page = cluster.admin(replica).send("GET", "/metrics", "", "")?.body;
        let count = page.lines().find_map(|line| line.strip_prefix("toolbooth_unrecorded_calls_total "));
        caused.unrecorded += count.and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    }
    Ok(())
}

/// Suspends a replica until the others have taken its work over, and lets it go on.
fn suspend(cluster: &ReplicaCluster<'_>, replica: usize) -> Result<()> {
    cluster.signal(replica, Signal::SIGSTOP)?;
    thread::sleep(SUSPENDED);
    cluster.signal(replica, Signal::SIGCONT)
}

/// A rolling restart that was made.
#[derive(Debug, Default)]
pub struct RestartOutcome {
    /// The longest stop of a replica.
    pub longest: Duration,
    /// The calls that the replica of the older version has ended, if there was one.
    pub older_calls: Option<usize>,
}

/// Stops and starts the replicas one after the other, as a deployment does. With an older version of the program, one
/// replica runs it for a while, on the schema of the newer one, as during an upgrade.
pub fn restart_in_turn(
    cluster: &ReplicaCluster<'_>,
    proxy: &RoundRobinProxy,
    older: Option<&Path>,
) -> Result<RestartOutcome> {
    let mut outcome = RestartOutcome::default();
    for replica in 0..cluster.addresses.len() {
        if let (OLDER_REPLICA, Some(older)) = (replica, older) {
            outcome.longest = outcome.longest.max(restart(cluster, proxy, replica, older)?);
            thread::sleep(OLDER_SERVES);
            outcome.older_calls = Some(ended_calls(cluster, replica)?);
        }
        let took = restart(cluster, proxy, replica, cluster.program())?;
        outcome.longest = outcome.longest.max(took);
    }
    Ok(outcome)
}

/// Stops a replica and starts this program instead, while the proxy sends nothing to it; returns how long the stop took.
fn restart(
    cluster: &ReplicaCluster<'_>,
    proxy: &RoundRobinProxy,
    replica: usize,
    program: &Path,
) -> Result<Duration> {
    thread::sleep(Duration::from_millis(300));
    proxy.take_out(replica, Duration::from_secs(600));
    thread::sleep(TAKEN_OUT);
    let took = cluster.stop(replica)?;
    cluster.start_program(replica, program)?;
    cluster.ready(replica)?;
    proxy.take_out(replica, Duration::ZERO);
    Ok(took)
}

/// The calls that a replica has ended since its start.
fn ended_calls(cluster: &ReplicaCluster<'_>, replica: usize) -> Result<usize> {
    let page = cluster.admin(replica).send("GET", "/metrics", "", "")?.body;
    let counts = page.lines().filter(|line| line.starts_with("toolbooth_calls_total{"));
    Ok(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum())
}

/// Whether a condition becomes true in time.
pub fn within(timeout: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
