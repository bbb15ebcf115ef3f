//! Requests that only the owner of a gateway in `local` mode may make, because they decide what runs with the owner's
//! rights (ADR 33).
//!
//! Such a request comes over the control socket, or from the console in a browser that `toolbooth console` opened. Other
//! requests over TCP may come from any program of the user, also from a tool that sends requests for a model.

use super::RestState;
use crate::peer::Ingress;
use crate::peer_info::PeerInfo;
use http::Method;
use http::request::Parts;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_engine::RefusedAttempt;

/// Refuses, and records, a request that may not come from the owner in person.
pub(super) fn check(parts: &Parts, rest: &RestState, refusal: Problem) -> Result<(), Problem> {
    let via = parts.extensions.get::<PeerInfo>().map(PeerInfo::via).unwrap_or_default();
    let browsers = &rest.owner_browsers;
    let is_from_browser = match parts.method {
        Method::GET => browsers.reads(&parts.headers, via),
        _ => browsers.sent(&parts.headers, via),
    };
    if via == Ingress::Control || is_from_browser {
        return Ok(());
    }
    record(parts, rest, refusal.code);
    Err(refusal)
}

/// Records a refused request in the audit.
pub(super) fn record(parts: &Parts, rest: &RestState, code: &'static str) {
    let user = parts.extensions.get::<Arc<Caller>>().map(|caller| &*caller.user);
    let source = parts.extensions.get::<PeerInfo>().map(PeerInfo::source).unwrap_or_default();
    let noun = parts.uri.path().split('/').nth(1).unwrap_or_default();
    let attempt = format!("{} /{noun}", parts.method);
    let attempt = RefusedAttempt { code, source: &source, user, attempt: &attempt };
    rest.engine().audit().record_refusal(attempt);
}

impl RestState {
    /// Whether only the user who runs the gateway can reach it over TCP: `local` mode, with `auth.local_users: own`.
    pub(crate) fn is_owners_alone(&self) -> bool {
        self.front_end.authenticator.checks_peer_user()
    }
}
