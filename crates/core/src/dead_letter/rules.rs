//! Which ends make a letter, and when its call is made again.

use super::Replaying;
use crate::catalog::Tool;
use crate::fault::{Blame, Problem};
use crate::retry::Repeat;

/// After how many seconds a safe call is made again, by how often that was done before.
pub const SCHEDULE_SECONDS: [u32; 5] = [60, 300, 900, 1800, 3600];

/// Whether a call that was accepted and ended so is kept. What its caller did wrong is not, and what the
/// tool itself answered is no failure of the call.
pub fn deserves_letter(problem: &Problem) -> bool {
    match problem.blame {
        Blame::Upstream | Blame::Gateway => true,
        Blame::Caller => false,
    }
}

/// Who may have calls of a tool made again: the gateway only where a second time does no harm.
pub fn replaying_of(tool: &Tool) -> Replaying {
    match Repeat::of(tool) {
        Repeat::Harmless => Replaying::Automatic,
        Repeat::IfUnsent => Replaying::ByHand,
    }
}

/// When a call that was made again `replays` times is made again by itself; never after `max_replays`.
///
/// `chance`, from 0 to 1, puts it off by a tenth at most, so that letters of one moment do not all come back in one.
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
