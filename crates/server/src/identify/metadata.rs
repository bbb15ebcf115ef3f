//! OAuth protected resource metadata (RFC 9728): tells a rejected client where to get a token.

use http::HeaderMap;
use http::header::HOST;
use serde_json::{Value, json};
use std::borrow::Cow;

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
    /// The scopes that clients request from it.
    pub scopes: Vec<String>,
}

/// The protected resource that a request is for, by its path alone. Each one has its own metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedResource<'a> {
    /// Everything but the MCP endpoint.
    Api,
    /// The MCP endpoint, with the persona in its path.
    Mcp {
        /// The persona as the path spells it.
        persona: Option<&'a str>,
    },
}

impl<'a> RequestedResource<'a> {
    /// The persona in the path.
    pub(super) fn persona(self) -> Option<&'a str> {
        match self {
            Self::Api => None,
            Self::Mcp { persona } => persona,
        }
    }

    /// The path below the URL of the gateway.
    fn path(self) -> Cow<'static, str> {
        match self {
            Self::Api => "".into(),
            Self::Mcp { persona: None } => "/mcp".into(),
            Self::Mcp { persona: Some(name) } => format!("/mcp/p/{name}").into(),
        }
    }

    /// The resource of a path; `None` if the path is not the MCP endpoint.
    fn of_endpoint(path: &'a str) -> Option<Self> {
        persona_of(path).map(|persona| Self::Mcp { persona })
    }
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
    /// Its credential is not valid; with the reason that the client may know.
    Invalid(Option<&'static str>),
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

    /// The audience of tokens for one resource of this gateway, as its metadata names it (RFC 8707). `None` without the
    /// setting `public_url`: the URL in the metadata is then made from the Host header, which the caller chooses, and on
    /// loopback it is the URL of every user's gateway.
    pub(super) fn audience_of(&self, requested: RequestedResource<'_>) -> Option<String> {
        let base = self.public_url.as_deref()?.trim_end_matches('/');
        // A path alone would be the audience of any gateway.
        let is_absolute = ["https://", "http://"].iter().any(|scheme| base.starts_with(scheme));
        is_absolute.then(|| format!("{base}{}", requested.path()))
    }

    /// The value of `WWW-Authenticate` for a request to `path`.
    pub fn challenge(&self, headers: &HeaderMap, path: &str, credential: CredentialState) -> Option<String> {
        if self.challenge == AuthChallenge::None {
            // Only the proxy in front of the gateway can authenticate, not the client.
            return Some("Proxy-Header realm=\"toolbooth\"".into());
        }
        let suffix = RequestedResource::of_endpoint(path).unwrap_or(RequestedResource::Api).path();
        let error = match credential {
            CredentialState::Missing => String::new(),
            CredentialState::Invalid(None) => "error=\"invalid_token\", ".to_owned(),
            CredentialState::Invalid(Some(why)) => {
                format!("error=\"invalid_token\", error_description=\"{why}\", ")
            }
        };
        let scope = match self.scopes.is_empty() {
            true => String::new(),
            false => format!("scope=\"{}\", ", self.scopes.join(" ")),
        };
        let base = self.base(headers)?;
        Some(format!("Bearer {error}{scope}resource_metadata=\"{base}{WELL_KNOWN}{suffix}\""))
    }

    /// The metadata of the resource whose path follows [`WELL_KNOWN`]; `None` if the gateway does not accept tokens.
    pub fn describe(&self, headers: &HeaderMap, path: &str) -> Option<Value> {
        let requested = match path.strip_prefix(WELL_KNOWN)? {
            "" | "/" => RequestedResource::Api,
            // Does not reveal which personas exist.
            endpoint => RequestedResource::of_endpoint(endpoint)?,
        };
        if self.challenge == AuthChallenge::None {
            return None;
        }
        let mut document = json!({
            "resource": format!("{}{}", self.base(headers)?, requested.path()),
            "resource_name": "Toolbooth",
            "bearer_methods_supported": ["header"],
        });
        if let Some(issuer) = &self.issuer {
            document["authorization_servers"] = json!([issuer]);
        }
        if !self.scopes.is_empty() {
            document["scopes_supported"] = json!(self.scopes);
        }
        Some(document)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_the_audience_of_its_metadata() {
        let resource = |public_url: Option<&str>| Resource {
            challenge: AuthChallenge::Bearer,
            public_url: public_url.map(str::to_owned),
            ..Resource::default()
        };
        let public = resource(Some("https://booth.example/base/"));
        let spoofed = HeaderMap::from_iter([(HOST, "evil.example".parse().expect("a value"))]);
        for path in ["", "/mcp", "/mcp/p/support", "/mcp/p/Support"] {
            let requested = RequestedResource::of_endpoint(path).unwrap_or(RequestedResource::Api);
            let document = public.describe(&spoofed, &format!("{WELL_KNOWN}{path}")).expect("metadata");
            let audience = format!("https://booth.example/base{path}");
            assert_eq!(document["resource"], *audience);
            assert_eq!(public.audience_of(requested), Some(audience));
            // Nothing that a caller sends is an audience.
            assert_eq!(resource(None).audience_of(requested), None, "{path}");
            assert_eq!(resource(Some("")).audience_of(requested), None, "{path}");
        }
    }

    #[test]
    fn only_configured_scopes_are_announced() {
        let headers = HeaderMap::from_iter([(HOST, "booth.example".parse().expect("a value"))]);
        let mut resource = Resource { challenge: AuthChallenge::Bearer, ..Resource::default() };
        let announced = |resource: &Resource| {
            let document = resource.describe(&headers, WELL_KNOWN).expect("metadata");
            let challenge = resource.challenge(&headers, "/tools", CredentialState::Missing);
            (document.get("scopes_supported").cloned(), challenge.expect("a challenge"))
        };
        let (scopes, challenge) = announced(&resource);
        assert!(scopes.is_none() && !challenge.contains("scope"), "{challenge}");
        resource.scopes = vec!["groups".into(), "tools".into()];
        let (scopes, challenge) = announced(&resource);
        assert_eq!(scopes, Some(json!(["groups", "tools"])));
        assert!(challenge.starts_with("Bearer scope=\"groups tools\", resource_metadata="), "{challenge}");
    }
}
