//! Held calls and dead letters that wait for a decision, for `toolbooth status` and `toolbooth doctor`.

use crate::gateway_handle::GatewayHandle;
use crate::render;
use serde_json::Value;

/// The maximum number that is counted.
const MAX_COUNTED: usize = 100;

/// The numbers of held calls and dead letters that the caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitingWork {
    /// Calls that wait for approval.
    pub held_calls: usize,
    /// Failed calls that were neither replayed nor dropped.
    pub dead_letters: usize,
}

impl WaitingWork {
    /// Asks a gateway. A list that it refuses counts as empty.
    pub async fn ask(gateway: &GatewayHandle) -> Self {
        let held = format!("/approvals?kind=approval&state=pending&limit={MAX_COUNTED}");
        let letters = format!("/dead-letters?state=pending&limit={MAX_COUNTED}");
        let held = gateway.get(&held).await.unwrap_or_default();
        let letters = gateway.get(&letters).await.unwrap_or_default();
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        Self { held_calls: count(&held["approvals"]), dead_letters: count(&letters["dead_letters"]) }
    }

    /// "2 calls wait for approval"; `None` if no call does.
    pub fn held_text(self) -> Option<String> {
        let verb = if self.held_calls == 1 { "waits" } else { "wait" };
        Some(format!("{} {verb} for approval", counted(self.held_calls, "call")?))
    }

    /// "1 dead letter"; `None` without one.
    pub fn letters_text(self) -> Option<String> {
        counted(self.dead_letters, "dead letter")
    }
}

fn counted(number: usize, noun: &str) -> Option<String> {
    match number {
        0 => None,
        MAX_COUNTED.. => Some(format!("at least {}", render::count(number, noun))),
        number => Some(render::count(number, noun)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_sentences() {
        let texts = |held_calls, dead_letters| {
            let work = WaitingWork { held_calls, dead_letters };
            (work.held_text(), work.letters_text())
        };
        let both = |held: &str, letters: &str| (Some(held.to_owned()), Some(letters.to_owned()));
        assert_eq!(texts(0, 0), (None, None));
        assert_eq!(texts(1, 1), both("1 call waits for approval", "1 dead letter"));
        assert_eq!(texts(2, 100), both("2 calls wait for approval", "at least 100 dead letters"));
    }
}
