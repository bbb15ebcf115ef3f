//! Requests tokens from token endpoints.

use super::discovery::AuthServer;
use super::error::{OAuthError, clip, error_code};
use super::fetch::{Fetcher, PostBody};
use super::record::{ClientAuth, OAuthClient, TokenSet, unix_seconds};
use super::scopes::Scopes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use toolbooth_core::clock::Clock;
use toolbooth_core::secret::SecretText;
use url::form_urlencoded::{Serializer, byte_serialize};

const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// How long before its expiry an access token is renewed; at most a quarter of its lifetime.
const MARGIN_SECONDS: u64 = 30;

/// The grant that is exchanged for a token.
pub(super) enum TokenGrant<'a> {
    /// An authorization code.
    Code { code: &'a str, verifier: &'a str },
    /// A refresh token.
    Refresh(&'a str),
    /// The client's secret.
    Credentials(&'a Scopes),
    /// The client's signature.
    SignedCredentials { scopes: &'a Scopes, assertion: &'a str },
    /// A third party's assertion.
    Assertion { scopes: &'a Scopes, assertion: &'a str },
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<serde_json::Value>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct TokenErrorBody {
    error: String,
}

/// The parameters of a token request.
pub(super) struct TokenRequest<'a> {
    pub(super) server: &'a AuthServer,
    pub(super) client: &'a OAuthClient,
    pub(super) resource: &'a str,
    pub(super) scopes: &'a Scopes,
    pub(super) clock: &'a Clock,
}

/// Requests tokens for a grant.
pub(super) async fn request(
    fetcher: &Fetcher<'_>,
    token_request: &TokenRequest<'_>,
    grant: TokenGrant<'_>,
) -> Result<TokenSet, OAuthError> {
    let TokenRequest { server, client, resource, clock, .. } = token_request;
    // The form cannot be held across an await.
    let (body, authorization) = {
        let mut form = Serializer::new(String::new());
        fill(&mut form, &grant, client);
        form.append_pair("resource", resource);
        let authorization = authenticate(client, &mut form);
        (PostBody::Form(form.finish()), authorization)
    };
    let answer = fetcher.post("token endpoint", &server.token_endpoint, body, authorization.as_ref()).await?;
    let refused = |error: String| OAuthError::TokenRefused { issuer: clip(&server.issuer), error };
    if !answer.status.is_success() {
        let code =
            answer.json::<TokenErrorBody>().map_or_else(|| answer.status.as_u16().to_string(), |r| r.error);
        return Err(refused(error_code(&code)));
    }
    let issued: TokenResponse = answer.json().ok_or_else(|| refused("an unreadable response".into()))?;
    accept(issued, clock).ok_or_else(|| refused("a token that cannot be used as a bearer token".into()))
}

fn fill(form: &mut Serializer<'_, String>, grant: &TokenGrant<'_>, client: &OAuthClient) {
    let scopes = match grant {
        TokenGrant::Code { code, verifier } => {
            form.append_pair("grant_type", "authorization_code")
                .append_pair("code", code)
                .append_pair("redirect_uri", &client.redirect_uri)
                .append_pair("code_verifier", verifier);
            return;
        }
        TokenGrant::Refresh(token) => {
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token);
            return;
        }
        TokenGrant::Credentials(scopes) => {
            form.append_pair("grant_type", "client_credentials");
            scopes
        }
        TokenGrant::SignedCredentials { scopes, assertion } => {
            form.append_pair("grant_type", "client_credentials")
                .append_pair(
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                )
                .append_pair("client_assertion", assertion);
            scopes
        }
        TokenGrant::Assertion { scopes, assertion } => {
            form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
                .append_pair("assertion", assertion);
            scopes
        }
    };
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.joined());
    }
}

/// Adds the client's credentials to the form, or returns the header that carries them.
fn authenticate(client: &OAuthClient, form: &mut Serializer<'_, String>) -> Option<SecretText> {
    match (client.auth, &client.secret) {
        (ClientAuth::Basic, Some(secret)) => {
            let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = STANDARD.encode(format!("{}:{}", encode(&client.id), encode(secret)));
            Some(SecretText::expanded("Basic ${client_secret}", format!("Basic {pair}")))
        }
        (ClientAuth::Post, Some(secret)) => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
            None
        }
        _ => {
            form.append_pair("client_id", &client.id);
            None
        }
    }
}

/// Accepts a response only if its token can be sent as a bearer token.
fn accept(issued: TokenResponse, clock: &Clock) -> Option<TokenSet> {
    let is_bearer = issued.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let fits_a_header = (1..=MAX_TOKEN_BYTES).contains(&issued.access_token.len())
        && issued.access_token.bytes().all(|b| b.is_ascii_graphic());
    let refresh = issued.refresh_token.filter(|token| (1..=MAX_TOKEN_BYTES).contains(&token.len()));
    let renew_at = issued.expires_in.and_then(seconds).map(|life| {
        let margin = MARGIN_SECONDS.min(life / 4);
        unix_seconds(clock).saturating_add(life - margin)
    });
    (is_bearer && fits_a_header).then_some(TokenSet { access: issued.access_token, refresh, renew_at })
}

/// Seconds, as a number or as the string that some servers send instead.
fn seconds(value: serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::Number(number) => number.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64),
        serde_json::Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
