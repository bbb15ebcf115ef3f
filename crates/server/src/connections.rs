//! Limits on open connections: unidentified clients cannot use up the connections of identified users.
//!
//! A connection is unidentified until one of its requests has been identified. Unidentified connections get part of
//! the total, have a short idle timeout and evict each other: the oldest first, and of the same source if that source
//! is over its quota. Each user has a quota of the rest; over it, the user's oldest idle connection is closed.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections, whatever the file descriptor limit.
const MAX_CONNECTIONS: usize = 10_000;
/// How long an unidentified connection may be idle.
const UNIDENTIFIED_IDLE: Duration = Duration::from_secs(10);

/// Limits on the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In total.
    pub total: usize,
    /// Unidentified.
    pub unidentified: usize,
    /// Unidentified, per source.
    pub per_source: usize,
    /// Per identified user.
    pub per_user: usize,
}

/// Whether each user has a connection quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionSharing {
    /// Several users, each with a quota.
    PerUser,
    /// All connections come from one user or one proxy.
    Undivided,
}

impl ConnectionLimits {
    /// The limits for a process with this many file descriptors. Half of them are for servers, files and the store.
    pub fn for_descriptors(descriptors: u64, sharing: ConnectionSharing) -> Self {
        let half = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
        let total = half.clamp(16, MAX_CONNECTIONS);
        let unidentified = total / 2;
        // A burst from one client, or from all users behind one proxy, has one source.
        let (per_source, per_user) = match sharing {
            ConnectionSharing::PerUser => (total / 4, total / 4),
            ConnectionSharing::Undivided => (unidentified, total - unidentified),
        };
        Self { total, unidentified, per_source, per_user }
    }

    /// The limits for this process.
    pub fn of_process(sharing: ConnectionSharing) -> Self {
        use nix::sys::resource::{Resource, getrlimit};
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Self::for_descriptors(descriptors, sharing)
    }
}

/// Where an unidentified connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerSource {
    /// An IP address.
    Address(IpAddr),
    /// A local user id.
    User(u32),
}

/// A user is over the connection quota and none of the connections is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyConnections;

/// All open connections.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<OpenConnections>,
}

#[derive(Debug)]
struct OpenConnections {
    limits: ConnectionLimits,
    next: u64,
    /// By id, so oldest first.
    unidentified: BTreeMap<u64, UnidentifiedConnection>,
    per_source: HashMap<PeerSource, usize>,
    identified: HashMap<Arc<str>, BTreeMap<u64, Arc<ConnectionState>>>,
    identified_count: usize,
}

#[derive(Debug)]
struct UnidentifiedConnection {
    source: PeerSource,
    state: Arc<ConnectionState>,
}

/// The state of a connection that its slot and the table share.
#[derive(Debug)]
struct ConnectionState {
    token: CancellationToken,
    evicted: AtomicBool,
    opened: Instant,
    /// When the client last read part of a response, in milliseconds since the connection was opened.
    last_taken_ms: AtomicU64,
    /// Running requests, including those whose response is being sent.
    busy: AtomicUsize,
}

impl ConnectionState {
    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    fn idle_for(&self) -> Duration {
        let last = Duration::from_millis(self.last_taken_ms.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(last)
    }

    fn touch(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_taken_ms.store(now, Ordering::Relaxed);
    }

    fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        self.token.cancel();
    }
}

/// An entry in the table of open connections. Dropping it frees the entry.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    id: u64,
    state: Arc<ConnectionState>,
    /// The user whose quota it counts towards, once identified.
    user: OnceLock<Arc<str>>,
}

/// Marks a connection as busy with one request until it is dropped.
#[derive(Debug)]
pub struct BusyGuard(Arc<ConnectionSlot>);

impl OpenConnections {
    fn forget_unidentified(&mut self, id: u64) -> Option<UnidentifiedConnection> {
        let connection = self.unidentified.remove(&id)?;
        if let Some(count) = self.per_source.get_mut(&connection.source) {
            *count -= 1;
            if *count == 0 {
                self.per_source.remove(&connection.source);
            }
        }
        Some(connection)
    }

    /// Closes the oldest unidentified connection that matches; `false` if none does.
    fn evict_unidentified(&mut self, matches: impl Fn(&UnidentifiedConnection) -> bool) -> bool {
        let oldest = self.unidentified.iter().find(|(_, connection)| matches(connection));
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        if let Some(connection) = self.forget_unidentified(id) {
            connection.state.evict();
        }
        true
    }

    /// Evicts one of the unidentified connections that match: an idle one if possible, else the oldest, so that a
    /// client that never reads its response cannot block new connections.
    fn make_room(&mut self, matches: impl Fn(&UnidentifiedConnection) -> bool) -> bool {
        self.evict_unidentified(|connection| connection.state.is_idle() && matches(connection))
            || self.evict_unidentified(matches)
    }

    fn count_of(&self, user: &str) -> usize {
        self.identified.get(user).map_or(0, BTreeMap::len)
    }

    /// Closes the oldest idle connection of a user.
    fn evict_identified(&mut self, user: &str) -> Result<(), TooManyConnections> {
        let mine = self.identified.get(user).ok_or(TooManyConnections)?;
        let oldest = mine.iter().find(|(_, state)| state.is_idle());
        let (id, state) = oldest.map(|(id, state)| (*id, state.clone())).ok_or(TooManyConnections)?;
        state.evict();
        self.forget_identified(user, id);
        Ok(())
    }

    fn forget_identified(&mut self, user: &str, id: u64) {
        let Some(mine) = self.identified.get_mut(user) else { return };
        if mine.remove(&id).is_some() {
            self.identified_count -= 1;
        }
        if mine.is_empty() {
            self.identified.remove(user);
        }
    }
}

impl Connections {
    /// An empty table.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        let open = OpenConnections {
            limits,
            next: 0,
            unidentified: BTreeMap::new(),
            per_source: HashMap::new(),
            identified: HashMap::new(),
            identified_count: 0,
        };
        Arc::new(Self { open: Mutex::new(open) })
    }

    /// Changes the limits for new connections. Open connections stay; a user over the new quota loses the oldest idle
    /// one with each connection that is added.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        self.open().limits = limits;
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a new connection; `None` if identified users hold all connections.
    pub fn admit(
        self: &Arc<Self>,
        source: PeerSource,
        stop: &CancellationToken,
    ) -> Option<Arc<ConnectionSlot>> {
        let mut open = self.open();
        let limits = open.limits;
        let per_source = open.per_source.get(&source).copied().unwrap_or_default();
        let has_room = if per_source >= limits.per_source {
            open.make_room(|connection| connection.source == source)
        } else if open.unidentified.len() >= limits.unidentified
            || open.unidentified.len() + open.identified_count >= limits.total
        {
            open.make_room(|_| true)
        } else {
            true
        };
        if !has_room {
            return None;
        }
        let id = open.next;
        open.next += 1;
        let token = stop.child_token();
        let state = Arc::new(ConnectionState {
            token,
            evicted: AtomicBool::new(false),
            opened: Instant::now(),
            last_taken_ms: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
        });
        *open.per_source.entry(source).or_default() += 1;
        open.unidentified.insert(id, UnidentifiedConnection { source, state: state.clone() });
        Some(Arc::new(ConnectionSlot { connections: self.clone(), id, state, user: OnceLock::new() }))
    }

    /// Closes unidentified connections that are idle for too long.
    pub fn sweep(&self) {
        let mut open = self.open();
        let over = |connection: &UnidentifiedConnection| {
            connection.state.is_idle() && connection.state.idle_for() > UNIDENTIFIED_IDLE
        };
        while open.evict_unidentified(over) {}
    }

    /// The number of unidentified and of identified connections.
    pub fn count(&self) -> (usize, usize) {
        let open = self.open();
        (open.unidentified.len(), open.identified_count)
    }
}

impl ConnectionSlot {
    /// Is cancelled when the connection has to end.
    pub fn end_token(&self) -> &CancellationToken {
        &self.state.token
    }

    /// Whether the connection has to end at once, without finishing its request.
    pub fn is_evicted(&self) -> bool {
        self.state.evicted.load(Ordering::Acquire)
    }

    /// Records that the client read part of a response.
    pub fn touch(&self) {
        // The idle timeout applies to unidentified connections only.
        if self.user.get().is_none() {
            self.state.touch();
        }
    }

    /// Marks the connection as busy until the guard is dropped.
    pub fn busy(self: &Arc<Self>) -> BusyGuard {
        self.state.busy.fetch_add(1, Ordering::Relaxed);
        BusyGuard(self.clone())
    }

    /// Counts the connection towards this user's quota, because one of its requests was identified.
    pub fn assign_to(&self, user: &Arc<str>) -> Result<(), TooManyConnections> {
        // A connection that several users share counts for the first.
        if self.user.get().is_some() {
            return Ok(());
        }
        let mut open = self.connections.open();
        let limits = open.limits;
        if open.forget_unidentified(self.id).is_none() {
            // Evicted a moment ago; the response may still be sent.
            return Ok(());
        }
        if open.count_of(user) >= limits.per_user {
            open.evict_identified(user)?;
        } else if open.identified_count >= limits.total - limits.unidentified {
            let largest = open.identified.iter().max_by_key(|(_, mine)| mine.len());
            let largest = largest.map(|(user, _)| user.clone()).ok_or(TooManyConnections)?;
            open.evict_identified(&largest)?;
        }
        open.identified.entry(user.clone()).or_default().insert(self.id, self.state.clone());
        open.identified_count += 1;
        drop(open);
        let _ = self.user.set(user.clone());
        Ok(())
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.touch();
        self.0.state.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.forget_unidentified(self.id);
        if let Some(user) = self.user.get() {
            open.forget_identified(user, self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits =
        ConnectionLimits { total: 8, unidentified: 4, per_source: 3, per_user: 2 };

    fn at(last: u8) -> PeerSource {
        PeerSource::Address(IpAddr::from([10, 0, 0, last]))
    }

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn unidentified_connections_evict_each_other() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let admit = |source| connections.admit(source, &stop);
        let flood: Vec<_> = (0..50).filter_map(|_| admit(at(1))).collect();
        assert_eq!(connections.count(), (3, 0), "one source has its quota");
        assert_eq!(flood.iter().filter(|slot| !slot.is_evicted()).count(), 3);
        let mine = admit(at(2)).expect("another source gets in");
        let _more: Vec<_> = (0..50).filter_map(|_| admit(at(1))).collect();
        assert!(!mine.is_evicted(), "and stays");
        mine.assign_to(&user("ann")).expect("within her quota");
        assert_eq!(connections.count(), (3, 1));
        for last in 3..100 {
            assert!(admit(at(last)).is_some());
        }
        assert!(!mine.is_evicted(), "an unidentified connection evicts no identified one");
        drop(mine);
        assert_eq!(connections.count().1, 0);
    }

    #[test]
    fn a_user_over_the_quota_loses_their_oldest_idle_connection() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let identified = |name: &str| {
            let slot = connections.admit(at(1), &stop).expect("room");
            (slot.assign_to(&user(name)), slot)
        };
        let (_, bob) = identified("bob");
        let (first, second) = (identified("ann").1, identified("ann").1);
        let busy = first.busy();
        let (third, third_slot) = identified("ann");
        assert_eq!(third, Ok(()));
        assert!(second.is_evicted() && !first.is_evicted() && !bob.is_evicted(), "the oldest idle one");
        let (third_busy, also) = (third_slot.busy(), identified("ann"));
        assert_eq!(also.0, Err(TooManyConnections), "all of hers are busy");
        drop(busy);
        assert_eq!(identified("ann").0, Ok(()));
        assert!(first.is_evicted());
        drop((bob, first, second, third_slot, third_busy, also));
        assert_eq!(connections.count(), (0, 0));
    }

    #[test]
    fn a_full_table_evicts_from_the_user_with_most_connections() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let identified = |name: &str| {
            let slot = connections.admit(at(1), &stop).expect("room");
            assert_eq!(slot.assign_to(&user(name)), Ok(()), "{name}");
            slot
        };
        let (ann, bob) = ([identified("ann"), identified("ann")], [identified("bob"), identified("cat")]);
        let _dan = identified("dan");
        assert_eq!(connections.count(), (0, 4));
        assert!(ann[0].is_evicted() && !bob[0].is_evicted() && !bob[1].is_evicted());
    }

    #[test]
    fn a_smaller_quota_applies_from_the_next_connection_on() {
        let everything = ConnectionLimits { per_user: 4, ..LIMITS };
        let (connections, stop) = (Connections::new(everything), CancellationToken::new());
        let identified = || {
            let slot = connections.admit(at(1), &stop).expect("room");
            assert_eq!(slot.assign_to(&user("ann")), Ok(()));
            slot
        };
        let (first, second) = (identified(), identified());
        let third = identified();
        connections.set_limits(LIMITS);
        assert_eq!(connections.count(), (0, 3), "open connections stay");
        let _fourth = identified();
        assert!(first.is_evicted() && !second.is_evicted() && !third.is_evicted());
    }

    #[test]
    fn busy_unidentified_connections_are_closed_last() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let slots: Vec<_> = (0..4).map(|last| connections.admit(at(last), &stop).expect("room")).collect();
        let busy: Vec<_> = slots.iter().map(|slot| slot.busy()).collect();
        let newcomer = connections.admit(at(9), &stop).expect("room");
        assert!(slots[0].is_evicted() && !slots[1].is_evicted(), "the oldest");
        let _next = connections.admit(at(9), &stop).expect("room");
        assert!(newcomer.is_evicted() && !slots[1].is_evicted(), "the idle one");
        drop(busy);
    }

    #[test]
    fn half_of_the_descriptors_are_left_for_servers_and_files() {
        let limits = |descriptors, sharing| ConnectionLimits::for_descriptors(descriptors, sharing);
        assert_eq!(limits(1 << 20, ConnectionSharing::PerUser).total, MAX_CONNECTIONS);
        assert_eq!(limits(1024, ConnectionSharing::PerUser).total, 512);
        assert_eq!(limits(1024, ConnectionSharing::PerUser).per_user, 128);
        assert_eq!(limits(1024, ConnectionSharing::Undivided).per_user, 256);
        assert_eq!(limits(0, ConnectionSharing::PerUser).total, 16);
    }
}
