//! The connection pool of one server: one connection for the gateway itself, and others for callers that may
//! not share it.
//!
//! A legacy server learns the client's capabilities once, in the handshake. The gateway's own connection
//! announces everything that can be bridged, because some servers offer tools only then. Callers that may not
//! share it, and over HTTP clients with fewer capabilities, get separate connections. A modern server learns
//! the capabilities with every request.

use crate::capabilities::ClientCapabilities;
use crate::connection::{Connection, SharedConnection};
use crate::connection_group::{ConnectionGroup, ConnectionKey, SharingGroup};
use crate::credential::{KeyChange, ServerCredential, UserKeys};
use crate::error::UpstreamError;
use crate::lease::{ConnectionLease, takes_turns};
use crate::list_changes;
use crate::oauth::Authorizer;
use crate::open::{OpenContext, OpenRequest};
use crate::peer::ServerNotice;
use crate::process::StderrTail;
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, OnceCell, mpsc};
use tokio::time::Instant;
use toolbooth_core::caller::{Caller, CallerKind, ClientFacts};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_core::server::{ServerEntry, Share, Transport};
use toolbooth_wire::Era;

/// Maximum number of connections per server.
pub(crate) const MAX_CONNECTIONS: usize = 256;
/// Maximum number of them per user, so that one user cannot take all of them.
pub(crate) const USER_SHARE: usize = 32;
/// How many users' keys are tried at a time to list a server's tools.
const MAX_LISTERS: usize = 8;
/// How long calls may finish on a connection whose key was replaced.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// How often such a connection is looked at.
const DRAIN_CHECK: Duration = Duration::from_millis(50);
/// How long a new connection waits for questions that do not belong to a call.
const SETTLE: Duration = Duration::from_millis(30);

/// Idle timeouts of connections. The gateway's own connection is not closed.
#[derive(Debug, Clone, Copy)]
pub struct IdleLimits {
    /// For callers' own connections, which may hold state.
    pub own: Duration,
    /// For spare connections, opened because the callers' own was busy.
    pub spare: Duration,
}

impl Default for IdleLimits {
    fn default() -> Self {
        Self { own: Duration::from_secs(300), spare: Duration::from_secs(60) }
    }
}

pub(crate) type Cells = HashMap<ConnectionKey, Arc<OnceCell<SharedConnection>>>;

/// The connections of one server.
#[derive(Debug)]
pub struct Pool {
    entry: Arc<ServerEntry>,
    open_context: Arc<OpenContext>,
    credential: ServerCredential,
    /// Secrets to mask in everything the server sends.
    secrets: KnownSecrets,
    stderr: StderrTail,
    notices: mpsc::Sender<ServerNotice>,
    primary: ArcSwapOption<Connection>,
    /// The user whose key the primary connection uses, if users give their own.
    lister: Mutex<Option<String>>,
    /// The connection that last announced a list change. Servers that keep state per process may not show the
    /// change on the others.
    latest_connection: Mutex<Weak<Connection>>,
    others: Mutex<Cells>,
    /// Notified when a spare was opened or could not be opened.
    pub(crate) spares_changed: Notify,
    /// When opening a spare last failed.
    pub(crate) spares_refused: Mutex<Option<Instant>>,
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(
        entry: Arc<ServerEntry>,
        open_context: Arc<OpenContext>,
        credential: ServerCredential,
        stderr: StderrTail,
        notices: mpsc::Sender<ServerNotice>,
    ) -> Arc<Self> {
        Arc::new(Self {
            secrets: entry.credentials(),
            entry,
            open_context,
            credential,
            stderr,
            notices,
            primary: ArcSwapOption::empty(),
            lister: Mutex::default(),
            latest_connection: Mutex::default(),
            others: Mutex::default(),
            spares_changed: Notify::new(),
            spares_refused: Mutex::default(),
        })
    }

    /// The source of the server's OAuth tokens, if a person can sign in to it.
    pub fn authorizer(&self) -> Option<&Arc<Authorizer>> {
        match &self.credential {
            ServerCredential::OAuth(authorizer) => Some(authorizer),
            _ => None,
        }
    }

    /// The keys of the server's users, if they give their own.
    pub fn user_keys(&self) -> Option<&Arc<UserKeys>> {
        match &self.credential {
            ServerCredential::UserKeys(keys) => Some(keys),
            _ => None,
        }
    }

    /// Fails for a user who has to give a key first.
    pub(crate) fn check_key(&self, caller: &Caller) -> Result<(), UpstreamError> {
        match self.user_keys() {
            Some(keys) if keys.status(&caller.user).is_none() => Err(keys.missing()),
            _ => Ok(()),
        }
    }

    /// The gateway's own connection, if it is open.
    pub fn primary(&self) -> Option<SharedConnection> {
        self.primary.load_full()
    }

    /// The connection with the most recent view of the server's lists.
    pub(crate) fn latest_connection(&self) -> Option<SharedConnection> {
        let latest = self.latest_connection.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        latest.or_else(|| self.primary())
    }

    /// Opens the gateway's own connection.
    pub async fn open_primary(&self, hint: Option<Era>) -> Result<SharedConnection, UpstreamError> {
        let everything = ClientCapabilities::EVERYTHING;
        let Some(keys) = self.user_keys() else {
            let connection = Arc::new(self.open(hint, everything, self.notices.clone(), None).await?);
            self.primary.store(Some(connection.clone()));
            return Ok(connection);
        };
        let mut refusal = keys.missing();
        for user in keys.listers(MAX_LISTERS) {
            match self.open(hint, everything, self.notices.clone(), Some(&user)).await {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    *self.lister.lock().unwrap_or_else(PoisonError::into_inner) = Some(user);
                    self.primary.store(Some(connection.clone()));
                    return Ok(connection);
                }
                // Another user's key may be accepted.
                Err(error @ (UpstreamError::NeedsAuth { .. } | UpstreamError::NeedsKey { .. })) => {
                    refusal = error
                }
                Err(error) => return Err(error),
            }
        }
        Err(refusal)
    }

    /// Whether the primary connection uses this user's key.
    pub(crate) fn is_lister(&self, user: &str) -> bool {
        self.lister.lock().unwrap_or_else(PoisonError::into_inner).as_deref() == Some(user)
    }

    /// Notes that the server refused the key of the primary connection. Returns whether another key is worth a try.
    pub(crate) fn note_refused_lister(&self, error: &UpstreamError) -> bool {
        let Some(keys) = self.user_keys() else { return false };
        if let Some(user) = &*self.lister.lock().unwrap_or_else(PoisonError::into_inner) {
            keys.note_outcome(user, &Err::<(), _>(error.clone()));
        }
        keys.has_usable_key()
    }

    /// Subscribes to list changes on the gateway's own connection.
    pub(crate) async fn watch_changes(&self, primary: &SharedConnection) {
        list_changes::watch_changes(primary, &self.notices).await;
    }

    async fn open(
        &self,
        hint: Option<Era>,
        capabilities: ClientCapabilities,
        notices: mpsc::Sender<ServerNotice>,
        user: Option<&str>,
    ) -> Result<Connection, UpstreamError> {
        // A key that was replaced meanwhile was not the one that the server accepted or refused.
        let given_at = |keys: &UserKeys, user: &str| keys.status(user).map(|status| status.set_at_ms);
        let before = self.user_keys().zip(user).and_then(|(keys, user)| given_at(keys, user));
        let (credential, secrets) = match (self.user_keys(), user) {
            (Some(keys), Some(user)) => keys.credential(user, &self.entry)?,
            (Some(keys), None) => return Err(keys.missing()),
            (None, _) => (self.credential.clone(), self.secrets.clone()),
        };
        let opened = self
            .open_context
            .open(OpenRequest {
                entry: &self.entry,
                hint,
                capabilities: capabilities.to_json(),
                secrets: &secrets,
                stderr: &self.stderr,
                credential,
                notices,
            })
            .await;
        if let (Some(keys), Some(user)) = (self.user_keys(), user)
            && given_at(keys, user) == before
        {
            keys.note_outcome(user, &opened);
        }
        opened
    }

    /// Leases a connection for a call: the callers' own, or a spare if they wait for its turn.
    pub async fn for_call(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
    ) -> Result<ConnectionLease, UpstreamError> {
        let group = self.group(caller, client).await?;
        let has_turns = group.home.turns.is_some();
        // Calls whose clients take no turns share the connection until the server sends a question during a call.
        if has_turns && (takes_turns(client) || group.home.peer.has_asked()) {
            return Ok(Box::pin(self.lease(&group)).await);
        }
        Ok(ConnectionLease::shared(group.home))
    }

    /// The connection that holds a server's state for a caller: the gateway's own if it may be shared,
    /// otherwise the caller's.
    pub async fn home(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
    ) -> Result<SharedConnection, UpstreamError> {
        Ok(self.group(caller, client).await?.home)
    }

    async fn group(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
    ) -> Result<ConnectionGroup, UpstreamError> {
        self.check_key(caller)?;
        let Some(primary) = self.primary.load_full() else {
            return Err(UpstreamError::Unreachable {
                server: self.entry.name.to_string(),
                reason: "it is not connected".into(),
            });
        };
        let sharing = self.sharing(caller, &primary);
        let capabilities = match (primary.era, primary.turns.is_some()) {
            (Era::Modern, _) => ClientCapabilities::NOTHING,
            // One process serves all clients of its owner and its state is visible to all of them. A question
            // that a client cannot answer is refused when it is asked.
            (Era::Legacy, true) if sharing == SharingGroup::All => ClientCapabilities::EVERYTHING,
            (Era::Legacy, _) => ClientCapabilities::of(client),
        };
        if sharing == SharingGroup::All && (primary.era == Era::Modern || primary.turns.is_some()) {
            return Ok(ConnectionGroup { home: primary, sharing, capabilities });
        }
        let key = ConnectionKey::own(&sharing, capabilities);
        let cell = self.cell(key.clone())?;
        // Boxed: opening is rare, and its large future would be part of every call.
        let opened = Box::pin(self.open_other(&key, &cell, &primary, capabilities)).await;
        let home = opened.inspect_err(|_| self.forget_unopened(&key, &cell))?;
        Ok(ConnectionGroup { home, sharing, capabilities })
    }

    /// The callers that share connections with this caller.
    fn sharing(&self, caller: &Caller, primary: &Connection) -> SharingGroup {
        let user = || SharingGroup::User(caller.user.to_string());
        match (self.entry.share, caller.kind) {
            // A connection with a user's key serves that user alone, whatever the entry says.
            (Share::All | Share::User | Share::Auto, _) if self.user_keys().is_some() => user(),
            (Share::All, _) | (Share::User | Share::Auto, CallerKind::Owner) => SharingGroup::All,
            (Share::User, CallerKind::Guest) => user(),
            // A server without state between calls needs no separation.
            (Share::Auto, CallerKind::Guest) => {
                let is_remote = matches!(self.entry.transport, Transport::Http(_));
                match is_remote && (primary.era == Era::Modern || !primary.peer.has_session()) {
                    true => SharingGroup::All,
                    false => user(),
                }
            }
            (Share::Session, _) => match &caller.session {
                Some(session) => {
                    SharingGroup::Session { session: session.to_string(), user: caller.user.to_string() }
                }
                None => user(),
            },
        }
    }

    /// Removes the slot of a connection that could not be opened, unless another caller is opening it.
    fn forget_unopened(&self, key: &ConnectionKey, cell: &Arc<OnceCell<SharedConnection>>) {
        let mut others = self.others();
        // The pool and this caller hold one reference each; more means another caller.
        if !cell.initialized() && Arc::strong_count(cell) <= 2 {
            others.remove(key);
        }
    }

    /// Opens a connection beside the gateway's own, unless it is open.
    pub(crate) async fn open_other(
        self: &Arc<Self>,
        key: &ConnectionKey,
        cell: &OnceCell<SharedConnection>,
        model: &Connection,
        capabilities: ClientCapabilities,
    ) -> Result<SharedConnection, UpstreamError> {
        let opened = cell
            .get_or_try_init(|| async {
                let (notices, inbox) = mpsc::channel(16);
                let connection = self.open(Some(model.era), capabilities, notices, key.user()).await?;
                let connection = Arc::new(connection);
                if let (Some(keys), Some(user)) = (self.user_keys(), key.user())
                    && keys.status(user).is_none()
                {
                    // The key was deleted meanwhile.
                    connection.close().await;
                    return Err(keys.missing());
                }
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

    fn cell(&self, key: ConnectionKey) -> Result<Arc<OnceCell<SharedConnection>>, UpstreamError> {
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

    /// Closes idle connections other than the gateway's own.
    pub async fn close_idle(&self, limits: IdleLimits) {
        let idle: Vec<SharedConnection> = {
            let mut others = self.others();
            let is_idle = |key: &ConnectionKey, connection: &SharedConnection| {
                let limit = if key.is_spare() { limits.spare } else { limits.own };
                // A call or a waiter holds a reference besides the pool's.
                Arc::strong_count(connection) == 1 && connection.idle_for() >= limit
            };
            let keys: Vec<ConnectionKey> = others
                .iter()
                .filter(|(key, cell)| cell.get().is_some_and(|connection| is_idle(key, connection)))
                .map(|(key, _)| key.clone())
                .collect();
            keys.iter().filter_map(|key| others.remove(key)).filter_map(|cell| cell.get().cloned()).collect()
        };
        futures_util::future::join_all(idle.iter().map(|connection| connection.close())).await;
    }

    /// Takes the connections of a user whose key changed out of the pool, and closes them.
    pub(crate) async fn close_of_user(&self, user: &str, change: KeyChange) {
        let connections: Vec<SharedConnection> = {
            let mut others = self.others();
            let taken = others.extract_if(|key, _| key.user() == Some(user));
            taken.filter_map(|(_, cell)| cell.get().cloned()).collect()
        };
        match change {
            KeyChange::Deleted => {
                futures_util::future::join_all(connections.iter().map(|connection| connection.close())).await;
            }
            KeyChange::Set => {
                for connection in connections {
                    tokio::spawn(drain(connection));
                }
            }
        }
    }

    /// Closes the gateway's own connection and leaves those of callers open.
    pub(crate) async fn close_primary(&self) {
        if let Some(primary) = self.primary.swap(None) {
            primary.close().await;
        }
    }

    /// Closes all connections.
    pub async fn close(&self) {
        let mut connections: Vec<SharedConnection> = self.primary.swap(None).into_iter().collect();
        let others = std::mem::take(&mut *self.others());
        connections.extend(others.into_values().filter_map(|cell| cell.get().cloned()));
        let closing = connections.iter().map(|connection| connection.close());
        futures_util::future::join_all(closing).await;
    }
}

/// Watches a caller's connection: removes it when it is lost and forwards its notices.
async fn watch(
    pool: Weak<Pool>,
    connection: Weak<Connection>,
    key: ConnectionKey,
    mut inbox: mpsc::Receiver<ServerNotice>,
) {
    while let Some(notice) = inbox.recv().await {
        let Some(pool) = pool.upgrade() else { return };
        match notice {
            ServerNotice::Closed(_) => {
                forget_lost(&pool, &key, &connection);
                return;
            }
            ServerNotice::Flooded(reason) => {
                forget_lost(&pool, &key, &connection);
                pool.stderr.note(&format!("(the gateway ended a connection: {reason})"));
                return;
            }
            ServerNotice::ListChanged(method) => {
                *pool.latest_connection.lock().unwrap_or_else(PoisonError::into_inner) = connection.clone();
                ServerNotice::ListChanged(method).pass_on(&pool.notices);
            }
            // The gateway's own connection receives changes too; this notice only says that the stream is
            // open again.
            ServerNotice::Missed => {}
            other => other.pass_on(&pool.notices),
        }
    }
}

/// Removes a lost connection from the pool, unless another has taken its place.
fn forget_lost(pool: &Pool, key: &ConnectionKey, lost: &Weak<Connection>) {
    let mut others = pool.others();
    let is_it = |open: &SharedConnection| std::ptr::eq(Arc::as_ptr(open), lost.as_ptr());
    if others.get(key).is_some_and(|cell| cell.get().is_none_or(is_it)) {
        others.remove(key);
    }
}

/// Closes a connection that is no longer in the pool when its calls have ended.
async fn drain(connection: SharedConnection) {
    let ended = async {
        // Each call holds a reference.
        while Arc::strong_count(&connection) > 1 {
            tokio::time::sleep(DRAIN_CHECK).await;
        }
    };
    let _ = tokio::time::timeout(DRAIN_LIMIT, ended).await;
    connection.close().await;
}

/// Closes the longest idle connection, of the given user if there is one. Returns `false` if all are in use.
fn make_room(others: &mut Cells, user: Option<&str>) -> bool {
    let is_of_user = |key: &ConnectionKey| user.is_none_or(|user| key.user() == Some(user));
    let idle = others.iter().filter(|(key, _)| is_of_user(key)).filter_map(|(key, cell)| {
        // A call or a waiter holds a reference besides the pool's.
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

/// Whether a user may open another connection.
pub(crate) fn has_share_left(others: &Cells, user: Option<&str>) -> bool {
    user.is_none_or(|user| others.keys().filter(|key| key.user() == Some(user)).count() < USER_SHARE)
}
