//! The first look at a request: may it come from where it says, to whom it says?
//!
//! A web page must not reach a gateway on its visitor's machine, neither directly (Origin, Sec-Fetch-Site) nor by
//! making its own name point here (Host). A page of another port of this machine is as foreign as any other.

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use std::net::{IpAddr, SocketAddr};

static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
static FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Which hosts and origins are ours.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Host names the gateway answers to besides loopback ones, without port.
    hosts: Vec<String>,
    /// Web origins that may call it, whole and in lower case: its own and configured ones.
    origins: Vec<String>,
}

/// Why a request was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnedAway {
    /// The HTTP status.
    pub status: StatusCode,
    /// The fault's code.
    pub code: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// Whether pages elsewhere may show what is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embedding {
    /// Allowed: the URL is the credential.
    Allowed,
    /// They may not.
    Refused,
}

impl Guard {
    /// A gateway that listens at `address`, is reached by `public_url`, answers to `hosts` and admits `origins`.
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

    /// Lets a request through, with the origin that it names, or says why not.
    pub fn check<'h>(
        &self,
        method: &Method,
        headers: &'h HeaderMap,
        embedding: Embedding,
    ) -> Result<Option<&'h HeaderValue>, TurnedAway> {
        let bad_host = |status, reason| Err(TurnedAway { status, code: "request.bad-host", reason });
        let mut hosts = headers.get_all(HOST).iter();
        let Some(host) = hosts.next().and_then(|host| host.to_str().ok()) else {
            return bad_host(StatusCode::BAD_REQUEST, "the Host header is missing");
        };
        if hosts.next().is_some() {
            return bad_host(StatusCode::BAD_REQUEST, "the Host header stands twice");
        }
        if !self.knows_host(without_port(host)) {
            return bad_host(StatusCode::FORBIDDEN, "the Host header names no host of this gateway");
        }
        let bad_origin =
            |reason| Err(TurnedAway { status: StatusCode::FORBIDDEN, code: "request.bad-origin", reason });
        let mut origins = headers.get_all(ORIGIN).iter();
        if let Some(origin) = origins.next() {
            let known = origin.to_str().is_ok_and(|origin| self.knows_origin(origin));
            return match known && origins.next().is_none() {
                true => Ok(Some(origin)),
                false => bad_origin("this Origin may not call the gateway"),
            };
        }
        // Browsers send no Origin with some requests of a page, but say whose page it is.
        let Some(site) = headers.get(&FETCH_SITE) else { return Ok(None) };
        if matches!(site.as_bytes(), b"same-origin" | b"none") {
            return Ok(None);
        }
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let followed = headers.get(&FETCH_MODE).is_some_and(|mode| mode == "navigate");
        match reads && (followed || embedding == Embedding::Allowed) {
            true => Ok(None),
            false => bad_origin("a page of another site may not call the gateway"),
        }
    }

    fn knows_host(&self, host: &str) -> bool {
        is_loopback(host) || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    fn knows_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

/// An origin as browsers write it: without the port that its scheme has anyway.
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
    // What nearly all requests say, before it is read as an address.
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

    fn guard() -> Guard {
        let address = SocketAddr::from(([127, 0, 0, 1], 8665));
        let public = Some("https://Booth.example/base");
        Guard::new(Some(address), public, vec!["booth.lan".into()], &["https://app.example".into()])
    }

    #[test]
    fn strangers_are_turned_away() {
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
            // H8: a page of another port of this machine is not ours.
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
    fn what_a_page_elsewhere_sends_without_an_origin_is_turned_away_too() {
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
