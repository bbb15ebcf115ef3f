//! Checks the Host and Origin headers of every request.
//!
//! A web page must not reach a gateway on its visitor's machine, neither directly (Origin, Sec-Fetch-Site) nor by
//! DNS rebinding (Host). A page on another port of this machine is as foreign as any other.

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use std::net::{IpAddr, SocketAddr};

static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
static FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The hosts and origins that the gateway accepts.
#[derive(Debug, Clone, Default)]
pub struct RequestGuard {
    /// Host names that the gateway accepts besides loopback ones, without port.
    hosts: Vec<String>,
    /// Web origins that may call the gateway, complete and in lower case: its own and configured ones.
    origins: Vec<String>,
}

/// Why a request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardRejection {
    /// The HTTP status.
    pub status: StatusCode,
    /// The fault's code.
    pub code: &'static str,
    /// The reason, for people.
    pub reason: &'static str,
}

/// Whether pages of other sites may embed a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embedding {
    /// Allowed: the URL is the credential.
    Allowed,
    /// Not allowed.
    Refused,
}

impl RequestGuard {
    /// A guard for a gateway that listens at `address`, is reached by `public_url`, and accepts `hosts` and `origins`.
    pub fn new(
        address: Option<SocketAddr>,
        public_url: Option<&str>,
        mut hosts: Vec<String>,
        origins: &[String],
    ) -> Self {
        let mut known: Vec<String> = origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        let public = public_url.and_then(|url| url.parse::<Uri>().ok());
        let authority = public.as_ref().and_then(Uri::authority);
        if let (Some(scheme), Some(authority)) = (public.as_ref().and_then(Uri::scheme_str), authority) {
            let default = if scheme == "https" { 443 } else { 80 };
            known.push(origin(scheme, authority.host(), authority.port_u16().unwrap_or(default)));
            hosts.push(authority.host().to_owned());
        }
        if let Some(address) = address {
            let ip = address.ip();
            let here = (ip.is_loopback() || ip.is_unspecified())
                .then_some(["127.0.0.1", "localhost", "[::1]"])
                .into_iter()
                .flatten();
            let named = hosts.iter().map(String::as_str).chain(here);
            known.extend(named.map(|host| origin("http", host, address.port())));
            known.push(origin("http", &written(ip), address.port()));
        }
        Self { hosts, origins: known }
    }

    /// Accepts a request and returns its Origin, if it has one, or returns why it is rejected.
    pub fn check<'h>(
        &self,
        method: &Method,
        headers: &'h HeaderMap,
        embedding: Embedding,
    ) -> Result<Option<&'h HeaderValue>, GuardRejection> {
        let bad_host = |status, reason| Err(GuardRejection { status, code: "request.bad-host", reason });
        let mut hosts = headers.get_all(HOST).iter();
        let Some(host) = hosts.next().and_then(|host| host.to_str().ok()) else {
            return bad_host(StatusCode::BAD_REQUEST, "the Host header is missing");
        };
        if hosts.next().is_some() {
            return bad_host(StatusCode::BAD_REQUEST, "the Host header is given twice");
        }
        if !self.knows_host(without_port(host)) {
            return bad_host(StatusCode::FORBIDDEN, "the Host header does not name a host of this gateway");
        }
        let bad_origin = |reason| {
            Err(GuardRejection { status: StatusCode::FORBIDDEN, code: "request.bad-origin", reason })
        };
        let mut origins = headers.get_all(ORIGIN).iter();
        if let Some(origin) = origins.next() {
            let known = origin.to_str().is_ok_and(|origin| self.knows_origin(origin));
            return match known && origins.next().is_none() {
                true => Ok(Some(origin)),
                false => bad_origin("this Origin may not call the gateway"),
            };
        }
        // Browsers omit Origin from some requests of a page, but say which site the page is from.
        let Some(site) = headers.get(&FETCH_SITE) else { return Ok(None) };
        if matches!(site.as_bytes(), b"same-origin" | b"none") {
            return Ok(None);
        }
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let followed = headers.get(&FETCH_MODE).is_some_and(|mode| mode == "navigate");
        match reads && (followed || embedding == Embedding::Allowed) {
            true => Ok(None),
            false => bad_origin("a page from another site may not call the gateway"),
        }
    }

    fn knows_host(&self, host: &str) -> bool {
        is_loopback(host) || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    fn knows_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

/// An origin as browsers write it: without the default port of its scheme.
fn origin(scheme: &str, host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    match (scheme, port) {
        ("http", 80) | ("https", 443) => format!("{scheme}://{host}"),
        _ => format!("{scheme}://{host}:{port}"),
    }
}

fn written(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn is_loopback(host: &str) -> bool {
    // Nearly all requests use this host, so skip parsing it.
    if host == "127.0.0.1" {
        return true;
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> RequestGuard {
        let address = SocketAddr::from(([127, 0, 0, 1], 8665));
        let public = Some("https://Booth.example/base");
        RequestGuard::new(Some(address), public, vec!["booth.lan".into()], &["https://app.example".into()])
    }

    #[test]
    fn foreign_hosts_and_origins_are_rejected() {
        let cases: [(&[&str], &[&str], Option<u16>); 24] = [
            (&["127.0.0.1:8665"], &[], None),
            (&["localhost"], &[], None),
            (&["[::1]:8665"], &[], None),
            (&["Booth.Example:443"], &[], None),
            (&["evil.example"], &[], Some(403)),
            (&["127.0.0.1.evil.example"], &[], Some(403)),
            (&[], &[], Some(400)),
            (&["localhost", "evil.example"], &[], Some(400)),
            (&["localhost"], &["http://localhost:8665"], None),
            (&["localhost"], &["http://127.0.0.1:8665"], None),
            (&["localhost"], &["http://[::1]:8665"], None),
            (&["localhost"], &["https://booth.example"], None),
            (&["localhost"], &["http://booth.lan:8665"], None),
            (&["localhost"], &["https://app.example"], None),
            // H8: a page on another port of this machine is foreign.
            (&["localhost"], &["http://localhost:9999"], Some(403)),
            (&["localhost"], &["http://127.0.0.1"], Some(403)),
            (&["localhost"], &["https://localhost:8665"], Some(403)),
            (&["localhost"], &["http://booth.example"], Some(403)),
            (&["localhost"], &["https://booth.example:8665"], Some(403)),
            (&["localhost"], &["https://evil.example"], Some(403)),
            (&["localhost"], &["null"], Some(403)),
            (&["localhost"], &[""], Some(403)),
            (&["localhost"], &["http://localhost.evil.example"], Some(403)),
            (&["localhost"], &["http://localhost:8665", "https://evil.example"], Some(403)),
        ];
        for (hosts, origins, expected) in cases {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_str(host).expect("ASCII"));
            }
            for origin in origins {
                headers.append(ORIGIN, HeaderValue::from_str(origin).expect("ASCII"));
            }
            let found = guard().check(&Method::GET, &headers, Embedding::Refused);
            assert_eq!(found.err().map(|away| away.status.as_u16()), expected, "{hosts:?} {origins:?}");
        }
    }

    #[test]
    fn requests_of_other_sites_without_an_origin_are_rejected() {
        let cases = [
            ("POST", "same-site", "no-cors", Embedding::Refused, true),
            ("DELETE", "cross-site", "cors", Embedding::Refused, true),
            ("POST", "cross-site", "navigate", Embedding::Refused, true), // a form
            ("POST", "cross-site", "navigate", Embedding::Allowed, true),
            ("POST", "same-origin", "cors", Embedding::Refused, false),
            ("POST", "none", "navigate", Embedding::Refused, false),
            ("GET", "cross-site", "no-cors", Embedding::Refused, true), // an image, a script
            ("GET", "cross-site", "no-cors", Embedding::Allowed, false),
            ("GET", "cross-site", "navigate", Embedding::Refused, false), // a link
            ("GET", "same-origin", "cors", Embedding::Refused, false),
        ];
        for (method, site, mode, embedding, refused) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost:8665"));
            headers.insert(&FETCH_SITE, HeaderValue::from_static(site));
            headers.insert(&FETCH_MODE, HeaderValue::from_static(mode));
            let found = guard().check(&method.parse().expect("a method"), &headers, embedding);
            assert_eq!(found.is_err(), refused, "{method} {site} {mode} {embedding:?}");
        }
    }
}
