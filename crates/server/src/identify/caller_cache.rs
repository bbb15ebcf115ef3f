//! Caches recently identified callers, so that not every request is checked in full.

use super::CACHED_FOR;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::caller::Caller;

/// Maximum number of cached callers; when it is reached the cache is emptied.
const MAX_CACHED: usize = 10_000;

/// A caller, and when the entry expires.
type CachedCaller = (Arc<Caller>, Instant);

/// Callers by a digest of their credential.
#[derive(Debug, Default)]
pub(super) struct CallerCache {
    callers: RwLock<HashMap<[u8; 32], CachedCaller>>,
    /// Incremented whenever the cache is emptied.
    generation: AtomicU64,
}

impl CallerCache {
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<Arc<Caller>> {
        let callers = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        callers.get(key).filter(|(_, until)| Instant::now() < *until).map(|(caller, _)| caller.clone())
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Caches a caller, for as long as the credential is valid at most (`left`), unless the cache was emptied after generation `since`: then the entry may be outdated.
    pub(super) fn put(&self, key: [u8; 32], caller: &Arc<Caller>, left: Option<Duration>, since: u64) {
        let keep = left.map_or(CACHED_FOR, |left| left.min(CACHED_FOR));
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        if self.generation() != since || keep.is_zero() {
            return;
        }
        if callers.len() >= MAX_CACHED {
            callers.clear();
        }
        callers.insert(key, (caller.clone(), Instant::now() + keep));
    }

    pub(super) fn forget(&self) {
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::AcqRel);
        callers.clear();
    }
}
