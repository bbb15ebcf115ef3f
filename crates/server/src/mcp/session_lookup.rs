//! Opens and finds the sessions of legacy clients, and applies their notifications.

use super::FrontEndState;
use super::client::legacy_facts;
use super::moved_session::SessionUnreadable;
use super::responses::failure;
use super::session::LegacySession;
use crate::body::ResponseBody;
use http::{HeaderMap, Response, StatusCode};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError};
use toolbooth_wire::meta::unsupported_version;
use toolbooth_wire::{Id, Notification, Revision, mirror};

/// Reads an `initialize` request into a session.
pub(super) fn open_session(
    caller: &Arc<Caller>,
    request: &toolbooth_wire::Request,
) -> Result<Arc<LegacySession>, RpcError> {
    let invalid = |why: &str| RpcError::new(INVALID_PARAMS, format!("Invalid params: {why}"));
    let params = request.params.as_ref().ok_or_else(|| invalid("`protocolVersion` is missing"))?;
    let version = params.member("protocolVersion");
    let version =
        version.as_ref().and_then(RawJson::string).ok_or_else(|| invalid("`protocolVersion` is missing"))?;
    LegacySession::new(caller, Revision::negotiate(&version), legacy_facts(params)?)
        .ok_or_else(|| invalid("the system has no randomness for a session id"))
}

/// Applies a legacy client's notification to its session. Returns the id of a request that it cancels and that does not
/// run here.
pub(super) fn apply_notification(session: &LegacySession, notification: &Notification) -> Option<Id> {
    if notification.method == "notifications/roots/list_changed" {
        session.folder.ask_again();
    }
    if notification.method != "notifications/cancelled" {
        return None;
    }
    let id = notification.params.as_ref()?.member("requestId")?;
    Id::from_raw(&id).filter(|id| !session.cancel(id))
}

/// The session that a message names, or the error response. `request` is the id of the message if it is a request. The
/// store is asked only for a session that this gateway does not know.
pub(super) async fn session_of(
    front_end: &Arc<FrontEndState>,
    caller: &Arc<Caller>,
    headers: &HeaderMap,
    request: Option<&Id>,
) -> Result<Arc<LegacySession>, Box<Response<ResponseBody>>> {
    let Some(id) = headers.get(&mirror::SESSION_ID) else {
        let error = RpcError::new(
            INVALID_REQUEST,
            "Invalid Request: the Mcp-Session-Id header is missing; start with `initialize`, or send the modern `_meta`",
        );
        return Err(Box::new(failure(StatusCode::BAD_REQUEST, request, &error)));
    };
    if let Some(version) = headers.get(&mirror::PROTOCOL_VERSION)
        && !version.to_str().is_ok_and(|version| Revision::from_name(version).is_some())
    {
        let error = unsupported_version(&String::from_utf8_lossy(version.as_bytes()));
        return Err(Box::new(failure(StatusCode::BAD_REQUEST, request, &error)));
    }
    let id = id.to_str().unwrap_or_default();
    if let Some(session) = front_end.sessions.get(id, caller) {
        return Ok(session);
    }
    match Box::pin(front_end.adopt_session(id, caller)).await {
        Ok(Some(session)) => Ok(session),
        Ok(None) => {
            let error = RpcError::new(INVALID_REQUEST, "Session not found; start with `initialize`");
            Err(Box::new(failure(StatusCode::NOT_FOUND, request, &error)))
        }
        Err(SessionUnreadable) => {
            let error =
                RpcError::new(INTERNAL_ERROR, "the session cannot be looked up at the moment; try again");
            Err(Box::new(failure(StatusCode::SERVICE_UNAVAILABLE, request, &error)))
        }
    }
}
