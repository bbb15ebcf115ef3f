//! Health checks of providers, on a timer, independent of calls.
//!
//! A failed check keeps calls away until a check succeeds. A check never closes a circuit breaker, because it is not
//! a served call.

use super::{Instance, TICK};
use crate::engine::{Engine, ManagedServer};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use toolbooth_core::fault::Problem;
use toolbooth_core::manifest::ProviderKind;
use toolbooth_core::provider::Skip;
use toolbooth_upstream::ServerState;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of concurrent checks.
const AT_ONCE: usize = 8;

/// Runs the health checks of all providers until the engine is dropped.
pub(super) fn run_checks(engine: Weak<Engine>) {
    tokio::spawn(async move {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            tokio::time::sleep(TICK).await;
            let Some(engine) = engine.upgrade() else { return };
            let now_ms = engine.routing().now_ms();
            for one in engine.routing().instances() {
                if !one.is_due(now_ms) {
                    continue;
                }
                let Ok(slot) = slots.clone().try_acquire_owned() else { break };
                one.check_begins(now_ms);
                let engine = Arc::downgrade(&engine);
                tokio::spawn(async move {
                    let _slot = slot;
                    let Some(engine) = engine.upgrade() else { return };
                    let checked = tokio::time::timeout(PATIENCE, engine.check(&one)).await;
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

impl Engine {
    /// Checks a provider and returns what is wrong, if anything.
    async fn check(&self, one: &Instance) -> Option<String> {
        match (&one.spec.kind, &one.rest) {
            (_, Some(Ok(rest))) => rest.probe().await.err().map(|error| Problem::of(&error).message),
            (ProviderKind::Mcp { server, .. }, _) => {
                let server = self.server(server).ok()?;
                // A server that is not connected shows that by its state; it is not started for a check.
                let connection = server.pool.primary()?;
                connection.probe(PATIENCE).await.err().map(|error| error.to_string())
            }
            _ => None,
        }
    }

    /// Why a provider cannot be used now, from what is known without a request.
    pub(crate) fn down(&self, one: &Instance) -> Option<Skip> {
        match (&one.spec.kind, &one.rest) {
            (ProviderKind::Unknown(kind), _) => {
                return Some(Skip::Missing {
                    what: format!("this gateway does not know the provider kind `{kind}`"),
                });
            }
            (_, Some(Err(error))) => return Some(Skip::Missing { what: error.to_string() }),
            (ProviderKind::OpenAi { .. }, _) if self.terms().routing.assistant.is_none() => {
                return Some(Skip::Missing { what: "no `llm` is configured".into() });
            }
            (ProviderKind::Mcp { server, .. }, _) => {
                match self.servers().get(server).map(ManagedServer::state) {
                    None => return Some(Skip::Missing { what: format!("there is no server `{server}`") }),
                    Some(ServerState::Connected | ServerState::Connecting | ServerState::Disconnected) => {}
                    Some(state) => {
                        let why = state.problem().map(|problem| problem.message.clone());
                        let why = why.unwrap_or_else(|| format!("server `{server}` is {}", state.as_str()));
                        return Some(Skip::Unhealthy { why });
                    }
                }
            }
            _ => {}
        }
        one.wrong().map(|why| Skip::Unhealthy { why })
    }

    /// Whether a provider's server is still connecting, so that a call would have to wait.
    pub(crate) fn is_connecting(&self, one: &Instance) -> bool {
        let ProviderKind::Mcp { server, .. } = &one.spec.kind else { return false };
        matches!(self.servers().get(server).map(ManagedServer::state), Some(ServerState::Connecting))
    }
}
