//! Audit rows of sign-ins to the console, of sign-outs, and of sign-ins that failed.

use crate::peer_info::PeerInfo;
use crate::rest::RestState;
use http::Extensions;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::fault::Problem;
use toolbooth_engine::{Act, RefusedAttempt, SessionCredential};

/// The attempt in the audit row of a failed sign-in at the identity provider.
const PROVIDER_SIGN_IN: &str = "sign-in to the console at the identity provider";

/// A session began or ended at the will of its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionChange {
    /// The user signed in.
    SignedIn,
    /// The user signed out.
    SignedOut,
}

impl SessionChange {
    fn outcome(self) -> &'static str {
        match self {
            Self::SignedIn => "signed-in",
            Self::SignedOut => "signed-out",
        }
    }
}

/// Writes the audit row of a sign-in or a sign-out. `source` is the peer of the request.
pub(super) async fn record(
    rest: &RestState,
    change: SessionChange,
    (user, credential): (&str, &SessionCredential),
    source: &str,
) -> Result<(), Problem> {
    let method = match credential {
        SessionCredential::Token(_) => "token",
        SessionCredential::IdToken(_) | SessionCredential::Renewable(_) => "provider",
        SessionCredential::Proxy => "proxy",
    };
    let act = Act::new(AuditKind::Session, user, change.outcome());
    rest.engine().audit().record_act(act.with(&[("method", method), ("source", source)])).await
}

/// Records a failed sign-in at the identity provider. Repetitions from one address are counted, not written one by one.
pub(super) fn record_failure(rest: &RestState, code: &'static str, source: &str) {
    let attempt = PROVIDER_SIGN_IN;
    rest.engine().audit().record_refusal(RefusedAttempt { code, source, user: None, attempt });
}

/// The peer of a request, for people.
pub(super) fn source_of(extensions: &Extensions) -> String {
    extensions.get::<PeerInfo>().map(PeerInfo::source).unwrap_or_default()
}
