//! The connections of one server: one for the gateway itself, others where callers may not share.
//!
//! A legacy server is told once what its client can do. The gateway's own connection tells it of everything
//! that can be bridged, as some servers offer tools only then. Callers who may not share it, and over HTTP
//! clients that can do less, get connections of their own. A modern server is told with every request.

use crate::capabilities::Askable;
use crate::connection::{Connection, SharedConnection};
use crate::error::UpstreamError;
use crate::http::Credential;
use crate::listening;
use crate::oauth::Authorizer;
use crate::open::{OpenRequest, Surroundings};
use crate::peer::Notice;
use crate::process::StderrTail;
use crate::seat::{Seat, can_be_asked};
use crate::spares::Party;
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OnceCell, mpsc};
use toolbooth_core::caller::{Caller, ClientFacts, Standing};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_core::server::{ServerEntry, Share, Transport};
use toolbooth_wire::Era;

/// The most connections one server may have.
pub(crate) const MAX_CONNECTIONS: usize = 256;
/// The most of them that one user may have, so that one user cannot take all of them.
pub(crate) const USER_SHARE: usize = 32;
/// How long a fresh connection waits for questions that belong to no call.
const SETTLE: Duration = Duration::from_millis(30);

/// After how long connections that nobody uses are closed. The gateway's own stays.
#[derive(Debug, Clone, Copy)]
pub struct IdleLimits {
    /// Callers' own connections, which may hold state.
    pub own: Duration,
    /// Spares, opened because their own was taken.
    pub spare: Duration,
}

impl Default for IdleLimits {
    fn default() -> Self {
        Self { own: Duration::from_secs(300), spare: Duration::from_secs(60) }
    }
}

/// Who may share a connection, and which of theirs it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    sharing: Sharing,
    /// What the server was told they can be asked.
    asked: Askable,
    /// Zero is the callers' own connection.
    spare: usize,
}

impl Key {
    pub(crate) fn spare(sharing: &Sharing, asked: Askable, spare: usize) -> Self {
        Self { sharing: sharing.clone(), asked, spare }
    }

    fn own(sharing: &Sharing, asked: Askable) -> Self {
        Self::spare(sharing, asked, 0)
    }

    /// The user whose share of connections it belongs to.
    pub(crate) fn user(&self) -> Option<&str> {
        self.sharing.user()
    }
}

/// Callers that share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Sharing {
    /// Everybody, the gateway itself included.
    All,
    /// The calls of one user.
    User(String),
    /// The calls of one client session. With the user, as over REST callers name their sessions themselves.
    Session {
        /// The session.
        session: String,
        /// Its user.
        user: String,
    },
}

impl Sharing {
    fn user(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::User(user) | Self::Session { user, .. } => Some(user),
        }
    }
}

pub(crate) type Cells = HashMap<Key, Arc<OnceCell<SharedConnection>>>;

/// The connections of one server.
#[derive(Debug)]
pub struct Pool {
    entry: Arc<ServerEntry>,
    surroundings: Arc<Surroundings>,
    credential: Credential,
    /// What the server must not repeat.
    secrets: KnownSecrets,
    stderr: StderrTail,
    notices: mpsc::Sender<Notice>,
    primary: ArcSwapOption<Connection>,
    /// The connection that last told of a change: with servers that keep state in their process, the
    /// others know nothing of it.
    informant: Mutex<Weak<Connection>>,
    others: Mutex<Cells>,
    /// Fires when a spare has been opened, or could not be.
    pub(crate) spares_changed: Notify,
    /// When a spare could not be opened last.
    pub(crate) spares_refused: Mutex<Option<Instant>>,
}

impl Pool {
    /// A pool without connections.
    pub fn new(
        entry: Arc<ServerEntry>,
        surroundings: Arc<Surroundings>,
        credential: Credential,
        stderr: StderrTail,
        notices: mpsc::Sender<Notice>,
    ) -> Arc<Self> {
        Arc::new(Self {
            secrets: entry.credentials(),
            entry,
            surroundings,
            credential,
            stderr,
            notices,
            primary: ArcSwapOption::empty(),
            informant: Mutex::default(),
            others: Mutex::default(),
            spares_changed: Notify::new(),
            spares_refused: Mutex::default(),
        })
    }

    /// Where the server's tokens come from, if a person can sign in to it.
    pub fn authorizer(&self) -> Option<&Arc<Authorizer>> {
        match &self.credential {
            Credential::OAuth(authorizer) => Some(authorizer),
            Credential::None | Credential::Fixed(..) => None,
        }
    }

    /// The gateway's own connection, if there is one.
    pub fn primary(&self) -> Option<SharedConnection> {
        self.primary.load_full()
    }

    /// The connection that knows best what the server offers now.
    pub(crate) fn informant(&self) -> Option<SharedConnection> {
        let told = self.informant.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        told.or_else(|| self.primary())
    }

    /// Opens the gateway's own connection.
    pub async fn open_primary(&self, hint: Option<Era>) -> Result<SharedConnection, UpstreamError> {
        let connection = Arc::new(self.open(hint, Askable::EVERYTHING, self.notices.clone()).await?);
        self.primary.store(Some(connection.clone()));
        Ok(connection)
    }

    /// Has the server tell of changes on the gateway's own connection.
    pub(crate) async fn hear_changes(&self, primary: &SharedConnection) {
        listening::hear_changes(primary, &self.notices).await;
    }

    async fn open(
        &self,
        hint: Option<Era>,
        asked: Askable,
        notices: mpsc::Sender<Notice>,
    ) -> Result<Connection, UpstreamError> {
        self.surroundings
            .open(OpenRequest {
                entry: &self.entry,
                hint,
                capabilities: asked.to_json(),
                secrets: &self.secrets,
                stderr: &self.stderr,
                credential: self.credential.clone(),
                notices,
            })
            .await
    }

    /// A place for a call: on the callers' own connection, or on a spare when they wait for its turn.
    pub async fn for_call(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
    ) -> Result<Seat, UpstreamError> {
        let party = self.party(caller, client).await?;
        let takes_turns = party.home.turns.is_some();
        // Calls of clients that cannot be asked share, until the server has asked in the middle of a call.
        if takes_turns && (can_be_asked(client) || party.home.peer.has_asked()) {
            return Ok(Box::pin(self.seat(&party)).await);
        }
        Ok(Seat::shared(party.home))
    }

    /// The connection that holds what a server remembers of a caller: the gateway's own where it may be
    /// shared, else one of the caller's.
    pub async fn home(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
    ) -> Result<SharedConnection, UpstreamError> {
        Ok(self.party(caller, client).await?.home)
    }

    async fn party(self: &Arc<Self>, caller: &Caller, client: &ClientFacts) -> Result<Party, UpstreamError> {
        let Some(primary) = self.primary.load_full() else {
            return Err(UpstreamError::Unreachable {
                server: self.entry.name.to_string(),
                reason: "it is not connected".into(),
            });
        };
        let sharing = self.sharing(caller, &primary);
        let asked = match (primary.era, primary.turns.is_some()) {
            (Era::Modern, _) => Askable::NOTHING,
            // One process serves all clients of its owner: state kept there is seen by all of them. What a
            // client cannot be asked is refused when it is asked.
            (Era::Legacy, true) if sharing == Sharing::All => Askable::EVERYTHING,
            (Era::Legacy, _) => Askable::of(client),
        };
        if sharing == Sharing::All && (primary.era == Era::Modern || primary.turns.is_some()) {
            return Ok(Party { home: primary, sharing, asked });
        }
        let key = Key::own(&sharing, asked);
        let cell = self.cell(key.clone())?;
        // Boxed, as opening is long and rare: every call would carry the room for it.
        let opened = Box::pin(self.open_other(&key, &cell, &primary, asked)).await;
        let home = opened.inspect_err(|_| self.forget_unopened(&key, &cell))?;
        Ok(Party { home, sharing, asked })
    }

    /// Who shares with this caller.
    fn sharing(&self, caller: &Caller, primary: &Connection) -> Sharing {
        let user = || Sharing::User(caller.user.to_string());
        match (self.entry.share, caller.standing) {
            (Share::All, _) | (Share::User | Share::Auto, Standing::Owner) => Sharing::All,
            (Share::User, Standing::Guest) => user(),
            // Where the server remembers nothing from call to call, there is nothing to keep apart.
            (Share::Auto, Standing::Guest) => {
                let is_remote = matches!(self.entry.transport, Transport::Http(_));
                match is_remote && (primary.era == Era::Modern || !primary.peer.has_session()) {
                    true => Sharing::All,
                    false => user(),
                }
            }
            (Share::Session, _) => match &caller.session {
                Some(session) => {
                    Sharing::Session { session: session.to_string(), user: caller.user.to_string() }
                }
                None => user(),
            },
        }
    }

    /// Gives the place of a connection back that could not be opened, unless somebody else is opening it.
    fn forget_unopened(&self, key: &Key, cell: &Arc<OnceCell<SharedConnection>>) {
        let mut others = self.others();
        // One reference is the pool's, one this caller's: there is no other user.
        if !cell.initialized() && Arc::strong_count(cell) <= 2 {
            others.remove(key);
        }
    }

    /// Opens a connection beside the gateway's own, unless it is open.
    pub(crate) async fn open_other(
        self: &Arc<Self>,
        key: &Key,
        cell: &OnceCell<SharedConnection>,
        model: &Connection,
        asked: Askable,
    ) -> Result<SharedConnection, UpstreamError> {
        let opened = cell
            .get_or_try_init(|| async {
                let (notices, inbox) = mpsc::channel(16);
                let connection = Arc::new(self.open(Some(model.era), asked, notices).await?);
                tokio::spawn(watch(Arc::downgrade(self), Arc::downgrade(&connection), key.clone(), inbox));
                connection.peer.listen();
                if connection.turns.is_some() {
                    tokio::time::sleep(SETTLE).await;
                }
                // The tools of one server are the same on all its connections.
                connection.mirrored.store(model.mirrored.load_full());
                Ok::<_, UpstreamError>(connection)
            })
            .await;
        opened.cloned()
    }

    pub(crate) fn others(&self) -> MutexGuard<'_, Cells> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, key: Key) -> Result<Arc<OnceCell<SharedConnection>>, UpstreamError> {
        let mut others = self.others();
        if !others.contains_key(&key) {
            let server = || self.entry.name.to_string();
            if !has_share_left(&others, key.user()) && !make_room(&mut others, key.user()) {
                return Err(UpstreamError::ShareUsed { server: server(), share: USER_SHARE });
            }
            if others.len() >= MAX_CONNECTIONS && !make_room(&mut others, None) {
                return Err(UpstreamError::Busy { server: server() });
            }
        }
        Ok(others.entry(key).or_default().clone())
    }

    /// Closes connections beside the gateway's own that nobody uses or has used for a while.
    pub async fn close_idle(&self, limits: IdleLimits) {
        let idle: Vec<SharedConnection> = {
            let mut others = self.others();
            let is_idle = |key: &Key, connection: &SharedConnection| {
                let limit = if key.spare > 0 { limits.spare } else { limits.own };
                // A user or a waiter holds a reference besides the pool's.
                Arc::strong_count(connection) == 1 && connection.idle_for() >= limit
            };
            let keys: Vec<Key> = others
                .iter()
                .filter(|(key, cell)| cell.get().is_some_and(|connection| is_idle(key, connection)))
                .map(|(key, _)| key.clone())
                .collect();
            keys.iter().filter_map(|key| others.remove(key)).filter_map(|cell| cell.get().cloned()).collect()
        };
        futures_util::future::join_all(idle.iter().map(|connection| connection.close())).await;
    }

    /// Closes everything.
    pub async fn close(&self) {
        let mut connections: Vec<SharedConnection> = self.primary.swap(None).into_iter().collect();
        let others = std::mem::take(&mut *self.others());
        connections.extend(others.into_values().filter_map(|cell| cell.get().cloned()));
        let closing = connections.iter().map(|connection| connection.close());
        futures_util::future::join_all(closing).await;
    }
}

/// Watches a caller's connection: forgets it when it is gone, passes its notices on.
async fn watch(pool: Weak<Pool>, connection: Weak<Connection>, key: Key, mut inbox: mpsc::Receiver<Notice>) {
    while let Some(notice) = inbox.recv().await {
        let Some(pool) = pool.upgrade() else { return };
        match notice {
            Notice::Closed(_) => {
                pool.others().remove(&key);
                return;
            }
            Notice::Flooded(reason) => {
                pool.others().remove(&key);
                pool.stderr.note(&format!("(the gateway ended a connection: {reason})"));
                return;
            }
            Notice::ListChanged(method) => {
                *pool.informant.lock().unwrap_or_else(PoisonError::into_inner) = connection.clone();
                Notice::ListChanged(method).pass_on(&pool.notices);
            }
            // The gateway's own connection hears of changes, too; this one only says that it is back.
            Notice::Missed => {}
            other => other.pass_on(&pool.notices),
        }
    }
}

/// Closes the connection that has been idle longest, of this user if one is named; `false` if all are in use.
fn make_room(others: &mut Cells, user: Option<&str>) -> bool {
    let is_of_user = |key: &Key| user.is_none_or(|user| key.user() == Some(user));
    let idle = others.iter().filter(|(key, _)| is_of_user(key)).filter_map(|(key, cell)| {
        // A user or a waiter holds a reference besides the pool's.
        let connection = cell.get().filter(|connection| Arc::strong_count(connection) == 1)?;
        Some((key, connection.idle_for()))
    });
    let longest = idle.max_by_key(|(_, idle_for)| *idle_for).map(|(key, _)| key.clone());
    let Some(connection) = longest.and_then(|key| others.remove(&key)).and_then(|cell| cell.get().cloned())
    else {
        return false;
    };
    tokio::spawn(async move { connection.close().await });
    true
}

/// Whether a user may open one more connection.
pub(crate) fn has_share_left(others: &Cells, user: Option<&str>) -> bool {
    user.is_none_or(|user| others.keys().filter(|key| key.user() == Some(user)).count() < USER_SHARE)
}
