//! Counts calls against their callers' allowance. Without a limit nothing is counted.

use crate::replica_mail::ReplicaMail;
use crate::terms::SharedTerms;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use toolbooth_core::allowance::{Allowance, OverAllowance, UsageKey, UsageMeter};
use toolbooth_core::call::Sealed;
use toolbooth_core::clock::Clock;

/// What callers have used of their allowance.
pub(super) struct AllowanceMeter {
    clock: Arc<Clock>,
    terms: SharedTerms,
    replica_mail: Arc<ReplicaMail>,
    spending: Mutex<UsageMeter>,
}

/// A call that counts against an allowance; its running time is added when it ends.
pub(super) struct AllowanceUse {
    meter: Arc<AllowanceMeter>,
    usage: UsageKey,
    started: Instant,
}

impl AllowanceMeter {
    pub(super) fn new(terms: SharedTerms, clock: Arc<Clock>, replica_mail: Arc<ReplicaMail>) -> Self {
        Self { clock, terms, replica_mail, spending: Mutex::default() }
    }

    /// Charges a call to its caller's allowance, if there is one, and keeps the charge in `usage`. A call that is
    /// charged already, and runs again because a person approved a tool behind it, pays nothing more; the time that
    /// the person needed is not running time.
    pub(super) fn charge(
        self: &Arc<Self>,
        call: &Sealed,
        usage: &mut Option<Box<AllowanceUse>>,
    ) -> Result<(), OverAllowance> {
        if let Some(charged) = usage {
            charged.started = Instant::now();
            return Ok(());
        }
        let Some(allowance) = self.terms.load().routing.allowance else { return Ok(()) };
        // Each gateway on a shared store grants its part, so that a call needs no query.
        let allowance = allowance.part_of(self.replica_mail.live());
        // The gateway's own tools only return what the caller already has access to.
        if !call.tool().server.is_own() {
            *usage = Some(self.spend_of(&allowance, call)?);
        }
        Ok(())
    }

    fn spend_of(
        self: &Arc<Self>,
        allowance: &Allowance,
        call: &Sealed,
    ) -> Result<Box<AllowanceUse>, OverAllowance> {
        let tool = call.tool();
        let cost = tool.terms.cost.as_ref().map_or(0.0, |cost| cost.per_call);
        let mut spending = self.spending.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = spending.take(allowance, call.caller(), &tool.exposed, cost, self.now())?;
        Ok(Box::new(AllowanceUse { meter: self.clone(), usage, started: Instant::now() }))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now_ms()).unwrap_or(0)
    }
}

impl Drop for AllowanceUse {
    fn drop(&mut self) {
        let meter = &self.meter;
        if meter.terms.load().routing.allowance.is_some_and(|allowance| allowance.runtime.is_some()) {
            let mut spending = meter.spending.lock().unwrap_or_else(PoisonError::into_inner);
            spending.record_runtime(&self.usage, self.started.elapsed(), meter.now());
        }
    }
}
