//! The first look at a request: may it come from where it says, to whom it says?
//!
//! A web page must not reach a gateway on its visitor's machine, neither directly (Origin) nor by
//! making its own name point here (Host).

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};

/// Which hosts and origins are ours.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Host names the gateway answers to besides loopback ones, without port.
    pub hosts: Vec<String>,
    /// Web origins that may call it, whole.
    pub origins: Vec<String>,
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

impl Guard {
    /// Lets a request through or says why not.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), TurnedAway> {
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
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let known = origin.to_str().is_ok_and(|origin| self.knows_origin(origin));
        if !known || origins.next().is_some() {
            return Err(TurnedAway {
                status: StatusCode::FORBIDDEN,
                code: "request.bad-origin",
                reason: "this Origin may not call the gateway",
            });
        }
        Ok(())
    }

    fn knows_host(&self, host: &str) -> bool {
        is_loopback(host) || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    fn knows_origin(&self, origin: &str) -> bool {
        if self.origins.iter().any(|known| known == origin) {
            return true;
        }
        // Pages of this machine, and pages of the gateway itself.
        let Ok(uri) = origin.parse::<Uri>() else { return false };
        let http = matches!(uri.scheme_str(), Some("http" | "https"));
        http && uri.authority().is_some_and(|authority| self.knows_host(authority.host()))
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
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn strangers_are_turned_away() {
        let guard =
            Guard { hosts: vec!["booth.example".into()], origins: vec!["https://app.example".into()] };
        let cases: [(&[&str], &[&str], Option<u16>); 14] = [
            (&["127.0.0.1:8665"], &[], None),
            (&["localhost"], &[], None),
            (&["[::1]:8665"], &[], None),
            (&["Booth.Example:443"], &[], None),
            (&["evil.example"], &[], Some(403)),
            (&["127.0.0.1.evil.example"], &[], Some(403)),
            (&[], &[], Some(400)),
            (&["localhost", "evil.example"], &[], Some(400)),
            (&["localhost"], &["http://localhost:3000"], None),
            (&["localhost"], &["https://app.example"], None),
            (&["localhost"], &["https://evil.example"], Some(403)),
            (&["localhost"], &["null"], Some(403)),
            (&["localhost"], &["http://localhost.evil.example"], Some(403)),
            (&["localhost"], &["http://localhost", "https://evil.example"], Some(403)),
        ];
        for (hosts, origins, expected) in cases {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_str(host).expect("ASCII"));
            }
            for origin in origins {
                headers.append(ORIGIN, HeaderValue::from_str(origin).expect("ASCII"));
            }
            let found = guard.check(&headers).err().map(|away| away.status.as_u16());
            assert_eq!(found, expected, "{hosts:?} {origins:?}");
        }
    }
}
