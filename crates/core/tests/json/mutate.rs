//! Seeded texts for the tests of readers: a corpus and its mutations. The wire crate includes this file as well.

use std::path::Path;
use std::time::{Duration, Instant};

/// The number of rounds without a time limit: a few seconds in a debug build.
const ROUNDS: usize = 20_000;

/// A small pseudorandom generator (SplitMix64). A seed determines all of its numbers.
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or_default()
    }

    /// One of these.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Runs `check` on mutations of the corpus: a fixed number of rounds, or as many as fit into
/// `TOOLBOOTH_FUZZ_SECONDS`. A panic names the seed; `TOOLBOOTH_FUZZ_SEED` repeats it as the first round.
pub fn fuzz(corpus: &[Vec<u8>], fragments: &[&[u8]], mut check: impl FnMut(&[u8], &mut Random)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = number("TOOLBOOTH_FUZZ_SECONDS").map(Duration::from_secs);
    // A long run covers other texts each time.
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs() << 32);
    let first = number("TOOLBOOTH_FUZZ_SEED").unwrap_or_else(|| if time.is_some() { clock() } else { 1 });
    let began = Instant::now();
    for round in 0.. {
        let is_over = match time {
            Some(time) => began.elapsed() >= time,
            None => round == ROUNDS as u64,
        };
        if is_over {
            return;
        }
        let seed = first + round;
        let mut random = Random::new(seed);
        let text = mutated(corpus, fragments, &mut random);
        let _shown = RoundText { seed, text: &text };
        check(&text, &mut random);
    }
}

/// The text of a round, which is printed if its check panics.
struct RoundText<'a> {
    seed: u64,
    text: &'a [u8],
}

impl Drop for RoundText<'_> {
    fn drop(&mut self) {
        let Self { seed, text } = self;
        if std::thread::panicking() {
            eprintln!("TOOLBOOTH_FUZZ_SEED={seed} fails on {:?}", String::from_utf8_lossy(text));
        }
    }
}

/// A text of the corpus with up to five changes, or fragments in any order.
fn mutated(corpus: &[Vec<u8>], fragments: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut text = if random.below(4) == 0 { Vec::new() } else { corpus[random.below(corpus.len())].clone() };
    if text.len() > 2_000 && random.below(16) != 0 {
        text.truncate(2_000); // Long texts are slow, and the short ones have the same faults.
    }
    let changes = if text.is_empty() { 12 } else { 5 };
    for _ in 0..random.below(changes + 1) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(9)).min(text.len());
        match random.below(7) {
            0 => text.truncate(at),
            1 => drop(text.drain(at..end)),
            2 => {
                let copy = text[at..end].to_vec();
                text.splice(at..at, copy);
            }
            3 if at < text.len() => text[at] = u8::try_from(random.below(256)).unwrap_or_default(),
            4 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(64)).min(other.len());
                text.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let fragment = random.pick(fragments);
                text.splice(at..at, fragment.iter().copied());
            }
        }
    }
    text
}

/// A text in chunks of random lengths.
pub fn chunks<'a>(mut text: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let longest = 1 + random.below(80);
    let mut chunks = Vec::new();
    while !text.is_empty() {
        let (chunk, rest) = text.split_at((1 + random.below(longest)).min(text.len()));
        chunks.push(chunk);
        text = rest;
    }
    chunks
}

/// The files of a folder of the corpus, by name.
pub fn corpus(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (name, std::fs::read(&path).expect("a file"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}
