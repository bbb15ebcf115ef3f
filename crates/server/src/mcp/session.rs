//! Legacy sessions: created by the gateway, bound to their caller, never forwarded.

use super::FrontEndState;
use super::cancel::Cancel;
use super::session_folder::SessionFolder;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::hex;
use toolbooth_core::json::RawJson;
use toolbooth_core::name_map::NameMap;
use toolbooth_wire::{Id, Revision, RpcError};

/// How long an idle session is kept.
const LEGACY_SESSION_IDLE: Duration = Duration::from_secs(3600);

/// One legacy client's session.
#[derive(Debug)]
pub struct LegacySession {
    /// Its id.
    pub id: Arc<str>,
    /// The caller who opened it, with their rights at that time.
    pub caller: Arc<Caller>,
    /// The caller as last identified, and the same caller with the session set.
    current: arc_swap::ArcSwap<(Arc<Caller>, Arc<Caller>)>,
    /// The negotiated revision.
    pub revision: Revision,
    facts: arc_swap::ArcSwap<ClientFacts>,
    calls: Mutex<NameMap<Id, Cancel>>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Result<RawJson, RpcError>>>>,
    next_question: AtomicU64,
    /// Dropped when the client's stream is replaced.
    stream: Mutex<Option<oneshot::Sender<()>>>,
    /// Is cancelled when the session ends.
    over: CancellationToken,
    subscribed: Mutex<HashSet<String>>,
    /// The folder in which its client works.
    pub(super) folder: SessionFolder,
    /// The loaded tools that the store has, sorted.
    stored_loaded: Mutex<Vec<Box<str>>>,
    opened: Instant,
    last_seen_ms: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LegacySession {
    /// Opens a session for this caller.
    pub fn new(caller: &Arc<Caller>, revision: Revision, facts: ClientFacts) -> Option<Arc<Self>> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self::with_id(hex::encode(&bytes).into(), caller, revision, facts))
    }

    /// The session with this id, which this or another gateway has opened for this caller.
    pub(super) fn with_id(
        id: Arc<str>,
        caller: &Arc<Caller>,
        revision: Revision,
        facts: ClientFacts,
    ) -> Arc<Self> {
        let opener = caller.clone();
        let session = caller.session.clone().or_else(|| Some(id.clone()));
        let caller = Arc::new(Caller { session, ..Caller::clone(caller) });
        Arc::new(Self {
            id,
            current: arc_swap::ArcSwap::from_pointee((opener, caller.clone())),
            caller,
            revision,
            facts: arc_swap::ArcSwap::from_pointee(facts),
            calls: Mutex::default(),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1),
            stream: Mutex::default(),
            over: CancellationToken::new(),
            subscribed: Mutex::default(),
            folder: SessionFolder::default(),
            stored_loaded: Mutex::default(),
            opened: Instant::now(),
            last_seen_ms: AtomicU64::new(0),
        })
    }

    /// Sets the number of the first question, before any is asked.
    pub(super) fn number_questions_from(&self, first: u64) {
        self.next_question.store(first, Ordering::Relaxed);
    }

    /// The caller of one request of this session, with the rights found for that request.
    pub fn caller_now(&self, identified: &Arc<Caller>) -> Arc<Caller> {
        let current = self.current.load();
        // The client of a socket has named its folder before.
        let folder = self.folder.get().or_else(|| identified.folder.clone());
        if Arc::ptr_eq(&current.0, identified) && current.1.folder == folder {
            return current.1.clone();
        }
        // A session that the client names takes precedence over the protocol session.
        let session = identified.session.clone().or_else(|| Some(self.id.clone()));
        let noted = Arc::new(Caller { session, folder, ..Caller::clone(identified) });
        self.current.store(Arc::new((identified.clone(), noted.clone())));
        noted
    }

    /// The client's name, version and capabilities.
    pub fn facts(&self) -> Arc<ClientFacts> {
        self.facts.load_full()
    }

    /// Sets the log level that the client wants.
    pub fn set_log_level(&self, level: String) {
        let facts = ClientFacts { log_level: Some(level), ..ClientFacts::clone(&self.facts.load()) };
        self.facts.store(Arc::new(facts));
    }

    fn touch(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_seen_ms.store(now, Ordering::Relaxed);
    }

    /// Whether its client has an open stream here.
    fn has_stream(&self) -> bool {
        lock(&self.stream).as_ref().is_some_and(|stream| !stream.is_closed())
    }

    fn idle_for(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_millis(self.last_seen_ms.load(Ordering::Relaxed)))
    }

    /// The loaded tools, sorted, if others are loaded than at the last call.
    pub(super) fn newly_loaded(&self) -> Option<Vec<Box<str>>> {
        let mut names = self.facts.load().loaded.as_ref()?.names();
        names.sort_unstable();
        let mut stored = lock(&self.stored_loaded);
        if *stored == names {
            return None;
        }
        stored.clone_from(&names);
        Some(names)
    }

    /// Records a running request; returns its cancellation signal.
    pub fn begin(&self, id: &Id) -> Cancel {
        let cancel = Cancel::default();
        lock(&self.calls).insert(id.clone(), cancel.clone());
        cancel
    }

    /// Records the end of a request.
    pub fn end(&self, id: &Id) {
        lock(&self.calls).remove(id);
    }

    /// Cancels a request; `false` if it does not run here.
    pub fn cancel(&self, id: &Id) -> bool {
        let call = lock(&self.calls).remove(id);
        call.inspect(Cancel::cancel).is_some()
    }

    /// Registers a question to the client and returns its id. After the end of the session the reply channel is
    /// dropped, which fails the question.
    pub fn ask(&self, reply: oneshot::Sender<Result<RawJson, RpcError>>) -> u64 {
        let id = self.next_question.fetch_add(1, Ordering::Relaxed);
        let mut open = lock(&self.questions);
        if !self.over.is_cancelled() {
            open.insert(id, reply);
        }
        id
    }

    /// Drops questions that the client can no longer see. Dropping them fails them.
    pub fn withdraw(&self, questions: &[u64]) {
        let mut open = lock(&self.questions);
        for id in questions {
            open.remove(id);
        }
    }

    /// Delivers the client's answer to a question. Returns it if the question is not open here.
    pub fn answered(&self, id: &Id, outcome: Result<RawJson, RpcError>) -> Option<Result<RawJson, RpcError>> {
        let reply = id.as_number().and_then(|id| lock(&self.questions).remove(&id));
        match reply {
            Some(reply) => {
                let _ = reply.send(outcome);
                None
            }
            None => Some(outcome),
        }
    }

    /// Opens the client's stream and ends an earlier one. The future completes when this stream has to end.
    pub fn open_stream(&self) -> impl Future<Output = ()> + Send + 'static {
        let (sender, replaced) = oneshot::channel();
        *lock(&self.stream) = Some(sender);
        // Clones the token only: holding the session would keep the sender that ends the stream alive.
        let over = self.over.clone();
        async move {
            tokio::select! {
                _ = replaced => {}
                () = over.cancelled() => {}
            }
        }
    }

    /// Ends the session: its streams end and its open questions fail.
    pub fn close(&self) {
        self.over.cancel();
        lock(&self.questions).clear();
    }

    /// Is cancelled when the session ends.
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Adds a subscription; `false` if it already exists.
    pub fn subscribe(&self, uri: &str) -> bool {
        lock(&self.subscribed).insert(uri.to_owned())
    }

    /// Removes a subscription; `false` if it does not exist.
    pub fn unsubscribe(&self, uri: &str) -> bool {
        lock(&self.subscribed).remove(uri)
    }

    /// Whether the client is subscribed to a resource.
    pub fn is_subscribed(&self, uri: &str) -> bool {
        lock(&self.subscribed).contains(uri)
    }

    /// All subscriptions, sorted.
    pub(super) fn subscriptions(&self) -> Vec<String> {
        let mut all: Vec<String> = lock(&self.subscribed).iter().cloned().collect();
        all.sort_unstable();
        all
    }

    /// Removes and returns all subscriptions.
    pub fn take_subscriptions(&self) -> Vec<String> {
        lock(&self.subscribed).drain().collect()
    }
}

/// Whether a gateway has one user or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserCount {
    /// The owner of a gateway in `local` mode.
    One,
    /// The users of the other modes.
    Several,
}

/// All legacy sessions.
#[derive(Debug)]
pub struct Sessions {
    open: RwLock<SessionTable>,
    limit: usize,
    /// Maximum number of sessions per user.
    share: AtomicUsize,
}

#[derive(Debug, Default)]
struct SessionTable {
    by_id: NameMap<Arc<str>, Arc<LegacySession>>,
    of_user: HashMap<Arc<str>, usize>,
}

impl SessionTable {
    fn remove(&mut self, id: &str) -> Option<Arc<LegacySession>> {
        let session = self.by_id.remove(id)?;
        match self.of_user.get_mut(&session.caller.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.of_user.remove(&session.caller.user)),
        }
        Some(session)
    }

    /// Removes the session of a user that has been idle for longest.
    fn remove_oldest_of(&mut self, user: &str) -> Option<Arc<LegacySession>> {
        let mine = self.by_id.values().filter(|session| *session.caller.user == *user);
        let oldest = mine.max_by_key(|session| session.idle_for())?.id.clone();
        self.remove(&oldest)
    }
}

impl Sessions {
    /// At most `limit` sessions in total, and `share` per user.
    pub fn new(limit: usize, share: usize) -> Self {
        Self { open: RwLock::default(), limit: limit.max(1), share: AtomicUsize::new(share.max(1)) }
    }

    /// Sets the quota per user: a quarter of the limit for several users, all of it for one. Applies to new sessions.
    pub fn set_users(&self, users: UserCount) {
        let share = match users {
            UserCount::One => self.limit,
            UserCount::Several => self.limit / 4,
        };
        self.share.store(share.max(1), Ordering::Relaxed);
    }

    /// Adds a session and returns those that it evicts. A user at the quota loses their longest idle session; at the
    /// total limit, the user with most sessions does.
    pub fn add(&self, session: Arc<LegacySession>) -> Vec<Arc<LegacySession>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        self.insert(&mut open, session)
    }

    fn insert(&self, open: &mut SessionTable, session: Arc<LegacySession>) -> Vec<Arc<LegacySession>> {
        let mut gone = Vec::new();
        let user = &session.caller.user;
        let mine = open.of_user.get(user).copied().unwrap_or_default();
        let loser = if mine >= self.share.load(Ordering::Relaxed) {
            Some(user.clone())
        } else if open.by_id.len() >= self.limit {
            open.of_user.iter().max_by_key(|(_, count)| **count).map(|(user, _)| user.clone())
        } else {
            None
        };
        gone.extend(loser.and_then(|user| open.remove_oldest_of(&user)));
        *open.of_user.entry(user.clone()).or_default() += 1;
        open.by_id.insert(session.id.clone(), session);
        gone
    }

    /// Adds a session that another gateway has opened, unless it was added in the meantime. Returns the session, and
    /// those that it evicts.
    pub(super) fn adopt(&self, session: Arc<LegacySession>) -> (Arc<LegacySession>, Vec<Arc<LegacySession>>) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open.by_id.get(&*session.id) {
            return (known.clone(), Vec::new());
        }
        let gone = self.insert(&mut open, session.clone());
        (session, gone)
    }

    /// The session with this id, of any user.
    pub(super) fn known(&self, id: &str) -> Option<Arc<LegacySession>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    /// The ids of sessions that were used recently or have an open stream.
    pub(super) fn used_within(&self, time: Duration) -> Vec<String> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let is_used = |session: &&Arc<LegacySession>| session.idle_for() <= time || session.has_stream();
        open.by_id.values().filter(is_used).map(|session| session.id.to_string()).collect()
    }

    /// The session with this id, if it belongs to this user.
    pub fn get(&self, id: &str, caller: &Caller) -> Option<Arc<LegacySession>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let session = open.by_id.get(id).filter(|session| session.caller.user == caller.user)?;
        session.touch();
        Some(session.clone())
    }

    /// Ends a session.
    pub fn remove(&self, id: &str) -> Option<Arc<LegacySession>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Ends idle sessions.
    pub fn sweep(&self) -> Vec<Arc<LegacySession>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let idle =
            |session: &LegacySession| session.idle_for() > LEGACY_SESSION_IDLE && !session.has_stream();
        let gone: Vec<Arc<LegacySession>> =
            open.by_id.values().filter(|session| idle(session)).cloned().collect();
        for session in &gone {
            open.remove(&session.id);
        }
        gone
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Closes a session and its subscriptions.
pub(super) fn forget(front_end: &FrontEndState, session: &LegacySession) {
    session.close();
    let caller = session.caller_now(&session.caller);
    for uri in session.take_subscriptions() {
        front_end.engine.subscriptions().unsubscribe(&caller, &uri);
    }
    front_end.leave_folder(session);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(user: &str) -> Arc<LegacySession> {
        let caller = Arc::new(Caller::owner(user));
        LegacySession::new(&caller, Revision::negotiate("2025-11-25"), ClientFacts::default())
            .expect("randomness")
    }

    #[test]
    fn a_user_over_the_quota_loses_their_own_sessions() {
        let sessions = Sessions::new(4, 2);
        let (bob, ann) = (session("bob"), session("ann"));
        assert!(sessions.add(bob.clone()).is_empty() && sessions.add(ann.clone()).is_empty());
        for _ in 0..10 {
            let gone: Vec<_> =
                sessions.add(session("ann")).iter().map(|gone| gone.caller.user.clone()).collect();
            assert!(gone.iter().all(|user| &**user == "ann"), "{gone:?}");
        }
        assert_eq!(sessions.len(), 3);
        assert!(sessions.get(&bob.id, &bob.caller).is_some());
        assert!(sessions.add(session("cat")).is_empty());
        let gone = sessions.add(session("dan"));
        assert_eq!(gone.len(), 1);
        assert_eq!(&*gone[0].caller.user, "ann", "the user with most sessions");
        assert!(sessions.remove(&bob.id).is_some());
        assert_eq!(sessions.len(), 3);
        sessions.set_users(UserCount::Several);
        let gone = sessions.add(session("cat"));
        assert_eq!(gone.len(), 1, "her quota is a quarter now");
        assert_eq!(&*gone[0].caller.user, "cat");
    }
}
