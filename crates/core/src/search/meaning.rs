//! Meaning: a text as one vector, the sum of what its pieces mean. Vectors of texts that are about the same thing
//! point the same way.

use super::pieces::{Vocabulary, each_token};
use super::recurring::{Lists, Run, Runs, each_run};
use super::values::{Said, each_passage, is_value};
use super::weights::WEIGHTS;
use super::words::{spelled_out, telling};

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

/// Gathers the pieces of texts, and adds up what they mean. Runs of text that came before are remembered.
#[derive(Default)]
pub(super) struct Pieces {
    /// The rows of runs of text.
    rows: Lists<u16>,
    /// Names as they are written, and their rows when they are spelled out.
    names: Runs,
    name_rows: Lists<u16>,
    sum: Sum,
    /// How many of the text are still read.
    left: usize,
}

impl Pieces {
    /// Begins anew.
    pub(super) fn begin(&mut self) {
        self.sum.clear();
    }

    /// Begins with a text of which the runs follow.
    pub(super) fn begin_text(&mut self) {
        self.left = MAX_PIECES;
    }

    /// Adds the pieces of a run of text, each counted `weight` times.
    pub(super) fn add(&mut self, run: Option<Run>, text: &str, weight: f32) {
        let rows = self.rows.of(run, |rows| each_row(text, rows));
        rows.iter().take(self.left).for_each(|row| self.sum.add(*row, weight));
        self.left = self.left.saturating_sub(rows.len());
    }

    /// Adds the pieces of a text.
    pub(super) fn read(&mut self, runs: &mut Runs, text: &str, weight: f32) {
        self.begin_text();
        each_run(text, &mut |_, run| self.add(runs.get(run), run, weight));
    }

    /// Adds the pieces of a name, spelled out. The same few names come again and again.
    pub(super) fn read_name(&mut self, name: &str, weight: f32) {
        let rows = self.name_rows.of(self.names.get(name), |rows| each_row(&spelled_out(name), rows));
        rows.iter().take(MAX_PIECES).for_each(|row| self.sum.add(*row, weight));
    }

    /// What was added up.
    pub(super) fn vector(&mut self) -> Option<Vector> {
        self.sum.vector()
    }
}

fn each_row(text: &str, rows: &mut Vec<u16>) {
    let vocabulary = Vocabulary::get();
    each_token(text, &mut |token: &str| vocabulary.rows(token, rows));
}

/// How many rows are added at once: a sum is fetched and put away once for all of them.
const AT_ONCE: usize = 256;

/// A sum of rows of the table.
struct Sum {
    numbers: Box<[f32; WIDTH]>,
    /// Those that are still to be added, each with its factor.
    waiting: Vec<(u16, f32)>,
}

impl Default for Sum {
    fn default() -> Self {
        Self { numbers: Box::new([0.0; WIDTH]), waiting: Vec::new() }
    }
}

impl Sum {
    fn clear(&mut self) {
        self.numbers.fill(0.0);
        self.waiting.clear();
    }

    fn add(&mut self, row: u16, weight: f32) {
        let at = usize::from(row) * 4;
        let Some(Ok(scale)) = SCALES.get(at..at + 4).map(<[u8; 4]>::try_from) else { return };
        self.waiting.push((row, f32::from_le_bytes(scale) * weight));
        if self.waiting.len() >= AT_ONCE {
            self.add_up();
        }
    }

    fn add_up(&mut self) {
        pulp::Arch::new().dispatch(Adding { sum: &mut self.numbers, rows: &self.waiting });
        self.waiting.clear();
    }

    fn vector(&mut self) -> Option<Vector> {
        self.add_up();
        Vector::of(&*self.numbers)
    }
}

/// Adds the pieces of those words of a text that count.
fn add_where(sum: &mut Sum, text: &str, weight: f32, counts: impl Fn(&str) -> bool) {
    let mut rows = Vec::new();
    each_token(text, &mut |token: &str| {
        if rows.len() < MAX_PIECES && counts(token) {
            Vocabulary::get().rows(token, &mut rows);
        }
    });
    rows.iter().for_each(|row| sum.add(*row, weight));
}

/// So many numbers of a sum stay in the processor while rows are added to them.
const BLOCK: usize = 64;
const _: () = assert!(WIDTH.is_multiple_of(BLOCK));

/// Adds rows of the table, likewise.
struct Adding<'a> {
    sum: &'a mut [f32; WIDTH],
    rows: &'a [(u16, f32)],
}

impl pulp::WithSimd for Adding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (block, from) in self.sum.as_chunks_mut::<BLOCK>().0.iter_mut().zip((0..).step_by(BLOCK)) {
            let mut sum = *block;
            for (row, scale) in self.rows {
                let bytes =
                    TABLE.get(usize::from(*row) * WIDTH + from..).and_then(<[u8]>::first_chunk::<BLOCK>);
                let Some(bytes) = bytes else { continue };
                for at in 0..BLOCK {
                    sum[at] += f32::from(bytes[at] as i8) * scale;
                }
            }
            *block = sum;
        }
    }
}

/// Words that are true of everything that is searched for here.
const OF_EVERY_TOOL: &[&str] = &["tool", "tools", "server", "servers", "mcp"];

/// What a request means. "A tool for", "server:" and the like say nothing, nor do values, unless nothing else is said.
pub(super) fn meaning(request: &str) -> Option<Vector> {
    let mut sum = Sum::default();
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
    sum.vector().or_else(|| {
        add_where(&mut sum, request, 1.0, |_| true);
        sum.vector()
    })
}

/// A word of more pieces than this is no word that the table knows.
const MAX_WORD_PIECES: usize = 3;

/// What one lower-case word means by itself; nothing where the table does not know it.
pub(super) fn meaning_of_word(word: &str) -> Option<Vector> {
    let mut rows = Vec::new();
    Vocabulary::get().rows(word, &mut rows);
    let mut sum = Sum::default();
    if rows.len() <= MAX_WORD_PIECES {
        rows.iter().for_each(|row| sum.add(*row, 1.0));
    }
    sum.vector()
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
