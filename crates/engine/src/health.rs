//! Health of tools and providers: recorded when calls end, and saved to the store every few seconds.
//!
//! A call takes two short locks, on shards that are rarely contended. A tool that was never called costs nothing.
//! Samples since the last save are lost if the gateway is killed, which is acceptable for health.

use crate::answer::Answer;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::Tool;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::health::{
    CallEnding, HealthReport, HealthSample, HealthSubject, PersonaFilter, SHARED, Window,
};
use toolbooth_core::name_map::{NameHasher, NameMap};
use toolbooth_store::{HealthRow, MAX_HEALTH_BATCH, Store, StoreError};

const SHARDS: usize = 16;
/// The maximum number of windows in one shard; further tools are not recorded.
const MAX_OF_SHARD: usize = 2_048;

/// A finished call, for [`HealthMonitor::record`].
#[derive(Debug, Clone, Copy)]
pub struct CallSample<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// The id of the provider that served it or failed, such as `mcp:mail`.
    pub provider: &'a str,
    /// The persona through which it was made.
    pub persona: Option<&'a str>,
    /// How long it took, without the time in which people were asked.
    pub took: Duration,
    /// How it ended.
    pub ending: CallEnding,
    /// The fault's code, if there was a fault.
    pub error_code: Option<&'a str>,
}

#[derive(Debug, Default)]
struct HealthEntry {
    window: Window,
    is_changed: bool,
}

/// Windows by server and name; the server is empty for providers.
type Shard = NameMap<Box<str>, NameMap<Box<str>, HealthEntry>>;

/// The outcomes of recent calls, by tool and by provider.
pub struct HealthMonitor {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    tools: Shards,
    providers: Shards,
    /// Whether anything was recorded since the last save.
    is_changed: AtomicBool,
}

#[derive(Debug, Default)]
struct Shards {
    hasher: NameHasher,
    shards: [Mutex<Shard>; SHARDS],
}

impl Shards {
    fn of(&self, name: &str) -> MutexGuard<'_, Shard> {
        let place = self.hasher.hash_one(name) as usize % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, server: &str, name: &str, sample: &HealthSample<'_>) {
        let mut shard = self.of(name);
        if let Some(watched) = shard.get_mut(server).and_then(|names| names.get_mut(name)) {
            watched.window.record(sample);
            watched.is_changed = true;
            return;
        }
        if shard.values().map(NameMap::len).sum::<usize>() >= MAX_OF_SHARD {
            return;
        }
        let watched = shard.entry(server.into()).or_default().entry(name.into()).or_default();
        watched.window.record(sample);
        watched.is_changed = true;
    }

    fn look<T>(&self, server: &str, name: &str, look: impl FnOnce(&Window) -> T) -> Option<T> {
        let shard = self.of(name);
        shard.get(server).and_then(|names| names.get(name)).map(|watched| look(&watched.window))
    }

    fn restore(&self, row: HealthRow) {
        let Some(window) = Window::from_text(&row.window) else { return };
        let mut shard = self.of(&row.name);
        if shard.values().map(NameMap::len).sum::<usize>() < MAX_OF_SHARD {
            let names = shard.entry(row.server.into()).or_default();
            names.entry(row.name.into()).or_insert(HealthEntry { window, is_changed: false });
        }
    }

    /// The windows that changed since the last time, as rows for the store.
    fn take_changed(&self, subject: &str, saved_ms: i64, rows: &mut Vec<HealthRow>) {
        for shard in &self.shards {
            // Copied under the lock and serialized after it, so that calls wait only for the copy.
            let mut news = Vec::new();
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (server, names) in shard.iter_mut() {
                for (name, watched) in names.iter_mut().filter(|(_, watched)| watched.is_changed) {
                    watched.is_changed = false;
                    news.push((server.to_string(), name.to_string(), watched.window.clone()));
                }
            }
            drop(shard);
            rows.extend(news.into_iter().map(|(server, name, window)| HealthRow {
                subject: subject.to_owned(),
                server,
                name,
                saved_ms,
                window: window.to_text(),
            }));
        }
    }

    fn mark_changed(&self, row: &HealthRow) {
        let mut shard = self.of(&row.name);
        if let Some(watched) = shard.get_mut(&*row.server).and_then(|names| names.get_mut(&*row.name)) {
            watched.is_changed = true;
        }
    }
}

impl std::fmt::Debug for HealthMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HealthMonitor").field("is_changed", &self.is_changed).finish_non_exhaustive()
    }
}

impl HealthMonitor {
    /// Loads the windows from the store.
    pub(crate) async fn load(store: Arc<dyn Store>, clock: Arc<Clock>) -> Result<Self, StoreError> {
        let rows = store.health().await?;
        let (tools, providers) = (Shards::default(), Shards::default());
        let health = Self { clock, store, tools, providers, is_changed: AtomicBool::new(false) };
        for row in rows {
            match row.subject.as_str() {
                "tool" => health.tools.restore(row),
                _ => health.providers.restore(row),
            }
        }
        Ok(health)
    }

    /// Records a call for its tool and for its provider.
    pub fn record(&self, call: &CallSample<'_>) {
        self.record_attempt(&self.record_tool(call));
    }

    /// Records a call for its tool only.
    pub fn record_tool<'a>(&self, call: &CallSample<'a>) -> HealthSample<'a> {
        let sample = HealthSample {
            at_ms: self.clock.now_ms(),
            took: call.took,
            ending: call.ending,
            error_code: call.error_code,
            provider: call.provider,
            persona: call.persona,
        };
        self.tools.record(call.tool.server.name.as_str(), &call.tool.name, &sample);
        self.is_changed.store(true, Ordering::Relaxed);
        sample
    }

    /// Records one provider's attempt at a call that another provider may have served.
    pub fn record_attempt(&self, sample: &HealthSample<'_>) {
        self.providers.record("", sample.provider, sample);
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// The health of a tool as this caller may see it; `None` if it was never called.
    pub fn of_tool(&self, tool: &Tool, caller: &Caller) -> Option<HealthReport> {
        let view =
            |window: &Window| window.view(HealthSubject::Tool, self.clock.now_ms(), persona_filter(caller));
        self.tools.look(tool.server.name.as_str(), &tool.name, view)
    }

    /// The number of recent calls of a tool and its success rate; `None` if there were none.
    pub fn record_of(&self, tool: &Tool) -> Option<(u32, f64)> {
        let record = |window: &Window| window.record_of(HealthSubject::Tool, self.clock.now_ms());
        self.tools.look(tool.server.name.as_str(), &tool.name, record).flatten()
    }

    /// The health of a provider, by its id, as this caller may see it.
    pub fn of_provider(&self, provider: &str, caller: &Caller) -> Option<HealthReport> {
        self.providers.look("", provider, |window| {
            window.view(HealthSubject::Provider, self.clock.now_ms(), persona_filter(caller))
        })
    }

    /// Saves what changed since the last time; costs one atomic read if nothing did. If saving fails, it is tried again
    /// the next time.
    pub async fn save(&self) {
        if !self.is_changed.swap(false, Ordering::Relaxed) {
            return;
        }
        let (mut rows, now) = (Vec::new(), self.clock.now_ms());
        self.tools.take_changed("tool", now, &mut rows);
        self.providers.take_changed("provider", now, &mut rows);
        for batch in rows.chunks(MAX_HEALTH_BATCH) {
            if let Err(error) = self.store.save_health(batch.to_vec()).await {
                tracing::warn!("the health of tools could not be saved: {error}");
                for row in batch {
                    let shards = if row.subject == "tool" { &self.tools } else { &self.providers };
                    shards.mark_changed(row);
                }
                self.is_changed.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Administrators see every persona, other callers their own.
fn persona_filter(caller: &Caller) -> PersonaFilter<'_> {
    match caller.admin {
        Admin::Yes => PersonaFilter::All,
        Admin::No => PersonaFilter::Only(caller.persona_name().unwrap_or(SHARED)),
    }
}

/// The outcome of a call that was sent, and the fault's code; `None` if it says nothing about health.
pub(crate) fn ending_of(answer: Result<&Answer, &Problem>) -> Option<(CallEnding, Option<&'static str>)> {
    match answer {
        Ok(Answer::Result { facts, .. }) if facts.is_error => Some((CallEnding::ToolError, None)),
        Ok(Answer::Result { .. } | Answer::Long { .. }) => Some((CallEnding::Done, None)),
        Ok(Answer::Error(_)) => Some((CallEnding::ToolError, Some("call.server-error"))),
        // The call is not finished.
        Ok(Answer::InputRequired { .. } | Answer::Held { .. }) => None,
        Err(problem) if problem.blame == Blame::Caller => None,
        Err(problem) if problem.code == "call.timeout" => Some((CallEnding::Timeout, Some(problem.code))),
        Err(problem) => Some((CallEnding::Failed, Some(problem.code))),
    }
}

/// Passes the provider id of a server to a function, without an allocation for names of the usual length.
pub(crate) fn with_provider_id<T>(server: &str, act: impl FnOnce(&str) -> T) -> T {
    let mut room = [0_u8; 80];
    let length = 4 + server.len();
    match room.get_mut(..length) {
        Some(place) => {
            place[..4].copy_from_slice(b"mcp:");
            place[4..].copy_from_slice(server.as_bytes());
            act(std::str::from_utf8(place).unwrap_or(server))
        }
        None => act(&format!("mcp:{server}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_ids_are_correct_for_names_of_any_length() {
        for length in [1, 64, 76, 77, 200] {
            let name = "n".repeat(length);
            with_provider_id(&name, |id| assert_eq!(id, format!("mcp:{name}")));
        }
    }
}
