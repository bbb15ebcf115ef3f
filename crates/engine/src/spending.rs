//! What callers use of their allowance. Where nothing is limited, nobody counts.

use crate::clock::now_ms;
use crate::engine::Engine;
use std::sync::{PoisonError, Weak};
use std::time::Instant;
use toolbooth_core::allowance::{Allowance, OverAllowance, PurseKey};
use toolbooth_core::call::Sealed;

/// A call that counts; its time is put down when it ends, however it ends.
#[derive(Debug)]
pub(crate) struct Counted {
    engine: Weak<Engine>,
    purse: PurseKey,
    started: Instant,
}

impl Engine {
    /// Takes a call from its caller's allowance, where there is one.
    pub(crate) fn spend(&self, call: &Sealed) -> Result<Option<Box<Counted>>, OverAllowance> {
        let Some(allowance) = self.terms().routing.allowance else { return Ok(None) };
        // The gateway's own tools give back what is the caller's already.
        if call.tool().server.is_own() {
            return Ok(None);
        }
        self.spend_of(&allowance, call).map(Some)
    }

    fn spend_of(&self, allowance: &Allowance, call: &Sealed) -> Result<Box<Counted>, OverAllowance> {
        let tool = call.tool();
        let cost = tool.terms.cost.as_ref().map_or(0.0, |cost| cost.per_call);
        let mut spending = self.routing().spending.lock().unwrap_or_else(PoisonError::into_inner);
        let purse = spending.take(allowance, call.caller(), &tool.exposed, cost, now())?;
        Ok(Box::new(Counted { engine: self.weak(), purse, started: Instant::now() }))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(engine) = self.engine.upgrade() else { return };
        if engine.terms().routing.allowance.is_some_and(|allowance| allowance.runtime.is_some()) {
            let mut spending = engine.routing().spending.lock().unwrap_or_else(PoisonError::into_inner);
            spending.ran(&self.purse, self.started.elapsed(), now());
        }
    }
}

fn now() -> u64 {
    u64::try_from(now_ms()).unwrap_or(0)
}
