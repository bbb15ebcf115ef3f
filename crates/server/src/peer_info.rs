//! The peer of a connection, as requests see it.

use crate::connections::ConnectionSlot;
use crate::peer::{Ingress, PeerUser};
use http::Method;
use std::sync::{Arc, OnceLock};
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};

/// What is known about the peer of a connection before its first request.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    via: Ingress,
    user: Option<PeerUser>,
    slot: Option<Arc<ConnectionSlot>>,
    /// Receives the name of the request's caller, for the access log.
    caller_name: Option<Arc<OnceLock<Arc<str>>>>,
}

impl PeerInfo {
    /// The peer that connected by `via`. `user` is set if the kernel was asked, `slot` if the connection is counted.
    pub(crate) fn new(via: Ingress, user: Option<PeerUser>, slot: Option<Arc<ConnectionSlot>>) -> Self {
        Self { via, user, slot, caller_name: None }
    }

    /// The same peer for one request, which reports the name of its caller.
    pub(crate) fn reporting_caller(self, name: Arc<OnceLock<Arc<str>>>) -> Self {
        Self { caller_name: Some(name), ..self }
    }

    /// How the peer reached the gateway.
    pub fn via(&self) -> Ingress {
        self.via
    }

    /// The peer's address or user, for people.
    pub fn source(&self) -> String {
        match (self.via, self.user) {
            (_, Some(PeerUser::Uid(uid))) => format!("uid {uid}"),
            (Ingress::Network(address), _) => address.to_string(),
            (Ingress::Control, _) => "control socket".into(),
            (Ingress::Inside, _) => "inside".into(),
        }
    }

    /// Counts the connection towards this caller's quota.
    pub fn assign_to(&self, caller: &Caller) -> Result<(), Problem> {
        if let Some(name) = &self.caller_name {
            let _ = name.set(caller.user.clone());
        }
        let Some(slot) = &self.slot else { return Ok(()) };
        slot.assign_to(&caller.user).map_err(|_| Problem {
            code: "request.too-many-connections",
            blame: Blame::Caller,
            message: "you have too many connections open".into(),
            hint: Some("close some, or send several requests over one connection".into()),
        })
    }

    /// The connection's place among the counted ones.
    pub(crate) fn slot(&self) -> Option<&Arc<ConnectionSlot>> {
        self.slot.as_ref()
    }

    /// Whether the peer is the gateway's own user or root. Always false for a remote peer.
    pub(crate) fn is_own_user(&self) -> bool {
        self.via == Ingress::Control || self.user.is_some_and(PeerUser::is_own)
    }
}

/// The attempted request, for the audit log. Only the first segment of the path: the rest may be a secret.
pub(crate) fn attempt(method: &Method, path: &str) -> String {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let first: String = first.chars().take(32).collect();
    format!("{method} /{first}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_log_shows_only_the_first_segment_of_a_path() {
        let cases = [
            ("/files/download/v1.secret", "GET /files"),
            ("/mcp", "GET /mcp"),
            ("/", "GET /"),
            ("//evil", "GET /evil"),
        ];
        for (path, expected) in cases {
            assert_eq!(attempt(&Method::GET, path), expected, "{path}");
        }
    }
}
