//! Checks the URLs that discovery leads to.

use super::error::{OAuthError, clip};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// How far into private networks a request may go.
///
/// Determined by the server's own address: a server on this machine may refer to others on this machine, and
/// a server on a public network only to public addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkReach {
    /// Public addresses.
    Public,
    /// Public addresses and private networks.
    Site,
    /// Public addresses, private networks and this machine.
    Loopback,
    /// Any address: the operator configured the host.
    Configured,
}

impl NetworkReach {
    /// The reach of a server with this address.
    pub fn of(address: IpAddr) -> Self {
        match lowest_reach(address) {
            Some(reach) => reach,
            None => Self::Public,
        }
    }

    /// Whether a request with this reach may connect to `address`.
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Configured => true,
            _ => lowest_reach(address).is_some_and(|needed| needed <= self),
        }
    }
}

/// The reach required to connect to `address`. `None` for link-local (cloud metadata), multicast and reserved
/// addresses.
fn lowest_reach(address: IpAddr) -> Option<NetworkReach> {
    match address {
        IpAddr::V4(v4) => reach_of_v4(v4),
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => reach_of_v4(v4),
            None => reach_of_v6(v6),
        },
    }
}

fn reach_of_v4(v4: Ipv4Addr) -> Option<NetworkReach> {
    let [a, b, c, _] = v4.octets();
    let never = a == 0
        || v4.is_link_local()
        || v4.is_documentation()
        || a >= 224 // multicast, reserved, broadcast
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (b & 0xfe) == 18); // benchmarks
    let carrier_grade = a == 100 && (b & 0xc0) == 64;
    if never {
        None
    } else if v4.is_loopback() {
        Some(NetworkReach::Loopback)
    } else if v4.is_private() || carrier_grade {
        Some(NetworkReach::Site)
    } else {
        Some(NetworkReach::Public)
    }
}

fn reach_of_v6(v6: Ipv6Addr) -> Option<NetworkReach> {
    let first = v6.segments()[0];
    let site_local = (first & 0xffc0) == 0xfec0; // deprecated, still routed in places
    if v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local() {
        None
    } else if v6.is_loopback() {
        Some(NetworkReach::Loopback)
    } else if v6.is_unique_local() || site_local {
        Some(NetworkReach::Site)
    } else {
        Some(NetworkReach::Public)
    }
}

/// The IPv4 address in a mapped, compatible, NAT64 or 6to4 address.
fn embedded_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let last = |segments: [u16; 2]| {
        let ([a, b], [c, d]) = (segments[0].to_be_bytes(), segments[1].to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(last([high, low])),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(last([high, low])),
        [0x2002, high, low, ..] => Some(last([high, low])),
        _ => None,
    }
}

/// The server's URL and reach, which determine the rules for every other URL.
#[derive(Debug, Clone)]
pub(super) struct UrlGuard {
    server: Url,
    reach: NetworkReach,
}

impl UrlGuard {
    /// Derives the rules from `server`; `widened` is what the transport knows from resolving its name.
    pub(super) fn new(server: &str, widened: Option<NetworkReach>) -> Result<Self, OAuthError> {
        // The configured URL may contain secrets, so only its origin is shown.
        let url = usable("server url", server)
            .map_err(|_| OAuthError::InsecureUrl { what: "server url", url: origin_of(server) })?;
        let own = match url.host() {
            Some(Host::Domain(name)) if is_localhost(name) => NetworkReach::Loopback,
            Some(Host::Ipv4(v4)) => NetworkReach::of(v4.into()),
            Some(Host::Ipv6(v6)) => NetworkReach::of(v6.into()),
            _ => NetworkReach::Public,
        };
        Ok(Self { server: url, reach: widened.map_or(own, |widened| widened.max(own)) })
    }

    /// The server's own URL.
    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// The server's origin for messages.
    pub(super) fn origin(&self) -> String {
        clip(&self.server.origin().ascii_serialization())
    }

    /// Checks `url` and returns it with the reach for its request.
    pub(super) fn admit(&self, what: &'static str, url: &str) -> Result<(Url, NetworkReach), OAuthError> {
        let url = usable(what, url)?;
        if url.origin() == self.server.origin() {
            return Ok((url, NetworkReach::Configured));
        }
        let allowed = match url.host() {
            Some(Host::Domain(name)) if is_localhost(name) => self.reach >= NetworkReach::Loopback,
            Some(Host::Domain(_)) => true, // decided by the resolved address
            Some(Host::Ipv4(v4)) => self.reach.allows(v4.into()),
            Some(Host::Ipv6(v6)) => self.reach.allows(v6.into()),
            None => false,
        };
        if allowed {
            Ok((url, self.reach))
        } else {
            Err(OAuthError::BlockedAddress { what, host: clip(url.host_str().unwrap_or_default()) })
        }
    }

    /// Whether a token for `resource` is valid for this server: the origin is the same, and the server's path
    /// is within the resource's.
    pub(super) fn is_covered_by(&self, resource: &str) -> bool {
        let Some(resource) = Url::parse(resource).ok().filter(|_| is_one_word(resource)) else {
            return false;
        };
        if resource.origin() != self.server.origin() || resource.fragment().is_some() {
            return false;
        }
        let within = resource.path().trim_end_matches('/');
        match self.server.path().strip_prefix(within) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }

    /// The resource identifier of a server that publishes none.
    pub(super) fn canonical_resource(&self) -> String {
        let mut url = self.server.clone();
        url.set_fragment(None);
        url.set_query(None);
        match url.as_str().strip_suffix('/') {
            Some(bare) if url.path() == "/" => bare.into(),
            _ => url.into(),
        }
    }
}

/// Whether `uri` points to this machine, which makes the gateway a native application in OAuth terms.
pub(super) fn is_loopback(uri: &Url) -> bool {
    match uri.host() {
        Some(Host::Domain(name)) => is_localhost(name),
        Some(Host::Ipv4(v4)) => v4.is_loopback(),
        Some(Host::Ipv6(v6)) => v6.is_loopback(),
        None => false,
    }
}

/// The origin of a URL, which contains no secrets.
pub(super) fn origin_of(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "(not a URL)".into(), |url| clip(&url.origin().ascii_serialization()))
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Parsers drop or escape whitespace; text that is compared and stored unchanged must not contain any.
fn is_one_word(text: &str) -> bool {
    text.len() <= 2048 && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn usable(what: &'static str, text: &str) -> Result<Url, OAuthError> {
    let insecure = || OAuthError::InsecureUrl { what, url: clip(text) };
    let url = Url::parse(text).map_err(|_| insecure())?;
    let secure = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    let bare = url.username().is_empty() && url.password().is_none();
    if secure && bare && is_one_word(text) { Ok(url) } else { Err(insecure()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn reach_follows_from_the_address() {
        use NetworkReach::{Loopback, Public, Site};
        let cases = [
            ("93.184.216.34", Some(Public)),
            ("10.1.2.3", Some(Site)),
            ("100.64.0.1", Some(Site)),
            ("fd00::1", Some(Site)),
            ("127.0.0.9", Some(Loopback)),
            ("::1", Some(Loopback)),
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("::ffff:192.168.0.1", Some(Site)),
            ("64:ff9b::a00:1", Some(Site)),    // 10.0.0.1 behind NAT64
            ("2002:7f00:1::", Some(Loopback)), // 127.0.0.1 in a 6to4 address
            ("2606:4700::1111", Some(Public)),
            ("169.254.169.254", None),
            ("::ffff:169.254.169.254", None),
            ("fe80::1", None),
            ("0.0.0.0", None),
            ("::", None),
            ("224.0.0.1", None),
        ];
        for (address, expected) in cases {
            assert_eq!(lowest_reach(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_public_server_cannot_direct_the_gateway_into_a_private_network() {
        let guard = UrlGuard::new("https://mcp.example.com/mcp", None).unwrap();
        let cases = [
            ("https://auth.example.com/token", true),
            ("http://auth.example.com/token", false),
            ("https://user:pw@auth.example.com/", false),
            ("https://localhost:6379/", false),
            ("http://127.0.0.1/", false),
            ("https://0x7f.1/", false), // another spelling of 127.0.0.1
            ("https://169.254.169.254/latest", false),
            ("https://[::ffff:10.0.0.1]/", false),
            ("file:///etc/passwd", false),
        ];
        for (url, expected) in cases {
            assert_eq!(guard.admit("url", url).is_ok(), expected, "{url}");
        }
    }

    #[test]
    fn a_local_server_may_refer_to_local_ones_but_not_cloud_metadata() {
        let guard = UrlGuard::new("http://localhost:3000/mcp", None).unwrap();
        assert_eq!(guard.admit("url", "http://127.0.0.1:4000/").unwrap().1, NetworkReach::Loopback);
        assert_eq!(guard.admit("url", "http://localhost:3000/x").unwrap().1, NetworkReach::Configured);
        assert!(guard.admit("url", "https://169.254.169.254/").is_err());
        assert!(UrlGuard::new("http://mcp.example.com/mcp", None).is_err());
    }

    #[test]
    fn a_resource_covers_its_own_paths_only() {
        let guard = UrlGuard::new("https://mcp.example.com/team/mcp", None).unwrap();
        let cases = [
            ("https://mcp.example.com/team/mcp", true),
            ("https://mcp.example.com", true),
            ("https://mcp.example.com/team/", true),
            ("https://MCP.example.com/team", true),
            ("https://mcp.example.com/te", false),
            ("https://mcp.example.com/team/mcp/deeper", false),
            ("https://mcp.example.com:8443/team/mcp", false),
            ("https://evil.example.com/team/mcp", false),
            ("https://mcp.example.com/team/mcp https://other.example.com", false),
            ("not a url", false),
        ];
        for (resource, expected) in cases {
            assert_eq!(guard.is_covered_by(resource), expected, "{resource}");
        }
    }
}
