//! Serializes a window for the store.

use super::{Last, MAX_PERSONAS, MAX_PROVIDERS, MAX_SAMPLES, RecordedCall, Window};
use serde::{Deserialize, Serialize};

/// One call: time, microseconds, ending, and the index of its persona.
type WindowRow = (i64, u32, String, u8);

#[derive(Serialize, Deserialize)]
struct WindowText {
    calls: Vec<WindowRow>,
    personas: Vec<String>,
    providers: Vec<String>,
    last: Option<(WindowRow, u8, Option<String>)>,
    last_success: Option<u8>,
}

fn row(call: &RecordedCall) -> WindowRow {
    (call.at_ms, call.micros, call.ending.as_str().to_owned(), call.persona)
}

fn recorded((at_ms, micros, ending, persona): WindowRow) -> Option<RecordedCall> {
    Some(RecordedCall { at_ms, micros, ending: ending.parse().ok()?, persona })
}

impl Window {
    /// Serializes the window.
    pub fn to_text(&self) -> String {
        let names = |names: &[Box<str>]| names.iter().map(|name| name.to_string()).collect();
        let text = WindowText {
            calls: self.ring.iter().map(row).collect(),
            personas: names(&self.personas),
            providers: names(&self.providers),
            last: self
                .last
                .as_ref()
                .map(|last| (row(&last.call), last.provider, last.error_code.as_deref().map(str::to_owned))),
            last_success: self.last_success,
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// Parses a window; `None` if the text is invalid.
    pub fn from_text(text: &str) -> Option<Self> {
        let text: WindowText = serde_json::from_str(text).ok()?;
        let names = |names: Vec<String>, most: usize| {
            names.into_iter().take(most).map(String::into_boxed_str).collect::<Vec<_>>()
        };
        let skipped = text.calls.len().saturating_sub(MAX_SAMPLES);
        let last = match text.last {
            Some((call, provider, error_code)) => Some(Last {
                call: recorded(call)?,
                provider,
                error_code: error_code.map(String::into_boxed_str),
            }),
            None => None,
        };
        Some(Self {
            ring: text.calls.into_iter().skip(skipped).map(recorded).collect::<Option<_>>()?,
            personas: names(text.personas, MAX_PERSONAS),
            providers: names(text.providers, MAX_PROVIDERS),
            last,
            last_success: text.last_success,
        })
    }
}
