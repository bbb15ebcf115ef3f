//! Requests about tasks.

use super::rows::{WorkRecord, added, record, replaced};
use super::task_heads::{TaskHead, known_of_request};
use super::work_list::{WorkList, has_persona, size_of_json};
use super::{Jobs, KnownTask, MAX_TRIES, busy, check_size, fault};
use crate::audit::Act;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::caller::Caller;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    DefinitionSource, JobFault, TaskDefinition, TaskRecord, TaskStatus, WorkOwner, extended,
};
use toolbooth_core::permission::{Permission, on_owned_work};
use toolbooth_core::persona::is_same_name;
use toolbooth_core::registry::SharedTools;
use toolbooth_store::{WorkChange, WorkKind, WorkUpdate};
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
    /// Whether tasks that do not belong to a persona are listed.
    pub shared: SharedTools,
    /// Tasks after this place, for the next page.
    pub after: Option<String>,
    /// The page size.
    pub limit: usize,
}

impl KnownTask {
    /// Its state.
    pub fn state(&self) -> TaskStatus {
        self.record.as_ref().map_or(TaskStatus::Draft, |record| record.state)
    }

    /// Whether it fits the filters that the columns of its row do not tell.
    fn fits(&self, query: &TaskQuery) -> bool {
        let definition = &self.definition;
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
        (query.shared == SharedTools::Included || self.persona.is_some())
            && same(&query.priority, definition.priority.as_deref())
            && query
                .tag
                .as_deref()
                .is_none_or(|wanted| definition.tags.iter().any(|tag| tag.eq_ignore_ascii_case(wanted)))
            && query.text.as_deref().is_none_or(contains)
    }
}

impl Jobs {
    /// A page of the tasks that any of these callers may see, sorted by name. They are one user with different personas.
    pub async fn list_tasks(
        &self,
        callers: &[Arc<Caller>],
        query: &TaskQuery,
    ) -> Result<WorkList<KnownTask>, Problem> {
        let manifests = self.manifests.load_full();
        let mut heads: Vec<TaskHead> = Vec::new();
        let mut keys: HashSet<String> = HashSet::new();
        for caller in callers {
            let seen = self.task_heads(caller, &manifests, None).await?;
            heads.extend(seen.into_iter().filter(|head| keys.insert(head.key.clone())));
        }
        heads.retain(|head| {
            (query.states.is_empty() || query.states.contains(&head.state))
                && query.owner.as_deref().is_none_or(|wanted| head.owner.as_deref() == Some(wanted))
                && query.after.as_ref().is_none_or(|after| head.page_key() > *after)
        });
        heads.sort_by_cached_key(TaskHead::page_key);
        let mut list = WorkList::new(query.limit);
        for head in &heads {
            if list.is_full() {
                return Ok(list);
            }
            list.pass(head.page_key());
            let task = self.known_task(&manifests, head).await?;
            let fits = |task: &KnownTask| {
                let own = task.persona.as_deref();
                task.fits(query) && own.is_none_or(|own| has_persona(callers, |name| is_same_name(own, name)))
            };
            if let Some(task) = task.filter(fits) {
                list.add(size_of_json(&task.definition), task);
            }
        }
        list.next = None;
        Ok(list)
    }

    /// A task by its id, or by its name if no id fits: the caller's own, one of a manifest, one that a run of the caller
    /// created, or (for administrators) one of another user.
    pub async fn get_task(&self, caller: &Caller, id: &str) -> Result<KnownTask, Problem> {
        if id.parse::<Uuid>().is_ok() {
            let row = self.store.work(WorkKind::Task, id).await.map_err(|error| Problem::of(&error))?;
            let task: Option<TaskRecord> = row.as_ref().map(record).transpose()?;
            if let Some(task) = task.filter(|task| is_visible(caller, task)) {
                return Ok(known_of_request(task));
            }
        }
        let manifests = self.manifests.load_full();
        let mut heads = self.task_heads(caller, &manifests, Some(id)).await?;
        heads.sort_by_key(|head| match head.manifest {
            Some(_) => head.rank(),
            None if head.owner.as_deref() != Some(&*caller.user) => 4,
            None if head.of_run => 3,
            None => 0,
        });
        let head = heads.first().ok_or_else(|| unknown(id))?;
        self.known_task(&manifests, head).await?.ok_or_else(|| unknown(id))
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
            escalations: Vec::new(),
            ready_ms: None,
            created_ms: now,
            updated_ms: now,
        };
        let audit = self.audit_task(caller, &task, "created");
        let update = self.store.change_work(vec![added(&task)?], Some(audit)).await;
        update.map_err(|error| Problem::of(&error))?;
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
            WorkUpdate::Won => {
                self.note_due(next.overdue_ms());
                self.get_task(caller, &next.id.to_string()).await
            }
            WorkUpdate::Lost(_) => Err(changed(task, expected_ms)),
        }
    }

    /// Deletes a task that a request created. A run that waits for it would never end, so it must be cancelled instead.
    pub async fn delete_task(&self, caller: &Caller, id: &str) -> Result<KnownTask, Problem> {
        let known = self.get_task(caller, id).await?;
        let name = known.definition.name.clone();
        let Some(task) = known.record.as_ref().filter(|task| task.manifest.is_none()) else {
            return Err(fault(&JobFault::InManifest { name }));
        };
        check_owner(caller, task)?;
        if let Some(run) = task.run.filter(|_| !task.state.is_final()) {
            return Err(fault(&JobFault::TaskOfRun { name, run: run.to_string() }));
        }
        let audit = self.audit_task(caller, task, "deleted");
        let change = WorkChange::Remove {
            kind: WorkKind::Task,
            id: task.id.to_string(),
            expected_ms: task.updated_ms,
        };
        match self.store.change_work(vec![change], Some(audit)).await.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => Ok(known),
            WorkUpdate::Lost(_) => Err(busy(id)),
        }
    }

    /// Changes the state of a task. `expected_ms` is the time of the last change that the caller knows.
    pub async fn transition_task(
        &self,
        caller: &Caller,
        id: &str,
        to: TaskStatus,
        expected_ms: Option<i64>,
    ) -> Result<KnownTask, Problem> {
        for _ in 0..MAX_TRIES {
            let known = self.get_task(caller, id).await?;
            let (from, name) = (known.state(), known.definition.name.clone());
            // A task of a manifest that never left the draft has no time of a change.
            let updated_ms = known.record.as_ref().map_or(0, |task| task.updated_ms);
            if let Some(expected_ms) = expected_ms.filter(|expected| *expected != updated_ms) {
                return Err(fault(&JobFault::Changed { name, expected_ms, updated_ms }));
            }
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
                None => first_record(&known, caller, now),
            };
            task.state = to;
            if from == TaskStatus::Draft {
                task.ready_ms = Some(now);
            }
            task.touch(now);
            let change = match &earlier {
                Some(earlier) => replaced(earlier, &task)?,
                None => added(&task)?,
            };
            let audit = self.audit_task(caller, &task, to.as_str());
            let update = self.store.change_work(vec![change], Some(audit)).await;
            if update.map_err(|error| Problem::of(&error))? == WorkUpdate::Won {
                self.emit_task(&task);
                self.note_due(task.overdue_ms());
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
        let manifests = self.manifests.load_full();
        for name in &known.definition.depends_on {
            let mut usable = self.task_heads(caller, &manifests, Some(name)).await?;
            // An administrator sees the tasks of other users, which are not meant.
            usable.retain(|head| head.manifest.is_some() || head.owner.as_deref() == Some(owner));
            // A task of a manifest depends on those of manifests, another one on those of its owner.
            usable.sort_by_key(|head| match head.manifest {
                None if known.manifest.is_some() => 3,
                _ => head.rank(),
            });
            let dependency = usable.first().ok_or_else(|| unknown(name))?;
            if !dependency.state.is_final() {
                return Err(fault(&JobFault::DependencyOpen {
                    name: known.definition.name.clone(),
                    dependency: name.clone(),
                    state: dependency.state,
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
        let (id, run) = (task.id.to_string(), task.run.map(|run| run.to_string()));
        let mut details = vec![("task", task.definition.name.as_str()), ("id", id.as_str())];
        details.extend(run.as_deref().map(|run| ("run", run)));
        act.with(&details).entry(self.clock.wall_ms())
    }
}

fn is_visible(caller: &Caller, task: &TaskRecord) -> bool {
    task.manifest.is_none() && on_owned_work(caller, &task.owner.user) == Permission::Granted
}

/// The first record of a task of a manifest, which belongs to the caller that advances it.
fn first_record(known: &KnownTask, caller: &Caller, now_ms: i64) -> TaskRecord {
    TaskRecord {
        id: Uuid::now_v7(),
        manifest: known.manifest.clone(),
        definition: known.definition.clone(),
        owner: WorkOwner::of(caller),
        state: known.state(),
        run: None,
        escalations: Vec::new(),
        ready_ms: None,
        created_ms: now_ms,
        updated_ms: now_ms,
    }
}

fn check_owner(caller: &Caller, task: &TaskRecord) -> Result<(), Problem> {
    match on_owned_work(caller, &task.owner.user) == Permission::Granted {
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
