//! An authorization request and the validation of its response: PKCE, state, issuer.

use super::Browser;
use super::discovery::{AuthServer, OFFLINE_ACCESS};
use super::error::{AuthorizeError, OAuthError, clip, error_code};
use super::record::OAuthClient;
use super::scopes::Scopes;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::time::Duration;
use url::Url;

/// Timeout of a login; a browser may give up sooner.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);

/// An authorization code with its PKCE verifier.
pub(super) struct AuthorizationCode {
    pub(super) code: String,
    pub(super) verifier: String,
}

/// Asks a person for consent at `server` to `scopes` for `resource`.
pub(super) async fn ask(
    browser: &dyn Browser,
    server: &AuthServer,
    client: &OAuthClient,
    resource: &str,
    scopes: &Scopes,
) -> Result<AuthorizationCode, OAuthError> {
    let bad = |what| OAuthError::BadMetadata { issuer: clip(&server.issuer), what };
    let endpoint =
        server.authorization_endpoint.as_deref().ok_or_else(|| bad("no authorization endpoint"))?;
    if !server.pkce {
        return Err(OAuthError::NoPkce { issuer: clip(&server.issuer) });
    }
    let verifier = random_text()?;
    let state = random_text()?;
    let mut url = Url::parse(endpoint).map_err(|_| bad("no usable authorization endpoint"))?;
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &client.redirect_uri)
            .append_pair("state", &state)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", resource);
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes.joined());
        }
        if scopes.contains(OFFLINE_ACCESS) {
            // OpenID Connect ignores the scope without this prompt.
            query.append_pair("prompt", "consent");
        }
    }
    let login = browser.authorize(url.as_str(), &client.redirect_uri);
    let redirect = match tokio::time::timeout(LOGIN_TIMEOUT, login).await {
        Ok(redirect) => redirect?,
        Err(_) => return Err(AuthorizeError::TimedOut.into()),
    };
    Ok(AuthorizationCode { code: read_answer(server, &redirect, &state)?, verifier })
}

/// The code in an authorization response, after state and issuer are validated.
fn read_answer(server: &AuthServer, redirect: &str, state: &str) -> Result<String, OAuthError> {
    let bad = |what| OAuthError::BadResponse { what };
    let url = Url::parse(redirect).map_err(|_| bad("it is not a URL"))?;
    let single = |name: &str| {
        let mut values =
            url.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(bad("a parameter is repeated")),
        }
    };
    if single("state")?.as_deref() != Some(state) {
        return Err(bad("its state does not match"));
    }
    // Nothing else in the response, including errors, is trusted before the issuer is validated.
    match single("iss")? {
        Some(issuer) if issuer != server.issuer => return Err(bad("it names another issuer")),
        None if server.answers_with_issuer => return Err(bad("it does not name its issuer")),
        _ => {}
    }
    if let Some(error) = single("error")? {
        return Err(OAuthError::Denied { issuer: clip(&server.issuer), error: error_code(&error) });
    }
    single("code")?.ok_or_else(|| bad("it contains no code"))
}

/// 256 random bits in 43 characters, the minimum length of a PKCE verifier.
pub(super) fn random_text() -> Result<String, OAuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| OAuthError::NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
