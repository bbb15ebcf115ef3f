//! Events about servers, the catalog, held calls and plans.

use super::{EventRing, ORIGIN};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use toolbooth_core::catalog::{CatalogItem, ServerCatalog, Tool};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::held::{HeldCall, HeldKind, HeldState};
use toolbooth_core::hex::encode as hex;
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use toolbooth_upstream::ServerState;

/// The maximum number of changed tools of one server that get their own event.
const MAX_NAMED: usize = 50;

impl EventRing {
    /// Emits an event that is built only if events are switched on; for events of every call.
    pub(crate) fn emit_with(&self, make: impl FnOnce() -> Event) {
        if self.is_on() {
            self.emit(make());
        }
    }

    /// Emits a server's new state; `tools` is the number of its tools in the catalog.
    pub(crate) fn emit_state(&self, server: &ServerName, state: &ServerState, tools: usize) {
        let kind = match state {
            ServerState::Connecting => EventKind::ServerConnecting,
            ServerState::Connected => EventKind::ServerConnected,
            ServerState::Error { .. } | ServerState::NeedsAuth(_) | ServerState::ConfigError(_) => {
                EventKind::ServerError
            }
            ServerState::Disconnected | ServerState::Disabled | ServerState::NeedsTrust => {
                EventKind::ServerDisconnected
            }
        };
        let mut event = Event::new(kind).server(server);
        if kind == EventKind::ServerConnected {
            event = event.with("tools", tools);
        }
        if let Some(problem) = state.problem() {
            event = event.code(problem.code).with("message", problem.message.as_str());
        }
        if let Some(wait) = state.retry_in() {
            event = event.with("retry_in_ms", u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        }
        self.emit(event);
    }

    /// Emits what changed in a new catalog, server by server.
    pub(crate) fn emit_catalog(
        &self,
        before: &BTreeMap<ServerName, Arc<ServerCatalog>>,
        after: &BTreeMap<ServerName, Arc<ServerCatalog>>,
    ) {
        for (name, part) in after.iter().filter(|(_, part)| !part.entry.is_own()) {
            match before.get(name) {
                Some(earlier) if same_offer(earlier, part) => {}
                earlier => {
                    self.emit_part(name, earlier.map(|part| &*part.tools).unwrap_or_default(), &part.tools)
                }
            }
        }
        for (name, part) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            self.emit_part(name, &part.tools, &[]);
        }
    }

    fn emit_part(&self, server: &ServerName, before: &[Arc<Tool>], after: &[Arc<Tool>]) {
        let known: HashMap<&str, &Arc<Tool>> = before.iter().map(|tool| (&*tool.name, tool)).collect();
        let is_changed = |tool: &&Arc<Tool>| {
            let earlier = known.get(&*tool.name);
            // Digests are computed only for definitions that differ.
            earlier.is_some_and(|earlier| {
                earlier.definition != tool.definition && earlier.digest() != tool.digest()
            })
        };
        let changed: Vec<&Arc<Tool>> = after.iter().filter(is_changed).collect();
        let stayed = after.iter().filter(|tool| known.contains_key(&*tool.name)).count();
        for tool in changed.iter().take(MAX_NAMED) {
            let event = Event::new(EventKind::ToolChanged).server(server).tool(tool.name.clone());
            let before = known.get(&*tool.name).map(|earlier| hex(earlier.digest())).unwrap_or_default();
            self.emit(event.with("before", before.as_str()).with("after", hex(tool.digest()).as_str()));
        }
        self.emit(
            Event::new(EventKind::CatalogChanged)
                .server(server)
                .with("tools", after.len())
                .with("added", after.len() - stayed)
                .with("removed", before.len().saturating_sub(stayed))
                .with("changed", changed.len()),
        );
    }

    /// Emits that a call was held or became a step of a plan.
    pub(crate) fn emit_held(&self, held: &HeldCall) {
        self.emit(new_held_event(held));
    }

    /// Emits the decision on a held call.
    pub(crate) fn emit_decided(&self, held: &HeldCall) {
        if let Some(event) = decided_event(held) {
            self.emit(event);
        }
    }

    /// Emits what another gateway did with a held call. That gateway has notified the webhooks.
    pub(crate) fn emit_held_elsewhere(&self, held: &HeldCall) {
        let event = match held.state {
            HeldState::Pending => Some(new_held_event(held)),
            // Once it runs, followers have received the decision.
            _ if held.claimed_ms.is_some() => None,
            _ => decided_event(held),
        };
        if let Some(event) = event {
            self.emit(event.with(ORIGIN, "another gateway"));
        }
    }

    /// Emits that a step of a plan ran.
    pub(crate) fn emit_step(&self, held: &HeldCall, outcome: &'static str) {
        self.emit(held_event(EventKind::PlanDone, held).outcome(outcome));
    }

    /// Emits that plan mode was switched on or off.
    pub(crate) fn emit_plan(&self, kind: EventKind, plan: &Plan) {
        self.emit(Event::new(kind).user(plan.user.as_str()).with("plan", plan.id.to_string().as_str()));
    }
}

/// Whether a server offers the same as before.
fn same_offer(before: &Arc<ServerCatalog>, after: &Arc<ServerCatalog>) -> bool {
    let same = |a: &[CatalogItem], b: &[CatalogItem]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.definition == b.definition)
    };
    Arc::ptr_eq(before, after)
        || (before.tools_text == after.tools_text
            && same(&before.prompts, &after.prompts)
            && same(&before.resources, &after.resources)
            && same(&before.templates, &after.templates))
}

fn new_held_event(held: &HeldCall) -> Event {
    let kind = match held.kind {
        HeldKind::Approval => EventKind::CallHeld,
        HeldKind::Plan => EventKind::PlanQueued,
    };
    held_event(kind, held)
}

fn decided_event(held: &HeldCall) -> Option<Event> {
    let kind = match (held.kind, held.state) {
        (HeldKind::Approval, HeldState::Approved) => EventKind::CallApproved,
        (HeldKind::Approval, HeldState::Rejected) => EventKind::CallRejected,
        (HeldKind::Plan, HeldState::Approved) => EventKind::PlanApproved,
        (HeldKind::Plan, HeldState::Rejected) => EventKind::PlanRejected,
        (_, HeldState::Expired) => EventKind::CallExpired,
        (_, HeldState::Pending | HeldState::Done | HeldState::Failed) => return None,
    };
    let event = held_event(kind, held);
    Some(match held.decided_by.as_deref() {
        Some(by) => event.with("by", by),
        None => event,
    })
}

/// An event about a held call. The question is left out, because it may contain arguments.
fn held_event(kind: EventKind, held: &HeldCall) -> Event {
    let event = Event::new(kind).user(held.user.as_str()).server(&held.server).call(held.id);
    let event = event.tool(held.tool.as_str());
    match &held.plan {
        Some(place) => {
            let plan = place.plan.to_string();
            event.with("plan", plan.as_str()).with("step", place.step)
        }
        None => event,
    }
}
