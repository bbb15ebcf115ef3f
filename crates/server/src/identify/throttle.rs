//! Throttles guessing: an address that sends many bad credentials has to wait between attempts.
//!
//! Valid credentials are not affected, so one client cannot lock out others behind the same address. This weakens
//! nothing: tokens and signatures are too long to be guessed at any rate.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Number of bad credentials that an address may send before it has to wait.
const BURST: u32 = 20;
/// The time after which an address may try again.
const REGROW: Duration = Duration::from_secs(3);
/// Maximum number of tracked addresses; beyond it, the oldest entries are dropped.
const MAX_ADDRESSES: usize = 4_096;

/// Addresses that recently sent bad credentials.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    failed: Mutex<HashMap<IpAddr, Failures>>,
}

/// Whether an address has sent a bad credential twice in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    /// It is another one than the last.
    New,
    /// It is the last one again.
    Repeated,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    since: Instant,
    /// A digest of the last credential: repeating the same one is not guessing.
    last: Option<[u8; 32]>,
}

impl Failures {
    /// The state at a later time: one failure is forgiven per [`REGROW`].
    fn at(self, now: Instant) -> Self {
        let elapsed = now.duration_since(self.since);
        let grown = u32::try_from(elapsed.as_secs() / REGROW.as_secs()).unwrap_or(u32::MAX);
        let since = self.since + REGROW * grown.min(1 << 20);
        Self { count: self.count.saturating_sub(grown), since, last: self.last }
    }
}

/// An IPv6 /64 network counts as one address.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}

impl Throttle {
    fn failed(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an address has to wait before its next attempt; `None` if it does not have to.
    pub(super) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let failures = self.failed().get(&network(address))?.at(now);
        (failures.count >= BURST).then(|| REGROW.saturating_sub(now.duration_since(failures.since)))
    }

    /// Records a bad credential from an address; `shown` is its digest, if there was one.
    pub(super) fn note(&self, address: IpAddr, shown: Option<[u8; 32]>, now: Instant) -> Repetition {
        let address = network(address);
        let mut failed = self.failed();
        if failed.len() >= MAX_ADDRESSES && !failed.contains_key(&address) {
            failed.retain(|_, failures| failures.at(now).count > 0);
            let oldest = failed.iter().min_by_key(|(_, failures)| failures.since).map(|(ip, _)| *ip);
            if let Some(oldest) = oldest.filter(|_| failed.len() >= MAX_ADDRESSES) {
                failed.remove(&oldest);
            }
        }
        let failures = failed.entry(address).or_insert(Failures { count: 0, since: now, last: None });
        if shown.is_some() && failures.last == shown {
            return Repetition::Repeated;
        }
        *failures = Failures { last: shown, ..failures.at(now) };
        if failures.count == 0 {
            failures.since = now;
        }
        failures.count = (failures.count + 1).min(BURST);
        Repetition::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_is_slow_after_a_few_tries() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let (guesser, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut tries = 0;
        for moment in 0..60_000 {
            let now = start + Duration::from_millis(moment);
            if throttle.wait(guesser, now).is_none() {
                throttle.note(guesser, None, now);
                tries += 1;
            }
        }
        assert_eq!(tries, BURST + 19, "in a minute");
        assert_eq!(throttle.wait(other, start), None);
        let later = start + Duration::from_secs(600);
        assert_eq!(throttle.wait(guesser, later), None);
    }

    #[test]
    fn a_repeated_expired_token_is_not_a_guess() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let client = IpAddr::from([10, 0, 0, 1]);
        for _ in 0..1_000 {
            throttle.note(client, Some([7; 32]), now);
        }
        assert_eq!(throttle.wait(client, now), None);
        for number in 0..1_000 {
            throttle.note(client, Some([u8::from(number % 2 == 0); 32]), now);
        }
        assert!(throttle.wait(client, now).is_some(), "alternating credentials are guesses");
    }

    #[test]
    fn the_table_is_bounded_and_a_network_counts_as_one() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..20_000_u32 {
            throttle.note(IpAddr::from(number.to_be_bytes()), None, now);
        }
        assert!(throttle.failed().len() <= MAX_ADDRESSES);
        for last in 0..BURST {
            let last = u16::try_from(last).expect("small");
            throttle.note(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]), None, now);
        }
        assert!(throttle.wait(IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]), now).is_some());
        assert!(throttle.wait(IpAddr::from([0x2001, 0xdb8, 0, 2, 9, 9, 9, 9]), now).is_none());
    }
}
