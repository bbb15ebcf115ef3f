//! Requests about tasks.

use super::rows::{WorkRecord, added, replaced};
use super::{Jobs, KnownTask, MAX_TRIES, busy, check_size, fault};
use crate::audit::Act;
use serde_json::{Map, Value};
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    DefinitionSource, JobFault, TaskDefinition, TaskRecord, TaskStatus, WorkOwner, extended,
};
use toolbooth_store::WorkContest;
use uuid::Uuid;

/// Filters for a list of tasks; all given fields must match.
#[derive(Debug, Clone, Default)]
pub struct TaskQuery {
    /// Tasks in one of these states; empty means any state.
    pub states: Vec<TaskStatus>,
    /// Tasks of this user.
    pub owner: Option<String>,
    /// Tasks with this tag.
    pub tag: Option<String>,
    /// Tasks with this priority.
    pub priority: Option<String>,
    /// Tasks whose name, summary or description contains these words, without case.
    pub text: Option<String>,
    /// Tasks after the one with this id, for the next page.
    pub after: Option<String>,
    /// The page size.
    pub limit: usize,
}

impl KnownTask {
    /// Its state.
    pub fn state(&self) -> TaskStatus {
        self.record.as_ref().map_or(TaskStatus::Draft, |record| record.state)
    }

    /// Whether it has a record that belongs to this user.
    fn is_of(&self, user: &str) -> bool {
        self.record.as_ref().is_some_and(|record| record.owner.user == user)
    }

    fn fits(&self, query: &TaskQuery) -> bool {
        let definition = &self.definition;
        let owner = self.record.as_ref().map(|record| record.owner.user.as_str());
        let same = |wanted: &Option<String>, found: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted)))
        };
        let contains = |text: &str| {
            let all = [
                definition.name.as_str(),
                definition.summary.as_str(),
                definition.description.as_deref().unwrap_or_default(),
            ];
            let all = all.join("\n").to_lowercase();
            text.to_lowercase().split_whitespace().all(|word| all.contains(word))
        };
        (query.states.is_empty() || query.states.contains(&self.state()))
            && query.owner.as_deref().is_none_or(|wanted| owner == Some(wanted))
            && same(&query.priority, definition.priority.as_deref())
            && query
                .tag
                .as_deref()
                .is_none_or(|wanted| definition.tags.iter().any(|tag| tag.eq_ignore_ascii_case(wanted)))
            && query.text.as_deref().is_none_or(contains)
    }
}

impl Jobs {
    /// The tasks that any of these callers may see. They are one user with different personas.
    pub async fn list_tasks(
        &self,
        callers: &[Arc<Caller>],
        query: &TaskQuery,
    ) -> Result<Vec<KnownTask>, Problem> {
        let mut tasks: Vec<KnownTask> = Vec::new();
        for caller in callers {
            for task in self.visible_tasks(caller).await? {
                if !tasks.iter().any(|known| known.id == task.id && known.manifest == task.manifest) {
                    tasks.push(task);
                }
            }
        }
        tasks.retain(|task| task.fits(query));
        tasks.sort_by(|one, other| (&one.definition.name, &one.id).cmp(&(&other.definition.name, &other.id)));
        if let Some(after) = &query.after {
            let place =
                tasks.iter().position(|task| task.id == *after).map_or(tasks.len(), |place| place + 1);
            tasks.drain(..place);
        }
        tasks.truncate(query.limit);
        Ok(tasks)
    }

    /// A task by its id, or by its name if no id fits: the caller's own, one of a manifest, one that a run of the caller
    /// created, or (for administrators) one of another user.
    pub async fn get_task(&self, caller: &Caller, id: &str) -> Result<KnownTask, Problem> {
        let mut tasks = self.visible_tasks(caller).await?;
        // The id of a manifest task is its name, which other tasks may have, too.
        let by_id = tasks.iter().position(|task| task.manifest.is_none() && task.id == id);
        if let Some(place) = by_id {
            return Ok(tasks.swap_remove(place));
        }
        tasks.retain(|task| task.definition.name == id);
        tasks.sort_by_key(|task| match (&task.manifest, &task.persona) {
            (Some(_), Some(_)) => 1,
            (Some(_), None) => 2,
            (None, _) if !task.is_of(&caller.user) => 4,
            (None, _) if task.record.as_ref().is_some_and(|record| record.run.is_some()) => 3,
            (None, _) => 0,
        });
        tasks.into_iter().next().ok_or_else(|| unknown(id))
    }

    /// Creates a task that belongs to the caller.
    pub async fn create_task(&self, caller: &Caller, body: &Value) -> Result<KnownTask, Problem> {
        let definition = read_definition(body)?;
        let now = self.clock.now_ms();
        let task = TaskRecord {
            id: Uuid::now_v7(),
            manifest: None,
            definition,
            owner: WorkOwner::of(caller),
            state: TaskStatus::Draft,
            run: None,
            created_ms: now,
            updated_ms: now,
        };
        let audit = self.audit_task(caller, &task, "created");
        let contest = self.store.change_work(vec![added(&task)?], Some(audit)).await;
        contest.map_err(|error| Problem::of(&error))?;
        self.emit_task(&task);
        self.get_task(caller, &task.id.to_string()).await
    }

    /// Changes the definition of a task that a request created.
    pub async fn patch_task(
        &self,
        caller: &Caller,
        id: &str,
        patch: &Map<String, Value>,
        expected_ms: Option<i64>,
    ) -> Result<KnownTask, Problem> {
        let known = self.get_task(caller, id).await?;
        let Some(task) = known.record.as_ref().filter(|task| task.manifest.is_none()) else {
            return Err(fault(&JobFault::InManifest { name: known.definition.name }));
        };
        check_owner(caller, task)?;
        let expected_ms = expected_ms.unwrap_or(task.updated_ms);
        if expected_ms != task.updated_ms {
            return Err(changed(task, expected_ms));
        }
        let Ok(Value::Object(base)) = serde_json::to_value(&task.definition) else { return Err(busy(id)) };
        let mut merged = extended(&base, patch);
        merged.retain(|_, value| !value.is_null());
        let mut next = TaskRecord { definition: read_definition(&Value::Object(merged))?, ..task.clone() };
        next.touch(self.clock.now_ms());
        let audit = self.audit_task(caller, &next, "changed");
        let changes = vec![replaced(task, &next)?];
        match self.store.change_work(changes, Some(audit)).await.map_err(|error| Problem::of(&error))? {
            WorkContest::Won => self.get_task(caller, &next.id.to_string()).await,
            WorkContest::Lost(_) => Err(changed(task, expected_ms)),
        }
    }

    /// Changes the state of a task.
    pub async fn transition_task(
        &self,
        caller: &Caller,
        id: &str,
        to: TaskStatus,
    ) -> Result<KnownTask, Problem> {
        for _ in 0..MAX_TRIES {
            let known = self.get_task(caller, id).await?;
            let (from, name) = (known.state(), known.definition.name.clone());
            if !from.may_become(to) {
                return Err(fault(&JobFault::TaskTransition { name, from, to }));
            }
            if to.needs_dependencies() {
                self.check_dependencies(caller, &known).await?;
            }
            let now = self.clock.now_ms();
            let earlier = known.record.clone();
            let mut task = match &earlier {
                Some(task) => {
                    check_owner(caller, task)?;
                    task.clone()
                }
                None => TaskRecord {
                    id: Uuid::now_v7(),
                    manifest: known.manifest.clone(),
                    definition: known.definition.clone(),
                    owner: WorkOwner::of(caller),
                    state: from,
                    run: None,
                    created_ms: now,
                    updated_ms: now,
                },
            };
            task.state = to;
            task.touch(now);
            let change = match &earlier {
                Some(earlier) => replaced(earlier, &task)?,
                None => added(&task)?,
            };
            let audit = self.audit_task(caller, &task, to.as_str());
            let contest = self.store.change_work(vec![change], Some(audit)).await;
            if contest.map_err(|error| Problem::of(&error))? == WorkContest::Won {
                self.emit_task(&task);
                if task.run.is_some() {
                    // The run that waits for it is looked at soon.
                    self.note_due(Some(now));
                }
                return self.get_task(caller, id).await;
            }
        }
        Err(busy(id))
    }

    /// Checks that the dependencies of a task are done or cancelled.
    async fn check_dependencies(&self, caller: &Caller, known: &KnownTask) -> Result<(), Problem> {
        if known.definition.depends_on.is_empty() {
            return Ok(());
        }
        let owner = known.record.as_ref().map_or(&*caller.user, |record| record.owner.user.as_str());
        let mut usable = self.visible_tasks(caller).await?;
        // An administrator sees the tasks of other users, which are not meant.
        usable.retain(|task| task.manifest.is_some() || task.is_of(owner));
        // A task of a manifest depends on those of manifests, another one on those of its owner.
        usable.sort_by_key(|task| match (&task.manifest, &task.persona) {
            (None, _) if known.manifest.is_some() => 3,
            (None, _) => 0,
            (Some(_), Some(_)) => 1,
            (Some(_), None) => 2,
        });
        for name in &known.definition.depends_on {
            let found = usable.iter().find(|task| task.definition.name == *name);
            let dependency = found.ok_or_else(|| unknown(name))?;
            if !dependency.state().is_final() {
                return Err(fault(&JobFault::DependencyOpen {
                    name: known.definition.name.clone(),
                    dependency: name.clone(),
                    state: dependency.state(),
                }));
            }
        }
        Ok(())
    }

    pub(super) fn emit_task(&self, task: &TaskRecord) {
        let mut event = Event::new(EventKind::TaskChanged)
            .user(task.owner.user.as_str())
            .outcome(task.state.as_str())
            .with("task", task.definition.name.as_str())
            .with("id", task.id.to_string().as_str());
        if let Some(run) = task.run {
            event = event.with("run", run.to_string().as_str());
        }
        self.events.emit(event);
    }

    fn audit_task(&self, caller: &Caller, task: &TaskRecord, outcome: &str) -> AuditEntry {
        let act = Act { user: Some(&task.owner.user), ..Act::new(AuditKind::Job, &caller.user, outcome) };
        act.with(&[("task", task.definition.name.as_str())]).entry(self.clock.wall_ms())
    }
}

fn check_owner(caller: &Caller, task: &TaskRecord) -> Result<(), Problem> {
    match task.owner.user == *caller.user || caller.admin == Admin::Yes {
        true => Ok(()),
        false => Err(fault(&JobFault::NotOwner { name: task.definition.name.clone() })),
    }
}

fn unknown(name: &str) -> Problem {
    fault(&JobFault::UnknownTask { name: name.chars().take(128).collect() })
}

fn changed(task: &TaskRecord, expected_ms: i64) -> Problem {
    let (name, updated_ms) = (task.definition.name.clone(), task.updated_ms);
    fault(&JobFault::Changed { name, expected_ms, updated_ms })
}

fn read_definition(body: &Value) -> Result<TaskDefinition, Problem> {
    check_size(body)?;
    let read = TaskDefinition::read(body, DefinitionSource::Request);
    match (read.definition, read.faults.is_empty()) {
        (Some(definition), true) => Ok(definition),
        _ => Err(fault(&JobFault::BadDefinition { faults: read.faults })),
    }
}
