//! When a call entered each stage: part of the record of the call, so that a person can see where the time went.

use crate::json::RawJson;
use std::fmt::Write;
use std::time::Duration;

/// The maximum number of entries of one call. Each approval adds one pass through the stages.
pub const MAX_STAGE_TIMES: usize = 48;

/// The word for the end of the last stage in a stored list.
const END: &str = "end";

/// A stage of a call that takes part of its time. `identify` has ended before the record of a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStage {
    /// Finds the tool; waits for a server that is starting.
    Resolve,
    /// Checks that the caller may use the tool.
    Authorise,
    /// Checks the arguments.
    Draft,
    /// Applies the policies and asks the hooks before the call.
    Judge,
    /// Waits for a person's approval.
    Ask,
    /// Adds what only the gateway supplies, and writes the intent.
    Seal,
    /// Chooses the server or the list of providers.
    Route,
    /// Sends the call and waits for the answer, with all attempts.
    Dispatch,
    /// Stores files, applies the token budget, asks the hooks after the call.
    Shape,
    /// Writes the audit row and the dead letter.
    Record,
}

impl CallStage {
    /// All stages, in their order.
    pub const ALL: [Self; 10] = [
        Self::Resolve,
        Self::Authorise,
        Self::Draft,
        Self::Judge,
        Self::Ask,
        Self::Seal,
        Self::Route,
        Self::Dispatch,
        Self::Shape,
        Self::Record,
    ];

    /// The word in records and over REST.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Authorise => "authorise",
            Self::Draft => "draft",
            Self::Judge => "judge",
            Self::Ask => "ask",
            Self::Seal => "seal",
            Self::Route => "route",
            Self::Dispatch => "dispatch",
            Self::Shape => "shape",
            Self::Record => "record",
        }
    }
}

/// The stages that a call has entered, with the time since the call began.
#[derive(Debug, Clone, Default)]
pub struct StageTimes(Vec<(CallStage, Duration)>);

impl StageTimes {
    /// Adds a stage, as far as there is room.
    pub fn enter(&mut self, stage: CallStage, at: Duration) {
        if self.0.len() < MAX_STAGE_TIMES {
            self.0.push((stage, at));
        }
    }

    /// Whether the call entered no stage.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stored list: `[["resolve",0],["dispatch",120],["end",5200]]`, in microseconds since the call began.
    pub fn stored(&self, end: Duration) -> RawJson {
        let mut text = String::with_capacity(24 * (self.0.len() + 1));
        let entries = self.0.iter().map(|(stage, at)| (stage.as_str(), *at));
        for (name, at) in entries.chain([(END, end)]) {
            let before = if text.is_empty() { '[' } else { ',' };
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{before}[\"{name}\",{}]", at.as_micros());
        }
        text.push(']');
        RawJson::trusted(text)
    }
}

/// One stage of a finished call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTime {
    /// The name of the stage.
    pub name: String,
    /// When it began, in microseconds after the call began.
    pub start_us: u64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
}

/// Reads a stored list. What is not such a list is read as an empty one.
pub fn read_stage_times(stored: &RawJson) -> Vec<StageTime> {
    let entries: Vec<(String, u64)> = stored.read().unwrap_or_default();
    let ends = entries.iter().skip(1).map(|(_, at)| *at);
    let stages = entries.iter().zip(ends).map(|((name, start_us), end)| StageTime {
        name: name.clone(),
        start_us: *start_us,
        duration_us: end.saturating_sub(*start_us),
    });
    stages.take(MAX_STAGE_TIMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_list_gives_each_stage_its_duration() {
        let mut times = StageTimes::default();
        times.enter(CallStage::Resolve, Duration::ZERO);
        times.enter(CallStage::Dispatch, Duration::from_micros(120));
        let stored = times.stored(Duration::from_micros(5_200));
        assert_eq!(stored.as_str(), r#"[["resolve",0],["dispatch",120],["end",5200]]"#);
        let read = read_stage_times(&stored);
        let read: Vec<_> = read.iter().map(|one| (&*one.name, one.start_us, one.duration_us)).collect();
        assert_eq!(read, [("resolve", 0, 120), ("dispatch", 120, 5_080)]);
    }

    #[test]
    fn a_list_is_bounded_and_other_content_is_read_as_empty() {
        let mut times = StageTimes::default();
        for at in 0..1_000 {
            times.enter(CallStage::Ask, Duration::from_micros(at));
        }
        assert_eq!(read_stage_times(&times.stored(Duration::from_secs(1))).len(), MAX_STAGE_TIMES);
        for other in ["null", "[]", r#"[["resolve",-1]]"#, r#"{"resolve":1}"#] {
            assert_eq!(read_stage_times(&RawJson::trusted(other)), [], "{other}");
        }
    }

    #[test]
    fn every_stage_has_its_own_word() {
        let mut words = CallStage::ALL.map(CallStage::as_str).to_vec();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), CallStage::ALL.len());
    }
}
