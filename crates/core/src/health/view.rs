//! The health report of a window at one time.

use super::{HealthSubject, OTHERS, RecordedCall, SPAN_MS, Window};
use serde::Serialize;
use std::collections::BTreeMap;

/// Health as shown in all interfaces.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthReport {
    /// All calls of the window.
    #[serde(flatten)]
    pub whole: Slice,
    /// The last call, at any time.
    pub last_call: Option<LastCall>,
    /// The provider of the last call that succeeded.
    pub last_success_provider: Option<String>,
    /// The same calls by persona; `shared` are those without one.
    pub by_persona: BTreeMap<String, Slice>,
}

/// Statistics of some calls of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Slice {
    /// The number of calls.
    pub calls: usize,
    /// The share of them that succeeded, from 0 to 1; absent without calls.
    pub success_rate: Option<f64>,
    /// How long they took.
    pub latency_ms: Option<Latency>,
}

/// The latency of calls, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The average.
    pub avg: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
}

/// The last call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastCall {
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its ending.
    pub outcome: &'static str,
    /// The code of the fault, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// The provider that served it.
    pub provider: String,
}

/// Which personas a report includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonaFilter<'a> {
    /// All personas.
    All,
    /// Only this one.
    Only(&'a str),
}

impl Window {
    /// The report of the window at this time.
    pub fn view(&self, subject: HealthSubject, now_ms: i64, sliced: PersonaFilter<'_>) -> HealthReport {
        let recent = || self.ring.iter().filter(move |call| now_ms.saturating_sub(call.at_ms) <= SPAN_MS);
        let mut by_persona: BTreeMap<String, Vec<&RecordedCall>> = BTreeMap::new();
        for call in recent() {
            let name = self.personas.get(usize::from(call.persona)).map_or(OTHERS, |name| name);
            if matches!(sliced, PersonaFilter::All) || sliced == PersonaFilter::Only(name) {
                by_persona.entry(name.to_owned()).or_default().push(call);
            }
        }
        HealthReport {
            whole: slice(&recent().collect::<Vec<_>>(), subject),
            last_call: self.last.as_ref().map(|last| LastCall {
                at_ms: last.call.at_ms,
                outcome: last.call.ending.as_str(),
                error_code: last.error_code.as_deref().map(str::to_owned),
                duration_ms: u64::from(last.call.micros) / 1000,
                provider: self.provider(last.provider).to_owned(),
            }),
            last_success_provider: self.last_success.map(|place| self.provider(place).to_owned()),
            by_persona: by_persona.into_iter().map(|(name, calls)| (name, slice(&calls, subject))).collect(),
        }
    }

    /// The success rate only, for sorting and filtering; `None` without calls.
    pub fn success_rate(&self, subject: HealthSubject, now_ms: i64) -> Option<f64> {
        self.record_of(subject, now_ms).map(|(_, rate)| rate)
    }

    /// The number of calls and the success rate; `None` without calls.
    pub fn record_of(&self, subject: HealthSubject, now_ms: i64) -> Option<(u32, f64)> {
        let recent = self.ring.iter().filter(|call| now_ms.saturating_sub(call.at_ms) <= SPAN_MS);
        let (mut calls, mut good) = (0_u32, 0_u32);
        for call in recent {
            calls += 1;
            good += u32::from(subject.is_success(call.ending));
        }
        (calls > 0).then(|| (calls, f64::from(good) / f64::from(calls)))
    }
}

fn slice(calls: &[&RecordedCall], subject: HealthSubject) -> Slice {
    if calls.is_empty() {
        return Slice::default();
    }
    let count = calls.len();
    let good = calls.iter().filter(|call| subject.is_success(call.ending)).count();
    let mut micros: Vec<u32> = calls.iter().map(|call| call.micros).collect();
    micros.sort_unstable();
    // The smallest value that this percentage of calls does not exceed.
    let rank = |percent: usize| f64::from(micros[(count * percent).div_ceil(100).max(1) - 1]) / 1000.0;
    let sum: u64 = micros.iter().copied().map(u64::from).sum();
    Slice {
        calls: count,
        success_rate: Some(good as f64 / count as f64),
        latency_ms: Some(Latency { avg: sum as f64 / count as f64 / 1000.0, p50: rank(50), p95: rank(95) }),
    }
}
