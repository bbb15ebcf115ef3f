//! A person's sign-in in two steps: start it with a URL to visit, and finish it with the redirect.
//!
//! The page may be shown by another process on another machine. The code passes through that process, but is
//! useless without the verifier that stays here; tokens never leave the gateway.

use super::super::challenge::BearerChallenge;
use super::super::discovery;
use super::super::error::{AuthorizeError, OAuthError, clip};
use super::super::fetch::Fetcher;
use super::super::guard::{NetworkReach, UrlGuard, is_loopback};
use super::super::scopes::Scopes;
use super::super::{Browser, ClientIdentity};
use super::{Authorizer, RetryDecision, TokenState};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Request, StatusCode};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::Url;

/// The result of starting a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignInStart {
    /// A person has to visit this URL.
    At(String),
    /// The gateway's own credentials were sufficient; no person is needed.
    Done,
}

/// A sign-in in progress.
pub(super) struct PendingSignIn {
    answer: Option<oneshot::Sender<String>>,
    done: JoinHandle<Result<(), OAuthError>>,
}

impl Drop for PendingSignIn {
    fn drop(&mut self) {
        self.done.abort();
    }
}

/// A browser on the other side of an API: hands the URL out and waits for the redirect.
struct RemoteBrowser {
    address: Mutex<Option<oneshot::Sender<String>>>,
    answer: Mutex<Option<oneshot::Receiver<String>>>,
}

#[async_trait]
impl Browser for RemoteBrowser {
    async fn authorize(&self, url: &str, _: &str) -> Result<String, AuthorizeError> {
        let (Some(address), Some(answer)) = (taken(&self.address), taken(&self.answer)) else {
            return Err(AuthorizeError::NoBrowser);
        };
        address.send(url.to_owned()).map_err(|_| AuthorizeError::Cancelled)?;
        answer.await.map_err(|_| AuthorizeError::Cancelled)
    }
}

fn taken<T>(drawer: &Mutex<Option<T>>) -> Option<T> {
    drawer.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Authorizer {
    /// Starts a sign-in that redirects to `redirect_uri`, on the machine of the person who signs in. Current
    /// tokens stay in use until it is finished.
    pub async fn begin_sign_in(&self, redirect_uri: &str) -> Result<SignInStart, OAuthError> {
        let is_local = Url::parse(redirect_uri).is_ok_and(|uri| uri.scheme() == "http" && is_loopback(&uri));
        if !is_local {
            return Err(OAuthError::BadRedirect(clip(redirect_uri)));
        }
        let (address, url_sent) = oneshot::channel();
        let (answer, awaited) = oneshot::channel();
        let browser = RemoteBrowser { address: Mutex::new(Some(address)), answer: Mutex::new(Some(awaited)) };
        let detached = self.detached(redirect_uri, Arc::new(browser));
        let challenge = match self.with_state(|state| state.challenge.clone()) {
            Some(challenge) => Some(challenge),
            None => self.fetch_challenge().await,
        };
        let done = tokio::spawn(async move { detached.log_in(challenge.as_deref()).await });
        let mut pending_sign_in = PendingSignIn { answer: Some(answer), done };
        match url_sent.await {
            Ok(url) => {
                *self.pending_sign_in.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending_sign_in);
                Ok(SignInStart::At(url))
            }
            // It ended without a person.
            Err(_) => {
                ended((&mut pending_sign_in.done).await)?;
                self.reload_tokens();
                Ok(SignInStart::Done)
            }
        }
    }

    /// Finishes the sign-in in progress with the complete redirect URL.
    pub async fn finish_sign_in(&self, redirect: String) -> Result<(), OAuthError> {
        let mut pending_sign_in = taken(&self.pending_sign_in).ok_or(OAuthError::NoSignIn)?;
        let answer = pending_sign_in.answer.take().ok_or(OAuthError::NoSignIn)?;
        // A sign-in that ended meanwhile returns its own error.
        let _ = answer.send(redirect);
        ended((&mut pending_sign_in.done).await)?;
        self.reload_tokens();
        Ok(())
    }

    /// The server's challenge to a request without a token. While valid tokens were used, no challenge was
    /// received.
    async fn fetch_challenge(&self) -> Option<String> {
        let mut request = Request::post(&self.server)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Bytes::from_static(br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#))
            .ok()?;
        request.extensions_mut().insert(NetworkReach::Configured);
        let answer = self.http.fetch(request).await.ok()?;
        let refused = answer.status() == StatusCode::UNAUTHORIZED;
        let challenge = answer.headers().get(WWW_AUTHENTICATE).filter(|_| refused)?;
        challenge.to_str().ok().map(str::to_owned)
    }

    /// Cancels the sign-in in progress, if there is one.
    pub(super) fn cancel_sign_in(&self) {
        drop(taken(&self.pending_sign_in));
    }

    /// Makes the next request read its token from the vault.
    fn reload_tokens(&self) {
        self.with_state(|state| state.loaded = false);
    }

    /// Another authorizer for the same server and vault. A separate sign-in does not block calls.
    fn detached(&self, redirect_uri: &str, browser: Arc<dyn Browser>) -> Self {
        Self {
            server: self.server.clone(),
            entry: self.entry.clone(),
            identity: ClientIdentity { redirect_uri: redirect_uri.to_owned(), ..self.identity.clone() },
            method: self.method.clone(),
            reach: self.reach,
            clock: self.clock.clone(),
            http: self.http.clone(),
            browser: Some(browser),
            vault: self.vault.clone(),
            state: Mutex::new(TokenState::default()),
            flow: tokio::sync::Mutex::default(),
            pending_sign_in: Mutex::default(),
        }
    }

    /// Obtains new tokens, regardless of the current ones.
    async fn log_in(&self, challenge: Option<&str>) -> Result<(), OAuthError> {
        let mut flow = self.flow.lock().await;
        self.load_tokens().await;
        let challenge = BearerChallenge::parse(challenge.unwrap_or_default());
        let guard = UrlGuard::new(&self.server, self.reach)?;
        let fetcher = Fetcher { http: &*self.http, guard: &guard };
        let earlier = self.login();
        let known = earlier.as_ref().map(|login| login.origin.issuer.as_str());
        let route = discovery::find_route(&fetcher, challenge.resource_metadata.as_deref(), known).await?;
        let challenged = Scopes::parse(challenge.scope.as_deref().unwrap_or_default());
        let scopes = route.scopes(challenged, None, &self.entry.scopes);
        match self.start_over(&mut flow, &fetcher, route, scopes).await? {
            RetryDecision::Retry => Ok(()),
            RetryDecision::GiveUp => Err(AuthorizeError::Cancelled.into()),
        }
    }
}

fn ended(done: Result<Result<(), OAuthError>, tokio::task::JoinError>) -> Result<(), OAuthError> {
    done.unwrap_or_else(|_| Err(AuthorizeError::Cancelled.into()))
}
