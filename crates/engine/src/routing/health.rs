//! Health checks: providers are looked at on a timer of their own, whether or not anybody calls.
//!
//! A check that fails keeps calls away until one succeeds; it never closes a breaker, as a sign of life is not a
//! served call.

use super::{Instance, TICK};
use crate::engine::{Engine, Managed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use toolbooth_core::fault::Problem;
use toolbooth_core::manifest::ProviderKind;
use toolbooth_core::provider::Skip;
use toolbooth_upstream::ServerState;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many checks go on at once.
const AT_ONCE: usize = 8;

/// Looks after the health of all providers until the engine is gone.
pub(super) fn watch(engine: Weak<Engine>) {
    tokio::spawn(async move {
        let seats = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            tokio::time::sleep(TICK).await;
            let Some(engine) = engine.upgrade() else { return };
            let now_ms = engine.routing().now_ms();
            for one in engine.routing().instances() {
                if !one.is_due(now_ms) {
                    continue;
                }
                let Ok(seat) = seats.clone().try_acquire_owned() else { break };
                one.check_begins(now_ms);
                let engine = Arc::downgrade(&engine);
                tokio::spawn(async move {
                    let _seat = seat;
                    let Some(engine) = engine.upgrade() else { return };
                    let checked = tokio::time::timeout(PATIENCE, engine.check(&one)).await;
                    let wrong = checked.unwrap_or_else(|_| Some("no answer in time".into()));
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
    /// Looks at a provider; what is wrong, if anything is.
    async fn check(&self, one: &Instance) -> Option<String> {
        match (&one.spec.kind, &one.rest) {
            (_, Some(Ok(rest))) => rest.probe().await.err().map(|error| Problem::of(&error).message),
            (ProviderKind::Mcp { server, .. }, _) => {
                let server = self.server(server).ok()?;
                // One that is not connected shows that by its state, and nobody starts one to look at it.
                let connection = server.pool.primary()?;
                connection.probe(PATIENCE).await.err().map(|error| error.to_string())
            }
            _ => None,
        }
    }

    /// Why a provider cannot be asked now, by what is known without asking.
    pub(crate) fn down(&self, one: &Instance) -> Option<Skip> {
        match (&one.spec.kind, &one.rest) {
            (ProviderKind::Unknown(kind), _) => {
                return Some(Skip::Missing { what: format!("this gateway knows no provider `{kind}`") });
            }
            (_, Some(Err(error))) => return Some(Skip::Missing { what: error.to_string() }),
            (ProviderKind::OpenAi { .. }, _) if self.terms().routing.assistant.is_none() => {
                return Some(Skip::Missing { what: "no `llm` is configured".into() });
            }
            (ProviderKind::Mcp { server, .. }, _) => match self.servers().get(server).map(Managed::state) {
                None => return Some(Skip::Missing { what: format!("there is no server `{server}`") }),
                Some(ServerState::Connected | ServerState::Connecting | ServerState::Disconnected) => {}
                Some(state) => {
                    let why = state.problem().map(|problem| problem.message.clone());
                    let why = why.unwrap_or_else(|| format!("server `{server}` is {}", state.as_str()));
                    return Some(Skip::Unhealthy { why });
                }
            },
            _ => {}
        }
        one.wrong().map(|why| Skip::Unhealthy { why })
    }

    /// Whether a provider's server is still on its way, so that a call there would wait.
    pub(crate) fn is_warming(&self, one: &Instance) -> bool {
        let ProviderKind::Mcp { server, .. } = &one.spec.kind else { return false };
        matches!(self.servers().get(server).map(Managed::state), Some(ServerState::Connecting))
    }
}
