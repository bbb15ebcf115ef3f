//! A person's sign-in in two steps: where to go, and what came back from there.
//!
//! Whoever shows the page may be another process on another machine. The code passes through their hands, and is
//! worth nothing without the verifier that stays here; tokens never leave.

use super::super::challenge::Challenge;
use super::super::discovery;
use super::super::error::{AuthorizeError, OAuthError, clip};
use super::super::fetch::Fetcher;
use super::super::guard::{Guard, Reach, is_loopback};
use super::super::scopes::Scopes;
use super::super::{Browser, ClientIdentity};
use super::{Authorizer, Desk, Next};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Request, StatusCode};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::Url;

/// How a sign-in begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignIn {
    /// A person has to go to this address.
    At(String),
    /// Nobody was needed: the gateway's own credentials were enough.
    Done,
}

/// A sign-in under way.
pub(super) struct Visit {
    answer: Option<oneshot::Sender<String>>,
    done: JoinHandle<Result<(), OAuthError>>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.done.abort();
    }
}

/// Hands an address out and waits for what came back from there.
struct Counter {
    address: Mutex<Option<oneshot::Sender<String>>>,
    answer: Mutex<Option<oneshot::Receiver<String>>>,
}

#[async_trait]
impl Browser for Counter {
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
    /// Begins a sign-in whose page comes back to `redirect_uri`, on the machine of whoever signs in. Tokens that are
    /// at hand serve on until it is finished.
    pub async fn begin_sign_in(&self, redirect_uri: &str) -> Result<SignIn, OAuthError> {
        let comes_home =
            Url::parse(redirect_uri).is_ok_and(|uri| uri.scheme() == "http" && is_loopback(&uri));
        if !comes_home {
            return Err(OAuthError::BadRedirect(clip(redirect_uri)));
        }
        let (address, told) = oneshot::channel();
        let (answer, awaited) = oneshot::channel();
        let counter = Counter { address: Mutex::new(Some(address)), answer: Mutex::new(Some(awaited)) };
        let guest = self.guest(redirect_uri, Arc::new(counter));
        let challenge = match self.at_desk(|desk| desk.challenge.clone()) {
            Some(challenge) => Some(challenge),
            None => self.provoke().await,
        };
        let done = tokio::spawn(async move { guest.log_in(challenge.as_deref()).await });
        let mut visit = Visit { answer: Some(answer), done };
        match told.await {
            Ok(url) => {
                *self.visit.lock().unwrap_or_else(PoisonError::into_inner) = Some(visit);
                Ok(SignIn::At(url))
            }
            // It ended without asking anybody.
            Err(_) => {
                ended((&mut visit.done).await)?;
                self.look_again();
                Ok(SignIn::Done)
            }
        }
    }

    /// Finishes the sign-in under way with the complete address that the page sent the person back to.
    pub async fn finish_sign_in(&self, redirect: String) -> Result<(), OAuthError> {
        let mut visit = taken(&self.visit).ok_or(OAuthError::NoSignIn)?;
        let answer = visit.answer.take().ok_or(OAuthError::NoSignIn)?;
        // A visit that ended meanwhile says so itself.
        let _ = answer.send(redirect);
        ended((&mut visit.done).await)?;
        self.look_again();
        Ok(())
    }

    /// What the server says to somebody without a token: tokens that serve well have kept it from saying so to us.
    async fn provoke(&self) -> Option<String> {
        let mut request = Request::post(&self.server)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Bytes::from_static(br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#))
            .ok()?;
        request.extensions_mut().insert(Reach::Configured);
        let answer = self.http.fetch(request).await.ok()?;
        let refused = answer.status() == StatusCode::UNAUTHORIZED;
        let challenge = answer.headers().get(WWW_AUTHENTICATE).filter(|_| refused)?;
        challenge.to_str().ok().map(str::to_owned)
    }

    /// Gives up the sign-in under way, if there is one.
    pub(super) fn end_visit(&self) {
        drop(taken(&self.visit));
    }

    /// The next request takes its token from the vault.
    fn look_again(&self) {
        self.at_desk(|desk| desk.recalled = false);
    }

    /// Another authorizer of the same server and vault. A sign-in of its own keeps no call waiting.
    fn guest(&self, redirect_uri: &str, browser: Arc<dyn Browser>) -> Self {
        Self {
            server: self.server.clone(),
            entry: self.entry.clone(),
            identity: ClientIdentity { redirect_uri: redirect_uri.to_owned(), ..self.identity.clone() },
            means: self.means.clone(),
            reach: self.reach,
            http: self.http.clone(),
            browser: Some(browser),
            vault: self.vault.clone(),
            desk: Mutex::new(Desk::default()),
            flow: tokio::sync::Mutex::default(),
            visit: Mutex::default(),
        }
    }

    /// Goes the whole way to new tokens, whatever is at hand.
    async fn log_in(&self, challenge: Option<&str>) -> Result<(), OAuthError> {
        let mut flow = self.flow.lock().await;
        self.recall().await;
        let challenge = Challenge::parse(challenge.unwrap_or_default());
        let guard = Guard::new(&self.server, self.reach)?;
        let fetcher = Fetcher { http: &*self.http, guard: &guard };
        let earlier = self.login();
        let known = earlier.as_ref().map(|login| login.trail.issuer.as_str());
        let route = discovery::find_route(&fetcher, challenge.resource_metadata.as_deref(), known).await?;
        let challenged = Scopes::parse(challenge.scope.as_deref().unwrap_or_default());
        let scopes = route.scopes(challenged, None, &self.entry.scopes);
        match self.start_over(&mut flow, &fetcher, route, scopes).await? {
            Next::Retry => Ok(()),
            Next::GiveUp => Err(AuthorizeError::Cancelled.into()),
        }
    }
}

fn ended(done: Result<Result<(), OAuthError>, tokio::task::JoinError>) -> Result<(), OAuthError> {
    done.unwrap_or_else(|_| Err(AuthorizeError::Cancelled.into()))
}
