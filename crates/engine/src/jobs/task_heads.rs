//! Finds tasks for a caller by the columns of their rows. Their records are read one by one, because definitions are large.

use super::definitions::WorkManifests;
use super::rows::record;
use super::{Jobs, KnownTask};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{TaskDefinition, TaskRecord, TaskStatus, manifest_key, persona_of};
use toolbooth_core::permission::{Permission, on_owned_work, on_task};
use toolbooth_store::{RowBodies, WorkFilter, WorkKind, WorkRow};

/// A task whose record has not been read.
#[derive(Debug, Clone)]
pub(super) struct TaskHead {
    /// The id of its row.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) state: TaskStatus,
    /// The owner; absent for a manifest task in its first state.
    pub(super) owner: Option<String>,
    /// Whether a run of a job created it for a person.
    pub(super) of_run: bool,
    /// Its place in the manifests.
    pub(super) manifest: Option<usize>,
    /// The persona in whose folder its manifest is.
    pub(super) persona: Option<String>,
}

impl TaskHead {
    /// Its place in lists.
    pub(super) fn page_key(&self) -> String {
        format!("{}\n{}", self.name, self.key)
    }

    /// The order in which tasks of the same name are preferred: a user's own, that of the persona, a shared one.
    pub(super) fn rank(&self) -> u8 {
        match (self.manifest, &self.persona) {
            (None, _) => 0,
            (Some(_), Some(_)) => 1,
            (Some(_), None) => 2,
        }
    }
}

impl Jobs {
    /// All tasks that a caller may see, or those with a name; newest records first.
    pub(super) async fn task_heads(
        &self,
        caller: &Caller,
        manifests: &WorkManifests,
        name: Option<&str>,
    ) -> Result<Vec<TaskHead>, Problem> {
        let seen: Vec<(usize, Option<&str>, String)> = manifests
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| name.is_none_or(|name| task.definition.name == name))
            .map(|(place, task)| (place, persona_of(&task.scope), &task.definition))
            .filter(|(_, persona, definition)| on_task(caller, *persona, definition) == Permission::Granted)
            .map(|(place, persona, definition)| (place, persona, manifest_key(persona, &definition.name)))
            .collect();
        let filter = WorkFilter { name: name.map(str::to_owned), ..WorkFilter::of(WorkKind::Task) };
        let keys = seen.iter().map(|(_, _, key)| key.clone()).collect();
        let rows = self.visible_rows(caller, filter, keys).await?;
        let by_key: HashMap<&str, &WorkRow> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
        let own = rows.iter().filter(|row| is_of_request(row));
        let own = own.filter(|row| on_owned_work(caller, &row.user) == Permission::Granted);
        let mut heads: Vec<TaskHead> = own.map(head_of).collect();
        for (place, persona, key) in seen {
            let row = by_key.get(key.as_str()).copied();
            heads.push(TaskHead {
                name: manifests.tasks[place].definition.name.clone(),
                state: row.map_or(TaskStatus::Draft, state_of),
                owner: row.map(|row| row.user.clone()),
                of_run: false,
                manifest: Some(place),
                persona: persona.map(str::to_owned),
                key,
            });
        }
        Ok(heads)
    }

    /// A task with its record, and the size of the record; `None` if it was deleted meanwhile.
    pub(super) async fn known_task(
        &self,
        manifests: &WorkManifests,
        head: &TaskHead,
    ) -> Result<Option<KnownTask>, Problem> {
        let found: Option<TaskRecord> = match &head.owner {
            Some(_) => {
                let row = self.store.work(WorkKind::Task, &head.key).await;
                row.map_err(|error| Problem::of(&error))?.as_ref().map(record).transpose()?
            }
            None => None,
        };
        if let Some(task) = head.manifest.and_then(|place| manifests.tasks.get(place)) {
            return Ok(Some(KnownTask {
                id: head.name.clone(),
                persona: head.persona.clone(),
                origin: Some(task.origin.clone()),
                manifest: Some(head.key.clone()),
                definition: task.definition.clone(),
                record: found,
            }));
        }
        Ok(found.map(known_of_request))
    }

    /// Finds the definitions of tasks for a caller.
    pub fn task_finder(&self, caller: &Caller) -> TaskFinder<'_> {
        let manifests = self.manifests.load_full();
        let user = caller.user.clone();
        let mut of_manifests: BTreeMap<String, TaskDefinition> = BTreeMap::new();
        // A task of the persona comes before a shared one.
        for wanted in [true, false] {
            for task in manifests.tasks.iter() {
                let persona = persona_of(&task.scope);
                if persona.is_some() == wanted
                    && on_task(caller, persona, &task.definition) == Permission::Granted
                {
                    let name = task.definition.name.clone();
                    of_manifests.entry(name).or_insert_with(|| task.definition.clone());
                }
            }
        }
        TaskFinder { jobs: self, user, of_manifests, own: None, read: HashMap::new() }
    }
}

/// Finds the definitions of tasks in the graphs of jobs: the caller's own task, then that of the persona, then a shared
/// one. The names of the caller's tasks are read once, and each definition at most once.
#[derive(Debug)]
pub struct TaskFinder<'a> {
    jobs: &'a Jobs,
    user: Arc<str>,
    of_manifests: BTreeMap<String, TaskDefinition>,
    /// The ids of the caller's own tasks by name, once they were read.
    own: Option<HashMap<String, String>>,
    read: HashMap<String, TaskDefinition>,
}

impl TaskFinder<'_> {
    /// The definition of a task with this name.
    pub async fn definition(&mut self, name: &str) -> Result<Option<&TaskDefinition>, Problem> {
        if self.own.is_none() {
            // Tasks of other users must not run with the rights of this caller, even if it is an administrator.
            let filter = WorkFilter {
                user: Some(self.user.to_string()),
                bodies: RowBodies::LeftOut,
                ..WorkFilter::of(WorkKind::Task)
            };
            let rows = self.jobs.all_rows(filter).await?;
            // The task that a run created for a person is not a definition. The newest one of a name counts.
            let own = rows.into_iter().filter(|row| is_of_request(row) && row.parent.is_none());
            self.own = Some(own.rev().map(|row| (row.name, row.id)).collect());
        }
        let own = self.own.as_ref().and_then(|own| own.get(name));
        if let Some(id) = own
            && !self.read.contains_key(name)
        {
            let row = self.jobs.store.work(WorkKind::Task, id).await.map_err(|error| Problem::of(&error))?;
            if let Some(task) = row.as_ref().map(record::<TaskRecord>).transpose()? {
                self.read.insert(name.to_owned(), task.definition);
            }
        }
        Ok(self.read.get(name).or_else(|| self.of_manifests.get(name)))
    }
}

/// Whether a row belongs to a task that a request or a run created. The id of another one is the key of its manifest.
fn is_of_request(row: &WorkRow) -> bool {
    uuid::Uuid::parse_str(&row.id).is_ok()
}

fn state_of(row: &WorkRow) -> TaskStatus {
    row.state.parse().unwrap_or(TaskStatus::Draft)
}

fn head_of(row: &WorkRow) -> TaskHead {
    TaskHead {
        key: row.id.clone(),
        name: row.name.clone(),
        state: state_of(row),
        owner: Some(row.user.clone()),
        of_run: row.parent.is_some(),
        manifest: None,
        persona: None,
    }
}

/// A task that a request or a run created.
pub(super) fn known_of_request(task: TaskRecord) -> KnownTask {
    KnownTask {
        id: task.id.to_string(),
        persona: task.definition.persona.clone(),
        origin: None,
        manifest: None,
        definition: task.definition.clone(),
        record: Some(task),
    }
}
