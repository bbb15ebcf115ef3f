//! The conversation a request belongs to, where its client names one: its session, on every door.

use http::{HeaderMap, HeaderName};
use std::sync::Arc;
use toolbooth_core::caller::{Caller, Carried};
use toolbooth_core::fault::{Blame, Problem};

/// The header by which a client names its conversation.
pub static SESSION_HEADER: HeaderName = HeaderName::from_static("toolbooth-session");
/// The longest name a session may have.
pub const MAX_SESSION: usize = 128;

/// The longest header that is passed on to a server.
const MAX_CARRIED: usize = 8 * 1024;

/// The caller with those headers of the request that some server wants to be passed on.
pub fn carrying(wanted: Option<&[String]>, caller: Arc<Caller>, headers: &HeaderMap) -> Arc<Caller> {
    let Some(wanted) = wanted else { return caller };
    let value = |name: &String| {
        let mut values = headers.get_all(name.as_str()).iter();
        let value = values.next().filter(|value| value.len() <= MAX_CARRIED)?.to_str().ok()?;
        // One that comes twice could mean one thing here and another there.
        values.next().is_none().then(|| (name.clone(), value.to_owned()))
    };
    let carried: Vec<(String, String)> = wanted.iter().filter_map(value).collect();
    if carried.is_empty() {
        return caller;
    }
    Arc::new(Caller { carried: Carried::of(carried), ..Caller::clone(&caller) })
}

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
