//! The session that a client names in a header, and the headers that are forwarded to servers.

use http::{HeaderMap, HeaderName};
use std::sync::Arc;
use toolbooth_core::caller::{Caller, ForwardedHeaders};
use toolbooth_core::fault::{Blame, Problem};

/// The header that names the client's session.
pub static SESSION_HEADER: HeaderName = HeaderName::from_static("toolbooth-session");
/// Maximum length of a session name, in bytes.
pub const MAX_SESSION: usize = 128;

/// Maximum length of a header value that is forwarded to a server.
const MAX_FORWARDED: usize = 8 * 1024;

/// The caller with those headers of the request that some server wants forwarded.
pub fn with_forwarded_headers(
    wanted: Option<&[String]>,
    caller: Arc<Caller>,
    headers: &HeaderMap,
) -> Arc<Caller> {
    let Some(wanted) = wanted else { return caller };
    let value = |name: &String| {
        let mut values = headers.get_all(name.as_str()).iter();
        let value = values.next().filter(|value| value.len() <= MAX_FORWARDED)?.to_str().ok()?;
        // A repeated header could be interpreted differently by the gateway and the server.
        values.next().is_none().then(|| (name.clone(), value.to_owned()))
    };
    let forwarded: Vec<(String, String)> = wanted.iter().filter_map(value).collect();
    if forwarded.is_empty() {
        return caller;
    }
    Arc::new(Caller { forwarded: ForwardedHeaders::of(forwarded), ..Caller::clone(&caller) })
}

/// Whether a session may have this name.
pub fn is_session(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_SESSION && !name.chars().any(char::is_control)
}

/// The caller with the session that the headers name, if any.
pub fn with_session(caller: Arc<Caller>, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
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
                "the header `Toolbooth-Session` must be given once, with 1 to {MAX_SESSION} printable characters"
            ),
            hint: None,
        }),
    }
}
