//! A cache of people's decisions that every call needs: open plans, consents, pinned definitions and releases from
//! quarantine. The store has them all; the cache is loaded at the start and updated with every change.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use toolbooth_core::call::{Approval, Consented, DefinitionChange, PermittedCall, ServesPlanStep, Situation};
use toolbooth_core::catalog::Tool;
use toolbooth_core::clock::Clock;
use toolbooth_core::consent::{Consent, ConsentQuery, MAX_PINNED_BYTES, Pin, Release};
use toolbooth_core::name_map::NameMap;
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::{Plan, PlanState};
use toolbooth_store::{Store, StoreError};
use uuid::Uuid;

/// The cached decisions.
#[derive(Debug, Default)]
pub(crate) struct DecisionCache {
    /// Whether any plan is open. Almost never, and then plans are not searched.
    planning: AtomicBool,
    inner: RwLock<CachedDecisions>,
}

#[derive(Debug, Default)]
struct CachedDecisions {
    plans: Vec<Plan>,
    consents: NameMap<String, Vec<Consent>>,
    pins: NameMap<ServerName, NameMap<Arc<str>, [u8; 32]>>,
    releases: HashMap<(ServerName, String), [u8; 32]>,
}

impl CachedDecisions {
    async fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let plans: Vec<Plan> =
            store.plans(None).await?.into_iter().filter(|plan| plan.state == PlanState::Open).collect();
        let mut inner = Self { plans, ..Self::default() };
        for consent in store.consents(None).await? {
            inner.consents.entry(consent.user.clone()).or_default().push(consent);
        }
        for Pin { server, tool, digest, .. } in store.pins().await? {
            inner.pins.entry(server).or_default().insert(tool.into(), digest);
        }
        for Release { server, tool, digest, .. } in store.releases().await? {
            inner.releases.insert((server, tool), digest);
        }
        Ok(inner)
    }
}

impl DecisionCache {
    /// Loads the decisions from the store.
    pub(crate) async fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let inner = CachedDecisions::load(store).await?;
        Ok(Self { planning: AtomicBool::new(!inner.plans.is_empty()), inner: RwLock::new(inner) })
    }

    /// Loads the decisions again, because another gateway has changed some.
    pub(crate) async fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let loaded = CachedDecisions::load(store).await?;
        let mut inner = self.write();
        self.planning.store(!loaded.plans.is_empty(), Ordering::Release);
        *inner = loaded;
        Ok(())
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, CachedDecisions> {
        self.inner.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, CachedDecisions> {
        self.inner.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The decisions that apply to a call.
    pub(crate) fn situation(
        &self,
        permitted: &PermittedCall,
        approval: Option<Approval>,
        clock: &Clock,
    ) -> Situation {
        let (caller, tool) = (permitted.caller(), permitted.tool());
        let inner = self.read();
        let plan = self.planning.load(Ordering::Acquire).then(|| {
            let covers =
                |plan: &&Plan| plan.covers(&caller.user, caller.persona_name(), caller.session.as_deref());
            // The plan with the narrowest scope takes the call.
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
            .is_some_and(|consents| consents.iter().any(|consent| consent.covers(&query, clock.now_ms())));
        let pinned = inner.pins.get(&tool.server.name).and_then(|pins| pins.get(&tool.name));
        Situation {
            approval,
            plan: plan.flatten(),
            planned: ServesPlanStep::No,
            consent: if consented { Consented::Yes } else { Consented::No },
            change: match pinned {
                Some(digest) if digest != tool.digest() => DefinitionChange::Changed,
                _ => DefinitionChange::None,
            },
        }
    }

    /// Pins a tool's definition at its first use, and returns the pin to save; `None` if it was used before.
    pub(crate) fn first_use(&self, tool: &Tool, clock: &Clock) -> Option<Pin> {
        if self.is_used(tool) {
            return None;
        }
        self.accept(tool);
        Some(pin(tool, "first use", clock.now_ms()))
    }

    /// Pins a tool's current definition.
    pub(crate) fn accept(&self, tool: &Tool) {
        let mut inner = self.write();
        inner.pins.entry(tool.server.name.clone()).or_default().insert(tool.name.clone(), *tool.digest());
    }

    /// Whether any definition of a tool was pinned: the tool was used before.
    pub(crate) fn is_used(&self, tool: &Tool) -> bool {
        self.read().pins.get(&tool.server.name).is_some_and(|pins| pins.contains_key(&tool.name))
    }

    /// The digest of the pinned definition, if the tool has a different one now.
    pub(crate) fn pinned_before(&self, tool: &Tool) -> Option<[u8; 32]> {
        let inner = self.read();
        let pinned = inner.pins.get(&tool.server.name)?.get(&tool.name)?;
        (pinned != tool.digest()).then_some(*pinned)
    }

    /// Whether a tool was released from quarantine in its current definition.
    pub(crate) fn is_released(&self, tool: &Tool) -> bool {
        let key = (tool.server.name.clone(), tool.name.to_string());
        self.read().releases.get(&key) == Some(tool.digest())
    }

    /// Records that a tool was released from quarantine.
    pub(crate) fn release(&self, release: &Release) {
        let key = (release.server.clone(), release.tool.clone());
        self.write().releases.insert(key, release.digest);
    }

    /// Adds a consent.
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

    /// Removes a consent.
    pub(crate) fn revoke(&self, id: Uuid) {
        self.write().consents.values_mut().for_each(|consents| consents.retain(|consent| consent.id != id));
    }

    /// Adds an open plan.
    pub(crate) fn open_plan(&self, plan: Plan) {
        let mut inner = self.write();
        inner.plans.retain(|other| other.id != plan.id);
        inner.plans.push(plan);
        self.planning.store(true, Ordering::Release);
    }

    /// Removes a closed plan.
    pub(crate) fn close_plan(&self, id: Uuid) {
        let mut inner = self.write();
        inner.plans.retain(|plan| plan.id != id);
        self.planning.store(!inner.plans.is_empty(), Ordering::Release);
    }
}

/// A pin of a tool's current definition.
pub(crate) fn pin(tool: &Tool, by: &str, pinned_ms: i64) -> Pin {
    let text = pinned_text(tool);
    Pin {
        server: tool.server.name.clone(),
        tool: tool.name.to_string(),
        digest: *tool.digest(),
        pinned_ms,
        by: by.to_owned(),
        definition: (text.len() <= MAX_PINNED_BYTES).then(|| text.to_owned()),
    }
}

/// The definition that is pinned: the server's own, without the operator's overrides.
pub(crate) fn pinned_text(tool: &Tool) -> &str {
    tool.original.as_deref().unwrap_or(tool).definition.as_str()
}
