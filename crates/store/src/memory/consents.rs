//! Consents and pins in memory.

use crate::StoreError;
use crate::limits::{MAX_CONSENTS_OF_USER, MAX_CONSENTS_PAGE, MAX_PINS};
use std::collections::BTreeMap;
use toolbooth_core::consent::{Consent, ConsentQuery, Pin};
use toolbooth_core::names::ServerName;
use uuid::Uuid;

#[derive(Debug, Default)]
pub(super) struct Consents {
    // In the order they were given.
    given: Vec<Consent>,
    pins: BTreeMap<(ServerName, String), Pin>,
}

impl Consents {
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
        self.pins.values().cloned().collect()
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
}
