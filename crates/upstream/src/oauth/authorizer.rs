//! One server's tokens: handed out, renewed, and replaced when the server refuses them.

mod sign_in;

pub use sign_in::SignIn;

use super::challenge::Challenge;
use super::discovery::{self, AuthServer, Route};
use super::error::{OAuthError, clip};
use super::fetch::Fetcher;
use super::guard::{Guard, Reach, origin_of};
use super::means::{Means, Wish};
use super::record::{Client, Records, Tokens, Trail};
use super::registration::{client_for, client_of};
use super::scopes::Scopes;
use super::token::{self, Grant};
use super::{Browser, ClientIdentity, Http, TokenVault};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::secret::{KnownSecrets, SecretText};
use toolbooth_core::server::OAuthEntry;
use tracing::{debug, info, warn};

/// At most this many authorizations in one window: a server that refuses every token must not keep sending
/// people to a login page.
const MOST_AUTHORIZATIONS: usize = 3;
const WINDOW: Duration = Duration::from_secs(300);
/// A token that was just renewed and is refused again is not renewed once more.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);

/// After a renewal that failed for want of an answer, calls go on without for this long instead of queueing up.
const STUMBLE_PAUSE: Duration = Duration::from_secs(10);

/// What to do with a request that the server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send it again, with the token that [`Authorizer::bearer`] gives now.
    Retry,
    /// Pass the refusal on: nothing better is to be had.
    GiveUp,
}

/// Obtains and keeps the gateway's tokens for one server.
pub struct Authorizer {
    server: String,
    entry: OAuthEntry,
    identity: ClientIdentity,
    means: Means,
    reach: Option<Reach>,
    http: Arc<dyn Http>,
    browser: Option<Arc<dyn Browser>>,
    vault: Arc<dyn TokenVault>,
    desk: Mutex<Desk>,
    /// Held for a whole authorization, so that many refused calls lead to one login, not to many.
    flow: tokio::sync::Mutex<Flow>,
    /// The sign-in under way; a new one ends the one before.
    visit: Mutex<Option<sign_in::Visit>>,
}

/// What every call looks at; locked for moments only.
#[derive(Default)]
struct Desk {
    recalled: bool,
    login: Option<Arc<Login>>,
    /// The one before: its tokens may still be good, and calls that were made with them may be under way.
    former: Option<Arc<Login>>,
    turns: Turns,
    /// What the server said when it last refused: where its metadata is, which scopes it wants.
    challenge: Option<String>,
}

/// How many authorizations ended, well and badly; a waiting call sees by it whether another has done its work.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Turns {
    won: u64,
    lost: u64,
}

struct Login {
    trail: Trail,
    tokens: Tokens,
    /// The tokens, as they are masked in what the server says.
    secrets: OnceLock<KnownSecrets>,
}

impl Login {
    fn secrets(&self) -> KnownSecrets {
        let Tokens { access, refresh, .. } = &self.tokens;
        let known = || KnownSecrets::new(std::iter::once(access).chain(refresh));
        self.secrets.get_or_init(known).clone()
    }
}

impl Desk {
    /// Puts the login at hand aside, so that its tokens are still masked.
    fn put_aside(&mut self) {
        if let Some(login) = self.login.take() {
            self.former = Some(login);
        }
    }
}

/// What only the one who authorizes looks at.
#[derive(Default)]
struct Flow {
    server: Option<AuthServer>,
    authorizations: VecDeque<Instant>,
    renewed: Option<Instant>,
    stumbled: Option<Instant>,
}

/// What a refused request went out with.
enum Sent<'a> {
    Unknown,
    Nothing,
    Token(&'a SecretText),
}

/// What a look into the vault brought.
#[derive(PartialEq, Eq)]
enum Recalled {
    Nothing,
    /// Tokens that were not at hand before and can be sent.
    News,
}

/// What a refusal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Token,
    MoreScopes,
}

impl Authorizer {
    /// An authorizer for the server at `server_url`. Nothing happens until it is asked.
    pub fn new(
        server_url: impl Into<String>,
        entry: OAuthEntry,
        client: ClientIdentity,
        http: Arc<dyn Http>,
        browser: Option<Arc<dyn Browser>>,
        vault: Arc<dyn TokenVault>,
    ) -> Self {
        Self {
            server: server_url.into(),
            entry,
            identity: client,
            means: Means::Person,
            reach: None,
            http,
            browser,
            vault,
            desk: Mutex::default(),
            flow: tokio::sync::Mutex::default(),
            visit: Mutex::default(),
        }
    }

    /// Widens the networks that discovery may enter, for a server whose name resolves to a private address.
    pub fn reaching(mut self, reach: Reach) -> Self {
        self.reach = Some(reach);
        self
    }

    /// Chooses other means than a person's agreement.
    pub fn by(mut self, means: Means) -> Self {
        self.means = means;
        self
    }

    /// The access token to send, renewed if it has run out; `None` when the server should be asked without.
    pub async fn bearer(&self) -> Option<SecretText> {
        if let Some(ready) = self.ready() {
            return ready;
        }
        let mut flow = self.flow.lock().await;
        self.recall().await;
        if let Some(ready) = self.ready() {
            return ready;
        }
        if flow.stumbled.is_some_and(|at| at.elapsed() < STUMBLE_PAUSE) {
            return None;
        }
        match self.renew_for_call(&mut flow).await {
            Ok(login) => Some(secret(&login.tokens)),
            Err(error) => {
                flow.stumbled = Some(Instant::now());
                warn!(%error, "the token for {} could not be renewed", self.name());
                None
            }
        }
    }

    /// The tokens of now and those before them, which the server must not repeat.
    pub(crate) fn secrets(&self) -> [KnownSecrets; 2] {
        let logins = self.at_desk(|desk| [desk.login.clone(), desk.former.clone()]);
        logins.map(|login| login.map_or_else(KnownSecrets::default, |login| login.secrets()))
    }

    /// Answers a refusal: 401, or 403 with `insufficient_scope`. Several `WWW-Authenticate` headers are joined
    /// with commas.
    pub async fn challenged(&self, status: u16, www_authenticate: Option<&str>) -> Result<Next, OAuthError> {
        self.settle(Sent::Unknown, status, www_authenticate).await
    }

    /// Like [`challenged`](Self::challenged), for a request that is known to have gone out with `sent`: when
    /// there is a newer token by now, nobody is bothered.
    pub async fn challenged_for(
        &self,
        sent: Option<&SecretText>,
        status: u16,
        www_authenticate: Option<&str>,
    ) -> Result<Next, OAuthError> {
        self.settle(sent.map_or(Sent::Nothing, Sent::Token), status, www_authenticate).await
    }

    /// Forgets the tokens and the registration behind them; the next refusal starts from nothing.
    pub async fn forget(&self) {
        self.end_visit();
        let mut flow = self.flow.lock().await;
        self.recall().await;
        let records = Records(&*self.vault);
        if let Some(login) = self.login() {
            records.forget_tokens(&login.trail.issuer, &login.trail.resource).await;
            records.forget_client(&login.trail.issuer).await;
        }
        if let Some(server) = &flow.server {
            records.forget_client(&server.issuer).await;
        }
        records.forget_trail(&self.server).await;
        *flow = Flow::default();
        self.at_desk(Desk::put_aside);
    }

    async fn settle(&self, sent: Sent<'_>, status: u16, header: Option<&str>) -> Result<Next, OAuthError> {
        let challenge = Challenge::parse(header.unwrap_or_default());
        let need = match status {
            401 => Need::Token,
            403 if challenge.error.as_deref() == Some("insufficient_scope") => Need::MoreScopes,
            _ => return Ok(Next::GiveUp),
        };
        let before = self.at_desk(|desk| {
            desk.challenge = header.map(str::to_owned);
            desk.turns
        });
        let mut flow = self.flow.lock().await;
        let recalled = self.recall().await;
        let now = self.at_desk(|desk| desk.turns);
        if now.won != before.won || recalled == Recalled::News || self.is_outdated(&sent) {
            return Ok(Next::Retry);
        }
        if now.lost != before.lost {
            return Ok(Next::GiveUp);
        }
        let outcome = self.authorize(&mut flow, need, &challenge).await;
        self.at_desk(|desk| match &outcome {
            Ok(Next::Retry) => desk.turns.won += 1,
            Ok(Next::GiveUp) | Err(_) => desk.turns.lost += 1,
        });
        outcome
    }

    /// Goes the whole way to a token: find, renew or start over.
    async fn authorize(
        &self,
        flow: &mut Flow,
        need: Need,
        challenge: &Challenge,
    ) -> Result<Next, OAuthError> {
        let login = self.login();
        let challenged = Scopes::parse(challenge.scope.as_deref().unwrap_or_default());
        if need == Need::MoreScopes && login.as_ref().is_some_and(|l| l.trail.requested.covers(&challenged)) {
            info!("{} wants scopes that were already asked for: {}", self.name(), challenged.joined());
            return Ok(Next::GiveUp);
        }
        let guard = Guard::new(&self.server, self.reach)?;
        let fetcher = Fetcher { http: &*self.http, guard: &guard };
        let known = login.as_ref().map(|login| login.trail.issuer.as_str());
        let route = discovery::find_route(&fetcher, challenge.resource_metadata.as_deref(), known).await?;
        flow.server = Some(route.server.clone());
        // Scopes and tokens of another issuer or resource say nothing about this one.
        let earlier =
            login.filter(|l| l.trail.issuer == route.server.issuer && l.trail.resource == route.resource);
        if let (Need::Token, Some(earlier)) = (need, &earlier) {
            match self.renew(flow, &fetcher, &route.server, earlier).await {
                Ok(_) => return Ok(Next::Retry),
                Err(OAuthError::TokenRefused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let requested = earlier.as_ref().map(|earlier| &earlier.trail.requested);
        let scopes = route.scopes(challenged, requested, &self.entry.scopes);
        self.start_over(flow, &fetcher, route, scopes).await
    }

    /// Register if need be, ask, redeem, keep.
    async fn start_over(
        &self,
        flow: &mut Flow,
        fetcher: &Fetcher<'_>,
        route: Route,
        scopes: Scopes,
    ) -> Result<Next, OAuthError> {
        let Route { resource, server, .. } = route;
        self.check_binding(&server.issuer).await?;
        let unattended = self.means.are_unattended(&server, &self.entry);
        if !unattended && self.browser.is_none() {
            return Err(OAuthError::NeedsLogin { server: self.name() });
        }
        if !flow.may_authorize() {
            warn!("{} refuses every token; no more logins for a while", self.name());
            return Ok(Next::GiveUp);
        }
        let records = Records(&*self.vault);
        let client = client_for(&server, &self.entry, &self.identity, fetcher, &records).await?;
        let wish = Wish { server: &server, client: &client, resource: &resource, scopes: &scopes };
        let tokens = self.obtain(fetcher, &wish).await?;
        let Client { id: client_id, .. } = client;
        let trail = Trail { issuer: server.issuer, resource, client_id, requested: scopes, unattended };
        self.keep(trail, tokens).await;
        Ok(Next::Retry)
    }

    async fn obtain(&self, fetcher: &Fetcher<'_>, wish: &Wish<'_>) -> Result<Tokens, OAuthError> {
        let outcome = self.means.obtain(fetcher, self.browser.as_deref(), wish).await;
        if let Err(OAuthError::TokenRefused { error, .. }) = &outcome
            && is_about_the_client(error)
        {
            Records(&*self.vault).forget_client(&wish.server.issuer).await;
        }
        outcome
    }

    /// A configured client belongs to the authorization server that it was first used with.
    async fn check_binding(&self, issuer: &str) -> Result<(), OAuthError> {
        let Some(configured) = &self.entry.client_id else { return Ok(()) };
        match Records(&*self.vault).trail(&self.server).await {
            Some(trail) if trail.client_id == configured.expose() && trail.issuer != issuer => {
                Err(OAuthError::IssuerChanged { was: clip(&trail.issuer), now: clip(issuer) })
            }
            _ => Ok(()),
        }
    }

    /// Renews the token at hand before a call, finding its authorization server again if need be.
    async fn renew_for_call(&self, flow: &mut Flow) -> Result<Arc<Login>, OAuthError> {
        let login = self.login().ok_or_else(|| OAuthError::NeedsLogin { server: self.name() })?;
        let guard = Guard::new(&self.server, self.reach)?;
        let fetcher = Fetcher { http: &*self.http, guard: &guard };
        let server = match flow.server.take().filter(|server| server.issuer == login.trail.issuer) {
            Some(server) => server,
            None => discovery::describe(&fetcher, &login.trail.issuer).await?,
        };
        flow.server = Some(server.clone());
        // This token ran out; that it was renewed lately says nothing about it.
        flow.renewed = None;
        if login.tokens.refresh.is_none() && login.trail.unattended {
            return self.obtain_again(&fetcher, &server, &login).await;
        }
        self.renew(flow, &fetcher, &server, &login).await
    }

    /// Obtains what ran out once more, where that takes nobody's attention.
    async fn obtain_again(
        &self,
        fetcher: &Fetcher<'_>,
        server: &AuthServer,
        login: &Login,
    ) -> Result<Arc<Login>, OAuthError> {
        if !self.means.are_unattended(server, &self.entry) {
            return Err(OAuthError::NeedsLogin { server: self.name() });
        }
        let records = Records(&*self.vault);
        let client = client_for(server, &self.entry, &self.identity, fetcher, &records).await?;
        let trail = login.trail.clone();
        let wish = Wish { server, client: &client, resource: &trail.resource, scopes: &trail.requested };
        let tokens = self.obtain(fetcher, &wish).await?;
        Ok(self.keep(trail, tokens).await)
    }

    /// Trades the refresh token for new tokens; `TokenRefused` when there is nothing to trade.
    async fn renew(
        &self,
        flow: &mut Flow,
        fetcher: &Fetcher<'_>,
        server: &AuthServer,
        login: &Login,
    ) -> Result<Arc<Login>, OAuthError> {
        let refused =
            |error: &str| OAuthError::TokenRefused { issuer: clip(&server.issuer), error: error.into() };
        let refresh = login.tokens.refresh.as_deref().ok_or_else(|| refused("no refresh token"))?;
        if flow.renewed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return Err(refused("just renewed"));
        }
        let records = Records(&*self.vault);
        let client = client_of(server, &self.entry, &self.identity, &records).await;
        let client = client
            .filter(|client| client.id == login.trail.client_id)
            .ok_or_else(|| refused("the refresh token belongs to another client"))?;
        flow.renewed = Some(Instant::now());
        let trail = login.trail.clone();
        match token::request(fetcher, server, &client, &trail.resource, Grant::Refresh(refresh)).await {
            Ok(mut tokens) => {
                // An authorization server that does not rotate leaves the old one in force.
                tokens.refresh = tokens.refresh.or_else(|| login.tokens.refresh.clone());
                debug!("the token for {} was renewed", self.name());
                Ok(self.keep(trail, tokens).await)
            }
            Err(OAuthError::TokenRefused { issuer, error }) => {
                if is_about_the_client(&error) {
                    records.forget_client(&server.issuer).await;
                }
                // It will not be accepted later either, and must not be tried before every call.
                self.keep(trail, Tokens { refresh: None, ..login.tokens.clone() }).await;
                Err(OAuthError::TokenRefused { issuer, error })
            }
            Err(error) => Err(error),
        }
    }

    async fn keep(&self, trail: Trail, tokens: Tokens) -> Arc<Login> {
        let records = Records(&*self.vault);
        if let Some(old) = self.login().filter(|old| old.trail.issuer != trail.issuer) {
            records.forget_tokens(&old.trail.issuer, &old.trail.resource).await;
        }
        records.keep_tokens(&trail.issuer, &trail.resource, &tokens).await;
        records.keep_trail(&self.server, &trail).await;
        let login = Arc::new(Login { trail, tokens, secrets: OnceLock::new() });
        self.at_desk(|desk| {
            desk.put_aside();
            desk.login = Some(login.clone());
        });
        login
    }

    /// Takes up what the vault holds: from an earlier run, another replica, or a login in another process.
    async fn recall(&self) -> Recalled {
        let records = Records(&*self.vault);
        let stored = match records.trail(&self.server).await {
            Some(trail) if self.is_mine(&trail) => {
                let tokens = records.tokens(&trail.issuer, &trail.resource).await;
                tokens.map(|tokens| Arc::new(Login { trail, tokens, secrets: OnceLock::new() }))
            }
            _ => None,
        };
        self.at_desk(|desk| {
            let known = desk.login.as_ref().map(|login| &login.tokens);
            let is_news = stored.as_ref().is_some_and(|stored| Some(&stored.tokens) != known);
            desk.recalled = true;
            if is_news {
                desk.put_aside();
            }
            // A vault that lost what it was given must not cost the login at hand.
            desk.login = stored.or(desk.login.take());
            let is_fresh = desk.login.as_ref().is_some_and(|login| login.tokens.is_fresh());
            if is_news && is_fresh { Recalled::News } else { Recalled::Nothing }
        })
    }

    /// A record that speaks for another resource or client is not this server's, however it got there.
    fn is_mine(&self, trail: &Trail) -> bool {
        let covers = Guard::new(&self.server, None).is_ok_and(|guard| guard.is_covered_by(&trail.resource));
        covers && self.entry.client_id.as_ref().is_none_or(|id| id.expose() == trail.client_id)
    }

    /// The answer to [`bearer`](Self::bearer) where it needs no waiting.
    fn ready(&self) -> Option<Option<SecretText>> {
        self.at_desk(|desk| match &desk.login {
            _ if !desk.recalled => None,
            Some(login) if login.tokens.is_fresh() => Some(Some(secret(&login.tokens))),
            Some(login) if login.tokens.refresh.is_some() || login.trail.unattended => None,
            _ => Some(None),
        })
    }

    fn is_outdated(&self, sent: &Sent<'_>) -> bool {
        let Some(login) = self.login().filter(|login| login.tokens.is_fresh()) else { return false };
        match sent {
            Sent::Unknown => false,
            Sent::Nothing => true,
            Sent::Token(sent) => sent.expose() != login.tokens.access,
        }
    }

    /// The server's name for messages; its address may hold secrets.
    fn name(&self) -> String {
        origin_of(&self.server)
    }

    fn login(&self) -> Option<Arc<Login>> {
        self.at_desk(|desk| desk.login.clone())
    }

    fn at_desk<T>(&self, act: impl FnOnce(&mut Desk) -> T) -> T {
        act(&mut self.desk.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Flow {
    /// Counts an authorization, unless too many happened lately.
    fn may_authorize(&mut self) -> bool {
        while self.authorizations.front().is_some_and(|at| at.elapsed() > WINDOW) {
            self.authorizations.pop_front();
        }
        let may = self.authorizations.len() < MOST_AUTHORIZATIONS;
        if may {
            self.authorizations.push_back(Instant::now());
        }
        may
    }
}

fn secret(tokens: &Tokens) -> SecretText {
    SecretText::expanded("${access_token}", tokens.access.as_str())
}

/// Whether the authorization server no longer knows the client, so that it has to register again.
fn is_about_the_client(error: &str) -> bool {
    matches!(error, "invalid_client" | "unauthorized_client")
}
