//! Stage 1, identify: establishes the caller of a request, for all front ends. Requests cannot name their caller.
//!
//! A front end passes the headers, or that the request came over the local socket, and gets a caller or an error. The mode
//! decides who the user is, the directory decides what the user may see.

mod absent;
mod bearer;
mod caller_cache;
mod conversation;
mod directory;
mod issuer;
pub mod jwt;
mod metadata;
pub mod oidc;
mod provider_check;
mod proxy;
mod refusal;
mod refusal_reason;
mod service;
mod throttle;
mod token;

pub use conversation::{MAX_SESSION, SESSION_HEADER, is_session, with_forwarded_headers, with_session};
pub use directory::{Directory, DirectoryChange};
pub use metadata::{AuthChallenge, RequestedResource, Resource, persona_of};
pub use provider_check::{ProviderFinding, ProviderFindingLevel, ProviderToCheck};
pub use proxy::Proxy;
pub use refusal::Unidentified;
pub use refusal_reason::RefusalReason;
pub use service::GroupService;
pub use token::TokenBook;
use token::TokenSelection;

use crate::peer::{Ingress, LocalAccess};
use absent::SignInCache;
use arc_swap::{ArcSwap, Guard};
use caller_cache::CallerCache;
use http::header::{AUTHORIZATION, AsHeaderName};
use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use throttle::{Repetition, Throttle};
use tokio::sync::broadcast;
use tokio::time::Instant;
use toolbooth_core::caller::{Caller, IdentifiedBy};
use toolbooth_core::clock::Clock;
use toolbooth_core::token::TokenRecord;
use toolbooth_engine::{AbsentCaller, Rights, SignInRecord};

/// The header that selects a persona.
pub static PERSONA_HEADER: HeaderName = HeaderName::from_static("x-toolbooth-persona");
/// The header that names the folder in which a client of the owner works.
pub static FOLDER_HEADER: HeaderName = HeaderName::from_static("toolbooth-folder");
/// Maximum length of the name of a folder, in bytes.
pub const MAX_FOLDER: usize = 4096;
/// The header that sets the compliance level of the request.
pub static COMPLIANCE_HEADER: HeaderName = HeaderName::from_static("x-toolbooth-compliance");
/// How long a credential's caller is cached.
const CACHED_FOR: Duration = Duration::from_secs(5);
/// Maximum length of a user or group name, in bytes.
const MAX_NAME: usize = 256;

/// How callers prove who they are.
#[derive(Debug)]
pub enum IdentifyMode {
    /// Every accepted caller is the owner of the gateway; only for loopback addresses.
    Local(LocalAccess),
    /// A trusted proxy sets a header with the user's name.
    Header(Proxy),
    /// Tokens that the gateway issued.
    Token,
    /// Signed tokens (JWTs) of an identity provider.
    Jwt(Box<jwt::Jwt>),
}

/// What a front end knows about the caller of a request.
#[derive(Debug, Clone, Copy)]
pub enum IdentifyRequest<'a> {
    /// An HTTP request.
    Http {
        /// Its headers.
        headers: &'a HeaderMap,
        /// The resource in its path.
        resource: RequestedResource<'a>,
        /// How it reached the gateway.
        via: Ingress,
    },
    /// A request of a console session whose user signed in at the identity provider.
    Console {
        /// Its headers.
        headers: &'a HeaderMap,
        /// The ID token of the session.
        id_token: &'a str,
        /// How it reached the gateway.
        via: Ingress,
    },
    /// A connection over the local socket, which only the operator's own processes can open.
    Socket {
        /// The persona that the client asked for.
        persona: Option<&'a str>,
    },
}

/// What a credential says about its user, before rights are looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClaimedIdentity {
    pub(crate) user: String,
    /// Groups that the credential itself states.
    pub(crate) groups: Vec<String>,
    /// The persona that the credential is bound to.
    pub(crate) persona: Option<String>,
    pub(crate) level: Option<String>,
    /// When the credential expires.
    pub(crate) until: Option<SystemTime>,
    /// The kind of credential.
    pub(crate) identified_by: IdentifiedBy,
}

/// The persona and compliance level that a request asks for.
#[derive(Debug, Clone, Copy, Default)]
struct RequestedView<'a> {
    persona: Option<&'a str>,
    level: Option<&'a str>,
}

/// Identifies callers.
#[derive(Debug)]
pub struct Authenticator {
    mode: ArcSwap<IdentifyMode>,
    /// The operating-system account that the gateway runs as.
    account: Arc<str>,
    /// Every caller in `local` mode.
    owner: Arc<Caller>,
    /// The caller at the control socket in the other modes.
    operator: Arc<Caller>,
    directory: ArcSwap<Directory>,
    cache: CallerCache,
    throttle: Throttle,
    sign_ins: SignInCache,
    revoked: broadcast::Sender<Arc<str>>,
    resource: ArcSwap<Resource>,
}

impl Authenticator {
    /// Identifies callers by `mode`, with rights from `directory`. `account` is the user that the gateway runs as.
    pub fn new(mode: IdentifyMode, account: &str, directory: Directory, resource: Resource) -> Self {
        Self {
            mode: ArcSwap::from_pointee(mode),
            account: account.into(),
            owner: Arc::new(Caller::owner(account)),
            operator: Arc::new(Caller::operator(account)),
            directory: ArcSwap::from_pointee(directory),
            cache: CallerCache::default(),
            throttle: Throttle::default(),
            sign_ins: SignInCache::default(),
            revoked: broadcast::channel(64).0,
            resource: ArcSwap::from_pointee(resource),
        }
    }

    /// For a gateway that only its owner can reach.
    pub fn local(user: &str) -> Self {
        Self::new(IdentifyMode::Local(LocalAccess::Own), user, Directory::default(), Resource::default())
    }

    /// Every caller is the operator. For a command that opens the store of a gateway whose callers have credentials:
    /// rows that the command writes do not belong to a network user with the same name as the account.
    pub fn operator(account: &str, directory: Directory) -> Self {
        let authenticator =
            Self::new(IdentifyMode::Local(LocalAccess::Own), account, directory, Resource::default());
        Self { owner: authenticator.operator.clone(), ..authenticator }
    }

    /// Whether connections are accepted by the local user of their peer.
    pub fn checks_peer_user(&self) -> bool {
        matches!(**self.mode.load(), IdentifyMode::Local(LocalAccess::Own))
    }

    /// Whether every caller is the owner.
    pub fn is_local(&self) -> bool {
        matches!(**self.mode.load(), IdentifyMode::Local(_))
    }

    /// Whether a proxy names the users, so that tokens are not accepted.
    pub fn is_proxied(&self) -> bool {
        matches!(**self.mode.load(), IdentifyMode::Header(_))
    }

    /// The name of the mode, as in `auth.mode`.
    pub fn mode_name(&self) -> &'static str {
        match **self.mode.load() {
            IdentifyMode::Local(_) => "local",
            IdentifyMode::Header(_) => "header",
            IdentifyMode::Token => "token",
            IdentifyMode::Jwt(_) => "jwt",
        }
    }

    /// Whether all connections come from one user or one proxy.
    pub fn is_undivided(&self) -> bool {
        matches!(**self.mode.load(), IdentifyMode::Local(_) | IdentifyMode::Header(_))
    }

    /// The description of the gateway for clients that look for an authorization server.
    pub fn resource(&self) -> Arc<Resource> {
        self.resource.load_full()
    }

    /// Takes over the mode of another authenticator from the next request on. Drops all cached callers and all
    /// recorded sign-ins.
    pub fn take_mode_of(&self, other: Self) {
        self.resource.store(other.resource.load_full());
        self.mode.store(other.mode.load_full());
        self.sign_ins.forget();
        self.cache.forget();
        let _ = self.revoked.send(self.account.clone());
    }

    /// Replaces groups, personas and compliance levels for all callers; returns whether any of them changed.
    pub fn set_directory(&self, directory: Directory) -> DirectoryChange {
        let before = self.directory.swap(Arc::new(directory));
        self.cache.forget();
        self.directory.load().difference(&before)
    }

    /// Drops all cached callers, because another gateway has changed tokens. Open streams check their callers again.
    pub fn forget_callers(&self) {
        self.cache.forget();
    }

    /// Revokes a user's credential: drops all cached callers and ends the user's open streams.
    pub fn revoke(&self, user: &str) {
        self.cache.forget();
        let _ = self.revoked.send(user.into());
    }

    /// Receives the users whose credentials are revoked from now on.
    pub fn revoked(&self) -> broadcast::Receiver<Arc<str>> {
        self.revoked.subscribe()
    }

    /// Identifies the caller of a request. All front ends use this function. `book` has the tokens that the gateway issued.
    pub async fn identify(
        &self,
        request: IdentifyRequest<'_>,
        book: &dyn TokenBook,
    ) -> Result<Arc<Caller>, Unidentified> {
        let view = RequestedView::of(request)?;
        // Read before the mode: a caller identified by a mode that is replaced meanwhile must not be cached.
        let since = self.cache.generation();
        let mode = self.mode.load();
        let everything = match (&**mode, request) {
            (IdentifyMode::Local(_), _) => Some(&self.owner),
            // Over the control socket the operator may administer every gateway, as they could edit its files.
            (_, IdentifyRequest::Http { via: Ingress::Control, .. }) => Some(&self.operator),
            _ => None,
        };
        if let Some(caller) = everything {
            let directory = self.directory.load();
            let granted = match view {
                RequestedView { persona: None, level: None } if directory.hiding_rules.is_none() => {
                    Ok(caller.clone())
                }
                view => directory.grant_owner(caller, view.persona, view.level),
            };
            return granted.map(|caller| in_folder(caller, request));
        }
        let address = match request {
            IdentifyRequest::Http { via, .. } | IdentifyRequest::Console { via, .. } => match via {
                Ingress::Network(address) => Some(address),
                _ => None,
            },
            IdentifyRequest::Socket { .. } => None,
        };
        let found = self.find(request, view, (mode, since), book).await;
        match (found, address) {
            // Only refusals are throttled: a valid credential works whatever else its address has sent.
            (Err(Unidentified::Refused(reason)), Some(address)) => {
                Err(self.refused(address, digest_of_credential(request), reason))
            }
            (Err(Unidentified::Refused(reason)), None) => {
                log_refusal(None, &reason);
                Err(Unidentified::Refused(reason))
            }
            (found, _) => found,
        }
    }

    /// Identifies a caller by their credential, under a mode that was read in this cache generation.
    async fn find(
        &self,
        request: IdentifyRequest<'_>,
        view: RequestedView<'_>,
        (mode, since): (Guard<Arc<IdentifyMode>>, u64),
        book: &dyn TokenBook,
    ) -> Result<Arc<Caller>, Unidentified> {
        let (kind, shown) = match (request, &**mode) {
            (IdentifyRequest::Socket { .. }, _) => ("socket", &*self.account),
            (IdentifyRequest::Console { id_token, .. }, IdentifyMode::Jwt(_)) => ("id token", id_token),
            // The session was opened under another configuration.
            (IdentifyRequest::Console { .. }, _) => {
                return Err(Unidentified::refused("its session was opened in another `auth.mode`"));
            }
            (IdentifyRequest::Http { headers, .. }, IdentifyMode::Header(proxy)) => {
                ("user", proxy.user(headers)?)
            }
            (IdentifyRequest::Http { headers, .. }, _) => ("token", bearer::token(headers)?),
        };
        // The resource is part of the key, because a token for one resource is not accepted at another.
        let (resource, of_path) = match request {
            IdentifyRequest::Http { resource: RequestedResource::Mcp { persona }, .. } => ("mcp", persona),
            _ => ("api", None),
        };
        let [of_path, persona, level] = [of_path, view.persona, view.level].map(|name| name.unwrap_or("\0"));
        let key = key_of(&[kind, shown, resource, of_path, persona, level]);
        if let Some(caller) = self.cache.get(&key) {
            return Ok(caller);
        }
        let mode = Guard::into_inner(mode);
        let claimed = match (kind, &*mode) {
            ("token" | "id token", IdentifyMode::Jwt(jwt)) => {
                let now = book.clock().wall_time();
                let claimed = match request {
                    IdentifyRequest::Http { resource, .. } => {
                        let of_resource = self.resource.load().audience_of(resource);
                        jwt.check(shown, of_resource.as_deref(), now).await?
                    }
                    _ => jwt.check_id_token(shown, None, now).await?,
                };
                if let Some(sign_in) = self.sign_ins.note(&claimed, jwt.issuer(), book.clock()) {
                    book.note_sign_in(sign_in);
                }
                claimed
            }
            // The gateway's own tokens expire by its own clock, which never goes back; others by the system clock.
            ("token", _) => token::check(book, shown).await?,
            // The account has no special rights here: it is a user of that name with its configured groups.
            ("socket" | "user", _) => {
                ClaimedIdentity { user: shown.to_owned(), ..ClaimedIdentity::default() }
            }
            _ => return Err(Unidentified::refused("its kind does not fit `auth.mode`")),
        };
        let until = claimed.until;
        let directory = self.directory.load_full();
        let caller = directory.grant(claimed, view.persona, view.level).await?;
        let left = until.map(|until| until.duration_since(book.clock().wall_time()).unwrap_or_default());
        self.cache.put(key, &caller, left, since);
        Ok(caller)
    }

    /// The client that signs users of the console in at the identity provider, if it is configured.
    pub fn console_client(&self) -> Option<Arc<oidc::OidcClient>> {
        match &**self.mode.load() {
            IdentifyMode::Jwt(jwt) => jwt.console_client().cloned(),
            _ => None,
        }
    }

    /// Checks the ID token that a sign-in has returned, with the nonce of the sign-in; returns when it expires.
    pub async fn check_login(
        &self,
        id_token: &str,
        nonce: &str,
        clock: &Clock,
    ) -> Result<Option<SystemTime>, Unidentified> {
        match &*self.mode.load_full() {
            IdentifyMode::Jwt(jwt) => {
                let claimed = jwt.check_id_token(id_token, Some(nonce), clock.wall_time()).await;
                Ok(claimed.inspect_err(log_refused_id_token)?.until)
            }
            _ => Err(Unidentified::refused("`auth.mode` is not `jwt` any more")),
        }
    }

    /// Checks an ID token that replaces another one; returns its user, and when it expires.
    pub async fn check_renewal(
        &self,
        id_token: &str,
        clock: &Clock,
    ) -> Result<(String, Option<SystemTime>), Unidentified> {
        match &*self.mode.load_full() {
            IdentifyMode::Jwt(jwt) => {
                let claimed = jwt.check_id_token(id_token, None, clock.wall_time()).await;
                let claimed = claimed.inspect_err(log_refused_id_token)?;
                Ok((claimed.user, claimed.until))
            }
            _ => Err(Unidentified::refused("`auth.mode` is not `jwt` any more")),
        }
    }

    /// The error for a bad credential; after too many from one address, the one that asks it to wait.
    fn refused(&self, address: IpAddr, shown: Option<[u8; 32]>, reason: RefusalReason) -> Unidentified {
        match self.note_bad_credential(address, shown) {
            Err(throttled) => throttled,
            Ok(repetition) => {
                // A client that repeats an expired token would fill the log.
                if repetition == Repetition::New {
                    log_refusal(Some(address), &reason);
                }
                Unidentified::Refused(reason)
            }
        }
    }

    /// Counts a bad credential; after too many from one address, returns the error that asks it to wait.
    fn note_bad_credential(
        &self,
        address: IpAddr,
        shown: Option<[u8; 32]>,
    ) -> Result<Repetition, Unidentified> {
        let now = Instant::now();
        match self.throttle.wait(address, now) {
            Some(wait) => Err(Unidentified::Throttled { seconds: wait.as_secs().max(1) }),
            None => Ok(self.throttle.note(address, shown, now)),
        }
    }

    /// Counts a failed sign-in to the console like a bad credential. Returns the error that asks its address to wait, after
    /// too many of them. Valid sign-ins still work.
    pub fn note_failed_login(&self, via: Ingress, answer: &str) -> Option<Unidentified> {
        let Ingress::Network(address) = via else { return None };
        self.note_bad_credential(address, Some(key_of(&["console login", answer]))).err()
    }

    /// Whether too many invalid credentials were sent from an address recently.
    pub fn is_throttled(&self, via: Ingress) -> bool {
        matches!(via, Ingress::Network(address) if self.throttle.wait(address, Instant::now()).is_some())
    }

    /// The caller of an earlier call, with the rights they have now. `tokens` are those that the gateway issued, and
    /// `kept` is the user's latest stored sign-in.
    pub(crate) async fn absent(
        &self,
        who: AbsentCaller<'_>,
        tokens: &[TokenRecord],
        kept: Option<SignInRecord>,
        clock: &Clock,
    ) -> Result<Rights, Unidentified> {
        // Sign-ins expire by the gateway's own clock, which never goes back.
        let (now, user) = (clock.now(), who.user);
        if let Some(caller) = self.absent_owner(who) {
            let owner = self.directory.load().grant_owner(caller, who.persona, who.level)?;
            return Ok(Rights::Known(owner));
        }
        // If callers use tokens, only a call by name can be one of the account itself.
        let by_name = matches!(who.identified_by, None | Some(IdentifiedBy::Name | IdentifiedBy::Any));
        let is_account = by_name && *user == *self.account;
        let named = || ClaimedIdentity { user: user.to_owned(), ..ClaimedIdentity::default() };
        let claimed = match &*self.mode.load_full() {
            IdentifyMode::Local(_) => None,
            IdentifyMode::Header(_) => by_name.then(named),
            IdentifyMode::Token => {
                let identity = |which| token::identity_of(user, which, tokens, now);
                let of_tokens = match who.identified_by {
                    Some(IdentifiedBy::Token(id)) => identity(TokenSelection::One(id)),
                    Some(IdentifiedBy::Any) => identity(TokenSelection::Any),
                    None => identity(TokenSelection::Common),
                    Some(_) => None,
                };
                of_tokens.or_else(|| is_account.then(named))
            }
            IdentifyMode::Jwt(_) if is_account => Some(named()),
            IdentifyMode::Jwt(jwt) => match who.identified_by {
                Some(IdentifiedBy::SignedToken | IdentifiedBy::Any) | None => {
                    let claimed = self.sign_ins.claim(user, kept, jwt.issuer(), now);
                    if claimed.is_none() {
                        let why = format!("the rights of {user} are not known until they sign in again");
                        return Ok(Rights::Unknown(why));
                    }
                    claimed
                }
                Some(_) => None,
            },
        };
        let Some(claimed) = claimed else { return Ok(Rights::Gone) };
        let directory = self.directory.load_full();
        directory.grant(claimed, who.persona, who.level).await.map(Rights::Known)
    }

    /// The owner or the operator, if one of them made an earlier call. The kind of credential counts besides the name:
    /// a call by a token of a user with the account's name is not the owner's, even if the mode is `local` now.
    fn absent_owner(&self, who: AbsentCaller<'_>) -> Option<&Arc<Caller>> {
        use IdentifiedBy::{Any, Name, Operator};
        match who.identified_by {
            Some(Operator | Any) if *who.user == *self.operator.user => Some(&self.operator),
            None | Some(Name | Any) if self.is_local() && *who.user == *self.owner.user => Some(&self.owner),
            _ => None,
        }
    }

    /// The same caller with another persona, for requests that name one outside their headers.
    pub fn through(&self, caller: &Arc<Caller>, persona: &str) -> Result<Arc<Caller>, Unidentified> {
        self.directory.load().through(caller, persona)
    }

    /// Whether a persona with this name exists.
    pub fn knows_persona(&self, name: &str) -> bool {
        toolbooth_core::persona::find(&self.directory.load().personas, name).is_some()
    }

    /// The configured name of a compliance level, which may be given by an alias.
    pub fn level_name(&self, spelling: &str) -> String {
        self.directory.load().levels.level(spelling).name.to_string()
    }

    /// The personas that a caller may select, with their descriptions.
    pub fn described_personas(&self, caller: &Caller) -> Vec<(String, Option<String>)> {
        let directory = self.directory.load();
        let names = directory.pickable(caller).into_iter();
        let described = |name: String| {
            let persona = directory.personas.get(&name);
            let description = persona.and_then(|persona| persona.description().map(str::to_owned));
            (name, description)
        };
        names.map(described).collect()
    }

    /// The names of the personas that a caller may select.
    pub fn personas(&self, caller: &Caller) -> Vec<String> {
        self.directory.load().pickable(caller)
    }
}

impl<'a> RequestedView<'a> {
    fn of(request: IdentifyRequest<'a>) -> Result<Self, Unidentified> {
        let (headers, named) = match request {
            IdentifyRequest::Socket { persona } => return Ok(Self { persona, level: None }),
            IdentifyRequest::Http { headers, resource, .. } => (headers, resource.persona()),
            IdentifyRequest::Console { headers, .. } => (headers, None),
        };
        let header = one(headers, &PERSONA_HEADER).map_err(|()| Unidentified::unreadable_persona())?;
        let persona = match (named, header) {
            (Some(path), Some(header)) if path != header => return Err(Unidentified::persona(header)),
            (path, header) => path.or(header),
        };
        let level = one(headers, &COMPLIANCE_HEADER)
            .map_err(|()| Unidentified::refused("the compliance level is not readable"))?;
        Ok(Self { persona, level })
    }
}

/// Logs why a credential was refused, without the credential. The log leaves repeated lines out.
fn log_refusal(address: Option<IpAddr>, reason: &RefusalReason) {
    let why = reason.for_log();
    match address {
        Some(address) => tracing::warn!(source = %address, "a credential from {address} was refused: {why}"),
        None => tracing::warn!("a credential was refused: {why}"),
    }
}

fn log_refused_id_token(refused: &Unidentified) {
    if let Unidentified::Refused(reason) = refused {
        tracing::warn!("the ID token of a user of the console was refused: {}", reason.for_log());
    }
}

/// The owner with the folder that the client works in. Other callers cannot choose one, and the folder of another
/// machine has no meaning here.
fn in_folder(caller: Arc<Caller>, request: IdentifyRequest<'_>) -> Arc<Caller> {
    let IdentifyRequest::Http { headers, via, .. } = request else { return caller };
    if matches!(via, Ingress::Network(address) if !address.to_canonical().is_loopback()) {
        return caller;
    }
    let named = headers.get(&FOLDER_HEADER).and_then(|folder| folder.to_str().ok());
    match named.filter(|folder| (1..=MAX_FOLDER).contains(&folder.len())) {
        Some(folder) => Arc::new(Caller { folder: Some(folder.into()), ..Caller::clone(&caller) }),
        None => caller,
    }
}

/// The text of a header that may occur once; `None` if it is absent, an error if it occurs twice or is not valid text.
fn one(headers: &HeaderMap, name: impl AsHeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(());
    }
    let text = value.to_str().map_err(|_| ())?.trim();
    if text.is_empty() || text.len() > MAX_NAME { Err(()) } else { Ok(Some(text)) }
}

/// Whether a text can be the name of a user or a group.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control) && text.trim() == text
}

/// A digest of the `Authorization` header or of the ID token.
fn digest_of_credential(request: IdentifyRequest<'_>) -> Option<[u8; 32]> {
    let shown = match request {
        IdentifyRequest::Http { headers, .. } => headers.get(AUTHORIZATION)?.as_bytes(),
        IdentifyRequest::Console { id_token, .. } => id_token.as_bytes(),
        IdentifyRequest::Socket { .. } => return None,
    };
    Some(Sha256::digest(shown).into())
}

fn key_of(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
