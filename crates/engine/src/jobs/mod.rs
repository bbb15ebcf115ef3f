//! Jobs and tasks: who may see and start them, when they are due, and their runs.
//!
//! `schedule` looks for what is due, `runner` works on a run, and `requests` and `tasks` serve the front ends. A run is
//! a row in the store. The gateway process that works on it has a lease and renews it; each step is written before it
//! starts and after it ended. After a crash, another process (or the next one) continues: steps that ended are not
//! repeated, a step in progress is repeated if its tool is safe, and otherwise the run is held for a person. All
//! changes compare the time of the last change, so that a process that lost its lease cannot write any more.
//!
//! Runs of skills whose steps wait for a person are stored and continued in the same way (`skill_runs`). `wake` continues
//! a run as soon as a held call of its steps has ended.
//!
//! A job runs as its owner: the user who created or scheduled it, as the gateway identified them. Their current rights
//! are looked up before each step.

mod definitions;
mod escalate;
mod external;
mod job_heads;
mod parts;
mod readiness;
mod requests;
mod rows;
mod run_requests;
mod run_slots;
mod runner;
mod schedule;
mod skill_runs;
mod task_heads;
mod tasks;
mod wake;
mod withdraw;
mod work_end;
mod work_list;
mod worker;

pub use definitions::{JobSource, KnownJob, KnownTask, WorkManifests};
pub use external::ExternalAccess;
pub use readiness::JobReadiness;
pub use requests::{JobQuery, ScheduleSwitch};
pub use run_requests::{InterruptedStep, RunPage, RunTitle};
pub use task_heads::TaskFinder;
pub use tasks::TaskQuery;
pub use work_list::WorkList;

use crate::approvals::Approvals;
use crate::catalog::LiveCatalog;
use crate::events::EventRing;
use crate::health::HealthMonitor;
use crate::rights_source::{AbsentCaller, Rights, RightsSourceLink};
use crate::shared_state::SharedState;
use crate::skills::Skills;
use arc_swap::ArcSwap;
use rows::record;
use run_slots::RunSlots;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;
use toolbooth_core::clock::Clock;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{DefinitionFault, JobFault, JobRecord, RunRecord, WorkOwner};
use toolbooth_store::{MAX_WORK_PAGE, Store, WorkFilter, WorkKind, WorkRow};
use uuid::Uuid;

/// The maximum size of a definition in a request, in KiB of JSON.
const MAX_DEFINITION_KIB: usize = 256;
/// The maximum number of pages of rows that one request reads.
const MAX_PAGES: usize = 20;
/// How often a change is tried again if another one came first.
const MAX_TRIES: usize = 10;

/// The jobs and tasks of this gateway.
pub struct Jobs {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    events: Arc<EventRing>,
    catalog: Arc<LiveCatalog>,
    health: Arc<HealthMonitor>,
    skills: Arc<Skills>,
    approvals: Arc<Approvals>,
    rights_source: Arc<RightsSourceLink>,
    manifests: ArcSwap<WorkManifests>,
    slots: RunSlots,
    /// The runs that this process works on.
    running: Mutex<HashMap<Uuid, AbortHandle>>,
    /// The earliest time at which something may be due. Too early is harmless.
    next_look_ms: AtomicI64,
    stopping: AtomicBool,
    /// Whether this process looks for due work; a command without a running gateway does not.
    looks: AtomicBool,
    /// A name of this process in leases.
    worker: String,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("next_look_ms", &self.next_look_ms).finish_non_exhaustive()
    }
}

impl Jobs {
    pub(crate) fn new(
        shared: &SharedState,
        catalog: Arc<LiveCatalog>,
        health: Arc<HealthMonitor>,
        skills: Arc<Skills>,
        approvals: Arc<Approvals>,
    ) -> Self {
        Self {
            clock: shared.clock.clone(),
            store: shared.store.clone(),
            events: shared.events.clone(),
            catalog,
            health,
            skills,
            approvals,
            rights_source: shared.rights_source.clone(),
            manifests: ArcSwap::default(),
            slots: RunSlots::default(),
            running: Mutex::default(),
            next_look_ms: AtomicI64::new(i64::MIN),
            stopping: AtomicBool::new(false),
            looks: AtomicBool::new(false),
            worker: Uuid::now_v7().to_string(),
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Uuid, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for due work at this time at the latest.
    fn note_due(&self, due_ms: Option<i64>) {
        if let Some(due_ms) = due_ms {
            self.next_look_ms.fetch_min(due_ms, Ordering::Relaxed);
        }
    }

    async fn job_record(&self, key: &str) -> Result<Option<JobRecord>, Problem> {
        let row = self.store.work(WorkKind::Job, key).await.map_err(|error| Problem::of(&error))?;
        row.as_ref().map(record).transpose()
    }

    async fn run_record(&self, id: Uuid) -> Result<Option<RunRecord>, Problem> {
        let row = self.store.work(WorkKind::Run, &id.to_string()).await;
        row.map_err(|error| Problem::of(&error))?.as_ref().map(record).transpose()
    }

    /// All rows of a filter, in pages, newest first.
    async fn all_rows(&self, mut filter: WorkFilter) -> Result<Vec<WorkRow>, Problem> {
        let mut all: Vec<WorkRow> = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.store.work_rows(filter.clone()).await.map_err(|error| Problem::of(&error))?;
            let is_last = page.len() < MAX_WORK_PAGE as usize;
            filter.before = page.last().map(|row| row.id.clone());
            all.extend(page);
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// The current rights of an owner.
    async fn rights_of(&self, owner: &WorkOwner) -> Rights {
        let identified_by = owner.identified_by();
        let absent = AbsentCaller {
            user: &owner.user,
            persona: owner.persona.as_deref(),
            session: None,
            level: owner.level.as_deref(),
            identified_by: Some(&identified_by),
        };
        self.rights_source.rights(absent).await
    }

    /// Emits an event about a job.
    fn emit(&self, kind: EventKind, job: &JobRecord, with: impl FnOnce(Event) -> Event) {
        let event = Event::new(kind).user(job.owner.user.as_str()).with("job", job.name.as_str());
        self.events.emit(with(event));
    }

    /// Emits an event about a run.
    fn emit_run(&self, kind: EventKind, run: &RunRecord, with: impl FnOnce(Event) -> Event) {
        let event = match run.is_of_skill() {
            true => Event::new(skill_event(kind)).call(run.id).with("skill", run.name.as_str()),
            false => Event::new(kind).with("job", run.name.as_str()),
        };
        let event = event.user(run.owner.user.as_str()).with("run", run.id.to_string().as_str());
        self.events.emit(with(event));
    }
}

/// The event of a skill's run that corresponds to that of a job's run.
fn skill_event(kind: EventKind) -> EventKind {
    match kind {
        EventKind::JobSucceeded => EventKind::SkillSucceeded,
        EventKind::JobHeld => EventKind::SkillHeld,
        EventKind::JobFailed | EventKind::JobCancelled => EventKind::SkillFailed,
        other => other,
    }
}

/// The error if a record was changed by another request at the same time, again and again.
fn busy(name: &str) -> Problem {
    Problem {
        code: "job.busy",
        blame: toolbooth_core::fault::Blame::Gateway,
        message: format!("`{name}` is being changed by other requests"),
        hint: Some("try again".into()),
    }
}

fn fault(fault: &JobFault) -> Problem {
    Problem::of(fault)
}

/// Refuses a definition of a request that is too large.
fn check_size(definition: &Value) -> Result<(), Problem> {
    if definition.to_string().len() <= MAX_DEFINITION_KIB * 1024 {
        return Ok(());
    }
    let message = format!("it must have at most {MAX_DEFINITION_KIB} KiB of JSON");
    let faults = vec![DefinitionFault { pointer: String::new(), message, is_unknown_field: false }];
    Err(fault(&JobFault::BadDefinition { faults }))
}
