//! The OAuth tokens of one server: provided, renewed, and replaced when the server refuses them.

mod renewal;
mod sign_in;
mod stored;

pub use sign_in::SignInStart;
pub use stored::VaultChange;

use super::challenge::BearerChallenge;
use super::discovery::{self, AuthServer, TokenRoute};
use super::error::{OAuthError, clip};
use super::fetch::Fetcher;
use super::guard::{NetworkReach, UrlGuard, origin_of};
use super::method::AuthorizationMethod;
use super::record::{OAuthClient, Records, TokenOrigin, TokenSet};
use super::registration::client_for;
use super::scopes::Scopes;
use super::token::TokenRequest;
use super::{Browser, ClientIdentity, HttpFetch, TokenVault};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use stored::VaultLookup;
use tokio::time::Instant;
use toolbooth_core::clock::Clock;
use toolbooth_core::secret::{KnownSecrets, SecretText};
use toolbooth_core::server::OAuthEntry;
use tracing::{info, warn};

/// Maximum number of authorizations per window: a server that refuses every token must not send people to a
/// login page again and again.
const MAX_AUTHORIZATIONS: usize = 3;
const WINDOW: Duration = Duration::from_secs(300);
/// After a failed renewal, calls continue without a token for this long instead of queueing up.
const RENEWAL_FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// What to do with a request that the server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Send it again with the token that [`Authorizer::bearer`] returns now.
    Retry,
    /// Return the refusal: no better token is available.
    GiveUp,
}

/// Obtains and keeps the gateway's tokens for one server.
pub struct Authorizer {
    server: String,
    entry: OAuthEntry,
    identity: ClientIdentity,
    method: AuthorizationMethod,
    reach: Option<NetworkReach>,
    clock: Arc<Clock>,
    http: Arc<dyn HttpFetch>,
    browser: Option<Arc<dyn Browser>>,
    vault: Arc<dyn TokenVault>,
    state: Mutex<TokenState>,
    /// Held for a whole authorization, so that many refused calls lead to one login.
    flow: tokio::sync::Mutex<Flow>,
    /// The sign-in in progress; a new one cancels it.
    pending_sign_in: Mutex<Option<sign_in::PendingSignIn>>,
}

/// The state that every call reads; locked only briefly.
#[derive(Default)]
struct TokenState {
    loaded: bool,
    login: Option<Arc<Login>>,
    /// The previous login: its tokens may still be valid, and calls made with them may be in flight.
    former: Option<Arc<Login>>,
    counts: AuthorizationCount,
    /// The server's last challenge: its metadata URL and required scopes.
    challenge: Option<String>,
}

/// Number of successful and failed authorizations, from which a waiting call sees whether another has
/// finished.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct AuthorizationCount {
    succeeded: u64,
    failed: u64,
}

struct Login {
    origin: TokenOrigin,
    tokens: TokenSet,
    /// The tokens as secrets to mask.
    secrets: OnceLock<KnownSecrets>,
}

impl Login {
    fn secrets(&self) -> KnownSecrets {
        let TokenSet { access, refresh, .. } = &self.tokens;
        let known = || KnownSecrets::new(std::iter::once(access).chain(refresh));
        self.secrets.get_or_init(known).clone()
    }
}

impl TokenState {
    /// Moves the current login to `former`, so that its tokens are still masked.
    fn retire_login(&mut self) {
        if let Some(login) = self.login.take() {
            self.former = Some(login);
        }
    }
}

/// The state that only the authorizing task reads.
#[derive(Default)]
struct Flow {
    server: Option<AuthServer>,
    authorizations: VecDeque<Instant>,
    renewed: Option<Instant>,
    renewal_failed: Option<Instant>,
}

/// The token that a refused request was sent with.
enum SentToken<'a> {
    Unknown,
    Nothing,
    Token(&'a SecretText),
}

/// What a refusal requires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AuthorizationNeed {
    Token,
    MoreScopes,
}

impl Authorizer {
    /// Creates an authorizer for the server at `server_url`. It does nothing until it is used.
    pub fn new(
        server_url: impl Into<String>,
        entry: OAuthEntry,
        client: ClientIdentity,
        clock: Arc<Clock>,
        http: Arc<dyn HttpFetch>,
        browser: Option<Arc<dyn Browser>>,
        vault: Arc<dyn TokenVault>,
    ) -> Self {
        Self {
            server: server_url.into(),
            entry,
            identity: client,
            method: AuthorizationMethod::Person,
            reach: None,
            clock,
            http,
            browser,
            vault,
            state: Mutex::default(),
            flow: tokio::sync::Mutex::default(),
            pending_sign_in: Mutex::default(),
        }
    }

    /// Extends the networks that discovery may reach, for a server whose name resolves to a private address.
    pub fn reaching(mut self, reach: NetworkReach) -> Self {
        self.reach = Some(reach);
        self
    }

    /// Sets another authorization method than a person's consent.
    pub fn with_method(mut self, method: AuthorizationMethod) -> Self {
        self.method = method;
        self
    }

    /// The access token to send, renewed if it has expired; `None` if the request should be sent without one.
    pub async fn bearer(&self) -> Option<SecretText> {
        if let Some(ready) = self.ready() {
            return ready;
        }
        let mut flow = self.flow.lock().await;
        self.load_tokens().await;
        if let Some(ready) = self.ready() {
            return ready;
        }
        if flow.renewal_failed.is_some_and(|at| at.elapsed() < RENEWAL_FAILURE_PAUSE) {
            return None;
        }
        // Calls go on without a turn if it cannot be had.
        let turn = self.vault.turn().await.ok().flatten();
        // Another replica may have renewed the token in the meantime. Most refresh tokens can be used once.
        if turn.is_some() && self.load_tokens().await == VaultLookup::New {
            return self.ready().flatten();
        }
        match self.renew_for_call(&mut flow).await {
            Ok(login) => Some(secret(&login.tokens)),
            Err(error) => {
                flow.renewal_failed = Some(Instant::now());
                warn!(%error, "the token for {} could not be renewed", self.name());
                None
            }
        }
    }

    /// The current and previous tokens as secrets to mask.
    pub(crate) fn secrets(&self) -> [KnownSecrets; 2] {
        let logins = self.with_state(|state| [state.login.clone(), state.former.clone()]);
        logins.map(|login| login.map_or_else(KnownSecrets::default, |login| login.secrets()))
    }

    /// Handles a refusal: 401, or 403 with `insufficient_scope`. Several `WWW-Authenticate` headers are
    /// joined with commas.
    pub async fn challenged(
        &self,
        status: u16,
        www_authenticate: Option<&str>,
    ) -> Result<RetryDecision, OAuthError> {
        self.handle_refusal(SentToken::Unknown, status, www_authenticate).await
    }

    /// Like [`challenged`](Self::challenged), for a request that is known to have been sent with `sent`. If a
    /// newer token is available, no authorization is started.
    pub async fn challenged_for(
        &self,
        sent: Option<&SecretText>,
        status: u16,
        www_authenticate: Option<&str>,
    ) -> Result<RetryDecision, OAuthError> {
        self.handle_refusal(sent.map_or(SentToken::Nothing, SentToken::Token), status, www_authenticate).await
    }

    async fn handle_refusal(
        &self,
        sent: SentToken<'_>,
        status: u16,
        header: Option<&str>,
    ) -> Result<RetryDecision, OAuthError> {
        let challenge = BearerChallenge::parse(header.unwrap_or_default());
        let need = match status {
            401 => AuthorizationNeed::Token,
            403 if challenge.error.as_deref() == Some("insufficient_scope") => AuthorizationNeed::MoreScopes,
            _ => return Ok(RetryDecision::GiveUp),
        };
        let before = self.with_state(|state| {
            state.challenge = header.map(str::to_owned);
            state.counts
        });
        let mut flow = self.flow.lock().await;
        let loaded = self.load_tokens().await;
        let now = self.with_state(|state| state.counts);
        if now.succeeded != before.succeeded || loaded == VaultLookup::New || self.is_outdated(&sent) {
            return Ok(RetryDecision::Retry);
        }
        if now.failed != before.failed {
            return Ok(RetryDecision::GiveUp);
        }
        let turn = self.vault.turn().await.ok().flatten();
        if turn.is_some() && self.load_tokens().await == VaultLookup::New {
            return Ok(RetryDecision::Retry);
        }
        let outcome = self.authorize(&mut flow, need, &challenge).await;
        drop(turn);
        self.with_state(|state| match &outcome {
            Ok(RetryDecision::Retry) => state.counts.succeeded += 1,
            Ok(RetryDecision::GiveUp) | Err(_) => state.counts.failed += 1,
        });
        outcome
    }

    /// The complete authorization: discovers the server, renews the token, or starts over.
    async fn authorize(
        &self,
        flow: &mut Flow,
        need: AuthorizationNeed,
        challenge: &BearerChallenge,
    ) -> Result<RetryDecision, OAuthError> {
        let login = self.login();
        let challenged = Scopes::parse(challenge.scope.as_deref().unwrap_or_default());
        if need == AuthorizationNeed::MoreScopes
            && login.as_ref().is_some_and(|l| l.origin.requested.covers(&challenged))
        {
            info!("{} requires scopes that were already requested: {}", self.name(), challenged.joined());
            return Ok(RetryDecision::GiveUp);
        }
        let guard = UrlGuard::new(&self.server, self.reach)?;
        let fetcher = Fetcher { http: &*self.http, guard: &guard };
        let known = login.as_ref().map(|login| login.origin.issuer.as_str());
        let route = discovery::find_route(&fetcher, challenge.resource_metadata.as_deref(), known).await?;
        flow.server = Some(route.server.clone());
        // Scopes and tokens of another issuer or resource do not apply to this one.
        let earlier =
            login.filter(|l| l.origin.issuer == route.server.issuer && l.origin.resource == route.resource);
        if let (AuthorizationNeed::Token, Some(earlier)) = (need, &earlier) {
            match self.renew(flow, &fetcher, &route.server, earlier).await {
                Ok(_) => return Ok(RetryDecision::Retry),
                Err(OAuthError::TokenRefused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let requested = earlier.as_ref().map(|earlier| &earlier.origin.requested);
        let scopes = route.scopes(challenged, requested, &self.entry.scopes);
        self.start_over(flow, &fetcher, route, scopes).await
    }

    /// Registers if necessary, obtains tokens, and stores them.
    async fn start_over(
        &self,
        flow: &mut Flow,
        fetcher: &Fetcher<'_>,
        route: TokenRoute,
        scopes: Scopes,
    ) -> Result<RetryDecision, OAuthError> {
        let TokenRoute { resource, server, .. } = route;
        self.check_binding(&server.issuer).await?;
        let unattended = self.method.is_unattended(&server, &self.entry);
        if !unattended && self.browser.is_none() {
            return Err(OAuthError::NeedsLogin { server: self.name() });
        }
        if !flow.may_authorize() {
            warn!("{} refuses every token; logins are paused", self.name());
            return Ok(RetryDecision::GiveUp);
        }
        let records = Records(&*self.vault);
        let client = client_for(&server, &self.entry, &self.identity, fetcher, &records, &self.clock).await?;
        let token_request = TokenRequest {
            server: &server,
            client: &client,
            resource: &resource,
            scopes: &scopes,
            clock: &self.clock,
        };
        let tokens = self.obtain(fetcher, &token_request).await?;
        let OAuthClient { id: client_id, .. } = client;
        let origin =
            TokenOrigin { issuer: server.issuer, resource, client_id, requested: scopes, unattended };
        self.keep(origin, tokens).await;
        Ok(RetryDecision::Retry)
    }

    /// The parameters of a request for tokens like earlier ones.
    fn token_request<'a>(
        &'a self,
        server: &'a AuthServer,
        client: &'a OAuthClient,
        earlier: &'a TokenOrigin,
    ) -> TokenRequest<'a> {
        let TokenOrigin { resource, requested, .. } = earlier;
        TokenRequest { server, client, resource, scopes: requested, clock: &self.clock }
    }

    async fn obtain(
        &self,
        fetcher: &Fetcher<'_>,
        token_request: &TokenRequest<'_>,
    ) -> Result<TokenSet, OAuthError> {
        let outcome = self.method.obtain(fetcher, self.browser.as_deref(), token_request).await;
        if let Err(OAuthError::TokenRefused { error, .. }) = &outcome
            && is_about_the_client(error)
        {
            Records(&*self.vault).forget_client(&token_request.server.issuer).await;
        }
        outcome
    }

    /// Checks that a configured client is used only with the authorization server it was first used with.
    async fn check_binding(&self, issuer: &str) -> Result<(), OAuthError> {
        let Some(configured) = &self.entry.client_id else { return Ok(()) };
        match Records(&*self.vault).origin(&self.server).await {
            Some(origin) if origin.client_id == configured.expose() && origin.issuer != issuer => {
                Err(OAuthError::IssuerChanged { was: clip(&origin.issuer), now: clip(issuer) })
            }
            _ => Ok(()),
        }
    }

    /// The result of [`bearer`](Self::bearer) if it is available without waiting.
    fn ready(&self) -> Option<Option<SecretText>> {
        self.with_state(|state| match &state.login {
            _ if !state.loaded => None,
            Some(login) if login.tokens.is_fresh(&self.clock) => Some(Some(secret(&login.tokens))),
            Some(login) if login.tokens.refresh.is_some() || login.origin.unattended => None,
            _ => Some(None),
        })
    }

    fn is_outdated(&self, sent: &SentToken<'_>) -> bool {
        let Some(login) = self.login().filter(|login| login.tokens.is_fresh(&self.clock)) else {
            return false;
        };
        match sent {
            SentToken::Unknown => false,
            SentToken::Nothing => true,
            SentToken::Token(sent) => sent.expose() != login.tokens.access,
        }
    }

    /// The server's origin for messages; its full URL may contain secrets.
    fn name(&self) -> String {
        origin_of(&self.server)
    }

    fn login(&self) -> Option<Arc<Login>> {
        self.with_state(|state| state.login.clone())
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut TokenState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Flow {
    /// Counts an authorization, unless there were too many recently.
    fn may_authorize(&mut self) -> bool {
        while self.authorizations.front().is_some_and(|at| at.elapsed() > WINDOW) {
            self.authorizations.pop_front();
        }
        let may = self.authorizations.len() < MAX_AUTHORIZATIONS;
        if may {
            self.authorizations.push_back(Instant::now());
        }
        may
    }
}

fn secret(tokens: &TokenSet) -> SecretText {
    SecretText::expanded("${access_token}", tokens.access.as_str())
}

/// Whether the authorization server no longer knows the client, so that it must register again.
fn is_about_the_client(error: &str) -> bool {
    matches!(error, "invalid_client" | "unauthorized_client")
}
