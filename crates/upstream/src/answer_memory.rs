//! Limits the memory of large answers, of all calls together. An answer that does not fit is not read until others are
//! sent: its server waits, within the deadline of the call.
//!
//! Memory is reserved once for each answer and before it is read, so that two answers cannot wait for each other.

use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Smaller answers are not counted: the number of calls limits them.
const LARGE_BYTES: usize = 1 << 20;
/// The memory for large answers.
const BUDGET_BYTES: usize = 512 << 20;
/// The unit in which memory is reserved.
const UNIT_BYTES: usize = 64 << 10;

/// The budget is global, as the memory of the process is.
static BUDGET: AnswerBudget = AnswerBudget::new(BUDGET_BYTES / UNIT_BYTES);

/// Memory that is reserved for one answer until its last byte is dropped.
#[derive(Debug, Clone)]
pub(crate) struct AnswerMemory {
    _permit: Arc<SemaphorePermit<'static>>,
}

struct AnswerBudget {
    units: Semaphore,
    total: usize,
}

impl AnswerBudget {
    const fn new(total: usize) -> Self {
        Self { units: Semaphore::const_new(total), total }
    }

    /// Waits until the memory for an answer of this size is available. `None` if the answer is small.
    async fn reserve(&'static self, size: usize) -> Option<AnswerMemory> {
        if size < LARGE_BYTES {
            return None;
        }
        // An answer over the whole budget is read alone.
        let units = size.div_ceil(UNIT_BYTES).min(self.total);
        let permit = self.units.acquire_many(u32::try_from(units).unwrap_or(u32::MAX)).await.ok()?;
        Some(AnswerMemory { _permit: Arc::new(permit) })
    }
}

/// Waits until the memory for an answer of this size is available. `None` if the answer is small.
pub(crate) async fn reserve(size: usize) -> Option<AnswerMemory> {
    BUDGET.reserve(size).await
}

/// Whether an answer of unknown size is so large that memory must be reserved for it.
pub(crate) fn is_large(size: usize) -> bool {
    size >= LARGE_BYTES
}

/// Bytes of an answer, which keep its memory reserved.
struct ReservedBytes {
    bytes: Bytes,
    _memory: AnswerMemory,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes; the memory is released when they and all their slices are dropped.
pub(crate) fn holding(bytes: Bytes, memory: Option<&AnswerMemory>) -> Bytes {
    match memory {
        Some(memory) => Bytes::from_owner(ReservedBytes { bytes, _memory: memory.clone() }),
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(1);

    /// F20: large answers share a budget, and wait for each other.
    #[tokio::test(start_paused = true)]
    async fn large_answers_wait_for_memory() {
        // Room for 3 MiB.
        static SMALL: AnswerBudget = AnswerBudget::new((3 << 20) / UNIT_BYTES);
        assert!(SMALL.reserve(LARGE_BYTES - 1).await.is_none(), "small answers are not counted");
        let first = SMALL.reserve(2 << 20).await;
        let text = holding(Bytes::from_static(b"a long answer"), first.as_ref());
        let end = text.slice(7..);
        drop((first, text));
        assert!(timeout(SOON, SMALL.reserve(2 << 20)).await.is_err(), "a slice is still in use");
        assert_eq!(end, "answer");
        drop(end);
        let second = timeout(SOON, SMALL.reserve(2 << 20)).await.expect("the memory was released");
        assert!(second.is_some());
        drop(second);
        let huge =
            timeout(SOON, SMALL.reserve(1 << 30)).await.expect("an answer over the budget is read alone");
        assert!(huge.is_some());
    }
}
