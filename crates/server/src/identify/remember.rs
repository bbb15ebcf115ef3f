//! Callers identified a moment ago, so that each request does not start from nothing.

use super::REMEMBERED_FOR;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};
use toolbooth_core::caller::Caller;

/// How many are remembered; beyond that everybody is looked at anew.
const MAX_REMEMBERED: usize = 10_000;

/// A caller, and until when nobody looks again.
type Known = (Arc<Caller>, Instant);

/// Callers by a digest of what they showed.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    callers: RwLock<HashMap<[u8; 32], Known>>,
    /// Grows whenever all are forgotten.
    generation: AtomicU64,
}

impl Remembered {
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<Arc<Caller>> {
        let callers = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        callers.get(key).filter(|(_, until)| Instant::now() < *until).map(|(caller, _)| caller.clone())
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Remembers a caller, unless everybody was forgotten `since`: then the look was too early.
    pub(super) fn put(&self, key: [u8; 32], caller: &Arc<Caller>, until: Option<SystemTime>, since: u64) {
        let left = until.map(|until| until.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO));
        let keep = left.map_or(REMEMBERED_FOR, |left| left.min(REMEMBERED_FOR));
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        if self.generation() != since || keep.is_zero() {
            return;
        }
        if callers.len() >= MAX_REMEMBERED {
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
