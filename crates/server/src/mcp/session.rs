//! Legacy sessions: minted by us, bound to their caller, never forwarded.

use super::cancel::Cancel;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::RawJson;
use toolbooth_core::name_map::NameMap;
use toolbooth_wire::{Id, Revision, RpcError};

/// A session that nobody has used for this long is forgotten.
const IDLE_LIMIT: Duration = Duration::from_secs(3600);

/// One legacy client's session.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: Arc<str>,
    /// Whose it is, as they were when they opened it.
    pub caller: Arc<Caller>,
    /// The caller as last identified, and the same with the session noted.
    current: arc_swap::ArcSwap<(Arc<Caller>, Arc<Caller>)>,
    /// The revision agreed on.
    pub revision: Revision,
    facts: arc_swap::ArcSwap<ClientFacts>,
    calls: Mutex<NameMap<Id, Cancel>>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Result<RawJson, RpcError>>>>,
    next_question: AtomicU64,
    /// Lives as long as the client's own stream may.
    stream: Mutex<Option<oneshot::Sender<()>>>,
    /// Fires when the session is over.
    over: CancellationToken,
    subscribed: Mutex<HashSet<String>>,
    opened: Instant,
    last_seen_ms: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// A session of this caller.
    pub fn new(caller: &Arc<Caller>, revision: Revision, facts: ClientFacts) -> Option<Arc<Self>> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).ok()?;
        let id: Arc<str> = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        let opener = caller.clone();
        let session = caller.session.clone().or_else(|| Some(id.clone()));
        let caller = Arc::new(Caller { session, ..Caller::clone(caller) });
        Some(Arc::new(Self {
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
            opened: Instant::now(),
            last_seen_ms: AtomicU64::new(0),
        }))
    }

    /// The caller of one request of this session: as identified for the request, not as of long ago.
    pub fn caller_now(&self, identified: &Arc<Caller>) -> Arc<Caller> {
        let current = self.current.load();
        if Arc::ptr_eq(&current.0, identified) {
            return current.1.clone();
        }
        // A conversation that the client names is what it means; a session of the protocol stands in for one.
        let session = identified.session.clone().or_else(|| Some(self.id.clone()));
        let noted = Arc::new(Caller { session, ..Caller::clone(identified) });
        self.current.store(Arc::new((identified.clone(), noted.clone())));
        noted
    }

    /// What the client said about itself.
    pub fn facts(&self) -> Arc<ClientFacts> {
        self.facts.load_full()
    }

    /// Notes the log level the client wants.
    pub fn set_log_level(&self, level: String) {
        let facts = ClientFacts { log_level: Some(level), ..ClientFacts::clone(&self.facts.load()) };
        self.facts.store(Arc::new(facts));
    }

    fn touch(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_seen_ms.store(now, Ordering::Relaxed);
    }

    fn idle_for(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_millis(self.last_seen_ms.load(Ordering::Relaxed)))
    }

    /// Notes a request as under way; the word is said when the client cancels it.
    pub fn begin(&self, id: &Id) -> Cancel {
        let cancel = Cancel::default();
        lock(&self.calls).insert(id.clone(), cancel.clone());
        cancel
    }

    /// Notes a request as ended.
    pub fn end(&self, id: &Id) {
        lock(&self.calls).remove(id);
    }

    /// Cancels a request.
    pub fn cancel(&self, id: &Id) {
        if let Some(call) = lock(&self.calls).remove(id) {
            call.cancel();
        }
    }

    /// Registers a question to the client; gives its id. Once the session is over no answer can come, and
    /// whoever asked is told at once.
    pub fn ask(&self, reply: oneshot::Sender<Result<RawJson, RpcError>>) -> u64 {
        let id = self.next_question.fetch_add(1, Ordering::Relaxed);
        let mut open = lock(&self.questions);
        if !self.over.is_cancelled() {
            open.insert(id, reply);
        }
        id
    }

    /// Drops questions that the client can no longer see, so that whoever asked is told at once.
    pub fn withdraw(&self, questions: &[u64]) {
        let mut open = lock(&self.questions);
        for id in questions {
            open.remove(id);
        }
    }

    /// Takes the client's answer to a question.
    pub fn answered(&self, id: &Id, outcome: Result<RawJson, RpcError>) {
        let reply = id.as_number().and_then(|id| lock(&self.questions).remove(&id));
        if let Some(reply) = reply {
            let _ = reply.send(outcome);
        }
    }

    /// Opens the client's own stream; an earlier one ends. The future tells when this one has to.
    pub fn open_stream(&self) -> impl Future<Output = ()> + Send + 'static {
        let (sender, replaced) = oneshot::channel();
        *lock(&self.stream) = Some(sender);
        // Not through the session: the stream would keep what ends it alive.
        let over = self.over.clone();
        async move {
            tokio::select! {
                _ = replaced => {}
                () = over.cancelled() => {}
            }
        }
    }

    /// Ends the session: its streams end, and what the client was asked fails.
    pub fn close(&self) {
        self.over.cancel();
        lock(&self.questions).clear();
    }

    /// Fires when the session is over.
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Notes a subscription; `false` if it was there already.
    pub fn subscribe(&self, uri: &str) -> bool {
        lock(&self.subscribed).insert(uri.to_owned())
    }

    /// Forgets a subscription; `false` if there was none.
    pub fn unsubscribe(&self, uri: &str) -> bool {
        lock(&self.subscribed).remove(uri)
    }

    /// Whether the client wants to hear of a resource.
    pub fn is_subscribed(&self, uri: &str) -> bool {
        lock(&self.subscribed).contains(uri)
    }

    /// All subscriptions, taken out.
    pub fn take_subscriptions(&self) -> Vec<String> {
        lock(&self.subscribed).drain().collect()
    }
}

/// Whether a gateway has more than one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// The owner of a gateway in `local` mode.
    One,
    /// Those whom it tells apart in the other modes.
    Several,
}

/// All sessions.
#[derive(Debug)]
pub struct Sessions {
    open: RwLock<Open>,
    limit: usize,
    /// How many of them may be one user's.
    share: AtomicUsize,
}

#[derive(Debug, Default)]
struct Open {
    by_id: NameMap<Arc<str>, Arc<Session>>,
    of_user: HashMap<Arc<str>, usize>,
}

impl Open {
    fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        let session = self.by_id.remove(id)?;
        match self.of_user.get_mut(&session.caller.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.of_user.remove(&session.caller.user)),
        }
        Some(session)
    }

    /// Takes out the session of a user that was unused for longest.
    fn remove_oldest_of(&mut self, user: &str) -> Option<Arc<Session>> {
        let mine = self.by_id.values().filter(|session| *session.caller.user == *user);
        let oldest = mine.max_by_key(|session| session.idle_for())?.id.clone();
        self.remove(&oldest)
    }
}

impl Sessions {
    /// At most `limit` sessions at once, and `share` of one user.
    pub fn new(limit: usize, share: usize) -> Self {
        Self { open: RwLock::default(), limit: limit.max(1), share: AtomicUsize::new(share.max(1)) }
    }

    /// Divides them among several users, or gives all to the one user there is; for sessions that are opened from
    /// now on.
    pub fn share_out(&self, users: Users) {
        let share = match users {
            Users::One => self.limit,
            Users::Several => self.limit / 4,
        };
        self.share.store(share.max(1), Ordering::Relaxed);
    }

    /// Adds a session. A user who has their share loses the one unused for longest; when there are too many in all,
    /// the user with the most does.
    pub fn add(&self, session: Arc<Session>) -> Vec<Arc<Session>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
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

    /// The session of an id, if it is this user's.
    pub fn get(&self, id: &str, caller: &Caller) -> Option<Arc<Session>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let session = open.by_id.get(id).filter(|session| session.caller.user == caller.user)?;
        session.touch();
        Some(session.clone())
    }

    /// Ends a session.
    pub fn remove(&self, id: &str) -> Option<Arc<Session>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Ends sessions that nobody uses.
    pub fn sweep(&self) -> Vec<Arc<Session>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let idle = |session: &Session| {
            session.idle_for() > IDLE_LIMIT
                && lock(&session.stream).as_ref().is_none_or(oneshot::Sender::is_closed)
        };
        let gone: Vec<Arc<Session>> = open.by_id.values().filter(|session| idle(session)).cloned().collect();
        for session in &gone {
            open.remove(&session.id);
        }
        gone
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(user: &str) -> Arc<Session> {
        let caller = Arc::new(Caller::owner(user));
        Session::new(&caller, Revision::negotiate("2025-11-25"), ClientFacts::default()).expect("randomness")
    }

    #[test]
    fn a_user_over_their_share_loses_sessions_of_their_own() {
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
        assert_eq!(&*gone[0].caller.user, "ann", "whoever has the most");
        assert!(sessions.remove(&bob.id).is_some());
        assert_eq!(sessions.len(), 3);
        sessions.share_out(Users::Several);
        let gone = sessions.add(session("cat"));
        assert_eq!(gone.len(), 1, "a quarter of them is her share now");
        assert_eq!(&*gone[0].caller.user, "cat");
    }
}
