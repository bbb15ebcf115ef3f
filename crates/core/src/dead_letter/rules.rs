//! Which failures create a dead letter, and when it is replayed.

use super::ReplayMode;
use crate::catalog::Tool;
use crate::fault::{Blame, Problem};
use crate::retry::Repeat;

/// The delay of each automatic replay, in seconds.
pub const SCHEDULE_SECONDS: [u32; 5] = [60, 300, 900, 1800, 3600];

/// Whether a failed call becomes a dead letter. Errors of the caller do not, and an error result of the tool is not a
/// failure of the call.
pub fn deserves_letter(problem: &Problem) -> bool {
    match problem.blame {
        Blame::Upstream | Blame::Gateway => true,
        Blame::Caller => false,
    }
}

/// Who may replay calls of a tool: the gateway only if a repeated call does no harm.
pub fn replaying_of(tool: &Tool) -> ReplayMode {
    match Repeat::of(tool) {
        Repeat::Harmless => ReplayMode::Automatic,
        Repeat::IfUnsent => ReplayMode::ByHand,
    }
}

/// The backoff of a dead letter: when one that was replayed `replays` times is replayed automatically. Never after
/// `max_replays`.
///
/// `chance`, from 0 to 1, delays it by up to a tenth, so that letters of the same time are not all replayed at once.
pub fn next_retry_ms(
    schedule_seconds: &[u32],
    replays: u32,
    max_replays: u32,
    now_ms: i64,
    chance: f64,
) -> Option<i64> {
    if replays >= max_replays {
        return None;
    }
    let place = (replays as usize).min(schedule_seconds.len().checked_sub(1)?);
    let delay_ms = i64::from(schedule_seconds[place]) * 1000;
    let jitter_ms = (delay_ms as f64 * 0.1 * chance.clamp(0.0, 1.0)) as i64;
    Some(now_ms.saturating_add(delay_ms).saturating_add(jitter_ms))
}
