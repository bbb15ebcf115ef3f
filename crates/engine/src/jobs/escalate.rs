//! Escalation: the event that webhooks deliver, and the acts of a job's policy.

use super::Jobs;
use toolbooth_core::event::EventKind;
use toolbooth_core::job::{EscalationActs, EscalationPolicy, EscalationTrigger, RunRecord};

impl Jobs {
    /// Escalates a run, once for each trigger, if its policy says so. The caller stores the run and applies the acts.
    pub(super) fn escalate(
        &self,
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
        tracing::warn!(job = %run.name, run = %run.id, "a job is escalated: {word}");
        self.emit_run(EventKind::JobEscalated, run, |mut event| {
            event = event.with("trigger", word);
            for (key, text) in [("level", &policy.level), ("contact", &policy.contact)] {
                if let Some(text) = text {
                    event = event.with(key, text.as_str());
                }
            }
            if let Some(error) = &run.error {
                event = event.code(error.code.clone());
            }
            event
        });
        acts
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
