//! One provider of one tool, as it lives: its breaker, its last health check, its turns.

use super::turns::Turns;
use super::{dice, locked};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolbooth_core::manifest::{ProviderKind, ProviderSpec};
use toolbooth_core::provider::{Breaker, Pass, Skip};
use toolbooth_upstream::rest_tool::{Private, RestTool, TemplateError};

/// A check that failed is repeated this soon, so that a provider that is back is used again.
const SOON: Duration = Duration::from_secs(5);

/// One provider of one tool.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) spec: ProviderSpec,
    breaker: Mutex<Breaker>,
    health: Mutex<Health>,
    pub(crate) turns: Arc<Turns>,
    /// The request it makes, where it makes one.
    pub(crate) rest: Option<Result<RestTool, TemplateError>>,
}

#[derive(Debug, Default, Clone)]
struct Health {
    /// What the last check found wrong.
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
        Self { spec, breaker: Mutex::default(), health: Mutex::default(), turns: Arc::default(), rest }
    }

    /// The right to try it, or why not now.
    pub(crate) fn admit(self: &Arc<Self>, now_ms: u64) -> Result<Trial, Skip> {
        let mut breaker = locked(&self.breaker);
        match breaker.admit(now_ms) {
            Some(pass) => Ok(Trial { instance: self.clone(), pass: Some(pass), now_ms }),
            None => Err(closed_reason(&breaker, now_ms)),
        }
    }

    /// Why its breaker would not let a call through, if so.
    pub(crate) fn standing(&self, now_ms: u64) -> Option<Skip> {
        let breaker = locked(&self.breaker);
        (!breaker.would_admit(now_ms)).then(|| closed_reason(&breaker, now_ms))
    }

    /// What its last health check found wrong.
    pub(crate) fn wrong(&self) -> Option<String> {
        locked(&self.health).wrong.clone()
    }

    /// Whether it is time to look at it.
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

    /// Notes when a health check begins, so that no second one does.
    pub(crate) fn check_begins(&self, now_ms: u64) {
        locked(&self.health).checked_ms = Some(now_ms);
    }

    /// Notes what a health check found. The breaker is not touched: a sign of life is not a served call.
    pub(crate) fn checked(&self, wrong: Option<String>) {
        locked(&self.health).wrong = wrong;
    }

    /// A picture of its breaker.
    pub(crate) fn breaker(&self) -> Breaker {
        locked(&self.breaker).clone()
    }
}

fn closed_reason(breaker: &Breaker, now_ms: u64) -> Skip {
    match breaker.backoff_until_ms() {
        Some(until) => Skip::Open { retry_in_ms: until.saturating_sub(now_ms) },
        None => Skip::OnTrial,
    }
}

/// One try of a provider. Dropped without an outcome, it was taken back: nobody's fault.
#[derive(Debug)]
pub(crate) struct Trial {
    instance: Arc<Instance>,
    pass: Option<Pass>,
    now_ms: u64,
}

impl Trial {
    /// The provider answered.
    pub(crate) fn succeeded(mut self) {
        if let Some(pass) = self.pass.take() {
            locked(&self.instance.breaker).succeeded(pass);
        }
    }

    /// The provider failed.
    pub(crate) fn failed(mut self, now_ms: u64) {
        if let Some(pass) = self.pass.take() {
            locked(&self.instance.breaker).failed(pass, now_ms, dice());
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            locked(&self.instance.breaker).abandoned(pass, self.now_ms);
        }
    }
}
