//! A window as text, to be kept and read back.

use super::{Kept, Last, MAX_PERSONAS, MAX_PROVIDERS, MAX_SAMPLES, Window};
use serde::{Deserialize, Serialize};

/// One call: when, how many microseconds, how it ended, and the place of its persona.
type Row = (i64, u32, String, u8);

#[derive(Serialize, Deserialize)]
struct Text {
    calls: Vec<Row>,
    personas: Vec<String>,
    providers: Vec<String>,
    last: Option<(Row, u8, Option<String>)>,
    last_success: Option<u8>,
}

fn row(call: &Kept) -> Row {
    (call.at_ms, call.micros, call.ending.as_str().to_owned(), call.persona)
}

fn kept((at_ms, micros, ending, persona): Row) -> Option<Kept> {
    Some(Kept { at_ms, micros, ending: ending.parse().ok()?, persona })
}

impl Window {
    /// The window as text.
    pub fn to_text(&self) -> String {
        let names = |names: &[Box<str>]| names.iter().map(|name| name.to_string()).collect();
        let text = Text {
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

    /// The window that a text holds; nothing, if it holds none.
    pub fn from_text(text: &str) -> Option<Self> {
        let text: Text = serde_json::from_str(text).ok()?;
        let names = |names: Vec<String>, most: usize| {
            names.into_iter().take(most).map(String::into_boxed_str).collect::<Vec<_>>()
        };
        let skipped = text.calls.len().saturating_sub(MAX_SAMPLES);
        let last = match text.last {
            Some((call, provider, error_code)) => {
                Some(Last { call: kept(call)?, provider, error_code: error_code.map(String::into_boxed_str) })
            }
            None => None,
        };
        Some(Self {
            ring: text.calls.into_iter().skip(skipped).map(kept).collect::<Option<_>>()?,
            personas: names(text.personas, MAX_PERSONAS),
            providers: names(text.providers, MAX_PROVIDERS),
            last,
            last_success: text.last_success,
        })
    }
}
