//! Cross-origin requests (CORS): the answer to a preflight, and the headers by which a page may read an answer.
//!
//! Only for origins that the guard has admitted. Each is named as it is, never as `*`, and browsers send no cookies or
//! other credentials of their own: a page shows its token itself.

use crate::body::Body;
use crate::identify::{COMPLIANCE_HEADER, PERSONA_HEADER, SESSION_HEADER};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use std::fmt::Write;

/// Methods of all endpoints together; each refuses those that it does not answer to.
const METHODS: &str = "GET, HEAD, POST, DELETE";
/// Headers that a page may send, beside those that begin with [`MCP`] and the gateway's own.
const HEADERS: &str = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, \
                       mcp-name, last-event-id, if-none-match";
/// Headers of the protocol begin so. Those that mirror arguments have names that only the tool knows.
const MCP: &str = "mcp-";
/// The most headers beyond the usual ones that one preflight is answered for.
const MAX_MORE: usize = 64;
/// Headers of an answer that a page may read.
const EXPOSED: &str = "mcp-session-id, www-authenticate, etag, retry-after";
/// How many seconds a browser may remember an answer to a preflight.
const MAX_AGE: &str = "600";

/// The answer to a preflight of a page of this origin; nothing if the request is not a preflight.
pub(crate) fn preflight(
    method: &Method,
    headers: &HeaderMap,
    origin: &HeaderValue,
) -> Option<Response<Body>> {
    if *method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(headers));
    answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    name_origin(answer, origin.clone());
    Some(response)
}

/// The answer to a request, which a page of this origin may read. Without an origin there is no page to tell.
pub(crate) fn readable_by(origin: Option<HeaderValue>, mut response: Response<Body>) -> Response<Body> {
    if let Some(origin) = origin {
        response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        name_origin(response.headers_mut(), origin);
    }
    response
}

fn name_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    // Added, not replaced: an answer may vary by more.
    headers.append(VARY, HeaderValue::from_static("origin"));
}

/// The usual headers, the gateway's own, and those of the protocol that the page asks for.
fn allowed_headers(headers: &HeaderMap) -> HeaderValue {
    let mut allowed = HEADERS.to_owned();
    let own = [&PERSONA_HEADER, &COMPLIANCE_HEADER, &SESSION_HEADER].map(HeaderName::as_str);
    let asked = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let asked = asked.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    // Only what can be a header's name is repeated.
    let asked = asked.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    let asked: Vec<HeaderName> = asked.filter(|name| name.as_str().starts_with(MCP)).take(MAX_MORE).collect();
    for name in own.into_iter().chain(asked.iter().map(HeaderName::as_str)) {
        let _ = write!(allowed, ", {name}");
    }
    HeaderValue::try_from(allowed).unwrap_or_else(|_| HeaderValue::from_static(HEADERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> HeaderValue {
        HeaderValue::from_static("https://app.example")
    }

    fn asking(method: &str, names: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_str(method).expect("ASCII"));
        for name in names {
            headers.append(ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(name));
        }
        headers
    }

    #[test]
    fn a_preflight_names_the_origin_and_the_headers_of_the_protocol() {
        let asked = ["Content-Type, mcp-param-region,x-proxy-secret", "Mcp-Param-Team, mcp bad"];
        let headers = asking("POST", &asked);
        let response = preflight(&Method::OPTIONS, &headers, &page()).expect("a preflight");
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        let shown = |name: HeaderName| response.headers()[name].to_str().expect("ASCII").to_owned();
        assert_eq!(shown(ACCESS_CONTROL_ALLOW_ORIGIN), "https://app.example");
        assert_eq!(shown(VARY), "origin");
        assert!(shown(ACCESS_CONTROL_ALLOW_METHODS).contains("POST"));
        assert!(!response.headers().contains_key("access-control-allow-credentials"));
        let allowed = shown(ACCESS_CONTROL_ALLOW_HEADERS);
        let allowed: Vec<&str> = allowed.split(", ").collect();
        for name in [
            "authorization",
            "content-type",
            "mcp-session-id",
            "mcp-protocol-version",
            "mcp-method",
            "mcp-name",
            "mcp-param-region",
            "mcp-param-team",
            "x-toolbooth-persona",
            "toolbooth-session",
        ] {
            assert!(allowed.contains(&name), "{name}: {allowed:?}");
        }
        let is_refused = |name: &&str| matches!(*name, "*" | "x-proxy-secret" | "mcp bad");
        assert!(!allowed.iter().any(is_refused), "{allowed:?}");
    }

    #[test]
    fn other_requests_are_not_preflights() {
        assert!(preflight(&Method::POST, &asking("POST", &[]), &page()).is_none());
        assert!(preflight(&Method::OPTIONS, &HeaderMap::new(), &page()).is_none());
    }

    #[test]
    fn an_answer_is_readable_by_the_page_that_asked_alone() {
        let mut varying = Response::new(Body::empty());
        varying.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        let response = readable_by(Some(page()), varying);
        assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], page());
        let exposed = response.headers()[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().expect("ASCII");
        assert!(exposed.split(", ").any(|name| name == "mcp-session-id"), "{exposed}");
        assert_eq!(response.headers().get_all(VARY).iter().count(), 2);
        assert!(readable_by(None, Response::new(Body::empty())).headers().is_empty());
    }
}
