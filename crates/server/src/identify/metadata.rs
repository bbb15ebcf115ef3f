//! How a client that was turned away finds out where to get a token (RFC 9728).

use http::HeaderMap;
use http::header::HOST;
use serde_json::{Value, json};

/// Where the description of a protected resource is.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The gateway as a resource that wants tokens.
#[derive(Debug, Clone, Default)]
pub struct Resource {
    /// What callers must show.
    pub challenge: Challenge,
    /// The address that clients reach the gateway by; from the request when absent.
    pub public_url: Option<String>,
    /// Who gives tokens, where somebody does.
    pub issuer: Option<String>,
}

/// What callers must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Challenge {
    /// Nothing a client could send by itself.
    #[default]
    None,
    /// A bearer token.
    Bearer,
}

/// Whether anything was shown, for the words of the challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// Something that does not count.
    Unacceptable,
}

impl Resource {
    fn base(&self, headers: &HeaderMap) -> Option<String> {
        match &self.public_url {
            Some(url) => Some(url.trim_end_matches('/').to_owned()),
            // The guard has let this host through, so it is one of ours.
            None => Some(format!("http://{}", headers.get(HOST)?.to_str().ok()?)),
        }
    }

    /// The value of `WWW-Authenticate` for a request to `path`.
    pub fn challenge(&self, headers: &HeaderMap, path: &str, shown: Shown) -> Option<String> {
        if self.challenge == Challenge::None {
            // A client cannot do what the proxy in front of the gateway must.
            return Some("Proxy-Header realm=\"toolbooth\"".into());
        }
        let suffix = if is_endpoint(path) { path.trim_end_matches('/') } else { "" };
        let error = match shown {
            Shown::Nothing => "",
            Shown::Unacceptable => "error=\"invalid_token\", ",
        };
        Some(format!("Bearer {error}resource_metadata=\"{}{WELL_KNOWN}{suffix}\"", self.base(headers)?))
    }

    /// The description of the resource whose path follows [`WELL_KNOWN`]; nothing where tokens are not taken.
    pub fn describe(&self, headers: &HeaderMap, path: &str) -> Option<Value> {
        let suffix = path.strip_prefix(WELL_KNOWN)?.trim_end_matches('/');
        if self.challenge == Challenge::None || !(suffix.is_empty() || is_endpoint(suffix)) {
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

/// Whether a path is the endpoint, with or without a persona. Which personas there are is not told here.
fn is_endpoint(path: &str) -> bool {
    persona_of(path).is_some()
}

/// The persona that the path of the endpoint names; the outer nothing when it is another path.
pub fn persona_of(path: &str) -> Option<Option<&str>> {
    if matches!(path, "/mcp" | "/mcp/") {
        return Some(None);
    }
    let name = path.strip_prefix("/mcp/p/")?;
    let name = name.strip_suffix('/').unwrap_or(name);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (!name.is_empty() && name.len() <= 64 && name.bytes().all(plain)).then_some(Some(name))
}
