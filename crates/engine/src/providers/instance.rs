//! The state of one provider of one tool: its circuit breaker, its last health check, its queue.

use super::call_queue::CallQueue;
use super::{locked, random_fraction};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolbooth_core::manifest::{ProviderKind, ProviderSpec};
use toolbooth_core::provider::{Breaker, BreakerPass, Skip};
use toolbooth_upstream::rest_tool::{Private, RestTool, TemplateError};

/// A failed health check is repeated after this time, so that a recovered provider is soon used again.
const SOON: Duration = Duration::from_secs(5);

/// One provider of one tool.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) spec: ProviderSpec,
    breaker: Mutex<Breaker>,
    health: Mutex<CheckState>,
    pub(crate) queue: Arc<CallQueue>,
    /// The HTTP request that the provider makes, for providers of kind `http`.
    pub(crate) rest: Option<Result<RestTool, TemplateError>>,
}

#[derive(Debug, Default, Clone)]
struct CheckState {
    /// The problem that the last check found.
    wrong: Option<String>,
    checked_ms: Option<u64>,
}

impl Instance {
    pub(crate) fn new(spec: ProviderSpec) -> Self {
        let rest = match &spec.kind {
            ProviderKind::Http(request) => {
                let private = if request.allow_private { Private::Allowed } else { Private::Refused };
                Some(RestTool::new(request, private))
            }
            _ => None,
        };
        Self { spec, breaker: Mutex::default(), health: Mutex::default(), queue: Arc::default(), rest }
    }

    /// Admits one attempt, or says why the provider is skipped now.
    pub(crate) fn admit(self: &Arc<Self>, now_ms: u64) -> Result<ProviderAttempt, Skip> {
        let mut breaker = locked(&self.breaker);
        match breaker.admit(now_ms) {
            Some(pass) => Ok(ProviderAttempt { instance: self.clone(), pass: Some(pass), now_ms }),
            None => Err(breaker_reason(&breaker, now_ms)),
        }
    }

    /// Why the circuit breaker would not admit a call now; `None` if it would.
    pub(crate) fn skip_reason(&self, now_ms: u64) -> Option<Skip> {
        let breaker = locked(&self.breaker);
        (!breaker.would_admit(now_ms)).then(|| breaker_reason(&breaker, now_ms))
    }

    /// The problem that the last health check found.
    pub(crate) fn wrong(&self) -> Option<String> {
        locked(&self.health).wrong.clone()
    }

    /// Whether a health check is due.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let interval = self.spec.health_check_interval;
        if interval.is_zero() {
            return false;
        }
        let health = locked(&self.health);
        let interval = if health.wrong.is_some() { interval.min(SOON) } else { interval };
        let interval = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        health.checked_ms.is_none_or(|at| now_ms.saturating_sub(at) >= interval)
    }

    /// Records the start of a health check, so that no second one starts.
    pub(crate) fn check_begins(&self, now_ms: u64) {
        locked(&self.health).checked_ms = Some(now_ms);
    }

    /// Records the result of a health check. The circuit breaker is unchanged: a successful check is not a served
    /// call.
    pub(crate) fn checked(&self, wrong: Option<String>) {
        locked(&self.health).wrong = wrong;
    }

    /// A copy of the circuit breaker.
    pub(crate) fn breaker(&self) -> Breaker {
        locked(&self.breaker).clone()
    }
}

fn breaker_reason(breaker: &Breaker, now_ms: u64) -> Skip {
    match breaker.backoff_until_ms() {
        Some(until) => Skip::Open { retry_in_ms: until.saturating_sub(now_ms) },
        None => Skip::OnTrial,
    }
}

/// One attempt on a provider. Dropped without an outcome, it counts neither as a success nor as a failure.
#[derive(Debug)]
pub(crate) struct ProviderAttempt {
    instance: Arc<Instance>,
    pass: Option<BreakerPass>,
    now_ms: u64,
}

impl ProviderAttempt {
    /// The provider answered.
    pub(crate) fn succeeded(mut self) {
        if let Some(pass) = self.pass.take() {
            locked(&self.instance.breaker).succeeded(pass);
        }
    }

    /// The provider failed.
    pub(crate) fn failed(mut self, now_ms: u64) {
        if let Some(pass) = self.pass.take() {
            locked(&self.instance.breaker).failed(pass, now_ms, random_fraction());
        }
    }
}

impl Drop for ProviderAttempt {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            locked(&self.instance.breaker).abandoned(pass, self.now_ms);
        }
    }
}
