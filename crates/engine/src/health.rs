//! Health of tools and providers: written by `record` alone, kept in the store now and then.
//!
//! A call pays for two short locks of shards that it mostly has to itself. A tool that was never called costs
//! nothing. What was recorded since the last saving is lost with a kill; health is advice, not a promise.

use crate::answer::Answer;
use crate::clock::now_ms;
use crate::engine::Engine;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::health::{Ending, HealthView, SHARED, Sample, Sliced, Subject, Window};
use toolbooth_core::name_map::{NameHasher, NameMap};
use toolbooth_store::{HealthRow, MAX_HEALTH_BATCH, Store, StoreError};

const SHARDS: usize = 16;
/// The most windows of one shard; the hundred thousandth tool that is called has none.
const MAX_OF_SHARD: usize = 2_048;

/// One call that was made, as it is told to [`Health::record`].
#[derive(Debug, Clone, Copy)]
pub struct CallSample<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// What served it, or was to: an id such as `mcp:mail`.
    pub provider: &'a str,
    /// Through which persona it was made.
    pub persona: Option<&'a str>,
    /// How long it took, people's answers aside.
    pub took: Duration,
    /// How it ended.
    pub ending: Ending,
    /// The fault's stable code, where there was a fault.
    pub error_code: Option<&'a str>,
}

#[derive(Debug, Default)]
struct Watched {
    window: Window,
    is_new: bool,
}

/// Windows by server and name; a provider's server is empty.
type Shard = NameMap<Box<str>, NameMap<Box<str>, Watched>>;

/// How calls ended lately, by tool and by provider.
#[derive(Debug, Default)]
pub struct Health {
    tools: Shards,
    providers: Shards,
    /// Whether anything was recorded since the last saving.
    is_new: AtomicBool,
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

    fn record(&self, server: &str, name: &str, sample: &Sample<'_>) {
        let mut shard = self.of(name);
        if let Some(watched) = shard.get_mut(server).and_then(|names| names.get_mut(name)) {
            watched.window.record(sample);
            watched.is_new = true;
            return;
        }
        if shard.values().map(NameMap::len).sum::<usize>() >= MAX_OF_SHARD {
            return;
        }
        let watched = shard.entry(server.into()).or_default().entry(name.into()).or_default();
        watched.window.record(sample);
        watched.is_new = true;
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
            names.entry(row.name.into()).or_insert(Watched { window, is_new: false });
        }
    }

    /// What was recorded since the last time, as rows to keep.
    fn news(&self, subject: &str, saved_ms: i64, rows: &mut Vec<HealthRow>) {
        for shard in &self.shards {
            // Copied under the lock, written out after it: calls wait for the copy only.
            let mut news = Vec::new();
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (server, names) in shard.iter_mut() {
                for (name, watched) in names.iter_mut().filter(|(_, watched)| watched.is_new) {
                    watched.is_new = false;
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

    fn is_new_again(&self, row: &HealthRow) {
        let mut shard = self.of(&row.name);
        if let Some(watched) = shard.get_mut(&*row.server).and_then(|names| names.get_mut(&*row.name)) {
            watched.is_new = true;
        }
    }
}

impl Health {
    /// What the store kept.
    pub(crate) async fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let health = Self::default();
        for row in store.health().await? {
            match row.subject.as_str() {
                "tool" => health.tools.restore(row),
                _ => health.providers.restore(row),
            }
        }
        Ok(health)
    }

    /// Takes a call in: for its tool, and for what served it.
    pub fn record(&self, call: &CallSample<'_>) {
        self.record_attempt(&self.record_tool(call));
    }

    /// Takes a call in for its tool alone.
    pub fn record_tool<'a>(&self, call: &CallSample<'a>) -> Sample<'a> {
        let sample = Sample {
            at_ms: now_ms(),
            took: call.took,
            ending: call.ending,
            error_code: call.error_code,
            provider: call.provider,
            persona: call.persona,
        };
        self.tools.record(call.tool.server.name.as_str(), &call.tool.name, &sample);
        self.is_new.store(true, Ordering::Relaxed);
        sample
    }

    /// Takes in what a provider did for a call that another one may have served.
    pub fn record_attempt(&self, sample: &Sample<'_>) {
        self.providers.record("", sample.provider, sample);
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// The health of a tool as this caller may see it; nothing, if it was never called.
    pub fn of_tool(&self, tool: &Tool, caller: &Caller) -> Option<HealthView> {
        let view = |window: &Window| window.view(Subject::Tool, now_ms(), sliced(caller));
        self.tools.look(tool.server.name.as_str(), &tool.name, view)
    }

    /// How often a tool was called lately, and its rate of success; nothing, if it was not.
    pub fn record_of(&self, tool: &Tool) -> Option<(u32, f64)> {
        let record = |window: &Window| window.record_of(Subject::Tool, now_ms());
        self.tools.look(tool.server.name.as_str(), &tool.name, record).flatten()
    }

    /// The health of a provider, by its id, as this caller may see it.
    pub fn of_provider(&self, provider: &str, caller: &Caller) -> Option<HealthView> {
        self.providers.look("", provider, |window| window.view(Subject::Provider, now_ms(), sliced(caller)))
    }

    /// Keeps what is new; what cannot be kept is tried again the next time.
    pub(crate) async fn save(&self, store: &dyn Store) {
        if !self.is_new.swap(false, Ordering::Relaxed) {
            return;
        }
        let (mut rows, now) = (Vec::new(), now_ms());
        self.tools.news("tool", now, &mut rows);
        self.providers.news("provider", now, &mut rows);
        for batch in rows.chunks(MAX_HEALTH_BATCH) {
            if let Err(error) = store.save_health(batch.to_vec()).await {
                tracing::warn!("the health of tools was not kept: {error}");
                for row in batch {
                    let shards = if row.subject == "tool" { &self.tools } else { &self.providers };
                    shards.is_new_again(row);
                }
                self.is_new.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Who looks after the gateway sees every persona, others their own.
fn sliced(caller: &Caller) -> Sliced<'_> {
    match caller.admin {
        Admin::Yes => Sliced::All,
        Admin::No => Sliced::Only(caller.persona_name().unwrap_or(SHARED)),
    }
}

/// How a call that was sent ended, where that says anything about health, and the fault's code.
pub(crate) fn ending_of(answer: Result<&Answer, &Problem>) -> Option<(Ending, Option<&'static str>)> {
    match answer {
        Ok(Answer::Result { facts, .. }) if facts.is_error => Some((Ending::ToolError, None)),
        Ok(Answer::Result { .. } | Answer::Long { .. }) => Some((Ending::Done, None)),
        Ok(Answer::Error(_)) => Some((Ending::ToolError, Some("call.server-error"))),
        // It is not over.
        Ok(Answer::InputRequired { .. } | Answer::Held { .. }) => None,
        Err(problem) if problem.blame == Blame::Caller => None,
        Err(problem) if problem.code == "call.timeout" => Some((Ending::Timeout, Some(problem.code))),
        Err(problem) => Some((Ending::Failed, Some(problem.code))),
    }
}

/// Lends the id of the provider that a server is, without allocating for names of the usual length.
pub(crate) fn as_provider<T>(server: &str, act: impl FnOnce(&str) -> T) -> T {
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

impl Engine {
    /// Keeps the health of what was called since the last time; a glance when nothing was.
    pub async fn save_health(&self) {
        self.health().save(&**self.store()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_providers_are_lent_whatever_their_length() {
        for length in [1, 64, 76, 77, 200] {
            let name = "n".repeat(length);
            as_provider(&name, |id| assert_eq!(id, format!("mcp:{name}")));
        }
    }
}
