//! Health: the outcomes of recent calls of a tool, or through a provider.
//!
//! A window holds the last hundred calls of one day. Refused and cancelled calls are not counted.

mod stored;
#[cfg(test)]
mod tests;
mod view;

pub use view::{HealthReport, LastCall, Latency, PersonaFilter, Slice};

use crate::words::words;
use std::collections::VecDeque;
use std::time::Duration;

/// The maximum number of calls in a window.
pub const MAX_SAMPLES: usize = 100;
/// The time span of a window.
pub const SPAN_MS: i64 = 24 * 3_600_000;
/// The maximum number of personas a window distinguishes; further ones share a slice.
const MAX_PERSONAS: usize = 64;
/// The maximum number of provider names in a window.
const MAX_PROVIDERS: usize = 32;
/// The name for all further ones.
const OTHERS: &str = "others";
/// The name for calls without a persona.
pub const SHARED: &str = "shared";

words! {
    /// The ending of a call, for health statistics.
    pub enum CallEnding ("way to end") {
        /// The tool returned a result.
        Done = "done",
        /// The tool returned an error result.
        ToolError = "tool_error",
        /// No result was received, for a known reason.
        Failed = "failed",
        /// The deadline passed.
        Timeout = "timeout",
    }
}

/// The subject of a health window. A tool's own error does not count against its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSubject {
    /// A tool.
    Tool,
    /// A provider.
    Provider,
}

impl HealthSubject {
    fn is_success(self, ending: CallEnding) -> bool {
        match (self, ending) {
            (_, CallEnding::Done) | (Self::Provider, CallEnding::ToolError) => true,
            (Self::Tool, CallEnding::ToolError) | (_, CallEnding::Failed | CallEnding::Timeout) => false,
        }
    }
}

/// One call, as input of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthSample<'a> {
    /// When it ended.
    pub at_ms: i64,
    /// How long it took.
    pub took: Duration,
    /// Its ending.
    pub ending: CallEnding,
    /// The code of the fault, if any.
    pub error_code: Option<&'a str>,
    /// The provider that served it.
    pub provider: &'a str,
    /// The persona of the caller.
    pub persona: Option<&'a str>,
}

/// One call in a window, in 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordedCall {
    at_ms: i64,
    micros: u32,
    ending: CallEnding,
    persona: u8,
}

/// Recent calls of one tool, or through one provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    ring: VecDeque<RecordedCall>,
    personas: Vec<Box<str>>,
    providers: Vec<Box<str>>,
    last: Option<Last>,
    last_success: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    call: RecordedCall,
    provider: u8,
    error_code: Option<Box<str>>,
}

impl Window {
    /// Records a call. For known names and a call that did not fail, this does not allocate.
    pub fn record(&mut self, sample: &HealthSample<'_>) {
        let persona = place(&mut self.personas, sample.persona.unwrap_or(SHARED), MAX_PERSONAS);
        let provider = place(&mut self.providers, sample.provider, MAX_PROVIDERS);
        let micros = u32::try_from(sample.took.as_micros()).unwrap_or(u32::MAX);
        let call = RecordedCall { at_ms: sample.at_ms, micros, ending: sample.ending, persona };
        if self.ring.len() >= MAX_SAMPLES {
            self.ring.pop_front();
        }
        self.ring.push_back(call);
        if sample.ending == CallEnding::Done {
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

/// The index of a name in a short list; the name is added if there is room.
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
