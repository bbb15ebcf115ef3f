//! Consents, pins and releases in memory.

use crate::StoreError;
use crate::limits::{MAX_CONSENTS_OF_USER, MAX_CONSENTS_PAGE, MAX_PINS, MAX_RELEASES};
use std::collections::BTreeMap;
use toolbooth_core::consent::{Consent, ConsentQuery, Pin, Release};
use toolbooth_core::names::ServerName;
use uuid::Uuid;

#[derive(Debug, Default)]
pub(super) struct ConsentTable {
    // In the order they were granted.
    given: Vec<Consent>,
    pins: BTreeMap<(ServerName, String), Pin>,
    releases: BTreeMap<(ServerName, String), Release>,
}

impl ConsentTable {
    pub(super) fn grant(&mut self, consent: Consent) -> Result<(), StoreError> {
        if let Some(kept) = self.given.iter().find(|kept| kept.id == consent.id) {
            let name = consent.id.to_string();
            return if *kept == consent { Ok(()) } else { Err(StoreError::Taken { what: "consent", name }) };
        }
        let others = self.given.iter().filter(|kept| kept.user == consent.user);
        if others.filter(|kept| !kept.is_replaced_by(&consent)).count() >= MAX_CONSENTS_OF_USER {
            return Err(StoreError::Full { what: "consents" });
        }
        self.given.retain(|kept| !kept.is_replaced_by(&consent));
        self.given.push(consent);
        Ok(())
    }

    pub(super) fn find(&self, call: &ConsentQuery<'_>, now_ms: i64) -> Option<Consent> {
        self.given.iter().rev().find(|consent| consent.covers(call, now_ms)).cloned()
    }

    pub(super) fn list(&self, user: Option<&str>) -> Vec<Consent> {
        let wanted = self.given.iter().rev().filter(|consent| user.is_none_or(|user| consent.user == user));
        wanted.take(MAX_CONSENTS_PAGE as usize).cloned().collect()
    }

    pub(super) fn revoke(&mut self, id: Uuid) -> Option<Consent> {
        let place = self.given.iter().position(|consent| consent.id == id)?;
        Some(self.given.remove(place))
    }

    pub(super) fn purge(&mut self, now_ms: i64) {
        self.given.retain(|consent| consent.expires_ms.is_none_or(|expires_ms| expires_ms > now_ms));
    }

    pub(super) fn pins(&self) -> Vec<Pin> {
        let without_text = |pin: &Pin| Pin {
            server: pin.server.clone(),
            tool: pin.tool.clone(),
            by: pin.by.clone(),
            definition: None,
            ..*pin
        };
        self.pins.values().map(without_text).collect()
    }

    pub(super) fn pin(&self, server: &ServerName, tool: &str) -> Option<Pin> {
        self.pins.get(&(server.clone(), tool.to_owned())).cloned()
    }

    pub(super) fn save_pins(&mut self, pins: Vec<Pin>) -> Result<(), StoreError> {
        if self.pins.len() + pins.len() > MAX_PINS {
            return Err(StoreError::Full { what: "pins" });
        }
        self.pins.extend(pins.into_iter().map(|pin| ((pin.server.clone(), pin.tool.clone()), pin)));
        Ok(())
    }

    pub(super) fn forget_pins(&mut self, server: &ServerName) {
        self.pins.retain(|(kept, _), _| kept != server);
    }

    pub(super) fn releases(&self) -> Vec<Release> {
        self.releases.values().cloned().collect()
    }

    pub(super) fn save_release(&mut self, release: Release) -> Result<(), StoreError> {
        let key = (release.server.clone(), release.tool.clone());
        if self.releases.len() >= MAX_RELEASES && !self.releases.contains_key(&key) {
            return Err(StoreError::Full { what: "releases" });
        }
        self.releases.insert(key, release);
        Ok(())
    }
}
