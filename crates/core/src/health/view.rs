//! What a window shows at a moment.

use super::{Kept, OTHERS, SPAN_MS, Subject, Window};
use serde::Serialize;
use std::collections::BTreeMap;

/// Health as every door shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthView {
    /// All calls of the window together.
    #[serde(flatten)]
    pub whole: Slice,
    /// The last call, however long ago.
    pub last_call: Option<LastCall>,
    /// What served the last call that succeeded.
    pub last_success_provider: Option<String>,
    /// The same calls by persona; `shared` are those made through none.
    pub by_persona: BTreeMap<String, Slice>,
}

/// Some calls of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Slice {
    /// How many.
    pub calls: usize,
    /// How many of them succeeded, from 0 to 1; nothing without calls.
    pub success_rate: Option<f64>,
    /// How long they took.
    pub latency_ms: Option<Latency>,
}

/// How long calls took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The average.
    pub avg: f64,
    /// Half took at most this long.
    pub p50: f64,
    /// 95 of 100 took at most this long.
    pub p95: f64,
}

/// The last call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastCall {
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// How it ended.
    pub outcome: &'static str,
    /// The fault's stable code, where there was a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// What served it.
    pub provider: String,
}

/// Which personas a view tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sliced<'a> {
    /// Every one.
    All,
    /// This one and no other.
    Only(&'a str),
}

impl Window {
    /// What the window shows at this time.
    pub fn view(&self, subject: Subject, now_ms: i64, sliced: Sliced<'_>) -> HealthView {
        let recent = || self.ring.iter().filter(move |call| now_ms.saturating_sub(call.at_ms) <= SPAN_MS);
        let mut by_persona: BTreeMap<String, Vec<&Kept>> = BTreeMap::new();
        for call in recent() {
            let name = self.personas.get(usize::from(call.persona)).map_or(OTHERS, |name| name);
            if matches!(sliced, Sliced::All) || sliced == Sliced::Only(name) {
                by_persona.entry(name.to_owned()).or_default().push(call);
            }
        }
        HealthView {
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

    /// The rate of success alone, for those who sort and filter; nothing without calls.
    pub fn success_rate(&self, subject: Subject, now_ms: i64) -> Option<f64> {
        self.record_of(subject, now_ms).map(|(_, rate)| rate)
    }

    /// How many calls the window shows, and the rate of success; nothing without calls.
    pub fn record_of(&self, subject: Subject, now_ms: i64) -> Option<(u32, f64)> {
        let recent = self.ring.iter().filter(|call| now_ms.saturating_sub(call.at_ms) <= SPAN_MS);
        let (mut calls, mut good) = (0_u32, 0_u32);
        for call in recent {
            calls += 1;
            good += u32::from(subject.is_success(call.ending));
        }
        (calls > 0).then(|| (calls, f64::from(good) / f64::from(calls)))
    }
}

fn slice(calls: &[&Kept], subject: Subject) -> Slice {
    if calls.is_empty() {
        return Slice::default();
    }
    let count = calls.len();
    let good = calls.iter().filter(|call| subject.is_success(call.ending)).count();
    let mut micros: Vec<u32> = calls.iter().map(|call| call.micros).collect();
    micros.sort_unstable();
    // The smallest value that so many of a hundred do not exceed.
    let rank = |percent: usize| f64::from(micros[(count * percent).div_ceil(100).max(1) - 1]) / 1000.0;
    let sum: u64 = micros.iter().copied().map(u64::from).sum();
    Slice {
        calls: count,
        success_rate: Some(good as f64 / count as f64),
        latency_ms: Some(Latency { avg: sum as f64 / count as f64 / 1000.0, p50: rank(50), p95: rank(95) }),
    }
}
