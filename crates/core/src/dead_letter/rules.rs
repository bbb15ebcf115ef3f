//! Which ends make a letter, and when its call is made again.

use super::Replaying;
use crate::catalog::Tool;
use crate::fault::{Blame, Problem};

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
    if !tool.effect().rung.writes() || is_idempotent(tool) { Replaying::Automatic } else { Replaying::ByHand }
}

/// Whether the operator says that calls may be repeated: of this tool, else of its server.
fn is_idempotent(tool: &Tool) -> bool {
    let own = tool.server.tools.overrides.get(&*tool.name).and_then(|fields| fields.get("idempotency_key"));
    match own {
        Some(serde_json::Value::Bool(own)) => *own,
        Some(serde_json::Value::Object(own)) => own.get("required").is_none_or(|required| required == true),
        _ => tool.server.defaults.idempotency_key,
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
