//! The client that signs users of the console in at the identity provider: OpenID Connect, authorization code flow
//! with PKCE.
//!
//! It finds the endpoints in the issuer's metadata, exchanges the code for an ID token, and later a refresh token for the
//! next ID token. `jwt` verifies the tokens. An access token that the provider returns as well is not used and not kept.

mod answer;
mod endpoints;
mod error;

pub use answer::LoginAnswer;
pub use error::LoginError;

use super::bearer::MAX_TOKEN;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use endpoints::{KnownEndpoints, ProviderEndpoints, SecretPlace};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use toolbooth_core::secret::SecretText;
use toolbooth_engine::{NewLogin, PendingLogin};
use toolbooth_upstream::oauth::HttpFetch;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

/// Timeout of the lookup of endpoints, and of the exchange of a code.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of codes that are exchanged at the same time. Further sign-ins wait.
const MAX_EXCHANGES: usize = 16;
/// Maximum length of a code.
const MAX_CODE: usize = 4096;
/// Maximum length of a refresh token. A longer one is not used.
const MAX_REFRESH_TOKEN: usize = 4096;

/// The answer of the token endpoint.
#[derive(Deserialize)]
struct TokenEndpointAnswer {
    id_token: Option<String>,
    refresh_token: Option<String>,
    error: Option<String>,
}

/// The settings of the client.
#[derive(Debug, Clone)]
pub struct OidcSettings {
    /// The issuer, whose metadata names the endpoints.
    pub issuer: String,
    /// The client id at the provider.
    pub client_id: String,
    /// The client secret, if the provider requires one.
    pub client_secret: Option<SecretText>,
    /// The scopes to request besides `openid`.
    pub scopes: Vec<String>,
    /// The page that the provider must show, also to a user whom it knows.
    pub prompt: Option<ProviderPrompt>,
    /// The name of the provider on the button; the issuer's host if absent.
    pub provider_name: Option<String>,
}

/// A page of the provider that a sign-in requires (OpenID Connect Core 1.0, 3.1.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderPrompt {
    /// The user consents to the scopes. Some providers give refresh tokens only then (11).
    Consent,
    /// The user enters the password again.
    Login,
    /// The user chooses an account.
    SelectAccount,
}

impl ProviderPrompt {
    /// The value of the parameter `prompt`.
    fn as_str(self) -> &'static str {
        match self {
            Self::Consent => "consent",
            Self::Login => "login",
            Self::SelectAccount => "select_account",
        }
    }
}

/// What the token endpoint returned.
#[derive(Debug)]
pub struct ProviderTokens {
    /// The ID token, which is not verified yet.
    pub id_token: SecretText,
    /// The refresh token, if the provider gives one.
    pub refresh_token: Option<SecretText>,
}

/// Signs users of the console in.
pub struct OidcClient {
    http: Arc<dyn HttpFetch>,
    settings: OidcSettings,
    provider_name: String,
    known: Mutex<KnownEndpoints>,
    exchanges: Semaphore,
    /// Held during the exchange of a code from an address that has sent many bad ones.
    throttled_exchange: Mutex<()>,
}

impl std::fmt::Debug for OidcClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OidcClient").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl OidcClient {
    /// A client with these settings. Fetches nothing yet.
    pub fn new(http: Arc<dyn HttpFetch>, settings: OidcSettings) -> Self {
        let host = || Url::parse(&settings.issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        let provider_name = settings.provider_name.clone().or_else(host).unwrap_or_else(|| "OpenID".into());
        Self {
            http,
            settings,
            provider_name,
            known: Mutex::default(),
            exchanges: Semaphore::new(MAX_EXCHANGES),
            throttled_exchange: Mutex::default(),
        }
    }

    /// The scopes to request besides `openid`.
    pub(super) fn scopes(&self) -> &[String] {
        &self.settings.scopes
    }

    /// The client id, which must be the audience of ID tokens.
    pub fn client_id(&self) -> &str {
        &self.settings.client_id
    }

    /// The name of the provider, for people.
    pub fn provider_name(&self) -> &str {
        &self.provider_name
    }

    /// The URL at which a user signs in. The provider then sends the browser to the redirect URI of the sign-in.
    pub async fn authorization_url(&self, new: &NewLogin) -> Result<String, LoginError> {
        let mut url = self.endpoints().await?.authorization.clone();
        let scopes = self.settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        let scopes: Vec<&str> = std::iter::once("openid").chain(scopes).collect();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &new.login.redirect_uri)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &new.state)
            .append_pair("nonce", &new.login.nonce)
            .append_pair("code_challenge", &new.login.challenge())
            .append_pair("code_challenge_method", "S256");
        if let Some(prompt) = self.settings.prompt {
            url.query_pairs_mut().append_pair("prompt", prompt.as_str());
        }
        Ok(url.to_string())
    }

    /// Exchanges the code of an answer for tokens.
    pub async fn exchange(
        &self,
        answer: LoginAnswer,
        login: &PendingLogin,
    ) -> Result<ProviderTokens, LoginError> {
        let endpoints = self.endpoints().await?;
        // Nothing else in the answer, including errors, is trusted before its issuer is checked.
        match answer.issuer {
            Some(issuer) if issuer != self.settings.issuer => return Err(LoginError::Foreign),
            None if endpoints.answers_with_issuer => return Err(LoginError::Foreign),
            _ => {}
        }
        if let Some(error) = answer.error {
            return Err(LoginError::Denied { error: error_code(&error) });
        }
        let code =
            answer.code.filter(|code| (1..=MAX_CODE).contains(&code.len())).ok_or(LoginError::Foreign)?;
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", code.as_str()),
            ("redirect_uri", login.redirect_uri.as_str()),
            ("code_verifier", login.verifier.as_str()),
        ];
        self.tokens(&endpoints, &grant).await
    }

    /// Exchanges a refresh token for new tokens. If the provider gives no new refresh token, the old one stays valid.
    pub async fn refresh(&self, refresh_token: &SecretText) -> Result<ProviderTokens, LoginError> {
        let endpoints = self.endpoints().await?;
        let grant = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
        self.tokens(&endpoints, &grant).await
    }

    /// Asks the token endpoint.
    async fn tokens(
        &self,
        endpoints: &ProviderEndpoints,
        grant: &[(&str, &str)],
    ) -> Result<ProviderTokens, LoginError> {
        let request = self.token_request(endpoints, grant).ok_or(LoginError::Unreachable)?;
        let exchange = async {
            // Fails only if the semaphore is closed, which never happens.
            let _permit = self.exchanges.acquire().await.map_err(|_| LoginError::Unreachable)?;
            self.http.fetch(request).await.map_err(|error| {
                tracing::warn!("the identity provider did not complete a sign-in: {error}");
                LoginError::Unreachable
            })
        };
        let response =
            tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.map_err(|_| LoginError::Unreachable)??;
        if response.status().is_server_error() || response.status() == StatusCode::TOO_MANY_REQUESTS {
            tracing::warn!(status = response.status().as_u16(), "the identity provider fails");
            return Err(LoginError::Unreachable);
        }
        let status = response.status();
        let refused = |error: &str| {
            let error = error_code(error);
            tracing::warn!(error, status = status.as_u16(), "the identity provider refused a sign-in");
            LoginError::CodeRefused { error }
        };
        let read = serde_json::from_slice::<TokenEndpointAnswer>(response.body());
        let answer = read.map_err(|_| refused("unreadable_answer"))?;
        if !status.is_success() || answer.error.is_some() {
            return Err(refused(answer.error.as_deref().unwrap_or("no_error_code")));
        }
        let token = answer.id_token.filter(|token| token.len() <= MAX_TOKEN).ok_or(LoginError::BadIdToken)?;
        let usable = |token: &String| (1..=MAX_REFRESH_TOKEN).contains(&token.len());
        let refresh_token = answer.refresh_token.filter(usable);
        Ok(ProviderTokens {
            id_token: SecretText::expanded("${id_token}", token),
            refresh_token: refresh_token.map(|token| SecretText::expanded("${refresh_token}", token)),
        })
    }

    /// Waits for the turn of an address that has sent many bad answers: one exchange at a time, so that such addresses
    /// cannot make the gateway send many requests to the provider.
    pub async fn throttled_turn(&self) -> Result<MutexGuard<'_, ()>, LoginError> {
        let turn = tokio::time::timeout(REQUEST_TIMEOUT, self.throttled_exchange.lock()).await;
        turn.map_err(|_| LoginError::Unreachable)
    }

    /// The URL at which a user who signed out here also signs out at the provider, if the provider has one. The ID token
    /// is not part of it: scripts of the page see this URL.
    pub async fn end_session_url(&self, return_to: &str) -> Option<String> {
        let mut url = self.endpoints().await.ok()?.end_session.clone()?;
        url.query_pairs_mut()
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("post_logout_redirect_uri", return_to);
        Some(url.to_string())
    }

    fn token_request(&self, endpoints: &ProviderEndpoints, grant: &[(&str, &str)]) -> Option<Request<Bytes>> {
        let OidcSettings { client_id, client_secret, .. } = &self.settings;
        let mut form = Serializer::new(String::new());
        form.extend_pairs(grant);
        let mut authorization = None;
        match (client_secret, endpoints.secret_in) {
            (Some(secret), SecretPlace::Header) => {
                let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encode(client_id), encode(secret.expose()));
                let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
                value.set_sensitive(true);
                authorization = Some(value);
            }
            (Some(secret), SecretPlace::Body) => {
                form.append_pair("client_id", client_id).append_pair("client_secret", secret.expose());
            }
            (None, _) => {
                form.append_pair("client_id", client_id);
            }
        }
        let (url, reach) = &endpoints.token;
        let request = Request::post(url.as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .extension(*reach);
        let mut request = request.body(Bytes::from(form.finish())).ok()?;
        if let Some(value) = authorization {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        Some(request)
    }
}

/// An error code of the provider, limited to the characters of such codes, because it is shown to people.
fn error_code(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let code: String = text.chars().filter(|c| plain(*c)).take(64).collect();
    if code.is_empty() { "error".into() } else { code }
}

#[cfg(test)]
mod tests;
