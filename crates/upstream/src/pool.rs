//! The connections of one server: one for the gateway itself, others where callers may not share.
//!
//! A legacy server is told once what its client can do. The gateway's own connection tells it of everything
//! that can be bridged, as some servers offer tools only then. Callers who may not share it, and over HTTP
//! clients that can do less, get connections of their own. A modern server is told with every request.

use crate::connection::{ASKABLE, Connection, SharedConnection};
use crate::error::UpstreamError;
use crate::http::Credential;
use crate::open::{OpenRequest, Surroundings};
use crate::peer::Notice;
use crate::process::StderrTail;
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OnceCell, mpsc};
use toolbooth_core::caller::{Caller, ClientFacts, Standing};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::server::{ServerEntry, Share};
use toolbooth_wire::Era;

/// A connection nobody has used for this long is closed, unless it is the only one.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// The most connections one server may have.
const MAX_CONNECTIONS: usize = 256;
/// How many connections calls that wait for a person may hold before others wait with them.
const MAX_HELD_UP: usize = 16;
/// How long a fresh connection waits for questions that belong to no call.
const SETTLE: Duration = Duration::from_millis(30);

/// Who may share a connection: (callers, what their client can be asked).
type Key = (String, String);

/// The connections of one server.
#[derive(Debug)]
pub struct Pool {
    entry: Arc<ServerEntry>,
    surroundings: Arc<Surroundings>,
    credential: Credential,
    stderr: StderrTail,
    notices: mpsc::Sender<Notice>,
    primary: ArcSwapOption<Connection>,
    /// The connection that last told of a change: with servers that keep state in their process, the
    /// others know nothing of it.
    informant: Mutex<Weak<Connection>>,
    others: Mutex<HashMap<Key, Arc<OnceCell<SharedConnection>>>>,
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
            entry,
            surroundings,
            credential,
            stderr,
            notices,
            primary: ArcSwapOption::empty(),
            informant: Mutex::default(),
            others: Mutex::default(),
        })
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
        let connection = Arc::new(self.open(hint, everything_askable(), self.notices.clone()).await?);
        self.primary.store(Some(connection.clone()));
        Ok(connection)
    }

    async fn open(
        &self,
        hint: Option<Era>,
        capabilities: RawJson,
        notices: mpsc::Sender<Notice>,
    ) -> Result<Connection, UpstreamError> {
        self.surroundings
            .open(OpenRequest {
                entry: &self.entry,
                hint,
                capabilities,
                stderr: &self.stderr,
                credential: self.credential.clone(),
                notices,
            })
            .await
    }

    /// The connection for a call: the gateway's own where it may be shared, else one of the caller's.
    pub async fn for_call(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
    ) -> Result<SharedConnection, UpstreamError> {
        let Some(primary) = self.primary.load_full() else {
            return Err(UpstreamError::Unreachable {
                server: self.entry.name.to_string(),
                reason: "it is not connected".into(),
            });
        };
        let sharing = sharing_key(self.entry.share, caller);
        let asked = match (primary.era, primary.turns.is_some()) {
            (Era::Modern, _) => RawJson::empty_object(),
            // One process serves all clients of its owner: state kept there is seen by all of them. What a
            // client cannot be asked is refused when it is asked.
            (Era::Legacy, true) if sharing.is_empty() => everything_askable(),
            (Era::Legacy, _) => askable(client),
        };
        let own = sharing.is_empty() && (primary.era == Era::Modern || primary.turns.is_some());
        if own && !primary.is_held_up() {
            return Ok(primary);
        }
        let key = self.free_key(&sharing, asked.as_str());
        let cell = self.cell(key.clone())?;
        // Boxed, as opening is long and rare: every call would carry the room for it.
        let opened = Box::pin(cell.get_or_try_init(|| async {
            let (notices, inbox) = mpsc::channel(16);
            let connection = Arc::new(self.open(Some(primary.era), asked.clone(), notices).await?);
            tokio::spawn(watch(Arc::downgrade(self), Arc::downgrade(&connection), key.clone(), inbox));
            connection.peer.listen();
            if connection.turns.is_some() {
                tokio::time::sleep(SETTLE).await;
            }
            // The tools of one server are the same on all its connections.
            connection.mirrored.store(primary.mirrored.load_full());
            Ok::<_, UpstreamError>(connection)
        }))
        .await;
        opened.cloned()
    }

    fn others(&self) -> MutexGuard<'_, HashMap<Key, Arc<OnceCell<SharedConnection>>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first connection of these callers that is not held up by a call waiting for a person.
    fn free_key(&self, sharing: &str, asked: &str) -> Key {
        let others = self.others();
        let held_up =
            |key: &Key| others.get(key).and_then(|cell| cell.get()).is_some_and(|open| open.is_held_up());
        let mut keys = (0..MAX_HELD_UP).map(|spare| match spare {
            0 => (sharing.to_owned(), asked.to_owned()),
            _ => (sharing.to_owned(), format!("{asked} spare {spare}")),
        });
        let free = keys.find(|key| !held_up(key));
        free.unwrap_or_else(|| (sharing.to_owned(), asked.to_owned()))
    }

    fn cell(&self, key: Key) -> Result<Arc<OnceCell<SharedConnection>>, UpstreamError> {
        let mut others = self.others();
        if !others.contains_key(&key) && others.len() >= MAX_CONNECTIONS {
            return Err(UpstreamError::Busy { server: self.entry.name.to_string() });
        }
        Ok(others.entry(key).or_default().clone())
    }

    /// Closes callers' connections that nobody has used for a while.
    pub async fn close_idle(&self) {
        let idle: Vec<SharedConnection> = {
            let mut others = self.others();
            let keys: Vec<Key> = others
                .iter()
                .filter(|(_, cell)| cell.get().is_some_and(|connection| connection.idle_for() > IDLE_LIMIT))
                .map(|(key, _)| key.clone())
                .collect();
            keys.iter().filter_map(|key| others.remove(key)).filter_map(|cell| cell.get().cloned()).collect()
        };
        for connection in idle {
            connection.close().await;
        }
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
            Notice::ListChanged(method) => {
                *pool.informant.lock().unwrap_or_else(PoisonError::into_inner) = connection.clone();
                let _ = pool.notices.try_send(Notice::ListChanged(method));
            }
            other => drop(pool.notices.try_send(other)),
        }
    }
}

/// Callers with the same key share; the empty key shares with the gateway itself.
fn sharing_key(share: Share, caller: &Caller) -> String {
    match (share, caller.standing) {
        (Share::All, _) | (Share::User, Standing::Owner) => String::new(),
        (Share::User, Standing::Guest) => format!("user {}", caller.user),
        (Share::Session, _) => match &caller.session {
            Some(session) => format!("session {session}"),
            None => format!("user {}", caller.user),
        },
    }
}

/// All that a server may ask through the gateway. Some servers offer tools only to clients that can be asked.
fn everything_askable() -> RawJson {
    RawJson::trusted(&br#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#[..])
}

/// The part of a client's capabilities by which a server may ask it something.
fn askable(client: &ClientFacts) -> RawJson {
    let mut writer = ObjectWriter::default();
    for capability in ASKABLE {
        if let Some(value) = client.capabilities.member(capability).filter(RawJson::is_object) {
            writer.raw(capability, &value);
        }
    }
    writer.finish()
}
