//! Finds jobs for a caller by the columns of their rows. Their records are read one by one, because definitions are large.

use super::definitions::WorkManifests;
use super::{JobSource, Jobs, KnownJob};
use std::collections::HashSet;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{JobFault, JobState, is_user_key, manifest_key, persona_of, user_key};
use toolbooth_core::permission::{Permission, on_job, on_owned_work};
use toolbooth_store::{RowBodies, WorkFilter, WorkKind, WorkRow};

/// The maximum number of jobs of other users with one name that are looked at.
const MAX_SAME_NAME: u32 = 20;

/// A job whose record has not been read.
#[derive(Debug, Clone)]
pub(super) struct JobHead {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) state: JobState,
    /// The owner; absent for a manifest job that was never scheduled or run.
    pub(super) owner: Option<String>,
    /// Its place in the manifests.
    pub(super) manifest: Option<usize>,
    /// The persona in whose folder its manifest is.
    pub(super) persona: Option<String>,
}

impl JobHead {
    /// Its place in lists.
    pub(super) fn page_key(&self) -> String {
        format!("{}\n{}", self.name, self.key)
    }
}

impl Jobs {
    /// The rows of a kind that a caller may see, without documents: an administrator all, other users their own and
    /// those of these manifests.
    pub(super) async fn visible_rows(
        &self,
        caller: &Caller,
        filter: WorkFilter,
        manifests: Vec<String>,
    ) -> Result<Vec<WorkRow>, Problem> {
        let kind = filter.kind;
        let user = (caller.admin != Admin::Yes).then(|| caller.user.to_string());
        let others = if user.is_some() { manifests } else { Vec::new() };
        let filter = WorkFilter { user, bodies: RowBodies::LeftOut, ..filter };
        let mut rows = self.all_rows(filter).await?;
        let known: HashSet<String> = rows.iter().map(|row| row.id.clone()).collect();
        for key in others.iter().filter(|key| !known.contains(*key)) {
            let row = self.store.work(kind, key).await.map_err(|error| Problem::of(&error))?;
            rows.extend(row.map(|row| WorkRow { body: String::new(), ..row }));
        }
        Ok(rows)
    }

    /// All jobs that a caller may see.
    pub(super) async fn job_heads(
        &self,
        caller: &Caller,
        manifests: &WorkManifests,
    ) -> Result<Vec<JobHead>, Problem> {
        let keys =
            manifests.jobs.iter().map(|job| manifest_key(persona_of(&job.scope), &job.definition.name));
        let keys: Vec<String> = keys.collect();
        let rows = self.visible_rows(caller, WorkFilter::of(WorkKind::Job), keys).await?;
        let mut heads = manifest_heads(caller, manifests, &rows, None);
        let own = rows.iter().filter(|row| is_user_key(&row.id));
        heads.extend(own.filter(|row| is_visible(caller, row)).map(head_of));
        // A persona's own job shadows the shared one of the same name.
        let own: HashSet<String> =
            heads.iter().filter(|head| head.persona.is_some()).map(|head| head.name.clone()).collect();
        heads.retain(|head| {
            let is_shared = head.manifest.is_some() && head.persona.is_none();
            !is_shared || caller.persona.is_none() || !own.contains(&head.name)
        });
        Ok(heads)
    }

    /// A job with its record; `None` if it was deleted meanwhile.
    pub(super) async fn known_job(
        &self,
        manifests: &WorkManifests,
        head: &JobHead,
    ) -> Result<Option<KnownJob>, Problem> {
        let record = match &head.owner {
            Some(_) => self.job_record(&head.key).await?,
            None => None,
        };
        let key = head.key.clone();
        if let Some(job) = head.manifest.and_then(|place| manifests.jobs.get(place)) {
            let source = JobSource::Manifest { persona: head.persona.clone(), origin: job.origin.clone() };
            return Ok(Some(KnownJob { key, source, definition: job.definition.clone(), record }));
        }
        let known = record.and_then(|record| {
            let definition = record.definition.clone()?;
            Some(KnownJob { key, source: JobSource::Request, definition, record: Some(record) })
        });
        Ok(known)
    }

    /// A job by its name: the caller's own, one of a manifest, or (for administrators) one of another user.
    pub(super) async fn visible_job(&self, caller: &Caller, name: &str) -> Result<KnownJob, Problem> {
        let shown: String = name.chars().take(128).collect();
        let unknown = || super::fault(&JobFault::UnknownJob { name: shown.clone() });
        let manifests = self.manifests.load_full();
        let row = |key: String| async move {
            self.store.work(WorkKind::Job, &key).await.map_err(|error| Problem::of(&error))
        };
        let mut heads: Vec<JobHead> = Vec::new();
        heads.extend(row(user_key(&caller.user, name)).await?.iter().map(head_of));
        if heads.is_empty() {
            let mut rows = Vec::new();
            for job in manifests.jobs.iter().filter(|job| job.definition.name == name) {
                rows.extend(row(manifest_key(persona_of(&job.scope), name)).await?);
            }
            heads = manifest_heads(caller, &manifests, &rows, Some(name));
            heads.sort_by_key(|head| (head.persona.is_none(), head.key.clone()));
        }
        if heads.is_empty() && caller.admin == Admin::Yes {
            let filter = WorkFilter {
                name: Some(name.to_owned()),
                limit: Some(MAX_SAME_NAME),
                bodies: RowBodies::LeftOut,
                ..WorkFilter::of(WorkKind::Job)
            };
            let rows = self.store.work_rows(filter).await.map_err(|error| Problem::of(&error))?;
            heads.extend(rows.iter().filter(|row| is_user_key(&row.id)).map(head_of));
        }
        let head = heads.first().ok_or_else(unknown)?;
        self.known_job(&manifests, head).await?.ok_or_else(unknown)
    }
}

/// The manifest jobs (with a name) that a caller may see.
fn manifest_heads(
    caller: &Caller,
    manifests: &WorkManifests,
    rows: &[WorkRow],
    name: Option<&str>,
) -> Vec<JobHead> {
    let mut heads = Vec::new();
    for (place, job) in manifests.jobs.iter().enumerate() {
        let (persona, definition) = (persona_of(&job.scope), &job.definition);
        if name.is_some_and(|name| definition.name != name) {
            continue;
        }
        let key = manifest_key(persona, &definition.name);
        let row = rows.iter().find(|row| row.id == key);
        let owner = row.map(|row| row.user.clone());
        if on_job(caller, persona, definition, owner.as_deref()) == Permission::Granted {
            heads.push(JobHead {
                key,
                name: definition.name.clone(),
                state: row.map_or(JobState::Draft, state_of),
                owner,
                manifest: Some(place),
                persona: persona.map(str::to_owned),
            });
        }
    }
    heads
}

fn is_visible(caller: &Caller, row: &WorkRow) -> bool {
    on_owned_work(caller, &row.user) == Permission::Granted
}

fn state_of(row: &WorkRow) -> JobState {
    row.state.parse().unwrap_or(JobState::Draft)
}

/// The head of a job that a request created.
fn head_of(row: &WorkRow) -> JobHead {
    JobHead {
        key: row.id.clone(),
        name: row.name.clone(),
        state: state_of(row),
        owner: Some(row.user.clone()),
        manifest: None,
        persona: None,
    }
}
