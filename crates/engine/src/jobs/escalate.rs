//! Escalation: the events that webhooks deliver, and the acts of the policies of jobs and tasks.

use super::Jobs;
use super::rows::{WorkRecord, record, replaced};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    EscalationActs, EscalationPolicy, EscalationTrigger, PartOutcome, RunPart, RunRecord, TaskRecord,
};
use toolbooth_store::{WorkRow, WorkUpdate};

impl Jobs {
    /// Notes in a run that it is escalated, once for each trigger, if its policy says so. The caller stores the run,
    /// announces the escalation, and applies the acts.
    pub(super) fn escalate(
        run: &mut RunRecord,
        policy: &EscalationPolicy,
        trigger: EscalationTrigger,
    ) -> EscalationActs {
        let word = trigger.as_str();
        if run.escalations.iter().any(|known| known == word) {
            return EscalationActs::default();
        }
        let Some(acts) = policy.on(trigger) else { return EscalationActs::default() };
        run.escalations.push(word.to_owned());
        acts
    }

    /// Notes in a run that tasks of it are escalated, which failed or wait for a person, once each, if their policies say
    /// so. The caller stores the run, announces the escalations, and applies the acts.
    pub(super) fn escalate_tasks(run: &mut RunRecord, trigger: EscalationTrigger) -> EscalationActs {
        let concerned = |part: &&RunPart| match trigger {
            EscalationTrigger::Failed => part.outcome == Some(PartOutcome::Failed),
            _ => part.outcome.is_none() && (part.task.is_some() || part.held().next().is_some()),
        };
        let concerned: Vec<(String, EscalationPolicy)> = run
            .parts
            .iter()
            .filter(concerned)
            .filter_map(|part| Some((part.task_name().to_owned(), part.escalation_policy.clone()?)))
            .collect();
        let mut all = EscalationActs::default();
        for (task, policy) in concerned {
            let word = format!("{}:{task}", trigger.as_str());
            if run.escalations.contains(&word) {
                continue;
            }
            let Some(acts) = policy.on(trigger) else { continue };
            run.escalations.push(word);
            all = all.and(acts);
        }
        all
    }

    /// Announces the escalations of a run after its first `known` ones, by the policy of its job and those of its tasks.
    /// Only a process whose change of the run was stored announces them, so that each is announced once.
    pub(super) fn announce_escalations(&self, known: usize, run: &RunRecord, policy: &EscalationPolicy) {
        for word in run.escalations.iter().skip(known) {
            let Some((trigger, task)) = word.split_once(':') else {
                tracing::warn!(job = %run.name, run = %run.id, "a job is escalated: {word}");
                self.emit_run(EventKind::JobEscalated, run, |event| {
                    let event = described(event, policy, word);
                    match &run.error {
                        Some(error) => event.code(error.code.clone()),
                        None => event,
                    }
                });
                continue;
            };
            let part = run.parts.iter().find(|part| part.task_name() == task);
            let Some(policy) = part.and_then(|part| part.escalation_policy.as_ref()) else { continue };
            tracing::warn!(job = %run.name, run = %run.id, task = %task, "a task is escalated: {trigger}");
            self.emit_run(EventKind::TaskEscalated, run, |event| {
                described(event, policy, trigger).with("task", task)
            });
        }
    }

    /// A task is overdue: it is escalated once.
    pub(super) async fn task_is_due(&self, row: &WorkRow) -> Result<(), Problem> {
        let task: TaskRecord = record(row)?;
        let now = self.clock.now_ms();
        let trigger = EscalationTrigger::Overdue;
        let policy = &task.definition.escalation_policy;
        let is_overdue = task.overdue_ms().is_some_and(|overdue| overdue <= now);
        let acts = policy.on(trigger).filter(|_| is_overdue).unwrap_or_default();
        // First the schedule: if this process ends in between, the next one finds the task overdue and does both.
        if acts.pause
            && let Some(run) = task.run
            && let Some(run) = self.run_record(run).await?.filter(|run| !run.state.is_final())
        {
            self.pause_by_policy(&run.job).await?;
        }
        // Otherwise only the due time of the row is written again.
        let mut changed = task.clone();
        if is_overdue {
            changed.escalations.push(trigger.as_str().to_owned());
        }
        changed.touch(now);
        let changes = vec![replaced(&task, &changed)?];
        let update = self.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))?;
        if is_overdue && update == WorkUpdate::Won {
            let (name, id) = (task.definition.name.as_str(), task.id.to_string());
            tracing::warn!(task = %name, id = %id, "a task is escalated: {}", trigger.as_str());
            let event = Event::new(EventKind::TaskEscalated).user(task.owner.user.as_str());
            let mut event =
                described(event, policy, trigger.as_str()).with("task", name).with("id", id.as_str());
            if let Some(run) = task.run {
                event = event.with("run", run.to_string().as_str());
            }
            self.events.emit(event);
        }
        Ok(())
    }

    /// When a run that has not ended becomes overdue; `None` without a timeframe, or if it was escalated.
    pub(super) fn overdue_ms(run: &RunRecord, policy: &EscalationPolicy) -> Option<i64> {
        let word = EscalationTrigger::Overdue.as_str();
        if run.escalations.iter().any(|known| known == word)
            || policy.on(EscalationTrigger::Overdue).is_none()
        {
            return None;
        }
        Some(run.created_ms.saturating_add(policy.timeframe_ms()?))
    }
}

/// An event with the trigger, and with the level and the contact of the policy.
fn described(mut event: Event, policy: &EscalationPolicy, trigger: &str) -> Event {
    event = event.with("trigger", trigger);
    for (key, text) in [("level", &policy.level), ("contact", &policy.contact)] {
        if let Some(text) = text {
            event = event.with(key, text.as_str());
        }
    }
    event
}
