//! Trying again: when it is safe, and how long to wait before.

use crate::catalog::Tool;
use std::time::Duration;

/// How failed calls are tried again.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryTerms {
    /// Tries in all, for each provider.
    pub attempts: u32,
    /// The pause before the second try.
    pub base: Duration,
    /// By what each pause is longer than the last.
    pub factor: f64,
    /// The longest pause.
    pub max: Duration,
    /// How pauses are spread.
    pub jitter: Jitter,
}

/// How pauses are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Anywhere from zero to the pause.
    Full,
    /// Not at all.
    None,
}

impl Default for RetryTerms {
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(10),
            jitter: Jitter::Full,
        }
    }
}

impl RetryTerms {
    /// The pause after so many failures; `dice` is from 0 to 1.
    pub fn pause(&self, failures: u32, dice: f64) -> Duration {
        let times = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let growth = self.factor.max(1.0).powi(times);
        let longest = Duration::try_from_secs_f64(self.base.as_secs_f64() * growth).unwrap_or(self.max);
        let longest = longest.min(self.max);
        match self.jitter {
            Jitter::Full => longest.mul_f64(dice.clamp(0.0, 1.0)),
            Jitter::None => longest,
        }
    }
}

/// Whether a call may be made twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Nobody would notice: it only reads, or carries a key by which a second one is known.
    Harmless,
    /// Only if the first was never sent.
    IfUnsent,
}

impl Repeat {
    /// What holds for a tool. A name that sounds like reading is not enough.
    pub fn of(tool: &Tool) -> Self {
        let effect = tool.effect();
        let reads = effect.is_vouched_for() && !effect.rung.writes();
        if reads || tool.terms.idempotency_key { Self::Harmless } else { Self::IfUnsent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::ToolTerms;
    use crate::server::SideEffects;
    use crate::server::tests::entry;
    use std::sync::Arc;

    #[test]
    fn pauses_grow_to_a_limit_and_dice_shorten_them() {
        let terms = RetryTerms { jitter: Jitter::None, ..RetryTerms::default() };
        let pauses: Vec<u64> = (1..8).map(|failures| terms.pause(failures, 0.3).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10, 10]);
        let spread = RetryTerms::default();
        assert_eq!(spread.pause(1, 0.0), Duration::ZERO);
        assert_eq!(spread.pause(2, 0.5), Duration::from_secs(1));
        let wild = RetryTerms { factor: f64::INFINITY, ..terms };
        assert_eq!(wild.pause(40, 1.0), wild.max);
    }

    #[test]
    fn only_what_somebody_vouches_for_may_be_repeated() {
        let tool = |name: &str, label: SideEffects, key: bool| {
            let server = Arc::new(entry("s"));
            let mut tool = Tool::bare(server.clone(), name, name);
            let terms =
                ToolTerms { side_effects: label, idempotency_key: key, ..ToolTerms::of_server(&server) };
            tool.terms = Arc::new(terms);
            tool
        };
        let cases = [
            ("get_page", SideEffects::Network, false, Repeat::IfUnsent), // a name is no promise
            ("get_page", SideEffects::ReadExternalService, false, Repeat::Harmless),
            ("send", SideEffects::Write, false, Repeat::IfUnsent),
            ("send", SideEffects::Write, true, Repeat::Harmless),
        ];
        for (name, label, key, expected) in cases {
            assert_eq!(Repeat::of(&tool(name, label, key)), expected, "{name} {label:?} {key}");
        }
    }
}
