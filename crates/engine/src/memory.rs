//! What the gateway remembers of people's decisions, at hand for every call: open plans, consents,
//! accepted definitions. The store has it all; this is its reflection, loaded at start and kept true.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use toolbooth_core::call::{Change, Consented, Licence, Permitted, Planned, Situation};
use toolbooth_core::catalog::Tool;
use toolbooth_core::consent::{Consent, ConsentQuery, MAX_PINNED_BYTES, Pin, Release};
use toolbooth_core::name_map::NameMap;
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::{Plan, PlanState};
use toolbooth_store::{Store, StoreError};
use uuid::Uuid;

use crate::clock::now_ms;

/// Remembered decisions.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Whether any plan is open: almost never, and then nobody looks further.
    planning: AtomicBool,
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    plans: Vec<Plan>,
    consents: NameMap<String, Vec<Consent>>,
    pins: NameMap<ServerName, NameMap<Arc<str>, [u8; 32]>>,
    releases: HashMap<(ServerName, String), [u8; 32]>,
}

impl Memory {
    /// Reads what the store keeps.
    pub(crate) async fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let plans: Vec<Plan> =
            store.plans(None).await?.into_iter().filter(|plan| plan.state == PlanState::Open).collect();
        let mut inner = Inner::default();
        for consent in store.consents(None).await? {
            inner.consents.entry(consent.user.clone()).or_default().push(consent);
        }
        for Pin { server, tool, digest, .. } in store.pins().await? {
            inner.pins.entry(server).or_default().insert(tool.into(), digest);
        }
        for Release { server, tool, digest, .. } in store.releases().await? {
            inner.releases.insert((server, tool), digest);
        }
        let planning = AtomicBool::new(!plans.is_empty());
        inner.plans = plans;
        Ok(Self { planning, inner: RwLock::new(inner) })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How things stand for a call.
    pub(crate) fn situation(&self, permitted: &Permitted, licence: Option<Licence>) -> Situation {
        let (caller, tool) = (permitted.caller(), permitted.tool());
        let inner = self.read();
        let plan = self.planning.load(Ordering::Acquire).then(|| {
            let covers =
                |plan: &&Plan| plan.covers(&caller.user, caller.persona_name(), caller.session.as_deref());
            // The narrowest plan takes the call.
            inner
                .plans
                .iter()
                .filter(covers)
                .max_by_key(|plan| (plan.session.is_some(), plan.persona.is_some()))
                .map(|plan| plan.id)
        });
        let query = ConsentQuery {
            user: &caller.user,
            server: &tool.server.name,
            tool: &tool.name,
            digest: tool.digest(),
            session: caller.session.as_deref(),
        };
        let consented = inner
            .consents
            .get(&*caller.user)
            .is_some_and(|consents| consents.iter().any(|consent| consent.covers(&query, now_ms())));
        let pinned = inner.pins.get(&tool.server.name).and_then(|pins| pins.get(&tool.name));
        Situation {
            licence,
            plan: plan.flatten(),
            planned: Planned::No,
            consent: if consented { Consented::Yes } else { Consented::No },
            change: match pinned {
                Some(digest) if digest != tool.digest() => Change::Changed,
                _ => Change::None,
            },
        }
    }

    /// Accepts a tool as it is when it is used for the first time; the pin to save, if it was.
    pub(crate) fn first_use(&self, tool: &Tool) -> Option<Pin> {
        if self.is_used(tool) {
            return None;
        }
        self.accept(tool);
        Some(pin(tool, "first use"))
    }

    /// Notes that a tool is accepted as it is now.
    pub(crate) fn accept(&self, tool: &Tool) {
        let mut inner = self.write();
        inner.pins.entry(tool.server.name.clone()).or_default().insert(tool.name.clone(), *tool.digest());
    }

    /// Whether some definition of a tool was accepted: it was used before.
    pub(crate) fn is_used(&self, tool: &Tool) -> bool {
        self.read().pins.get(&tool.server.name).is_some_and(|pins| pins.contains_key(&tool.name))
    }

    /// The definition that was accepted, where another one is there now.
    pub(crate) fn pinned_before(&self, tool: &Tool) -> Option<[u8; 32]> {
        let inner = self.read();
        let pinned = inner.pins.get(&tool.server.name)?.get(&tool.name)?;
        (pinned != tool.digest()).then_some(*pinned)
    }

    /// Whether a tool was let out of quarantine as it is.
    pub(crate) fn is_released(&self, tool: &Tool) -> bool {
        let key = (tool.server.name.clone(), tool.name.to_string());
        self.read().releases.get(&key) == Some(tool.digest())
    }

    /// Notes that a tool was let out of quarantine.
    pub(crate) fn release(&self, release: &Release) {
        let key = (release.server.clone(), release.tool.clone());
        self.write().releases.insert(key, release.digest);
    }

    /// Notes a consent.
    pub(crate) fn grant(&self, consent: Consent) {
        let mut inner = self.write();
        let consents = inner.consents.entry(consent.user.clone()).or_default();
        consents.retain(|other| {
            !(other.server == consent.server
                && other.tool == consent.tool
                && other.session == consent.session)
        });
        consents.push(consent);
    }

    /// Forgets a consent.
    pub(crate) fn revoke(&self, id: Uuid) {
        self.write().consents.values_mut().for_each(|consents| consents.retain(|consent| consent.id != id));
    }

    /// Notes an open plan.
    pub(crate) fn open_plan(&self, plan: Plan) {
        let mut inner = self.write();
        inner.plans.retain(|other| other.id != plan.id);
        inner.plans.push(plan);
        self.planning.store(true, Ordering::Release);
    }

    /// Forgets a plan that was closed.
    pub(crate) fn close_plan(&self, id: Uuid) {
        let mut inner = self.write();
        inner.plans.retain(|plan| plan.id != id);
        self.planning.store(!inner.plans.is_empty(), Ordering::Release);
    }
}

/// A tool as it is now, accepted by somebody.
pub(crate) fn pin(tool: &Tool, by: &str) -> Pin {
    let text = pinned_text(tool);
    Pin {
        server: tool.server.name.clone(),
        tool: tool.name.to_string(),
        digest: *tool.digest(),
        pinned_ms: now_ms(),
        by: by.to_owned(),
        definition: (text.len() <= MAX_PINNED_BYTES).then(|| text.to_owned()),
    }
}

/// What is accepted of a tool: what its server says, not what an operator wrote over it.
pub(crate) fn pinned_text(tool: &Tool) -> &str {
    tool.under.as_deref().unwrap_or(tool).definition.as_str()
}
