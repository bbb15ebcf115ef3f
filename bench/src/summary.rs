//! Percentiles of latencies.

use std::time::Duration;

/// Latencies, sorted.
#[derive(Debug, Clone)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Sorts latencies.
    pub fn new(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Self(latencies)
    }

    /// The latency that this share (0 to 1) of the requests did not exceed, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> Option<f64> {
        let index = (self.0.len().checked_sub(1)? as f64 * share).round() as usize;
        Some(self.0.get(index)?.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let latencies = Latencies::new((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(latencies.percentile_ms(0.0), Some(1.0));
        assert_eq!(latencies.percentile_ms(0.99), Some(99.0));
        assert_eq!(latencies.percentile_ms(1.0), Some(100.0));
        assert_eq!(Latencies::new(Vec::new()).percentile_ms(0.5), None);
    }
}
