//! Escalation: what happens when a run of a job fails, is late, is missed or waits for a person.

use super::fields::FaultList;
use serde::{Deserialize, Serialize};

/// The escalation policy of a job or task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EscalationPolicy {
    /// Who or what it is escalated to, such as `editor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How they are reached. The gateway sends nothing there itself; events carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// How long a run may take or wait, such as `2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeframe: Option<String>,
    /// When to escalate: `failed`, `overdue`, `missed`, `held`, `criteria`. Other texts are for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<String>,
    /// What to do besides the event: `hold`, `pause`. Other texts are for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Remarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Whether the gateway escalates automatically.
    #[serde(default = "yes")]
    pub auto_escalate: bool,
}

fn yes() -> bool {
    true
}

/// Why a run is escalated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscalationTrigger {
    /// It failed.
    Failed,
    /// It has not ended within the timeframe.
    Overdue,
    /// It was due and did not run.
    Missed,
    /// It waits for a person.
    Held,
    /// An acceptance criterion is not met.
    Criteria,
}

impl EscalationTrigger {
    /// The word in a policy and in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Overdue => "overdue",
            Self::Missed => "missed",
            Self::Held => "held",
            Self::Criteria => "criteria",
        }
    }
}

/// What to do when a trigger fires, besides the event `job.escalated`, which webhooks deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EscalationActs {
    /// Hold the run for a person instead of ending it as failed.
    pub hold: bool,
    /// Pause the schedule of the job.
    pub pause: bool,
}

impl EscalationActs {
    /// The acts of either.
    pub fn and(self, other: Self) -> Self {
        Self { hold: self.hold || other.hold, pause: self.pause || other.pause }
    }
}

impl EscalationPolicy {
    pub(super) fn read(faults: &mut FaultList, value: &serde_json::Value, pointer: String) -> Option<Self> {
        const KNOWN: [&str; 7] =
            ["level", "contact", "timeframe", "triggers", "actions", "notes", "auto_escalate"];
        let fields = faults.fields(value, pointer.clone(), &KNOWN)?;
        let policy = Self {
            level: faults.short(&fields, "level"),
            contact: faults.short(&fields, "contact"),
            timeframe: faults.short(&fields, "timeframe"),
            triggers: faults.texts(&fields, "triggers").unwrap_or_default(),
            actions: faults.texts(&fields, "actions").unwrap_or_default(),
            notes: faults.long(&fields, "notes"),
            auto_escalate: faults.flag(&fields, "auto_escalate").unwrap_or(true),
        };
        Some(policy)
    }

    /// The acts of a trigger; `None` if it does not escalate. Without known triggers, failures and late runs do.
    pub fn on(&self, trigger: EscalationTrigger) -> Option<EscalationActs> {
        const KNOWN: [&str; 5] = ["failed", "overdue", "missed", "held", "criteria"];
        if !self.auto_escalate {
            return None;
        }
        let names = |word: &str| self.triggers.iter().any(|text| text.eq_ignore_ascii_case(word));
        let fires = match KNOWN.iter().any(|word| names(word)) {
            true => names(trigger.as_str()),
            false => !matches!(trigger, EscalationTrigger::Held),
        };
        let acts = |word: &str| self.actions.iter().any(|text| text.eq_ignore_ascii_case(word));
        fires.then(|| EscalationActs { hold: acts("hold"), pause: acts("pause") })
    }

    /// The timeframe in milliseconds; `None` if it is absent or is not a duration, such as "the next morning".
    pub fn timeframe_ms(&self) -> Option<i64> {
        let text = self.timeframe.as_deref()?.trim();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: i64 = text[..end].parse().ok()?;
        let unit: i64 = match text[end..].trim().to_ascii_lowercase().as_str() {
            "s" | "sec" | "second" | "seconds" => 1_000,
            "m" | "min" | "minute" | "minutes" => 60_000,
            "h" | "hour" | "hours" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            _ => return None,
        };
        number.checked_mul(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: serde_json::Value) -> EscalationPolicy {
        serde_json::from_value(json).expect("a policy")
    }

    #[test]
    fn triggers_decide_and_actions_follow() {
        use EscalationTrigger::{Failed, Held, Overdue};
        let plain = policy(serde_json::json!({ "level": "editor" }));
        assert_eq!(plain.on(Failed), Some(EscalationActs::default()));
        assert_eq!((plain.on(Overdue), plain.on(Held)), (Some(EscalationActs::default()), None));
        let named =
            policy(serde_json::json!({ "triggers": ["Held", "no pages"], "actions": ["pause", "ask"] }));
        assert_eq!(named.on(Failed), None);
        assert_eq!(named.on(Held), Some(EscalationActs { hold: false, pause: true }));
        assert_eq!(policy(serde_json::json!({ "auto_escalate": false })).on(Failed), None);
    }

    #[test]
    fn timeframes_are_durations_or_texts_for_people() {
        let cases = [
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("30 minutes", Some(1_800_000)),
            ("90", None),
            ("tomorrow", None),
            ("99999999999999999999h", None),
        ];
        for (text, expected) in cases {
            assert_eq!(policy(serde_json::json!({ "timeframe": text })).timeframe_ms(), expected, "{text}");
        }
    }
}
