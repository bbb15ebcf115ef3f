//! The states of jobs, runs and tasks, and which may follow which.

use crate::words::words;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

words! {
    /// The state of a job.
    pub enum JobState ("state of a job") {
        /// It is defined and has not been scheduled.
        Draft = "draft",
        /// It runs when it is due.
        Scheduled = "scheduled",
        /// It runs now, or its run waits for a person.
        Running = "running",
        /// Its last run succeeded and it has no further ones.
        Succeeded = "succeeded",
        /// Its last run failed and it has no further ones.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

words! {
    /// The state of a run of a job.
    pub enum JobRunState ("state of a run") {
        /// It has not started.
        Pending = "pending",
        /// A gateway works on it.
        Running = "running",
        /// A step waits for a person's approval, or a task for its completion.
        Waiting = "waiting",
        /// It was interrupted in a step that must not be repeated without a person's decision.
        Held = "held",
        /// Every part succeeded.
        Succeeded = "succeeded",
        /// A part failed, or a criterion is not met.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// It was due while no gateway could run it, and its grace period has passed.
        Missed = "missed",
    }
}

words! {
    /// Why a run was started.
    pub enum RunTrigger ("trigger of a run") {
        /// It was due.
        Schedule = "schedule",
        /// A person started it.
        Manual = "manual",
        /// A person repeated an earlier run.
        Rerun = "rerun",
        /// A signed request of another system started it.
        External = "external",
    }
}

words! {
    /// The state of a task.
    pub enum TaskStatus ("state of a task") {
        /// It is defined.
        Draft = "draft",
        /// It can be started.
        Ready = "ready",
        /// Work on it has begun.
        InProgress = "in_progress",
        /// Its result is reviewed.
        Review = "review",
        /// It is done.
        Done = "done",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Whether a person may change a job from this state to another one. Nothing follows a final state here; a cancelled
    /// schedule begins again only when it is resumed.
    pub fn may_become(self, target: Self) -> bool {
        match self {
            Self::Draft => matches!(target, Self::Scheduled | Self::Running | Self::Cancelled),
            Self::Scheduled => matches!(target, Self::Running | Self::Cancelled),
            Self::Running => matches!(target, Self::Succeeded | Self::Failed | Self::Cancelled),
            Self::Succeeded | Self::Failed | Self::Cancelled => false,
        }
    }
}

impl JobRunState {
    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Missed)
    }
}

impl TaskStatus {
    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }

    /// Whether a task may change from this state to another one.
    pub fn may_become(self, target: Self) -> bool {
        match (self, target) {
            (from, Self::Cancelled) => !from.is_final(),
            (Self::Draft, Self::Ready)
            | (Self::Ready, Self::InProgress)
            | (Self::InProgress, Self::Review)
            | (Self::Review, Self::Done) => true,
            _ => false,
        }
    }

    /// Whether the change needs the dependencies of the task to be done or cancelled.
    pub fn needs_dependencies(self) -> bool {
        !matches!(self, Self::Draft | Self::Cancelled)
    }
}

/// Writes and reads the words of an enum.
macro_rules! word_in_json {
    ($($name:ident),+) => {
        $(
            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.as_str())
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let word = String::deserialize(deserializer)?;
                    word.parse().map_err(serde::de::Error::custom)
                }
            }
        )+
    };
}

word_in_json!(JobState, JobRunState, RunTrigger, TaskStatus);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_follow_the_table() {
        let allowed = [
            "draft scheduled",
            "draft running",
            "draft cancelled",
            "scheduled running",
            "scheduled cancelled",
            "running succeeded",
            "running failed",
            "running cancelled",
        ];
        for from in JobState::ALL {
            for to in JobState::ALL {
                let step = format!("{from} {to}");
                assert_eq!(from.may_become(to), allowed.contains(&step.as_str()), "{step}");
            }
        }
    }

    #[test]
    fn tasks_advance_by_one_and_can_be_cancelled_until_they_end() {
        let order = [
            TaskStatus::Draft,
            TaskStatus::Ready,
            TaskStatus::InProgress,
            TaskStatus::Review,
            TaskStatus::Done,
        ];
        for (place, from) in order.into_iter().enumerate() {
            for (other, to) in order.into_iter().enumerate() {
                assert_eq!(from.may_become(to), other == place + 1, "{from} {to}");
            }
            assert_eq!(from.may_become(TaskStatus::Cancelled), from != TaskStatus::Done, "{from}");
        }
        assert!(TaskStatus::ALL.into_iter().all(|to| !TaskStatus::Cancelled.may_become(to)));
    }
}
