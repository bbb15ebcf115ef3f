//! Reads events that another gateway has sent as JSON.

use super::{Event, EventKind, FactValue, short};
use crate::job::{JobRunState, JobState, TaskStatus};
use crate::json::RawJson;
use crate::outcome::OutcomeKind;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// The keys of facts in events that gateways send each other. Other facts are left out.
const KEYS: [&str; 27] = [
    "added",
    "after",
    "artifacts",
    "attempt",
    "before",
    "by",
    "changed",
    "count",
    "dead_letter",
    "delay_ms",
    "hits",
    "id",
    "job",
    "message",
    "next_run_ms",
    "plan",
    "query",
    "removed",
    "run",
    "skill",
    "source",
    "state",
    "step",
    "steps",
    "task",
    "tools",
    "trigger",
];
/// Outcomes that are not words of an enum.
const OUTCOMES: [&str; 4] = ["held", "refused", "repeated", "skipped"];

#[derive(Deserialize)]
struct EventText {
    #[serde(rename = "type")]
    kind: String,
    at_ms: i64,
    user: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    call: Option<String>,
    duration_ms: Option<f64>,
    outcome: Option<String>,
    code: Option<String>,
    data: Option<BTreeMap<String, RawJson>>,
}

impl Event {
    /// Reads an event of another gateway; `first` is a fact that is added to it. `None` for a kind that this version does
    /// not know.
    pub fn read(json: &RawJson, first: (&'static str, &str)) -> Option<Self> {
        let text: EventText = json.read().ok()?;
        let mut event = Self::new(text.kind.parse::<EventKind>().ok()?).with(first.0, first.1);
        event.at_ms = text.at_ms;
        event.user = text.user.map(Into::into);
        event.server = text.server.map(Into::into);
        event.tool = text.tool.map(Into::into);
        event.call = text.call.and_then(|call| call.parse().ok());
        event.duration = text.duration_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
        event.outcome = text.outcome.as_deref().and_then(outcome);
        event.code = text.code.map(|code| Cow::Owned(short(&code).to_owned()));
        for (key, value) in text.data.unwrap_or_default() {
            let key = KEYS.into_iter().find(|known| *known == key);
            if let (Some(key), Some(value)) = (key, fact(&value)) {
                event = event.with(key, value);
            }
        }
        Some(event)
    }
}

fn fact(value: &RawJson) -> Option<FactValue> {
    if let Some(text) = value.string() {
        return Some((&*text).into());
    }
    if let Ok(names) = value.read::<Vec<String>>() {
        return Some(FactValue::names(names.iter().map(String::as_str)));
    }
    FactValue::number(value)
}

fn outcome(word: &str) -> Option<&'static str> {
    let known = OUTCOMES.into_iter().find(|known| *known == word);
    known
        .or_else(|| word.parse::<OutcomeKind>().ok().map(OutcomeKind::as_str))
        .or_else(|| word.parse::<JobRunState>().ok().map(JobRunState::as_str))
        .or_else(|| word.parse::<JobState>().ok().map(JobState::as_str))
        .or_else(|| word.parse::<TaskStatus>().ok().map(TaskStatus::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventId;
    use uuid::Uuid;

    #[test]
    fn an_event_is_read_back_with_its_origin() {
        let event = Event::new(EventKind::ToolResult)
            .user("ann")
            .server(&"mail".parse().expect("a name"))
            .tool("send")
            .call(Uuid::nil())
            .took(Duration::from_micros(1_500))
            .outcome("failed")
            .code("call.timeout")
            .with("artifacts", FactValue::names(["a", "b"].into_iter()))
            .with("attempt", 2_u64)
            .with("message", "why");
        let mut expected = event.clone();
        expected.facts.get_or_insert_default().insert(0, ("origin", "there".into()));
        let json = event.json(EventId { run: 1, number: 1 });
        assert_eq!(Event::read(&json, ("origin", "there")), Some(expected));
        let unknown = RawJson::trusted(r#"{"type":"later.kind","at_ms":1}"#);
        assert_eq!(Event::read(&unknown, ("origin", "there")), None);
    }
}
