//! What the record of a call keeps of its answer: its size, files, display hints and attempts, but not the result.
//!
//! It is part of the audit row of the call (its `detail`), so that it costs no further write and has the same
//! retention.

use crate::answer::Answer;
use crate::routing::PROVIDER;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolbooth_core::dead_letter::Attempt;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::result::{ARTIFACTS, DISPLAY};
use toolbooth_store::RESULT_BYTES;
use uuid::Uuid;

/// The maximum size of the list of files in a record.
const MAX_ARTIFACT_BYTES: usize = 8 << 10;
/// The maximum size of the display hints in a record.
const MAX_DISPLAY_BYTES: usize = 2 << 10;
/// The maximum number of attempts in a record.
const MAX_ATTEMPTS: usize = 16;

/// The failed attempts of a call. Shared by the record of the call and the code that makes the attempts.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptLog(Arc<Mutex<Vec<Attempt>>>);

impl AttemptLog {
    /// Adds attempts, as far as there is room.
    pub(crate) fn add(&self, attempts: &[Attempt]) {
        let mut all = self.attempts();
        let room = MAX_ATTEMPTS.saturating_sub(all.len());
        all.extend(attempts.iter().take(room).cloned());
    }

    fn attempts(&self) -> MutexGuard<'_, Vec<Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the record of a call keeps of its answer.
#[derive(Debug, Default)]
pub(super) struct AnswerSummary {
    /// The size of the result.
    result_bytes: Option<usize>,
    /// The provider that served the call, as JSON text.
    provider: Option<RawJson>,
    /// Files of the result, as the result lists them.
    artifacts: Vec<RawJson>,
    /// The number of files that did not fit.
    artifacts_left_out: usize,
    display: Option<RawJson>,
    /// The held call that the call became.
    held: Option<Uuid>,
}

impl AnswerSummary {
    /// Summarises an answer.
    pub(super) fn of(answer: &Result<Answer, Problem>) -> Self {
        let mut summary = Self::default();
        match answer {
            Ok(Answer::Result { result, facts, .. }) => {
                summary.result_bytes = Some(result.as_bytes().len());
                // Most results have no `_meta`, so that nothing is searched.
                if facts.has_extras
                    && let Some(meta) = result.member("_meta")
                {
                    summary.read_meta(&meta);
                }
            }
            Ok(Answer::Long { long, .. }) => summary.result_bytes = Some(long.length()),
            Ok(Answer::Held { id, .. }) => summary.held = Some(*id),
            Ok(Answer::InputRequired { .. } | Answer::Error(_)) | Err(_) => {}
        }
        summary
    }

    fn read_meta(&mut self, meta: &RawJson) {
        self.provider = meta.member(PROVIDER);
        self.display = meta.member(DISPLAY).filter(|display| display.as_bytes().len() <= MAX_DISPLAY_BYTES);
        let artifacts = meta.member(ARTIFACTS).and_then(|list| list.elements().ok()).unwrap_or_default();
        let mut size = 0;
        for artifact in artifacts {
            size += artifact.as_bytes().len() + 1;
            match size <= MAX_ARTIFACT_BYTES {
                true => self.artifacts.push(artifact),
                false => self.artifacts_left_out += 1,
            }
        }
    }

    /// The `detail` of the call's audit row: what was there before, and the summary.
    pub(super) fn detail(&self, before: Option<&RawJson>, path: &CallPath<'_>) -> RawJson {
        let mut detail = ObjectWriter::default();
        for member in before.and_then(|before| before.members().ok()).unwrap_or_default() {
            detail.raw(&member.key, &member.value);
        }
        if let Some(waited) = path.waited {
            detail.number("waited_ms", u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
        }
        if let Some(stages) = &path.stages {
            detail.raw("stages", stages);
        }
        if let Some(bytes) = self.result_bytes {
            detail.number(RESULT_BYTES, bytes as u64);
        }
        if let Some(provider) = &self.provider {
            detail.raw("provider", provider);
        }
        let attempts = path.attempts.attempts();
        if !attempts.is_empty() {
            detail.raw("failed_attempts", &RawJson::from_value(&*attempts));
        }
        if !self.artifacts.is_empty() {
            detail.list("artifacts", &self.artifacts);
        }
        if self.artifacts_left_out > 0 {
            detail.number("artifacts_left_out", self.artifacts_left_out as u64);
        }
        if let Some(display) = &self.display {
            detail.raw("display", display);
        }
        if let Some(held) = self.held.or(path.held) {
            detail.text("held", &held.to_string());
        }
        if let Some(letter) = path.letter {
            detail.text("dead_letter", &letter.to_string());
        }
        detail.finish()
    }
}

/// How a call came to its answer.
pub(super) struct CallPath<'a> {
    /// The time before the call was sent, for example while a person was asked; `None` if it was not sent.
    pub(super) waited: Option<Duration>,
    /// When the call entered each stage, as `StageTimes::stored` writes it.
    pub(super) stages: Option<RawJson>,
    /// The failed attempts.
    pub(super) attempts: &'a AttemptLog,
    /// The held call that was approved before the call ran.
    pub(super) held: Option<Uuid>,
    /// The dead letter that the call became.
    pub(super) letter: Option<Uuid>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::ResultFacts;
    use serde_json::{Value, json};
    use toolbooth_wire::Era;

    fn answer(result: &Value) -> Result<Answer, Problem> {
        let facts = ResultFacts { has_extras: true, ..ResultFacts::default() };
        let result = RawJson::from_value(result);
        Ok(Answer::Result { result, era: Era::Legacy, facts, warnings: Vec::new() })
    }

    fn path(attempts: &AttemptLog) -> CallPath<'_> {
        CallPath { waited: None, stages: None, attempts, held: None, letter: None }
    }

    #[test]
    fn a_record_keeps_files_and_hints_but_not_the_result() {
        let files = json!([{"id": "f1", "name": "report.html", "viewer": "html"}]);
        let meta = json!({ARTIFACTS: files, DISPLAY: {"primary_file": "report.html"}, PROVIDER: "mcp:x"});
        let answer = answer(&json!({"content": [{"type": "text", "text": "very private"}], "_meta": meta}));
        let log = AttemptLog::default();
        let attempt =
            Attempt { at_ms: 5, provider: "mcp:y".into(), code: "call.timeout".into(), duration_ms: 7 };
        log.add(&[attempt]);
        let before = RawJson::from_value(&json!({"session": "work"}));
        let detail = AnswerSummary::of(&answer).detail(Some(&before), &path(&log));
        let detail: Value = detail.read().expect("JSON");
        assert_eq!(detail["session"], "work");
        assert_eq!(detail["artifacts"], files);
        assert_eq!(detail["display"], json!({"primary_file": "report.html"}));
        assert_eq!(
            (&detail["provider"], &detail["failed_attempts"][0]["code"]),
            (&json!("mcp:x"), &json!("call.timeout"))
        );
        assert!(!detail.to_string().contains("private"), "{detail}");
    }

    #[test]
    fn many_files_and_attempts_stay_within_the_limits_of_a_row() {
        let file = json!({"id": "x".repeat(36), "name": "y".repeat(150)});
        let meta = json!({ARTIFACTS: vec![file; 500], DISPLAY: {"title": "z".repeat(5_000)}});
        let log = AttemptLog::default();
        let attempt =
            Attempt { at_ms: 5, provider: "p".repeat(60), code: "call.timeout".into(), duration_ms: 7 };
        log.add(&vec![attempt; 100]);
        let summary = AnswerSummary::of(&answer(&json!({"content": [], "_meta": meta})));
        let detail = summary.detail(None, &path(&log));
        assert!(
            detail.as_bytes().len() < toolbooth_core::audit::MAX_DETAIL_BYTES,
            "{}",
            detail.as_bytes().len()
        );
        let read: Value = detail.read().expect("JSON");
        let listed = read["artifacts"].as_array().map_or(0, Vec::len) as u64;
        assert_eq!(listed + read["artifacts_left_out"].as_u64().unwrap_or(0), 500);
        assert!(read["display"].is_null());
        assert_eq!(read["failed_attempts"].as_array().map(Vec::len), Some(MAX_ATTEMPTS));
    }
}
