//! Health: how calls of a tool, or through a provider, ended lately.
//!
//! A window holds the last hundred calls and looks back a day. Refused and cancelled calls are in none.

mod kept;
#[cfg(test)]
mod tests;
mod view;

pub use view::{HealthView, LastCall, Latency, Slice, Sliced};

use crate::words::words;
use std::collections::VecDeque;
use std::time::Duration;

/// The most calls a window remembers.
pub const MAX_SAMPLES: usize = 100;
/// How far a window looks back.
pub const SPAN_MS: i64 = 24 * 3_600_000;
/// The most personas a window tells apart; further ones share a slice.
const MAX_PERSONAS: usize = 64;
/// The most providers a window knows by name.
const MAX_PROVIDERS: usize = 32;
/// What stands for names beyond those.
const OTHERS: &str = "others";
/// Under which name calls without a persona are gathered.
pub const SHARED: &str = "shared";

words! {
    /// How a call ended, as far as health is concerned.
    pub enum Ending ("way to end") {
        /// The tool answered.
        Done = "done",
        /// The tool answered that it failed.
        ToolError = "tool_error",
        /// No answer came, for a known reason.
        Failed = "failed",
        /// The deadline passed.
        Timeout = "timeout",
    }
}

/// Whose health a window is about: an error of the tool's own is no sign that its provider cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A tool.
    Tool,
    /// A provider.
    Provider,
}

impl Subject {
    fn is_success(self, ending: Ending) -> bool {
        match (self, ending) {
            (_, Ending::Done) | (Self::Provider, Ending::ToolError) => true,
            (Self::Tool, Ending::ToolError) | (_, Ending::Failed | Ending::Timeout) => false,
        }
    }
}

/// One call, as it is told to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When it ended.
    pub at_ms: i64,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub ending: Ending,
    /// The fault's stable code, where there was a fault.
    pub error_code: Option<&'a str>,
    /// What served it.
    pub provider: &'a str,
    /// Through which persona it was made.
    pub persona: Option<&'a str>,
}

/// One call, as a window keeps it: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    at_ms: i64,
    micros: u32,
    ending: Ending,
    persona: u8,
}

/// The calls of one tool, or through one provider, lately.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    ring: VecDeque<Kept>,
    personas: Vec<Box<str>>,
    providers: Vec<Box<str>>,
    last: Option<Last>,
    last_success: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    call: Kept,
    provider: u8,
    error_code: Option<Box<str>>,
}

impl Window {
    /// Takes a call in. For names it knows, and a call that did not fail, this allocates nothing.
    pub fn record(&mut self, sample: &Sample<'_>) {
        let persona = place(&mut self.personas, sample.persona.unwrap_or(SHARED), MAX_PERSONAS);
        let provider = place(&mut self.providers, sample.provider, MAX_PROVIDERS);
        let micros = u32::try_from(sample.took.as_micros()).unwrap_or(u32::MAX);
        let call = Kept { at_ms: sample.at_ms, micros, ending: sample.ending, persona };
        if self.ring.len() >= MAX_SAMPLES {
            self.ring.pop_front();
        }
        self.ring.push_back(call);
        if sample.ending == Ending::Done {
            self.last_success = Some(provider);
        }
        self.last = Some(Last { call, provider, error_code: sample.error_code.map(Into::into) });
    }

    /// When the last call ended.
    pub fn last_ms(&self) -> Option<i64> {
        self.last.as_ref().map(|last| last.call.at_ms)
    }

    fn provider(&self, place: u8) -> &str {
        self.providers.get(usize::from(place)).map_or(OTHERS, |name| name)
    }
}

/// The place of a name in a short list; it is added if there is room.
fn place(names: &mut Vec<Box<str>>, name: &str, most: usize) -> u8 {
    let found = names.iter().position(|known| **known == *name);
    let place = found.unwrap_or_else(|| {
        if names.len() < most {
            names.push(name.into());
            names.len() - 1
        } else {
            most
        }
    });
    u8::try_from(place).unwrap_or(u8::MAX)
}
