//! The conversation a request belongs to, where its client names one: its session, on every door.

use http::{HeaderMap, HeaderName};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};

/// The header by which a client names its conversation.
pub static SESSION_HEADER: HeaderName = HeaderName::from_static("toolbooth-session");
/// The longest name a session may have.
pub const MAX_SESSION: usize = 128;

/// Whether a session may have this name.
pub fn is_session(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_SESSION && !name.chars().any(char::is_control)
}

/// The caller in the conversation that the headers name, or as before where they name none.
pub fn in_conversation(caller: Arc<Caller>, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
    if !headers.contains_key(&SESSION_HEADER) {
        return Ok(caller);
    }
    match super::one(headers, &SESSION_HEADER) {
        Ok(Some(name)) if is_session(name) => {
            Ok(Arc::new(Caller { session: Some(name.into()), ..Caller::clone(&caller) }))
        }
        _ => Err(Problem {
            code: "request.bad-session",
            blame: Blame::Caller,
            message: format!(
                "`Toolbooth-Session` names a session by 1 to {MAX_SESSION} printable characters, once"
            ),
            hint: None,
        }),
    }
}
