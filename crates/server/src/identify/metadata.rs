//! OAuth protected resource metadata (RFC 9728): tells a rejected client where to get a token.

use http::HeaderMap;
use http::header::HOST;
use serde_json::{Value, json};

/// The path of the metadata document.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The gateway as a protected resource.
#[derive(Debug, Clone, Default)]
pub struct Resource {
    /// The credential that callers must send.
    pub challenge: AuthChallenge,
    /// The URL by which clients reach the gateway; taken from the request if absent.
    pub public_url: Option<String>,
    /// The authorization server that issues tokens, if there is one.
    pub issuer: Option<String>,
}

/// The credential that callers must send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthChallenge {
    /// None that a client can obtain.
    #[default]
    None,
    /// A bearer token.
    Bearer,
}

/// Why a request is challenged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialState {
    /// It had no credential.
    Missing,
    /// Its credential is not valid.
    Invalid,
}

impl Resource {
    /// The URL of the gateway, without a slash at its end.
    pub(crate) fn base(&self, headers: &HeaderMap) -> Option<String> {
        match &self.public_url {
            Some(url) => Some(url.trim_end_matches('/').to_owned()),
            // The guard has checked this host, so it is one of the gateway's own.
            None => Some(format!("http://{}", headers.get(HOST)?.to_str().ok()?)),
        }
    }

    /// The value of `WWW-Authenticate` for a request to `path`.
    pub fn challenge(&self, headers: &HeaderMap, path: &str, credential: CredentialState) -> Option<String> {
        if self.challenge == AuthChallenge::None {
            // Only the proxy in front of the gateway can authenticate, not the client.
            return Some("Proxy-Header realm=\"toolbooth\"".into());
        }
        let suffix = if is_endpoint(path) { path.trim_end_matches('/') } else { "" };
        let error = match credential {
            CredentialState::Missing => "",
            CredentialState::Invalid => "error=\"invalid_token\", ",
        };
        Some(format!("Bearer {error}resource_metadata=\"{}{WELL_KNOWN}{suffix}\"", self.base(headers)?))
    }

    /// The metadata of the resource whose path follows [`WELL_KNOWN`]; `None` if the gateway does not accept tokens.
    pub fn describe(&self, headers: &HeaderMap, path: &str) -> Option<Value> {
        let suffix = path.strip_prefix(WELL_KNOWN)?.trim_end_matches('/');
        if self.challenge == AuthChallenge::None || !(suffix.is_empty() || is_endpoint(suffix)) {
            return None;
        }
        let mut document = json!({
            "resource": format!("{}{suffix}", self.base(headers)?),
            "resource_name": "Toolbooth",
            "bearer_methods_supported": ["header"],
        });
        if let Some(issuer) = &self.issuer {
            document["authorization_servers"] = json!([issuer]);
        }
        Some(document)
    }
}

/// Whether a path is the MCP endpoint, with or without a persona. Does not reveal which personas exist.
fn is_endpoint(path: &str) -> bool {
    persona_of(path).is_some()
}

/// The persona in the path of the MCP endpoint; the outer `None` if it is another path.
pub fn persona_of(path: &str) -> Option<Option<&str>> {
    if matches!(path, "/mcp" | "/mcp/") {
        return Some(None);
    }
    let name = path.strip_prefix("/mcp/p/")?;
    let name = name.strip_suffix('/').unwrap_or(name);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (!name.is_empty() && name.len() <= 64 && name.bytes().all(plain)).then_some(Some(name))
}
