//! Events about the progress of a running call, at a limited rate.

use super::EventRing;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use toolbooth_core::call::Sealed;
use toolbooth_core::event::{Event, EventKind, FactValue};
use toolbooth_core::json::RawJson;
use toolbooth_core::result::update::UPDATE;
use toolbooth_upstream::link::ProgressObserver;
use uuid::Uuid;

/// The number of events that one call may emit at once.
const BURST: f64 = 20.0;
/// The number of events per second that one call may emit after that. A server that reports faster loses reports.
const PER_SECOND: f64 = 5.0;
/// The maximum number of files that an event names.
const MAX_NAMES: usize = 16;

/// Emits the progress of one call as events.
#[derive(Debug)]
pub(crate) struct ProgressEvents {
    events: Arc<EventRing>,
    /// An event with everything that all events of the call have in common.
    blank: Event,
    rate: Mutex<EventRate>,
}

/// The events that a call may emit at the moment.
#[derive(Debug)]
struct EventRate {
    left: f64,
    at: Instant,
}

impl ProgressEvents {
    /// The progress events of a call.
    pub(crate) fn of(events: Arc<EventRing>, call: &Sealed, id: Uuid) -> Self {
        let tool = call.tool();
        let blank = Event::new(EventKind::ToolProgress)
            .user(call.caller().user.clone())
            .server(tool.server_name())
            .tool(tool.name.clone())
            .call(id);
        Self::with(events, blank)
    }

    /// Progress events that extend this one.
    pub(super) fn with(events: Arc<EventRing>, blank: Event) -> Self {
        Self { events, blank, rate: Mutex::new(EventRate { left: BURST, at: Instant::now() }) }
    }

    /// Whether another event is within the rate.
    fn is_within_rate(&self) -> bool {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earned = now.duration_since(rate.at).as_secs_f64() * PER_SECOND;
        *rate = EventRate { left: (rate.left + earned).min(BURST), at: now };
        if rate.left < 1.0 {
            return false;
        }
        rate.left -= 1.0;
        true
    }
}

impl ProgressObserver for ProgressEvents {
    fn progress(&self, params: &RawJson) {
        if !self.is_within_rate() {
            return;
        }
        let update = params.member("_meta").and_then(|meta| meta.member(UPDATE));
        self.events.emit_with(|| match &update {
            Some(update) => of_update(self.blank.clone(), params, update),
            None => of_progress(self.blank.clone(), params),
        });
    }
}

/// `tool.progress`: how far the call is, and the server's message.
fn of_progress(mut event: Event, params: &RawJson) -> Event {
    for key in ["progress", "total"] {
        if let Some(number) = params.member(key).and_then(|value| FactValue::number(&value)) {
            event = event.with(key, number);
        }
    }
    with_message(event, params)
}

/// `tool.update`: the type of the update, the message, and the names of its files. Content is left out.
fn of_update(mut event: Event, params: &RawJson, update: &RawJson) -> Event {
    event.kind = EventKind::ToolUpdate;
    for key in ["type", "subtype"] {
        if let Some(word) = update.member(key).as_ref().and_then(RawJson::string) {
            event = event.with(key, &*word);
        }
    }
    let files = update.member("artifacts").and_then(|files| files.elements().ok()).unwrap_or_default();
    let names: Vec<_> = files.iter().take(MAX_NAMES).filter_map(RawJson::string).collect();
    if !names.is_empty() {
        event = event.with("artifacts", FactValue::names(names.iter().map(|name| &**name)));
    }
    with_message(event, params)
}

fn with_message(event: Event, params: &RawJson) -> Event {
    match params.member("message").as_ref().and_then(RawJson::string) {
        Some(message) => event.with("message", &*message),
        None => event,
    }
}
