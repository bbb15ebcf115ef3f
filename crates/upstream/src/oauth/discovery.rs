//! Discovers where tokens for a server come from: resource metadata first, then authorization server
//! metadata.

use super::error::{OAuthError, clip};
use super::fetch::Fetcher;
use super::guard::UrlGuard;
use super::scopes::Scopes;
use serde::Deserialize;
use tracing::debug;
use url::Url;

/// Maximum number of authorization servers tried per resource.
const MAX_ISSUERS: usize = 4;

/// The authorization server and parameters for a resource.
#[derive(Debug, Clone)]
pub(super) struct TokenRoute {
    /// The resource, exactly as published; the token's audience.
    pub(super) resource: String,
    /// The scopes that the resource lists, if it lists any.
    pub(super) resource_scopes: Scopes,
    /// The authorization server.
    pub(super) server: AuthServer,
}

/// A validated authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthServer {
    /// Its issuer identifier, compared byte by byte.
    pub(super) issuer: String,
    /// Where people give consent; absent on servers for machine clients only.
    pub(super) authorization_endpoint: Option<String>,
    /// Where tokens are issued.
    pub(super) token_endpoint: String,
    /// Where clients register.
    pub(super) registration_endpoint: Option<String>,
    /// Whether PKCE with S256 is supported.
    pub(super) pkce: bool,
    /// Whether it accepts a URL as client id.
    pub(super) client_documents: bool,
    /// Whether its authorization responses carry `iss`.
    pub(super) answers_with_issuer: bool,
    /// Supported client authentication methods; absent means HTTP Basic.
    pub(super) auth_methods: Option<Vec<String>>,
    /// Supported grants; absent means the authorization code.
    pub(super) grants: Option<Vec<String>>,
    /// Whether `offline_access` may be requested.
    pub(super) offline_access: bool,
    /// Whether its endpoints are the fixed ones of the 2025-03-26 revision because it publishes no metadata.
    pub(super) guessed: bool,
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct ServerDocument {
    issuer: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    code_challenge_methods_supported: Option<Vec<String>>,
    client_id_metadata_document_supported: Option<bool>,
    authorization_response_iss_parameter_supported: Option<bool>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    grant_types_supported: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

/// Discovers the authorization server of the guarded server. `named` is the metadata URL of the challenge;
/// `known` is the previously used issuer, preferred if the resource still lists it.
pub(super) async fn find_route(
    fetcher: &Fetcher<'_>,
    named: Option<&str>,
    known: Option<&str>,
) -> Result<TokenRoute, OAuthError> {
    let guard = fetcher.guard;
    let Some(document) = resource_document(fetcher, named).await? else {
        let server = legacy_auth_server(fetcher).await?;
        let resource = guard.canonical_resource();
        return Ok(TokenRoute { resource, resource_scopes: Scopes::default(), server });
    };
    let resource = document.resource.unwrap_or_default();
    if !guard.is_covered_by(&resource) {
        let server = guard.origin();
        return Err(OAuthError::ResourceMismatch { server, resource: clip(&resource) });
    }
    let scopes = document.scopes_supported.unwrap_or_default();
    let resource_scopes = scopes.iter().map(String::as_str).collect();
    let mut issuers = document.authorization_servers.unwrap_or_default();
    if issuers.is_empty() {
        issuers.push(guard.server().origin().ascii_serialization());
    }
    // The one that already knows this gateway goes first; the rest stay in the resource's order.
    issuers.sort_by_key(|issuer| Some(issuer.as_str()) != known);
    let mut failure = OAuthError::NoAuthorizationServer { server: guard.origin() };
    for (position, issuer) in issuers.iter().take(MAX_ISSUERS).enumerate() {
        match describe(fetcher, issuer).await {
            Ok(server) => return Ok(TokenRoute { resource, resource_scopes, server }),
            Err(error) => {
                debug!(%issuer, %error, "an authorization server is not usable");
                // The first failure concerns the server that should have been used.
                failure = if position == 0 { error } else { failure };
            }
        }
    }
    Err(failure)
}

async fn resource_document(
    fetcher: &Fetcher<'_>,
    named: Option<&str>,
) -> Result<Option<ResourceDocument>, OAuthError> {
    const WHAT: &str = "resource metadata";
    if let Some(url) = named {
        match fetcher.metadata(WHAT, url).await {
            Ok(Some(document)) => return Ok(Some(document)),
            // Servers behind a proxy often publish an internal http URL; the well-known URLs still work.
            Ok(None) => debug!(url, "the metadata URL of the challenge does not exist"),
            Err(error) => debug!(url, %error, "the metadata URL of the challenge cannot be fetched"),
        }
    }
    let server = fetcher.guard.server();
    let path = server.path().trim_end_matches('/');
    if !path.is_empty() {
        let url = at(server, &format!("/.well-known/oauth-protected-resource{path}"));
        if let Some(document) = fetcher.metadata(WHAT, &url).await? {
            return Ok(Some(document));
        }
    }
    fetcher.metadata(WHAT, &at(server, "/.well-known/oauth-protected-resource")).await
}

/// The authorization server of the 2025-03-26 revision: the server's own origin, with fixed paths if it
/// publishes no metadata.
async fn legacy_auth_server(fetcher: &Fetcher<'_>) -> Result<AuthServer, OAuthError> {
    let server = fetcher.guard.server();
    let issuer = server.origin().ascii_serialization();
    match describe(fetcher, &issuer).await {
        Err(OAuthError::BadMetadata { what: NOT_FOUND, .. }) => {}
        described => return described,
    }
    Ok(AuthServer {
        authorization_endpoint: Some(at(server, "/authorize")),
        token_endpoint: at(server, "/token"),
        registration_endpoint: Some(at(server, "/register")),
        pkce: true, // not advertised in that revision, but required by it
        client_documents: false,
        answers_with_issuer: false,
        auth_methods: Some(vec!["none".into(), "client_secret_basic".into()]),
        grants: None,
        offline_access: false,
        guessed: true,
        issuer,
    })
}

const NOT_FOUND: &str = "it was not found at any well-known URL";

/// Fetches and validates the metadata of `issuer`.
pub(super) async fn describe(fetcher: &Fetcher<'_>, issuer: &str) -> Result<AuthServer, OAuthError> {
    let (url, _) = fetcher.guard.admit("authorization server", issuer)?;
    let mut failure = OAuthError::BadMetadata { issuer: clip(issuer), what: NOT_FOUND };
    for candidate in candidates(&url) {
        let document: Option<ServerDocument> =
            fetcher.metadata("authorization server metadata", &candidate).await?;
        match document.map(|document| validate(fetcher.guard, issuer, document)) {
            Some(Ok(server)) => return Ok(server),
            Some(Err(error)) => failure = error,
            None => {}
        }
    }
    Err(failure)
}

/// The well-known metadata URLs of an issuer, in the order of the specification.
fn candidates(issuer: &Url) -> Vec<String> {
    let path = issuer.path().trim_end_matches('/');
    if path.is_empty() {
        return vec![
            at(issuer, "/.well-known/oauth-authorization-server"),
            at(issuer, "/.well-known/openid-configuration"),
        ];
    }
    vec![
        at(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        at(issuer, &format!("/.well-known/openid-configuration{path}")),
        at(issuer, &format!("{path}/.well-known/openid-configuration")),
    ]
}

fn at(base: &Url, path: &str) -> String {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

fn validate(guard: &UrlGuard, issuer: &str, document: ServerDocument) -> Result<AuthServer, OAuthError> {
    let found = document.issuer.unwrap_or_default();
    if found != issuer {
        return Err(OAuthError::IssuerMismatch { expected: clip(issuer), found: clip(&found) });
    }
    let bad = |what| OAuthError::BadMetadata { issuer: clip(issuer), what };
    let token_endpoint = document.token_endpoint.ok_or_else(|| bad("no token endpoint"))?;
    guard.admit("token endpoint", &token_endpoint)?;
    if let Some(url) = &document.authorization_endpoint {
        guard.admit("authorization endpoint", url)?;
    }
    let lists = |list: &Option<Vec<String>>, word: &str| list.iter().flatten().any(|item| item == word);
    Ok(AuthServer {
        pkce: lists(&document.code_challenge_methods_supported, "S256"),
        offline_access: lists(&document.scopes_supported, OFFLINE_ACCESS),
        client_documents: document.client_id_metadata_document_supported == Some(true),
        answers_with_issuer: document.authorization_response_iss_parameter_supported == Some(true),
        authorization_endpoint: document.authorization_endpoint,
        token_endpoint,
        registration_endpoint: document.registration_endpoint,
        auth_methods: document.token_endpoint_auth_methods_supported,
        grants: document.grant_types_supported,
        guessed: false,
        issuer: found,
    })
}

impl TokenRoute {
    /// The scopes to request: those of the challenge or else of the resource, plus those requested before and
    /// the configured ones.
    pub(super) fn scopes(
        &self,
        challenged: Scopes,
        earlier: Option<&Scopes>,
        configured: &[String],
    ) -> Scopes {
        let needed = if challenged.is_empty() { self.resource_scopes.clone() } else { challenged };
        let configured: Scopes = configured.iter().map(String::as_str).collect();
        let discovered = earlier.cloned().unwrap_or_default().union(&needed).without(OFFLINE_ACCESS);
        let scopes = discovered.union(&configured);
        // Alone it would replace the server's default scopes instead of adding to them.
        if self.server.offline_access && !scopes.is_empty() {
            return scopes.union(&Scopes::parse(OFFLINE_ACCESS));
        }
        scopes
    }
}

/// The scope that requests a refresh token.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

impl AuthServer {
    /// Whether clients may authenticate with `method`.
    pub(super) fn supports(&self, method: &str) -> bool {
        match &self.auth_methods {
            Some(methods) => methods.iter().any(|known| known == method),
            None => method == "client_secret_basic",
        }
    }

    /// Whether it is for machine clients only: it offers client credentials but no authorization code.
    pub(super) fn is_for_machines(&self) -> bool {
        let offers = |grant: &str| self.grants.iter().flatten().any(|known| known == grant);
        offers("client_credentials") && !offers("authorization_code")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn well_known_urls_follow_the_specification() {
        let cases: [(&str, &[&str]); 3] = [
            (
                "https://a.example",
                &["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
            ),
            (
                "https://a.example/",
                &["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
            ),
            (
                "https://a.example/t/1/",
                &[
                    "/.well-known/oauth-authorization-server/t/1",
                    "/.well-known/openid-configuration/t/1",
                    "/t/1/.well-known/openid-configuration",
                ],
            ),
        ];
        for (issuer, expected) in cases {
            let expected: Vec<String> =
                expected.iter().map(|path| format!("https://a.example{path}")).collect();
            assert_eq!(candidates(&Url::parse(issuer).unwrap()), expected, "{issuer}");
        }
    }
}
