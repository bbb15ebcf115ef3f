//! Stage 1, identify: who calls. No request names its caller; the door finds out.

use std::sync::Arc;
use toolbooth_core::caller::Caller;

/// How callers are recognised.
#[derive(Debug, Clone)]
pub enum Identity {
    /// Everyone who can reach the door is the owner of the gateway; only for loopback doors.
    Local(Arc<Caller>),
}

impl Identity {
    /// A gateway that only its owner can reach.
    pub fn local(user: &str) -> Self {
        Self::Local(Arc::new(Caller::owner(user)))
    }

    /// The caller of a request.
    pub fn caller(&self) -> Arc<Caller> {
        match self {
            Self::Local(owner) => owner.clone(),
        }
    }
}
