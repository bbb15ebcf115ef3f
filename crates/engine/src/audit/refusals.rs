//! The log of refused attempts: an event and an audit row for operators, limited under a flood.
//!
//! The first refusal of a kind from one source is recorded at once. Repetitions within [`WINDOW`] are counted and
//! recorded as one row when the window ends. So a flood costs one row per minute and source. At most [`MAX_SOURCES`]
//! sources are distinguished; further ones share one row per code.

use super::AuditLog;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::json::RawJson;

/// How long repetitions are counted before they are recorded.
const WINDOW: Duration = Duration::from_secs(60);
/// The maximum number of sources that are distinguished.
const MAX_SOURCES: usize = 256;
/// The longest text in a refusal, in bytes.
const MAX_TEXT_BYTES: usize = 128;
/// The source of refusals beyond [`MAX_SOURCES`].
const MANY: &str = "many sources";

/// An attempt that was refused.
#[derive(Debug, Clone, Copy)]
pub struct RefusedAttempt<'a> {
    /// The fault's stable code.
    pub code: &'static str,
    /// Where the attempt came from: an IP address, a local user, a server.
    pub source: &'a str,
    /// The user, if the caller was identified; never a name from an unverified credential.
    pub user: Option<&'a str>,
    /// What was attempted, without values that may be secret.
    pub attempt: &'a str,
}

/// The key of a refusal: code, source and user. Refusals with the same key are repetitions.
type RefusalKey = (&'static str, Arc<str>, Arc<str>);

/// Repetitions of one refusal.
#[derive(Debug)]
struct RepeatedRefusal {
    since: Instant,
    /// How many are not recorded yet.
    count: u64,
    attempt: Arc<str>,
    by: Option<Arc<str>>,
}

/// The refusals of the last minute.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    recent: Mutex<HashMap<RefusalKey, RepeatedRefusal>>,
}

/// One row for the audit.
#[derive(Debug, PartialEq, Eq)]
struct RefusalRow {
    key: RefusalKey,
    attempt: Arc<str>,
    by: Option<Arc<str>>,
    count: u64,
}

fn short(text: &str) -> Arc<str> {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].into()
}

impl RefusalLog {
    fn recent(&self) -> MutexGuard<'_, HashMap<RefusalKey, RepeatedRefusal>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a refusal, and returns the row to write now, if there is one. `by` is the user in a row that this user must
    /// not see.
    fn note(&self, refusal: RefusedAttempt<'_>, by: Option<&str>, now: Instant) -> Option<RefusalRow> {
        let attempt = short(refusal.attempt);
        let mut by = by.map(short);
        let mut key = (refusal.code, short(refusal.source), short(refusal.user.unwrap_or_default()));
        let mut recent = self.recent();
        if recent.len() >= MAX_SOURCES && !recent.contains_key(&key) {
            key = (refusal.code, MANY.into(), "".into());
            by = None;
        }
        match recent.get_mut(&key) {
            Some(repeated) if now.duration_since(repeated.since) < WINDOW => {
                repeated.count += 1;
                repeated.attempt = attempt;
                None
            }
            Some(repeated) => {
                let count = std::mem::take(&mut repeated.count) + 1;
                repeated.since = now;
                Some(RefusalRow { key, attempt, by, count })
            }
            None => {
                let repeated =
                    RepeatedRefusal { since: now, count: 0, attempt: attempt.clone(), by: by.clone() };
                recent.insert(key.clone(), repeated);
                Some(RefusalRow { key, attempt, by, count: 1 })
            }
        }
    }

    /// The rows of repetitions whose window has ended. Forgets sources without repetitions.
    fn due(&self, now: Instant) -> Vec<RefusalRow> {
        let mut rows = Vec::new();
        self.recent().retain(|key, repeated| {
            if now.duration_since(repeated.since) < WINDOW {
                return true;
            }
            let count = std::mem::take(&mut repeated.count);
            if count == 0 {
                return false;
            }
            repeated.since = now;
            let (attempt, by) = (repeated.attempt.clone(), repeated.by.clone());
            rows.push(RefusalRow { key: key.clone(), attempt, by, count });
            true
        });
        rows
    }
}

impl AuditLog {
    /// Records a refused attempt for operators: an event and an audit row, with repetitions counted together. Never
    /// waits.
    pub fn record_refusal(&self, refusal: RefusedAttempt<'_>) {
        self.note_refusal(refusal, None);
    }

    /// Records a refused attempt of an identified caller who must not see the row: it names the user as the actor.
    pub(super) fn note_refusal(&self, refusal: RefusedAttempt<'_>, by: Option<&str>) {
        if let Some(row) = self.refusals.note(refusal, by, Instant::now()) {
            self.write_refusals(vec![row]);
        }
    }

    /// Records counted repetitions whose minute has ended; called periodically.
    pub fn settle_refusals(&self) {
        let rows = self.refusals.due(Instant::now());
        if !rows.is_empty() {
            self.write_refusals(rows);
        }
    }

    fn write_refusals(&self, rows: Vec<RefusalRow>) {
        let mut entries = Vec::with_capacity(rows.len());
        for RefusalRow { key: (code, source, user), attempt, by, count } in rows {
            tracing::warn!(code, source = &*source, user = &*user, count, "refused: {attempt}");
            let event = Event::new(EventKind::RequestRefused).outcome("refused").code(code);
            let event = match user.is_empty() {
                true => event,
                false => event.user(user.clone()),
            };
            self.events.emit(event.with("source", &*source).with("attempt", &*attempt).with("count", count));
            let detail = serde_json::json!({ "source": &*source, "attempt": &*attempt, "count": count });
            entries.push(AuditEntry {
                by,
                code: Some(code.into()),
                detail: Some(RawJson::from_value(&detail)),
                ..AuditEntry::new(self.clock.now_ms(), "refusal", &user, "refused")
            });
        }
        let store = self.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.audit_now(entries).await {
                tracing::warn!("a refusal could not be written to the audit: {error}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<'a>(code: &'static str, source: &'a str) -> RefusedAttempt<'a> {
        RefusedAttempt { code, source, user: None, attempt: "POST /mcp" }
    }

    #[test]
    fn the_first_refusal_is_recorded_at_once_and_repetitions_once_a_minute() {
        let (refusals, start) = (RefusalLog::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(refusals.note(refusal("auth.refused", "::1"), None, start).map(|row| row.count), Some(1));
        for _ in 0..4_000 {
            assert_eq!(refusals.note(refusal("auth.refused", "::1"), None, at(1)), None);
        }
        assert!(refusals.note(refusal("auth.refused", "::2"), None, at(1)).is_some(), "another source");
        assert!(refusals.note(refusal("request.bad-origin", "::1"), None, at(1)).is_some(), "another code");
        assert!(refusals.due(at(30)).is_empty());
        let due: Vec<u64> = refusals.due(at(62)).iter().map(|row| row.count).collect();
        assert_eq!(due, [4_000], "those that were quiet since are forgotten");
        assert!(refusals.due(at(200)).is_empty());
        assert!(refusals.recent().is_empty());
    }

    #[test]
    fn many_sources_share_a_row() {
        let (refusals, now) = (RefusalLog::default(), Instant::now());
        let sources: Vec<String> = (0..10_000).map(|number| format!("10.0.{number}")).collect();
        let rows =
            sources.iter().filter_map(|source| refusals.note(refusal("auth.refused", source), None, now));
        assert_eq!(rows.count(), MAX_SOURCES + 1);
        assert!(refusals.recent().len() <= MAX_SOURCES + 1);
    }

    #[test]
    fn texts_are_cut() {
        let refusals = RefusalLog::default();
        let long = "é".repeat(10_000);
        let row =
            refusals.note(RefusedAttempt { attempt: &long, ..refusal("a.b", &long) }, None, Instant::now());
        assert!(
            row.is_some_and(|row| row.attempt.len() <= MAX_TEXT_BYTES && row.key.1.len() <= MAX_TEXT_BYTES)
        );
    }
}
