//! Retries: when they are safe, and how long to wait.

use crate::catalog::Tool;
use crate::effects::claims_read_only;
use crate::server::SideEffects;
use std::time::Duration;

/// The retry settings of failed calls.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryTerms {
    /// The total number of attempts for each provider.
    pub attempts: u32,
    /// The delay before the second attempt.
    pub base: Duration,
    /// The factor by which each delay grows.
    pub factor: f64,
    /// The maximum delay.
    pub max: Duration,
    /// How delays are randomized.
    pub jitter: Jitter,
}

/// How delays are randomized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Uniformly between zero and the delay.
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
    /// The delay after a number of failures; `dice` is a random number from 0 to 1.
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

/// Whether a call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Yes: it only reads, or carries an idempotency key.
    Harmless,
    /// Only if the first attempt was never sent.
    IfUnsent,
}

impl Repeat {
    /// Whether calls of a tool may be repeated. A name that suggests reading is not sufficient, but the server's
    /// `readOnlyHint` is, unless the operator labelled the tool or does not trust the server's annotations: if it is
    /// wrong, a read is repeated.
    pub fn of(tool: &Tool) -> Self {
        let effect = tool.effect();
        let reads = effect.is_vouched_for() && !effect.rung.writes();
        let is_labelled = tool.terms.side_effects != SideEffects::Network;
        let is_distrusted = tool.server.defaults.trust_annotations == Some(false);
        let claims = || !is_labelled && !is_distrusted && claims_read_only(&tool.definition);
        if reads || tool.terms.idempotency_key || claims() { Self::Harmless } else { Self::IfUnsent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::RawJson;
    use crate::manifest::ToolTerms;
    use crate::server::tests::entry;
    use std::sync::Arc;

    #[test]
    fn delays_grow_to_a_limit_and_jitter_shortens_them() {
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
    fn only_trusted_reads_and_idempotent_calls_may_be_repeated() {
        let tool = |name: &str, label: SideEffects, key: bool| {
            let server = Arc::new(entry("s"));
            let mut tool = Tool::bare(server.clone(), name, name);
            let terms =
                ToolTerms { side_effects: label, idempotency_key: key, ..ToolTerms::of_server(&server) };
            tool.terms = Arc::new(terms);
            tool
        };
        let cases = [
            ("get_page", SideEffects::Network, false, Repeat::IfUnsent), // the name is not trusted
            ("get_page", SideEffects::ReadExternalService, false, Repeat::Harmless),
            ("send", SideEffects::Write, false, Repeat::IfUnsent),
            ("send", SideEffects::Write, true, Repeat::Harmless),
        ];
        for (name, label, key, expected) in cases {
            assert_eq!(Repeat::of(&tool(name, label, key)), expected, "{name} {label:?} {key}");
        }
    }

    // Once, reads of servers without `trust_annotations` were not repeated.
    #[test]
    fn a_read_only_hint_counts_unless_it_is_distrusted_or_overruled() {
        let cases = [
            (None, SideEffects::Network, Repeat::Harmless),
            (Some(true), SideEffects::Network, Repeat::Harmless),
            (Some(false), SideEffects::Network, Repeat::IfUnsent),
            (None, SideEffects::Write, Repeat::IfUnsent),
        ];
        for (trust, label, expected) in cases {
            let mut server = entry("s");
            server.defaults.trust_annotations = trust;
            let server = Arc::new(server);
            let mut tool = Tool::bare(server.clone(), "t", "s_t");
            tool.definition = RawJson::trusted(r#"{"annotations":{"readOnlyHint":true}}"#);
            tool.terms = Arc::new(ToolTerms { side_effects: label, ..ToolTerms::of_server(&server) });
            assert_eq!(Repeat::of(&tool), expected, "{trust:?} {label:?}");
        }
    }
}
