//! Meaning: a text as one vector, the sum of the vectors of its word pieces. Texts about the same subject have vectors
//! of similar direction.

use crate::pieces::{PieceVocabulary, each_token};
use crate::run_table::{RunId, RunLists, RunTable, each_run};
use crate::values::{Quoting, each_passage, is_value};
use crate::weights::WEIGHTS;
use crate::words::{meaningful_part, spelled_out};

static TABLE: &[u8] = include_bytes!("table/table.i8");
static SCALES: &[u8] = include_bytes!("table/scale.f32");

const ROWS: usize = SCALES.len() / 4;
/// The number of components of the table's vectors.
pub(crate) const WIDTH: usize = TABLE.len() / ROWS;

/// Maximum number of pieces read of one text.
const MAX_PIECES: usize = 1_000;

/// A vector of length one: bytes and a common factor.
#[derive(Debug, Clone)]
pub struct Vector {
    pub(crate) bytes: Box<[i8]>,
    pub(crate) factor: f32,
}

impl Vector {
    /// Scales numbers to length one; `None` if they are all zero or not finite.
    pub fn of(numbers: &[f32]) -> Option<Self> {
        let length = numbers.iter().map(|n| n * n).sum::<f32>().sqrt();
        let most = numbers.iter().fold(0_f32, |most, n| most.max(n.abs()));
        if !length.is_finite() || length <= 0.0 {
            return None;
        }
        let step = most / 127.0;
        let mut bytes = vec![0_i8; numbers.len()].into_boxed_slice();
        pulp::Arch::new().dispatch(Quantize { numbers, step, bytes: &mut bytes });
        Some(Self { bytes, factor: step / length })
    }

    /// The number of components.
    pub(crate) fn width(&self) -> usize {
        self.bytes.len()
    }
}

/// Rounds numbers to multiples of `step`, with the SIMD instructions of this processor. All give the same result.
struct Quantize<'a> {
    numbers: &'a [f32],
    step: f32,
    bytes: &'a mut [i8],
}

impl pulp::WithSimd for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { numbers, step, bytes } = self;
        // The values are in the range of a byte.
        bytes.iter_mut().zip(numbers).for_each(|(byte, n)| *byte = (n / step).round() as i8);
    }
}

/// Sums the vectors of the pieces of texts. Caches the pieces of runs of text.
#[derive(Default)]
pub(crate) struct PieceSum {
    /// The table rows of each run of text.
    rows: RunLists<u16>,
    /// Names as they are written, and the table rows of their words.
    names: RunTable,
    name_rows: RunLists<u16>,
    sum: RowSum,
    /// How many more pieces of the current text are read.
    left: usize,
}

impl PieceSum {
    /// Starts a new sum.
    pub(crate) fn begin(&mut self) {
        self.sum.clear();
    }

    /// Starts a text, whose runs follow.
    pub(crate) fn begin_text(&mut self) {
        self.left = MAX_PIECES;
    }

    /// Adds the pieces of a run of text with a weight.
    pub(crate) fn add(&mut self, run: Option<RunId>, text: &str, weight: f32) {
        let rows = self.rows.of(run, |rows| each_row(text, rows));
        rows.iter().take(self.left).for_each(|row| self.sum.add(*row, weight));
        self.left = self.left.saturating_sub(rows.len());
    }

    /// Adds the pieces of a text.
    pub(crate) fn read(&mut self, runs: &mut RunTable, text: &str, weight: f32) {
        self.begin_text();
        each_run(text, &mut |_, run| self.add(runs.get(run), run, weight));
    }

    /// Adds the pieces of a name's words. The same few names occur again and again.
    pub(crate) fn read_name(&mut self, name: &str, weight: f32) {
        let rows = self.name_rows.of(self.names.get(name), |rows| each_row(&spelled_out(name), rows));
        rows.iter().take(MAX_PIECES).for_each(|row| self.sum.add(*row, weight));
    }

    /// The vector of the sum.
    pub(crate) fn vector(&mut self) -> Option<Vector> {
        self.sum.vector()
    }
}

fn each_row(text: &str, rows: &mut Vec<u16>) {
    let vocabulary = PieceVocabulary::get();
    each_token(text, &mut |token: &str| vocabulary.rows(token, rows));
}

/// Number of rows added at once: the sum is loaded and stored once for all of them.
const AT_ONCE: usize = 256;

/// A sum of rows of the table.
struct RowSum {
    numbers: Box<[f32; WIDTH]>,
    /// Rows that are not added yet, each with its factor.
    pending: Vec<(u16, f32)>,
}

impl Default for RowSum {
    fn default() -> Self {
        Self { numbers: Box::new([0.0; WIDTH]), pending: Vec::new() }
    }
}

impl RowSum {
    fn clear(&mut self) {
        self.numbers.fill(0.0);
        self.pending.clear();
    }

    fn add(&mut self, row: u16, weight: f32) {
        let at = usize::from(row) * 4;
        let Some(Ok(scale)) = SCALES.get(at..at + 4).map(<[u8; 4]>::try_from) else { return };
        self.pending.push((row, f32::from_le_bytes(scale) * weight));
        if self.pending.len() >= AT_ONCE {
            self.add_up();
        }
    }

    fn add_up(&mut self) {
        pulp::Arch::new().dispatch(AddRows { sum: &mut self.numbers, rows: &self.pending });
        self.pending.clear();
    }

    fn vector(&mut self) -> Option<Vector> {
        self.add_up();
        Vector::of(&*self.numbers)
    }
}

/// Adds the pieces of the words that `counts` accepts.
fn add_where(sum: &mut RowSum, text: &str, weight: f32, counts: impl Fn(&str) -> bool) {
    let mut rows = Vec::new();
    each_token(text, &mut |token: &str| {
        if rows.len() < MAX_PIECES && counts(token) {
            PieceVocabulary::get().rows(token, &mut rows);
        }
    });
    rows.iter().for_each(|row| sum.add(*row, weight));
}

/// Number of components of the sum that stay in registers while rows are added.
const BLOCK: usize = 64;
const _: () = assert!(WIDTH.is_multiple_of(BLOCK));

/// Adds rows of the table, with the SIMD instructions of this processor.
struct AddRows<'a> {
    sum: &'a mut [f32; WIDTH],
    rows: &'a [(u16, f32)],
}

impl pulp::WithSimd for AddRows<'_> {
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

/// Words that apply to every tool and so carry no meaning.
const OF_EVERY_TOOL: &[&str] = &["tool", "tools", "server", "servers", "mcp"];

/// The meaning of a request. Words such as "tool" and "server", and values, count only if there is nothing else.
pub(crate) fn meaning(request: &str) -> Option<Vector> {
    let mut sum = RowSum::default();
    let counts = |word: &str| !OF_EVERY_TOOL.contains(&word) && !is_value(word);
    each_passage(request, &mut |quoting, passage| {
        let weight = match quoting {
            Quoting::Unquoted => 1.0,
            Quoting::Quoted => WEIGHTS.quoted_meaning,
        };
        for chunk in passage.split_whitespace() {
            add_where(&mut sum, meaningful_part(chunk), weight, counts);
        }
    });
    sum.vector().or_else(|| {
        add_where(&mut sum, request, 1.0, |_| true);
        sum.vector()
    })
}

/// A word with more pieces than this is unknown to the table.
const MAX_WORD_PIECES: usize = 3;

/// The meaning of one lower-case word; `None` if the table does not know it.
pub(crate) fn meaning_of_word(word: &str) -> Option<Vector> {
    let mut rows = Vec::new();
    PieceVocabulary::get().rows(word, &mut rows);
    let mut sum = RowSum::default();
    if rows.len() <= MAX_WORD_PIECES {
        rows.iter().for_each(|row| sum.add(*row, 1.0));
    }
    sum.vector()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{QueryVector, Vectors};

    fn similarity(a: &str, b: &str) -> f32 {
        let mut vectors = Vectors::with_room(WIDTH, 1);
        vectors.push(meaning(b).as_ref());
        let query = meaning(a).expect("a meaning");
        let mut out = [vec![0.0], vec![0.0]];
        vectors.compare(&[QueryVector::of(None), QueryVector::of(Some(&query))], &mut out);
        assert_eq!(out[0], [0.0], "a missing vector has no similarity");
        out[1][0]
    }

    #[test]
    fn the_table_fits_its_vocabulary() {
        assert_eq!(TABLE.len(), ROWS * WIDTH);
    }

    #[test]
    fn similar_texts_have_similar_vectors() {
        assert!(similarity("send an email", "send an email") > 0.98);
        let near = similarity("send an email to a colleague", "deliver a mail message");
        let far = similarity("send an email to a colleague", "current weather of a city");
        assert!(near > far + 0.2, "{near} {far}");
        assert!(meaning("").is_none());
    }

    #[test]
    fn words_that_apply_to_every_tool_do_not_count() {
        assert!(similarity("MCP server: email, tool: send a message", ": email, : send a message") > 0.99);
        assert!(meaning("tools").is_some(), "it counts if there is nothing else");
    }

    #[test]
    fn values_do_not_count_towards_the_meaning() {
        let plain = "convert dollars to euros";
        for values in ["convert 1250 dollars to euros", "convert dollars to euros a81f6b23c9"] {
            assert!(similarity(values, plain) > 0.99, "{values}");
        }
        assert!(
            similarity("read /tmp/weather/2024/rain.csv", "read csv") > 0.99,
            "only the file extension counts"
        );
        let quoted = similarity("post \"rain tomorrow\" to the channel", "rain tomorrow");
        assert!(quoted < similarity("post rain tomorrow to the channel", "rain tomorrow"), "{quoted}");
        assert!(meaning("42").is_some(), "it counts if there is nothing else");
    }
}
