//! Cross-origin requests (CORS): preflight responses, and the headers that let a page read a response.
//!
//! Only for origins that the guard has accepted. Each origin is named, never `*`, and browser credentials such as
//! cookies are not allowed: a page sends its token explicitly.

use crate::body::ResponseBody;
use crate::identify::{COMPLIANCE_HEADER, PERSONA_HEADER, SESSION_HEADER};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use std::fmt::Write;

/// Methods of all endpoints together. Each endpoint refuses those that it does not support.
const METHODS: &str = "GET, HEAD, POST, DELETE";
/// Headers that a page may send, besides those that begin with [`MCP`] and the gateway's own.
const HEADERS: &str = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, \
                       mcp-name, last-event-id, if-none-match";
/// Prefix of the protocol's headers. Headers that mirror arguments have names that only the tool knows.
const MCP: &str = "mcp-";
/// Maximum number of additional headers that a preflight response allows.
const MAX_MORE: usize = 64;
/// Response headers that a page may read.
const EXPOSED: &str = "mcp-session-id, www-authenticate, etag, retry-after";
/// How many seconds a browser may cache a preflight response.
const MAX_AGE: &str = "600";

/// The response to a preflight from this origin; `None` if the request is not a preflight.
pub(crate) fn preflight(
    method: &Method,
    headers: &HeaderMap,
    origin: &HeaderValue,
) -> Option<Response<ResponseBody>> {
    if *method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(headers));
    answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    name_origin(answer, origin.clone());
    Some(response)
}

/// Lets a page of this origin read the response. Does nothing for a request without an origin.
pub(crate) fn readable_by(
    origin: Option<HeaderValue>,
    mut response: Response<ResponseBody>,
) -> Response<ResponseBody> {
    if let Some(origin) = origin {
        response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        name_origin(response.headers_mut(), origin);
    }
    response
}

fn name_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    // Appended, because the response may already vary by other headers.
    headers.append(VARY, HeaderValue::from_static("origin"));
}

/// The usual headers, the gateway's own, and the protocol headers that the page asks for.
fn allowed_headers(headers: &HeaderMap) -> HeaderValue {
    let mut allowed = HEADERS.to_owned();
    let own = [&PERSONA_HEADER, &COMPLIANCE_HEADER, &SESSION_HEADER].map(HeaderName::as_str);
    let asked = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let asked = asked.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    // Only valid header names are repeated.
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
    fn only_the_page_that_asked_may_read_a_response() {
        let mut varying = Response::new(ResponseBody::empty());
        varying.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        let response = readable_by(Some(page()), varying);
        assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], page());
        let exposed = response.headers()[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().expect("ASCII");
        assert!(exposed.split(", ").any(|name| name == "mcp-session-id"), "{exposed}");
        assert_eq!(response.headers().get_all(VARY).iter().count(), 2);
        assert!(readable_by(None, Response::new(ResponseBody::empty())).headers().is_empty());
    }
}
