//! Measures how long the index takes to build and a search takes to answer.

use super::sets::{Collection, EvalSet, catalog};
use std::fmt;
use std::time::{Duration, Instant};
use toolbooth_search::{Query, index_of, search};

/// Times over a catalog of one size.
pub struct Speed {
    pub tools: usize,
    pub build: Duration,
    pub median: Duration,
    pub slow: Duration,
}

/// Measures a catalog of `size` tools, made of the largest collection.
pub fn measure(sets: &[EvalSet], collections: &[Collection], size: usize) -> Option<Speed> {
    let largest = collections.iter().max_by_key(|collection| collection.listed.len())?;
    let catalog = catalog(&largest.listed, size);
    let started = Instant::now();
    let tools = index_of(&catalog).len();
    let build = started.elapsed();
    let texts = sets.iter().flat_map(|set| set.queries.iter().take(150)).map(|query| query.text.clone());
    let queries: Vec<Query> =
        texts.filter_map(|text| Query::new(vec![text], Query::USUAL_HITS).ok()).collect();
    let mut times = Vec::with_capacity(queries.len());
    for query in &queries {
        // The best of three, to exclude other activity on the machine.
        let time = |_| {
            let started = Instant::now();
            std::hint::black_box(search(&catalog, largest.owner(), query));
            started.elapsed()
        };
        times.push((0..3).map(time).min().unwrap_or_default());
    }
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Some(Speed { tools, build, median: at(50), slow: at(99) })
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        let Self { tools, build, median, slow } = self;
        write!(
            f,
            "{tools} tools: index {:.0} ms, search p50 {:.2} ms, p99 {:.2} ms",
            ms(*build),
            ms(*median),
            ms(*slow)
        )
    }
}
