//! Open connections, in total and by whom: strangers cannot keep out those who are known.
//!
//! A connection is a stranger's until one of its requests was identified. Strangers have a part of all places, a
//! short time, and make room for each other: the oldest goes first, of the same source if that has more than its
//! share. A known user has a share of the rest; over it, their own oldest idle connection is closed.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The most connections in any case.
const MAX_CONNECTIONS: usize = 10_000;
/// How long a stranger may ask nothing.
const STRANGER_PATIENCE: Duration = Duration::from_secs(10);

/// Bounds on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In all.
    pub total: usize,
    /// Of strangers.
    pub strangers: usize,
    /// Of strangers from one source.
    pub of_source: usize,
    /// Of one known user.
    pub of_user: usize,
}

/// Whether the connections of one user are bounded apart from those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There are several users, each with connections of their own.
    PerUser,
    /// All connections are one user's, or those of one proxy.
    Undivided,
}

impl ConnectionLimits {
    /// The bounds for a process with this many file descriptors. Half of them are for servers, files and the store.
    pub fn for_descriptors(descriptors: u64, sharing: Sharing) -> Self {
        let half = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
        let total = half.clamp(16, MAX_CONNECTIONS);
        let strangers = total / 2;
        // A burst of one client, or of the users behind one proxy, comes from one source.
        let (of_source, of_user) = match sharing {
            Sharing::PerUser => (total / 4, total / 4),
            Sharing::Undivided => (strangers, total - strangers),
        };
        Self { total, strangers, of_source, of_user }
    }

    /// The bounds for this process.
    pub fn of_process(sharing: Sharing) -> Self {
        use nix::sys::resource::{Resource, getrlimit};
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Self::for_descriptors(descriptors, sharing)
    }
}

/// Where strangers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// An address.
    Address(IpAddr),
    /// A user of this machine.
    User(u32),
}

/// A user has too many connections that are all in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyConnections;

/// All open connections.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    limits: ConnectionLimits,
    next: u64,
    strangers: BTreeMap<u64, Stranger>,
    of_source: HashMap<Source, usize>,
    known: HashMap<Arc<str>, BTreeMap<u64, Arc<Ending>>>,
    known_count: usize,
}

#[derive(Debug)]
struct Stranger {
    source: Source,
    ending: Arc<Ending>,
}

/// How a connection is told to end.
#[derive(Debug)]
struct Ending {
    token: CancellationToken,
    evicted: AtomicBool,
    opened: Instant,
    /// When something of an answer was taken last, in milliseconds since it was opened.
    last_taken_ms: AtomicU64,
    /// Requests under way, answers being sent included.
    busy: AtomicUsize,
}

impl Ending {
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

/// A place among the open connections; leaving it makes room.
#[derive(Debug)]
pub struct Place {
    connections: Arc<Connections>,
    id: u64,
    ending: Arc<Ending>,
    /// The user it counts as, once it is known.
    user: OnceLock<Arc<str>>,
}

/// A request under way on a connection.
#[derive(Debug)]
pub struct Busy(Arc<Place>);

impl Open {
    fn forget_stranger(&mut self, id: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&id)?;
        if let Some(count) = self.of_source.get_mut(&stranger.source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&stranger.source);
            }
        }
        Some(stranger)
    }

    /// Closes the oldest stranger that fits; `false` if there is none.
    fn evict_stranger(&mut self, fits: impl Fn(&Stranger) -> bool) -> bool {
        let oldest = self.strangers.iter().find(|(_, stranger)| fits(stranger));
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        if let Some(stranger) = self.forget_stranger(id) {
            stranger.ending.evict();
        }
        true
    }

    /// Makes room among the strangers that fit: one that asks nothing goes first, but none keeps out newcomers by
    /// never reading its answer.
    fn make_room(&mut self, fits: impl Fn(&Stranger) -> bool) -> bool {
        self.evict_stranger(|stranger| stranger.ending.is_idle() && fits(stranger))
            || self.evict_stranger(fits)
    }

    fn count_of(&self, user: &str) -> usize {
        self.known.get(user).map_or(0, BTreeMap::len)
    }

    /// Closes the oldest idle connection of a user.
    fn evict_known(&mut self, user: &str) -> Result<(), TooManyConnections> {
        let mine = self.known.get(user).ok_or(TooManyConnections)?;
        let oldest = mine.iter().find(|(_, ending)| ending.is_idle());
        let (id, ending) = oldest.map(|(id, ending)| (*id, ending.clone())).ok_or(TooManyConnections)?;
        ending.evict();
        self.forget_known(user, id);
        Ok(())
    }

    fn forget_known(&mut self, user: &str, id: u64) {
        let Some(mine) = self.known.get_mut(user) else { return };
        if mine.remove(&id).is_some() {
            self.known_count -= 1;
        }
        if mine.is_empty() {
            self.known.remove(user);
        }
    }
}

impl Connections {
    /// No connections yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        let open = Open {
            limits,
            next: 0,
            strangers: BTreeMap::new(),
            of_source: HashMap::new(),
            known: HashMap::new(),
            known_count: 0,
        };
        Arc::new(Self { open: Mutex::new(open) })
    }

    /// Puts other bounds in force, for connections that come from now on. Open ones stay; a user over the new share
    /// loses the oldest idle one with each that is added.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        self.open().limits = limits;
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; nothing, where all places are those of known users.
    pub fn admit(self: &Arc<Self>, source: Source, stop: &CancellationToken) -> Option<Arc<Place>> {
        let mut open = self.open();
        let limits = open.limits;
        let of_source = open.of_source.get(&source).copied().unwrap_or_default();
        let has_room = if of_source >= limits.of_source {
            open.make_room(|stranger| stranger.source == source)
        } else if open.strangers.len() >= limits.strangers
            || open.strangers.len() + open.known_count >= limits.total
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
        let ending = Arc::new(Ending {
            token,
            evicted: AtomicBool::new(false),
            opened: Instant::now(),
            last_taken_ms: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
        });
        *open.of_source.entry(source).or_default() += 1;
        open.strangers.insert(id, Stranger { source, ending: ending.clone() });
        Some(Arc::new(Place { connections: self.clone(), id, ending, user: OnceLock::new() }))
    }

    /// Closes connections of strangers who have had their time and ask nothing.
    pub fn sweep(&self) {
        let mut open = self.open();
        let over =
            |stranger: &Stranger| stranger.ending.is_idle() && stranger.ending.idle_for() > STRANGER_PATIENCE;
        while open.evict_stranger(over) {}
    }

    /// How many there are: strangers, and known ones.
    pub fn count(&self) -> (usize, usize) {
        let open = self.open();
        (open.strangers.len(), open.known_count)
    }
}

impl Place {
    /// Fires when the connection has to end.
    pub fn ending(&self) -> &CancellationToken {
        &self.ending.token
    }

    /// Whether it has to end at once, and not only when its request is answered.
    pub fn is_evicted(&self) -> bool {
        self.ending.evicted.load(Ordering::Acquire)
    }

    /// Notes that its client took something of what was written to it.
    pub fn touch(&self) {
        // Those who are known have all the time that a request has.
        if self.user.get().is_none() {
            self.ending.touch();
        }
    }

    /// Notes a request as under way until what it gives is dropped.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.ending.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// A request of this connection was identified: from now on it counts as this user's.
    pub fn known_as(&self, user: &Arc<str>) -> Result<(), TooManyConnections> {
        // Of a connection that several users share, the first is taken.
        if self.user.get().is_some() {
            return Ok(());
        }
        let mut open = self.connections.open();
        let limits = open.limits;
        if open.forget_stranger(self.id).is_none() {
            // Evicted a moment ago; the answer may still go out.
            return Ok(());
        }
        if open.count_of(user) >= limits.of_user {
            open.evict_known(user)?;
        } else if open.known_count >= limits.total - limits.strangers {
            let greediest = open.known.iter().max_by_key(|(_, mine)| mine.len());
            let greediest = greediest.map(|(user, _)| user.clone()).ok_or(TooManyConnections)?;
            open.evict_known(&greediest)?;
        }
        open.known.entry(user.clone()).or_default().insert(self.id, self.ending.clone());
        open.known_count += 1;
        drop(open);
        let _ = self.user.set(user.clone());
        Ok(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.ending.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.forget_stranger(self.id);
        if let Some(user) = self.user.get() {
            open.forget_known(user, self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits { total: 8, strangers: 4, of_source: 3, of_user: 2 };

    fn at(last: u8) -> Source {
        Source::Address(IpAddr::from([10, 0, 0, last]))
    }

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn strangers_make_room_for_each_other() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let admit = |source| connections.admit(source, &stop);
        let flood: Vec<_> = (0..50).filter_map(|_| admit(at(1))).collect();
        assert_eq!(connections.count(), (3, 0), "one source has its share");
        assert_eq!(flood.iter().filter(|place| !place.is_evicted()).count(), 3);
        let mine = admit(at(2)).expect("another source gets in");
        let _more: Vec<_> = (0..50).filter_map(|_| admit(at(1))).collect();
        assert!(!mine.is_evicted(), "and stays");
        mine.known_as(&user("ann")).expect("in her share");
        assert_eq!(connections.count(), (3, 1));
        for last in 3..100 {
            assert!(admit(at(last)).is_some());
        }
        assert!(!mine.is_evicted(), "those who are known make room for no stranger");
        drop(mine);
        assert_eq!(connections.count().1, 0);
    }

    #[test]
    fn a_user_over_their_share_closes_their_own_oldest() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let known = |name: &str| {
            let place = connections.admit(at(1), &stop).expect("room");
            (place.known_as(&user(name)), place)
        };
        let (_, bob) = known("bob");
        let (first, second) = (known("ann").1, known("ann").1);
        let busy = first.busy();
        let (third, third_place) = known("ann");
        assert_eq!(third, Ok(()));
        assert!(second.is_evicted() && !first.is_evicted() && !bob.is_evicted(), "the oldest idle one");
        let (third_busy, also) = (third_place.busy(), known("ann"));
        assert_eq!(also.0, Err(TooManyConnections), "all of hers are busy");
        drop(busy);
        assert_eq!(known("ann").0, Ok(()));
        assert!(first.is_evicted());
        drop((bob, first, second, third_place, third_busy, also));
        assert_eq!(connections.count(), (0, 0));
    }

    #[test]
    fn where_all_places_are_taken_whoever_has_most_gives_one_up() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let known = |name: &str| {
            let place = connections.admit(at(1), &stop).expect("room");
            assert_eq!(place.known_as(&user(name)), Ok(()), "{name}");
            place
        };
        let (ann, bob) = ([known("ann"), known("ann")], [known("bob"), known("cat")]);
        let _dan = known("dan");
        assert_eq!(connections.count(), (0, 4));
        assert!(ann[0].is_evicted() && !bob[0].is_evicted() && !bob[1].is_evicted());
    }

    #[test]
    fn a_smaller_share_holds_from_the_next_connection_on() {
        let everything = ConnectionLimits { of_user: 4, ..LIMITS };
        let (connections, stop) = (Connections::new(everything), CancellationToken::new());
        let known = || {
            let place = connections.admit(at(1), &stop).expect("room");
            assert_eq!(place.known_as(&user("ann")), Ok(()));
            place
        };
        let (first, second) = (known(), known());
        let third = known();
        connections.set_limits(LIMITS);
        assert_eq!(connections.count(), (0, 3), "open connections stay");
        let _fourth = known();
        assert!(first.is_evicted() && !second.is_evicted() && !third.is_evicted());
    }

    #[test]
    fn busy_strangers_are_closed_last() {
        let (connections, stop) = (Connections::new(LIMITS), CancellationToken::new());
        let places: Vec<_> = (0..4).map(|last| connections.admit(at(last), &stop).expect("room")).collect();
        let busy: Vec<_> = places.iter().map(|place| place.busy()).collect();
        let newcomer = connections.admit(at(9), &stop).expect("room");
        assert!(places[0].is_evicted() && !places[1].is_evicted(), "the oldest");
        let _next = connections.admit(at(9), &stop).expect("room");
        assert!(newcomer.is_evicted() && !places[1].is_evicted(), "one that asks nothing");
        drop(busy);
    }

    #[test]
    fn half_of_the_descriptors_are_for_others() {
        let limits = |descriptors, sharing| ConnectionLimits::for_descriptors(descriptors, sharing);
        assert_eq!(limits(1 << 20, Sharing::PerUser).total, MAX_CONNECTIONS);
        assert_eq!(limits(1024, Sharing::PerUser).total, 512);
        assert_eq!(limits(1024, Sharing::PerUser).of_user, 128);
        assert_eq!(limits(1024, Sharing::Undivided).of_user, 256);
        assert_eq!(limits(0, Sharing::PerUser).total, 16);
    }
}
