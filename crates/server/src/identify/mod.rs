//! Stage 1, identify: who calls. No request names its caller; the door finds out, here and nowhere else.
//!
//! Every door hands in what it has (headers, or that it is the local socket) and gets a caller or a
//! refusal. Who the user is comes from the mode, what the user may see from the directory.

mod absent;
mod bearer;
mod conversation;
mod directory;
pub mod jwt;
mod metadata;
mod proxy;
mod refusal;
mod remember;
mod service;
mod throttle;
mod token;

pub use conversation::{MAX_SESSION, SESSION_HEADER, carrying, in_conversation, is_session};
pub use directory::{Difference, Directory};
pub use metadata::{Challenge, Resource, persona_of};
pub use proxy::Proxy;
pub use refusal::Unidentified;
pub use service::GroupService;
pub use token::TokenBook;
use token::Which;

use crate::peer::{LocalUsers, Via};
use absent::Acquaintances;
use arc_swap::{ArcSwap, Guard};
use http::header::{AUTHORIZATION, AsHeaderName};
use http::{HeaderMap, HeaderName};
use remember::Remembered;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use throttle::Throttle;
use tokio::sync::broadcast;
use toolbooth_core::caller::{Caller, IdentifiedBy};
use toolbooth_core::token::TokenRecord;
use toolbooth_engine::{Absentee, Rights, SignIn, clock};

/// The header by which a caller picks a persona.
pub static PERSONA_HEADER: HeaderName = HeaderName::from_static("x-toolbooth-persona");
/// The header by which a caller names the level of data at hand.
pub static COMPLIANCE_HEADER: HeaderName = HeaderName::from_static("x-toolbooth-compliance");
/// How long somebody stays identified by the same credential without a second look.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// The longest name of a user or a group.
const MAX_NAME: usize = 256;

/// How callers say who they are.
#[derive(Debug)]
pub enum Mode {
    /// Everyone who is let in is the owner of the gateway; only for loopback doors.
    Local(LocalUsers),
    /// A trusted proxy names the user.
    Header(Proxy),
    /// Tokens that the gateway made itself.
    Token,
    /// Signed tokens of an identity provider.
    Jwt(Box<jwt::Jwt>),
}

/// Somebody at a door, with what they showed.
#[derive(Debug, Clone, Copy)]
pub enum Knock<'a> {
    /// A request over HTTP.
    Http {
        /// Its headers.
        headers: &'a HeaderMap,
        /// The persona its path names.
        persona: Option<&'a str>,
        /// How it reached the gateway.
        via: Via,
    },
    /// A connection over the local socket, which only the operator's own processes can open.
    Socket {
        /// The persona the client asked for.
        persona: Option<&'a str>,
    },
}

/// Who somebody is, before anybody asked what they may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) user: String,
    /// Groups that the credential itself vouches for.
    pub(crate) groups: Vec<String>,
    /// The persona that the credential is bound to.
    pub(crate) persona: Option<String>,
    pub(crate) level: Option<String>,
    /// When the credential ends.
    pub(crate) until: Option<SystemTime>,
    /// What the credential is.
    pub(crate) identified_by: IdentifiedBy,
}

/// What a caller asks for beside being known.
#[derive(Debug, Clone, Copy, Default)]
struct Wish<'a> {
    persona: Option<&'a str>,
    level: Option<&'a str>,
}

/// Finds out who calls.
#[derive(Debug)]
pub struct Identity {
    mode: ArcSwap<Mode>,
    /// The account that the gateway runs as.
    account: Arc<str>,
    /// Every caller in `local` mode.
    owner: Arc<Caller>,
    /// The caller at the control socket in the other modes.
    operator: Arc<Caller>,
    directory: ArcSwap<Directory>,
    remembered: Remembered,
    throttle: Throttle,
    acquainted: Acquaintances,
    taken_back: broadcast::Sender<Arc<str>>,
    resource: ArcSwap<Resource>,
}

impl Identity {
    /// Callers by a mode, with rights by a directory. The account is the user the gateway runs as.
    pub fn new(mode: Mode, account: &str, directory: Directory, resource: Resource) -> Self {
        Self {
            mode: ArcSwap::from_pointee(mode),
            account: account.into(),
            owner: Arc::new(Caller::owner(account)),
            operator: Arc::new(Caller::operator(account)),
            directory: ArcSwap::from_pointee(directory),
            remembered: Remembered::default(),
            throttle: Throttle::default(),
            acquainted: Acquaintances::default(),
            taken_back: broadcast::channel(64).0,
            resource: ArcSwap::from_pointee(resource),
        }
    }

    /// A gateway that only its owner can reach.
    pub fn local(user: &str) -> Self {
        Self::new(Mode::Local(LocalUsers::Own), user, Directory::default(), Resource::default())
    }

    /// Every caller is the operator at the machine: inside a command, on the store of a gateway whose callers show
    /// credentials. What the command leaves there does not belong to a network user with the name of the account.
    pub fn operator(account: &str, directory: Directory) -> Self {
        let identity = Self::new(Mode::Local(LocalUsers::Own), account, directory, Resource::default());
        Self { owner: identity.operator.clone(), ..identity }
    }

    /// Whether a connection is let in by who owns its other end.
    pub fn asks_for_peer(&self) -> bool {
        matches!(**self.mode.load(), Mode::Local(LocalUsers::Own))
    }

    /// Whether every caller is the owner.
    pub fn is_local(&self) -> bool {
        matches!(**self.mode.load(), Mode::Local(_))
    }

    /// Whether all connections are those of one user or of one proxy.
    pub fn is_undivided(&self) -> bool {
        matches!(**self.mode.load(), Mode::Local(_) | Mode::Header(_))
    }

    /// How the gateway describes itself to clients that look for a way in.
    pub fn resource(&self) -> Arc<Resource> {
        self.resource.load_full()
    }

    /// Recognises callers as another identity does, from the next request on. No caller stays identified by what counted
    /// before, and nothing that was learned of users then is believed.
    pub fn take_mode_of(&self, other: Self) {
        self.resource.store(other.resource.load_full());
        self.mode.store(other.mode.load_full());
        self.acquainted.forget();
        self.remembered.forget();
        let _ = self.taken_back.send(self.account.clone());
    }

    /// Puts other groups, personas and levels in force, for everybody at once; says whether any differ.
    pub fn set_directory(&self, directory: Directory) -> Difference {
        let before = self.directory.swap(Arc::new(directory));
        self.remembered.forget();
        self.directory.load().difference(&before)
    }

    /// A credential of this user was taken back: from now on everybody is looked at anew, and the user's open
    /// streams end.
    pub fn take_back(&self, user: &str) {
        self.remembered.forget();
        let _ = self.taken_back.send(user.into());
    }

    /// Users whose credentials are taken back, from now on.
    pub fn taken_back(&self) -> broadcast::Receiver<Arc<str>> {
        self.taken_back.subscribe()
    }

    /// The caller behind a knock: the one way in, for every door. The book holds the gateway's own tokens.
    pub async fn identify(
        &self,
        knock: Knock<'_>,
        book: &dyn TokenBook,
    ) -> Result<Arc<Caller>, Unidentified> {
        let wish = Wish::of(knock)?;
        // Before the mode is replaced: a caller identified by the old mode must not be cached.
        let since = self.remembered.generation();
        let mode = self.mode.load();
        let everything = match (&**mode, knock) {
            (Mode::Local(_), _) => Some(&self.owner),
            // Over the control socket the operator administers every gateway, as they could by its files.
            (_, Knock::Http { via: Via::Control, .. }) => Some(&self.operator),
            _ => None,
        };
        if let Some(caller) = everything {
            let directory = self.directory.load();
            return match wish {
                Wish { persona: None, level: None } if directory.veil.is_none() => Ok(caller.clone()),
                wish => directory.grant_owner(caller, wish.persona, wish.level),
            };
        }
        let address = match knock {
            Knock::Http { via: Via::Network(address), .. } => Some(address),
            Knock::Http { .. } | Knock::Socket { .. } => None,
        };
        let found = self.find(knock, wish, (mode, since), book).await;
        match (found, address) {
            // Only refusals are slowed down: a good credential counts at once, whatever its neighbours show.
            (Err(Unidentified::Refused), Some(address)) => Err(self.refused(address, digest_of_shown(knock))),
            (found, _) => found,
        }
    }

    /// Finds a caller by what they showed, under a mode that was read in this generation.
    async fn find(
        &self,
        knock: Knock<'_>,
        wish: Wish<'_>,
        (mode, since): (Guard<Arc<Mode>>, u64),
        book: &dyn TokenBook,
    ) -> Result<Arc<Caller>, Unidentified> {
        let (kind, shown) = match (knock, &**mode) {
            (Knock::Socket { .. }, _) => ("socket", &*self.account),
            (Knock::Http { headers, .. }, Mode::Header(proxy)) => ("user", proxy.user(headers)?),
            (Knock::Http { headers, .. }, _) => ("token", bearer::token(headers)?),
        };
        let key = key_of(&[kind, shown, wish.persona.unwrap_or("\0"), wish.level.unwrap_or("\0")]);
        if let Some(caller) = self.remembered.get(&key) {
            return Ok(caller);
        }
        let mode = Guard::into_inner(mode);
        let claimed = match (kind, &*mode) {
            ("token", Mode::Jwt(jwt)) => {
                let claimed = jwt.check(shown, SystemTime::now()).await?;
                if let Some(sign_in) = self.acquainted.note(&claimed, jwt.issuer()) {
                    book.note_sign_in(sign_in);
                }
                claimed
            }
            // Tokens of our own go by our own clock, which is never set back; those of others by the system's.
            ("token", _) => token::check(book, shown, clock::now()).await?,
            // The account has no special rights here: a user of that name, with groups by the configuration.
            _ => Claimed { user: shown.to_owned(), ..Claimed::default() },
        };
        let until = claimed.until;
        let directory = self.directory.load_full();
        let caller = directory.grant(claimed, wish.persona, wish.level).await?;
        self.remembered.put(key, &caller, until, since);
        Ok(caller)
    }

    /// What an address is told that showed a bad credential: after too many of them, that it has to wait.
    fn refused(&self, address: IpAddr, shown: Option<[u8; 32]>) -> Unidentified {
        let now = Instant::now();
        match self.throttle.wait(address, now) {
            Some(wait) => Unidentified::Throttled { seconds: wait.as_secs().max(1) },
            None => {
                self.throttle.note(address, shown, now);
                Unidentified::Refused
            }
        }
    }

    /// The caller of an earlier call, with the rights they have now; `tokens` are the gateway's own, and `kept` is what
    /// was kept of the user's latest sign-in.
    pub(crate) async fn absent(
        &self,
        who: Absentee<'_>,
        tokens: &[TokenRecord],
        kept: Option<SignIn>,
    ) -> Result<Rights, Unidentified> {
        // What was kept expires by our own clock, which is never set back.
        let (now, user) = (clock::now(), who.user);
        if let Some(caller) = self.absent_owner(who) {
            let owner = self.directory.load().grant_owner(caller, who.persona, who.level)?;
            return Ok(Rights::Known(owner));
        }
        // Only the machine itself vouches for the account's name where callers show tokens.
        let by_name = matches!(who.identified_by, None | Some(IdentifiedBy::Name | IdentifiedBy::Any));
        let is_account = by_name && *user == *self.account;
        let named = || Claimed { user: user.to_owned(), ..Claimed::default() };
        let claimed = match &*self.mode.load_full() {
            Mode::Local(_) => None,
            Mode::Header(_) => by_name.then(named),
            Mode::Token => {
                let standing = |which| token::standing_of(user, which, tokens, now);
                let of_tokens = match who.identified_by {
                    Some(IdentifiedBy::Token(id)) => standing(Which::One(id)),
                    Some(IdentifiedBy::Any) => standing(Which::Any),
                    None => standing(Which::Common),
                    Some(_) => None,
                };
                of_tokens.or_else(|| is_account.then(named))
            }
            Mode::Jwt(_) if is_account => Some(named()),
            Mode::Jwt(jwt) => match who.identified_by {
                Some(IdentifiedBy::SignedToken | IdentifiedBy::Any) | None => {
                    let claimed = self.acquainted.claim(user, kept, jwt.issuer(), now);
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

    /// The owner or the operator, if one of them made an earlier call. How they were identified counts beside the name:
    /// a call by a token of a user with the account's name is not the owner's, also when the mode is `local` by now.
    fn absent_owner(&self, who: Absentee<'_>) -> Option<&Arc<Caller>> {
        use IdentifiedBy::{Any, Name, Operator};
        match who.identified_by {
            Some(Operator | Any) if *who.user == *self.operator.user => Some(&self.operator),
            None | Some(Name | Any) if self.is_local() && *who.user == *self.owner.user => Some(&self.owner),
            _ => None,
        }
    }

    /// The same caller through another persona, for requests that name one later than their headers do.
    pub fn through(&self, caller: &Arc<Caller>, persona: &str) -> Result<Arc<Caller>, Unidentified> {
        self.directory.load().through(caller, persona)
    }

    /// Whether there is a persona of this name at all.
    pub fn knows_persona(&self, name: &str) -> bool {
        self.directory.load().personas.contains_key(name)
    }

    /// The personas that a caller may pick, with what each is for.
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

    /// The names of the personas that a caller may pick.
    pub fn personas(&self, caller: &Caller) -> Vec<String> {
        self.directory.load().pickable(caller)
    }
}

impl<'a> Wish<'a> {
    fn of(knock: Knock<'a>) -> Result<Self, Unidentified> {
        let (headers, named) = match knock {
            Knock::Socket { persona } => return Ok(Self { persona, level: None }),
            Knock::Http { headers, persona, .. } => (headers, persona),
        };
        let header = one(headers, &PERSONA_HEADER).map_err(|()| Unidentified::unreadable_persona())?;
        let persona = match (named, header) {
            (Some(path), Some(header)) if path != header => return Err(Unidentified::persona(header)),
            (path, header) => path.or(header),
        };
        let level = one(headers, &COMPLIANCE_HEADER).map_err(|()| Unidentified::Refused)?;
        Ok(Self { persona, level })
    }
}

/// A header that may stand once: its text, or nothing; an error where it stands twice or is no text.
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

/// A digest of the credential that was shown in the usual header.
fn digest_of_shown(knock: Knock<'_>) -> Option<[u8; 32]> {
    let Knock::Http { headers, .. } = knock else { return None };
    headers.get(AUTHORIZATION).map(|shown| Sha256::digest(shown.as_bytes()).into())
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
