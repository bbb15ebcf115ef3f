//! Meaning: a text as one vector, the sum of what its pieces mean. Vectors of texts that are about the same thing
//! point the same way.

use super::pieces::{Vocabulary, each_token};
use super::recurring::{Recurring, each_run};
use super::values::{Said, each_passage, is_value};
use super::weights::WEIGHTS;
use super::words::telling;

static TABLE: &[u8] = include_bytes!("table/table.i8");
static SCALES: &[u8] = include_bytes!("table/scale.f32");

const ROWS: usize = SCALES.len() / 4;
/// How many numbers a vector of the table has.
pub(super) const WIDTH: usize = TABLE.len() / ROWS;

/// No text is read further than this many pieces.
const MAX_PIECES: usize = 1_000;

/// A direction: bytes and the factor that makes its length one.
#[derive(Debug, Clone)]
pub struct Vector {
    pub(super) bytes: Box<[i8]>,
    pub(super) factor: f32,
}

impl Vector {
    /// A vector of these numbers, scaled to length one; none where they are all zero or not numbers.
    pub fn of(numbers: &[f32]) -> Option<Self> {
        let length = numbers.iter().map(|n| n * n).sum::<f32>().sqrt();
        let most = numbers.iter().fold(0_f32, |most, n| most.max(n.abs()));
        if !length.is_finite() || length <= 0.0 {
            return None;
        }
        let step = most / 127.0;
        let mut bytes = vec![0_i8; numbers.len()].into_boxed_slice();
        pulp::Arch::new().dispatch(Rounding { numbers, step, bytes: &mut bytes });
        Some(Self { bytes, factor: step / length })
    }

    /// How many numbers it has.
    pub(super) fn width(&self) -> usize {
        self.bytes.len()
    }
}

/// Rounds numbers to so many steps each, with the instructions that this processor has: every one does the same.
struct Rounding<'a> {
    numbers: &'a [f32],
    step: f32,
    bytes: &'a mut [i8],
}

impl pulp::WithSimd for Rounding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { numbers, step, bytes } = self;
        // Rounded to what a byte holds: the cast cannot lose more.
        bytes.iter_mut().zip(numbers).for_each(|(byte, n)| *byte = (n / step).round() as i8);
    }
}

/// Adds up what the pieces of texts mean. Runs of text that came before are remembered.
#[derive(Default)]
pub(super) struct Reader {
    runs: Recurring<u16>,
}

impl Reader {
    /// Adds the pieces of a text, each counted `weight` times.
    pub(super) fn add(&mut self, sum: &mut [f32; WIDTH], text: &str, weight: f32) {
        let vocabulary = Vocabulary::get();
        let mut left = MAX_PIECES;
        each_run(text, &mut |run| {
            let rows =
                self.runs.of(run, |rows| each_token(run, &mut |token: &str| vocabulary.rows(token, rows)));
            for row in rows.iter().take(left) {
                add_row(sum, usize::from(*row), weight);
            }
            left = left.saturating_sub(rows.len());
        });
    }
}

/// Adds the pieces of those words of a text that count.
fn add_where(sum: &mut [f32; WIDTH], text: &str, weight: f32, counts: impl Fn(&str) -> bool) {
    let mut rows = Vec::new();
    each_token(text, &mut |token: &str| {
        if rows.len() < MAX_PIECES && counts(token) {
            Vocabulary::get().rows(token, &mut rows);
        }
    });
    rows.iter().for_each(|row| add_row(sum, usize::from(*row), weight));
}

fn add_row(sum: &mut [f32; WIDTH], row: usize, weight: f32) {
    let (Some(bytes), Some(scale)) =
        (TABLE.get(row * WIDTH..(row + 1) * WIDTH), SCALES.get(row * 4..row * 4 + 4))
    else {
        return;
    };
    let scale = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]) * weight;
    pulp::Arch::new().dispatch(Adding { sum, bytes, scale });
}

/// Adds a row of the table, likewise.
struct Adding<'a> {
    sum: &'a mut [f32; WIDTH],
    bytes: &'a [u8],
    scale: f32,
}

impl pulp::WithSimd for Adding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { sum, bytes, scale } = self;
        sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum += f32::from(*byte as i8) * scale);
    }
}

/// Words that are true of everything that is searched for here.
const OF_EVERY_TOOL: &[&str] = &["tool", "tools", "server", "servers", "mcp"];

/// What a request means. "A tool for", "server:" and the like say nothing, nor do values, unless nothing else is said.
pub(super) fn meaning(request: &str) -> Option<Vector> {
    let mut sum = [0_f32; WIDTH];
    let counts = |word: &str| !OF_EVERY_TOOL.contains(&word) && !is_value(word);
    each_passage(request, &mut |said, passage| {
        let weight = match said {
            Said::Plainly => 1.0,
            Said::InQuotes => WEIGHTS.quoted_meaning,
        };
        for chunk in passage.split_whitespace() {
            add_where(&mut sum, telling(chunk), weight, counts);
        }
    });
    Vector::of(&sum).or_else(|| {
        add_where(&mut sum, request, 1.0, |_| true);
        Vector::of(&sum)
    })
}

/// A word of more pieces than this is no word that the table knows.
const MAX_WORD_PIECES: usize = 3;

/// What one lower-case word means by itself; nothing where the table does not know it.
pub(super) fn meaning_of_word(word: &str) -> Option<Vector> {
    let mut rows = Vec::new();
    Vocabulary::get().rows(word, &mut rows);
    let mut sum = [0_f32; WIDTH];
    if rows.len() <= MAX_WORD_PIECES {
        rows.iter().for_each(|row| add_row(&mut sum, usize::from(*row), 1.0));
    }
    Vector::of(&sum)
}

#[cfg(test)]
mod tests {
    use super::super::comparison::{Sought, Vectors};
    use super::*;

    fn likeness(a: &str, b: &str) -> f32 {
        let mut vectors = Vectors::with_room(WIDTH, 1);
        vectors.push(meaning(b).as_ref());
        let query = meaning(a).expect("a meaning");
        let mut out = [vec![0.0], vec![0.0]];
        vectors.compare(&[Sought::of(None), Sought::of(Some(&query))], &mut out);
        assert_eq!(out[0], [0.0], "what means nothing is like nothing");
        out[1][0]
    }

    #[test]
    fn the_table_fits_its_vocabulary() {
        assert_eq!(TABLE.len(), ROWS * WIDTH);
    }

    #[test]
    fn like_texts_are_alike() {
        assert!(likeness("send an email", "send an email") > 0.98);
        let near = likeness("send an email to a colleague", "deliver a mail message");
        let far = likeness("send an email to a colleague", "current weather of a city");
        assert!(near > far + 0.2, "{near} {far}");
        assert!(meaning("").is_none());
    }

    #[test]
    fn a_request_is_about_what_the_tool_does() {
        assert!(likeness("MCP server: email, tool: send a message", ": email, : send a message") > 0.99);
        assert!(meaning("tools").is_some(), "where nothing else is said, that counts");
    }

    #[test]
    fn values_are_no_part_of_what_a_request_means() {
        let plain = "convert dollars to euros";
        for values in ["convert 1250 dollars to euros", "convert dollars to euros a81f6b23c9"] {
            assert!(likeness(values, plain) > 0.99, "{values}");
        }
        assert!(
            likeness("read /tmp/weather/2024/rain.csv", "read csv") > 0.99,
            "a path tells a kind of file"
        );
        let quoted = likeness("post \"rain tomorrow\" to the channel", "rain tomorrow");
        assert!(quoted < likeness("post rain tomorrow to the channel", "rain tomorrow"), "{quoted}");
        assert!(meaning("42").is_some(), "where nothing else is said, that counts");
    }
}
