//! Health checks of providers, on a timer, independent of calls.
//!
//! A failed check keeps calls away until a check succeeds. A check never closes a circuit breaker, because it is not
//! a served call.

use super::{Instance, ProviderStates};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use toolbooth_core::fault::Problem;
use toolbooth_core::manifest::ProviderKind;

/// How often the gateway checks which health checks are due.
const TICK: Duration = Duration::from_millis(500);
/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of concurrent checks.
const AT_ONCE: usize = 8;

/// Runs the health checks of all providers until their state is dropped.
pub(super) fn run_checks(states: Weak<ProviderStates>) {
    tokio::spawn(async move {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            tokio::time::sleep(TICK).await;
            let Some(states) = states.upgrade() else { return };
            let now_ms = states.now_ms();
            for one in states.instances() {
                if !one.is_due(now_ms) {
                    continue;
                }
                let Ok(slot) = slots.clone().try_acquire_owned() else { break };
                one.check_begins(now_ms);
                let states = Arc::downgrade(&states);
                tokio::spawn(async move {
                    let _slot = slot;
                    let Some(states) = states.upgrade() else { return };
                    let checked = tokio::time::timeout(PATIENCE, states.check(&one)).await;
                    let wrong = checked.unwrap_or_else(|_| Some("it did not answer in time".into()));
                    if let Some(wrong) = wrong.as_ref().filter(|_| one.wrong().is_none()) {
                        tracing::warn!(provider = %one.spec.id, "provider `{}` is not healthy: {wrong}", one.spec.id);
                    }
                    one.checked(wrong);
                });
            }
        }
    });
}

impl ProviderStates {
    /// Checks a provider and returns what is wrong, if anything.
    async fn check(&self, one: &Instance) -> Option<String> {
        match (&one.spec.kind, &one.rest) {
            (_, Some(Ok(rest))) => rest.probe().await.err().map(|error| Problem::of(&error).message),
            (ProviderKind::Mcp { server, .. }, _) => {
                let server = self.servers.running(server).ok()?;
                // A server that is not connected shows that by its state; it is not started for a check.
                let connection = server.pool.primary()?;
                connection.probe(PATIENCE).await.err().map(|error| error.to_string())
            }
            _ => None,
        }
    }
}
