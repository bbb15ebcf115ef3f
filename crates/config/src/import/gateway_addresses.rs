//! Recognizes entries of clients that lead to this gateway. As a server, the gateway would offer its own tools to itself.

use crate::inputs::Sources;
use crate::loaded_config::LoadedConfig;
use serde_json::Value as Json;
use std::net::IpAddr;

/// The addresses of this gateway: the configured one, and that of the running gateway, which may have another port.
pub(super) struct GatewayAddresses(Vec<HostPort>);

/// The host and port of a URL.
#[derive(Debug, PartialEq, Eq)]
struct HostPort {
    host: String,
    port: u16,
}

impl GatewayAddresses {
    /// The addresses that the sources and the settings name.
    pub fn of(sources: &Sources, loaded: Option<&LoadedConfig>) -> Self {
        let configured = loaded.map(|loaded| loaded.settings.listen.0);
        let configured =
            configured.map(|address| HostPort { host: address.ip().to_string(), port: address.port() });
        let running = sources.gateway_url.as_deref().and_then(HostPort::of_url);
        Self(configured.into_iter().chain(running).collect())
    }

    /// Whether an entry connects a client to this gateway, as `toolbooth connect` writes it.
    pub fn is_meant_by(&self, entry: &Json) -> bool {
        let text = |key: &str| entry.get(key).and_then(Json::as_str);
        let runs_us = text("command").is_some_and(|command| {
            std::path::Path::new(command).file_stem().is_some_and(|name| name == "toolbooth")
        });
        let arguments = entry.get("args").and_then(Json::as_array);
        let joins = arguments.is_some_and(|words| words.iter().any(|word| word == "stdio"));
        // A client without support for URLs uses a program between, such as `mcp-remote`.
        let bridged = arguments.into_iter().flatten().filter_map(Json::as_str).any(|word| {
            let value = word.split_once('=').map(|(_, value)| value);
            self.is_own_endpoint(word) || value.is_some_and(|value| self.is_own_endpoint(value))
        });
        (runs_us && joins) || text("url").is_some_and(|url| self.is_own_url(url)) || bridged
    }

    fn is_own_url(&self, url: &str) -> bool {
        HostPort::of_url(url).is_some_and(|target| self.0.iter().any(|own| own.is_same(&target)))
    }

    /// Whether an argument is the URL of this gateway's MCP endpoint, and not just of a program on the same host.
    fn is_own_endpoint(&self, url: &str) -> bool {
        let rest = url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let path = rest.map(|(_, path)| path.split(['?', '#']).next().unwrap_or_default());
        path.is_some_and(|path| path == "mcp" || path.starts_with("mcp/")) && self.is_own_url(url)
    }
}

impl HostPort {
    fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let default = match scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => 80,
            "https" | "wss" => 443,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let authority = authority.rsplit('@').next()?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']')?;
                (host, after.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok()?,
            None => default,
        };
        Some(Self { host: host.to_ascii_lowercase(), port })
    }

    /// Whether both lead to one listener: this machine has several names.
    fn is_same(&self, other: &Self) -> bool {
        self.port == other.port && (self.host == other.host || (self.is_local() && other.is_local()))
    }

    fn is_local(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_that_lead_to_the_gateway_are_recognized() {
        let own = |url: &str| HostPort::of_url(url).expect("a URL");
        let addresses = GatewayAddresses(vec![own("http://127.0.0.1:8665"), own("http://127.0.0.1:18665")]);
        let cases = [
            ("http://127.0.0.1:8665/mcp", true),
            ("http://127.0.0.1:18665/mcp", true),
            ("http://localhost:18665/mcp?x=1", true),
            ("HTTP://LOCALHOST:18665", true),
            ("http://[::1]:18665/mcp", true),
            ("ws://key@0.0.0.0:18665/", true),
            ("http://127.0.0.1:18666/mcp", false),
            ("http://localhost/mcp", false),
            ("https://mcp.example:18665/mcp", false),
            ("127.0.0.1:18665", false),
            ("http://localhost:${PORT}/mcp", false),
        ];
        for (url, expected) in cases {
            assert_eq!(addresses.is_meant_by(&json!({ "url": url })), expected, "{url}");
        }
        assert!(addresses.is_meant_by(&json!({ "command": "/opt/bin/toolbooth", "args": ["stdio"] })));
        assert!(!addresses.is_meant_by(&json!({ "command": "toolbooth", "args": ["demo-server"] })));
        let arguments = [
            ("http://127.0.0.1:8665/mcp", true),
            ("http://127.0.0.1:8665/mcp?x=1", true),
            ("--url=http://localhost:18665/mcp/p/support", true),
            ("http://127.0.0.1:8665/health", false),
            ("http://127.0.0.1:9000/mcp", false),
            ("mcp", false),
        ];
        for (word, expected) in arguments {
            let bridge = json!({ "command": "npx", "args": ["-y", "mcp-remote", word] });
            assert_eq!(addresses.is_meant_by(&bridge), expected, "{word}");
        }
    }
}
